"""n-gram language models as classifiers: the class whose model finds a text most probable.

It is a generative classifier: P(class | text) ∝ P(class) · P(text | class).
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.baselines.bag_of_words import choose_vocabulary
from litebert.baselines.linear import list_labels
from litebert.baselines.ngram import NgramModel
from litebert.baselines.words import Text, join_words
from litebert.errors import RequestError

__all__ = ["NgramClassifier"]

_MOST_WORDS = 200_000
_LONGEST_TEXT = 20_000_000


class NgramClassifier:
    """A language model and a prior for each class; for label sets, two of them for each label: with and without it.

    All models share a vocabulary, the 200,000 words that most training texts have, so that their probabilities can be
    compared. Together they count at most 20 million words, each the same number. There is no model of a
    score: n-grams are for classes and labels only.
    """

    def __init__(self, kind: Literal["classification", "multi-label"], order: int = 3) -> None:
        if kind not in ("classification", "multi-label"):
            raise RequestError(f"n-gram models cannot learn {kind}: leave this rung out")
        self._kind, self._order = kind, order

    def fit(self, texts: Sequence[Text], targets: Sequence[Any]) -> "NgramClassifier":
        """Count the n-grams of each class."""
        if not texts or len(texts) != len(targets):
            raise RequestError(
                f"there are {len(texts)} texts and {len(targets)} targets to learn from: "
                "give at least one text, and a target for each"
            )
        self._vocabulary = list(choose_vocabulary(map(join_words, texts), _MOST_WORDS))
        self._labels = list_labels(self._kind, targets)
        num_models = len(self._labels) * (1 if self._kind == "classification" else 2)
        self._max_words = _LONGEST_TEXT // max(1, num_models)
        self._rivals: list[list[tuple[float, NgramModel]]] = []
        if self._kind == "classification":
            self._rivals = [[self._fit_class(texts, [target == label for target in targets]) for label in self._labels]]
            return self
        for label in self._labels:
            has_label = [label in target for target in targets]
            lacks_label = [not has for has in has_label]
            self._rivals.append([self._fit_class(texts, chosen) for chosen in (lacks_label, has_label)])
        return self

    def _fit_class(self, texts: Sequence[Text], is_chosen: Sequence[bool]) -> tuple[float, NgramModel]:
        """The logarithm of the prior of a class, and the model of its texts."""
        chosen = [text for text, is_one in zip(texts, is_chosen, strict=True) if is_one]
        prior = math.log(len(chosen) / len(texts)) if chosen else -math.inf
        return prior, NgramModel(self._order, self._vocabulary, self._max_words).fit(chosen)

    def predict(self, texts: Sequence[Text]) -> list[Any]:
        """The most probable class, or the tuple of all labels that are more probable than not."""
        winners = [self._find_winners(rivals, texts) for rivals in self._rivals]
        if self._kind == "classification":
            return [self._labels[winner] for winner in winners[0]]
        return [
            tuple(label for label, won in zip(self._labels, winners, strict=True) if won[row])
            for row in range(len(texts))
        ]

    @staticmethod
    def _find_winners(rivals: Sequence[tuple[float, NgramModel]], texts: Sequence[Text]) -> NDArray[Any]:
        """For each text the number of the most probable class."""
        winners: NDArray[Any] = np.argmax([prior + model.log_likelihoods(texts) for prior, model in rivals], axis=0)
        return winners

    @property
    def size_bytes(self) -> int:
        """Bytes of all counts, and of the words, which are counted once, in UTF-8."""
        words = sum(len(word.encode()) for word in self._vocabulary)
        models = [model for rivals in self._rivals for _, model in rivals]
        return words + sum(model.size_bytes - words for model in models)
