"""What to say without looking at the text: the most frequent class, the mean score, the most frequent tag of a word.

A model that does not beat this has learnt nothing, whatever its score looks like.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from litebert.errors import RequestError

__all__ = ["FrequentTag", "Majority"]


class Majority:
    """The most frequent target for every text: a class, a set of labels, the number of an option; of scores the mean.

    Of equally frequent targets, the first in the training data wins.
    """

    def __init__(self, kind: Literal["classification", "multi-label", "regression", "choice"]) -> None:
        self._kind = kind

    def fit(self, texts: Sequence[Any], targets: Sequence[Any]) -> "Majority":
        """Look at the targets; the texts are ignored."""
        if not targets:
            raise RequestError("there are no targets to learn from: give at least one")
        if self._kind == "regression":
            self._target: Any = sum(targets) / len(targets)
        else:
            sets = (tuple(sorted(target)) if self._kind == "multi-label" else target for target in targets)
            self._target = Counter(sets).most_common(1)[0][0]
        return self

    def predict(self, texts: Sequence[Any]) -> list[Any]:
        """The same for each text; where there are fewer options than that, the last one."""
        if self._kind == "choice":
            return [min(self._target, len(options) - 1) for _, _, options in texts]
        return [self._target] * len(texts)

    @property
    def size_bytes(self) -> int:
        """Bytes of the target, as text in UTF-8."""
        return len(str(self._target).encode())


class FrequentTag:
    """For each word the tag that it most often has; for words that training did not see, the most frequent of all tags.

    Words are told apart by their case, since names are.

    >>> model = FrequentTag().fit([["Anna", "sleeps"], ["Anna", "sees", "Berlin"]], [["PER", "O"], ["PER", "O", "LOC"]])
    >>> model.predict([["Berlin", "sees", "Anna", "twice"]])
    [['LOC', 'O', 'PER', 'PER']]
    """

    def fit(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> "FrequentTag":
        """Count the tags of each word."""
        counts: dict[str, Counter[str]] = {}
        overall: Counter[str] = Counter()
        for words, row in zip(sentences, tags, strict=True):
            overall.update(row)
            for word, tag in zip(words, row, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
        if not overall:
            raise RequestError("there are no tagged words to learn from: give at least one")
        self._tags = {word: counter.most_common(1)[0][0] for word, counter in counts.items()}
        self._default = overall.most_common(1)[0][0]
        return self

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word of each sentence."""
        return [[self._tags.get(word, self._default) for word in words] for words in sentences]

    @property
    def size_bytes(self) -> int:
        """Bytes of the words and their tags in UTF-8."""
        return sum(len(word.encode()) + len(tag.encode()) for word, tag in self._tags.items())
