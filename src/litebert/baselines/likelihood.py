"""n-gram language models that choose: the label, the labels or the option that makes the words most probable.

For labels this is a generative classifier: P(label | text) ∝ P(label) · P(text | label).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from litebert.baselines.bag_of_words import choose_vocabulary
from litebert.baselines.linear import check_examples, sort_labels
from litebert.baselines.ngram import NgramModel
from litebert.baselines.options import BLANK, ChoiceItem, fill_blank
from litebert.errors import RequestError
from litebert.text.words import Text, join_words, split_words

__all__ = ["LikelyOption", "NgramClassifier", "NgramLabeler"]

_MOST_WORDS = 200_000
_LONGEST_TEXT = 20_000_000


class NgramClassifier:
    """A language model and a prior for each label.

    All models share a vocabulary, the 200,000 words that most training texts have, so that their probabilities can be
    compared. Together they count at most `max_words` words, each the same number.
    """

    def __init__(self, order: int = 3, vocabulary: Sequence[str] | None = None, max_words: int = _LONGEST_TEXT) -> None:
        self._order, self._given, self._max_words = order, vocabulary, max_words

    def fit(self, texts: Sequence[Text], targets: Sequence[Any]) -> Self:
        """Count the n-grams of each label."""
        check_examples(len(texts), targets)
        self._vocabulary = _choose_words(texts) if self._given is None else self._given
        labels = sort_labels(targets)
        self._priors, self._models = {}, {}
        for label in labels:
            chosen = [text for text, target in zip(texts, targets, strict=True) if target == label]
            self._priors[label] = math.log(len(chosen) / len(texts))
            model = NgramModel(self._order, self._vocabulary, self._max_words // len(labels))
            self._models[label] = model.fit(chosen)
        return self

    def predict(self, texts: Sequence[Text]) -> list[Any]:
        """The most probable label of each text."""
        labels = list(self._models)
        logits = [self._priors[label] + self._models[label].log_likelihoods(texts) for label in labels]
        return [labels[number] for number in np.argmax(logits, axis=0)]

    @property
    def size_bytes(self) -> int:
        """Bytes of all counts, and of the words, which are counted once, in UTF-8."""
        words = _count_bytes(self._vocabulary)
        return words + sum(model.size_bytes - words for model in self._models.values())


class NgramLabeler:
    """A set of labels for each text: an `NgramClassifier` for each label says whether the text has it."""

    def __init__(self, order: int = 3) -> None:
        self._order = order

    def fit(self, texts: Sequence[Text], targets: Sequence[Iterable[Any]]) -> Self:
        """Count the n-grams of the texts with and without each label."""
        check_examples(len(texts), targets)
        self._vocabulary = _choose_words(texts)
        sets = [frozenset(target) for target in targets]
        labels = sort_labels(label for target in sets for label in target)
        self._models = {
            label: NgramClassifier(self._order, self._vocabulary, _LONGEST_TEXT // len(labels)).fit(
                texts, [label in target for target in sets]
            )
            for label in labels
        }
        return self

    def predict(self, texts: Sequence[Text]) -> list[tuple[Any, ...]]:
        """All labels that are more probable than not."""
        columns = {label: model.predict(texts) for label, model in self._models.items()}
        return [tuple(label for label, has in columns.items() if has[row]) for row in range(len(texts))]

    @property
    def size_bytes(self) -> int:
        """Bytes of all counts, and of the words, which are counted once, in UTF-8."""
        words = _count_bytes(self._vocabulary)
        return words + sum(model.size_bytes - words for model in self._models.values())


class LikelyOption:
    """Multiple choice: the option whose words are most probable after the question, in the mean over its words."""

    def __init__(self, order: int = 3) -> None:
        self._model = NgramModel(order)

    def fit(self, items: Sequence[ChoiceItem], answers: Sequence[int]) -> Self:
        """Count the n-grams of the passages, and of the questions with the right answers."""
        if not items:
            raise RequestError("there are no questions to learn from: give at least one")
        right = (fill_blank(item, answer) for item, answer in zip(items, answers, strict=True))
        self._model.fit([*dict.fromkeys(passage for passage, _, _ in items), *right])
        return self

    def predict(self, items: Sequence[ChoiceItem]) -> list[int]:
        """For each item the index of an option."""
        best = []
        for _, question, options in items:
            before = split_words(question.split(BLANK)[0])
            logits = [self._model.score_continuation(before, split_words(option)) for option in options]
            best.append(logits.index(max(logits)))
        return best

    @property
    def size_bytes(self) -> int:
        """Bytes of the language model."""
        return self._model.size_bytes


def _choose_words(texts: Sequence[Text]) -> list[str]:
    return list(choose_vocabulary(map(join_words, texts), _MOST_WORDS))


def _count_bytes(words: Iterable[str]) -> int:
    return sum(len(word.encode()) for word in words)
