"""How alike two texts are, by what they share: what options and answers are found by.

Similarity is the cosine between the bags of words of two texts, between those bags weighed by idf, or between averaged
word vectors.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from litebert.baselines.word2vec import WordVectors
from litebert.text.words import split_words

__all__ = [
    "BagSimilarity",
    "IdfSimilarity",
    "Similarity",
    "VectorSimilarity",
]


class Similarity(Protocol):
    """How alike texts are, between -1 and 1."""

    def fit(self, texts: Sequence[str]) -> object:
        """Learn what words are worth from texts, if that is needed."""

    def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """The similarity of a text to each of some others."""

    def weigh(self, word: str) -> float:
        """What a word is worth."""

    @property
    def size_bytes(self) -> int:
        """Bytes of what was learnt."""


class BagSimilarity:
    """The cosine between counts of words; all words are worth the same, and nothing is learnt.

    >>> BagSimilarity().compare("a cat sat", ["a cat", "dogs bark"])
    [0.8164965809277261, 0.0]
    """

    def fit(self, texts: Sequence[str]) -> Self:
        """Nothing to learn."""
        return self

    def weigh(self, word: str) -> float:
        """1 for every word."""
        return 1.0

    def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of a text with each of the others; 0 where there are no words."""
        bag = self._make_bag(text)
        return [_cosine(bag, self._make_bag(other)) for other in others]

    def _make_bag(self, text: str) -> dict[str, float]:
        return {word: count * self.weigh(word) for word, count in Counter(split_words(text)).items()}

    @property
    def size_bytes(self) -> int:
        """Nothing is kept."""
        return 0


class IdfSimilarity(BagSimilarity):
    """The cosine between counts of words that are weighed by idf: 1 + log((1 + texts) / (1 + texts with the word))."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Count in how many different texts each word is."""
        distinct = dict.fromkeys(texts)
        counts = Counter(word for text in distinct for word in set(split_words(text)))
        self._weights = {word: 1 + math.log((1 + len(distinct)) / (1 + count)) for word, count in counts.items()}
        self._unseen = 1 + math.log(1 + len(distinct))
        return self

    def weigh(self, word: str) -> float:
        """The idf of a word; one that was never seen is worth most."""
        return self._weights.get(word, self._unseen)

    @property
    def size_bytes(self) -> int:
        """Eight bytes for each word, and the words in UTF-8."""
        return sum(8 + len(word.encode()) for word in self._weights)


class VectorSimilarity:
    """The cosine between averaged word vectors, which are learnt from the texts."""

    def __init__(self, seed: int = 0) -> None:
        self._vectors = WordVectors(seed=seed)

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn the vectors from the different ones among the texts."""
        self._vectors.fit(list(dict.fromkeys(texts)))
        return self

    def weigh(self, word: str) -> float:
        """1 for every word."""
        return 1.0

    def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of a text with each of the others; 0 where no word is known."""
        first, *rest = self._vectors.average([text, *others])
        lengths = [float(np.linalg.norm(first) * np.linalg.norm(other)) for other in rest]
        return [float(first @ other) / length if length else 0.0 for other, length in zip(rest, lengths, strict=True)]

    @property
    def size_bytes(self) -> int:
        """Bytes of the vectors and the words."""
        return self._vectors.size_bytes


def _cosine(first: dict[str, float], second: dict[str, float]) -> float:
    few, many = sorted((first, second), key=len)
    product = sum(weight * many.get(word, 0.0) for word, weight in few.items())
    lengths = math.sqrt(sum(w * w for w in first.values()) * sum(w * w for w in second.values()))
    return product / lengths if lengths else 0.0
