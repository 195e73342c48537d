"""Multiple choice by likeness: which option fits the passage and the question.

An option is compared with the passage in several ways: as a whole and with the sentence that is most like it, alone and
with the question. How much each way counts is learnt from the answers.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from litebert.baselines.linear import check_examples
from litebert.baselines.overlap import Similarity
from litebert.baselines.questions import cut_sentences
from litebert.text.words import split_words

__all__ = ["BLANK", "ChoiceItem", "SimilarOption", "fill_blank"]

ChoiceItem = tuple[str, str, Sequence[str]]
"""A passage, a question about it, and the options."""
BLANK = "_"
"""Stands in a question where the answer belongs."""

_EXPECTED = (0.5, 0.5, 0.0, 0.0, 0.0, 0.0)
"""What each likeness counts before any answer is seen: question and option should be like the passage."""
_LEAST_SPREAD = 1e-6  # of a likeness in which options differ
Floats = NDArray[np.float64]


class SimilarOption:
    """The option that is most like the passage; of equals the first.

    Each similarity gives six likenesses of an option (see `_compare`). Their weights, and that of the option's length,
    are those under which the right options are likeliest; few answers hardly move them from what is expected.
    """

    def __init__(self, *similarities: Similarity) -> None:
        self._similarities = similarities

    def fit(self, items: Sequence[ChoiceItem], answers: Sequence[int]) -> Self:
        """Learn what words are worth from passages and options, and what each likeness counts from the answers."""
        check_examples(len(items), answers)
        texts = [passage for passage, _, _ in items]
        texts += [fill_blank(item, number) for item in items for number in range(len(item[2]))]
        for similarity in self._similarities:
            similarity.fit(texts)
        likenesses = [self._compare(item) for item in items]
        spread = np.concatenate(likenesses).std(0)
        self._scale = np.where(spread > _LEAST_SPREAD, spread, 1.0)
        expected = np.array([*_EXPECTED * len(self._similarities), 0.0])
        rows = [found / self._scale for found in likenesses]
        self._weights = _learn(rows, answers, expected)
        return self

    def predict(self, items: Sequence[ChoiceItem]) -> list[int]:
        """For each item the index of an option."""
        return [int(np.argmax(self._compare(item) / self._scale @ self._weights)) for item in items]

    def _compare(self, item: ChoiceItem) -> Floats:
        """How alike: (options, likenesses), around a mean of 0 for each question."""
        passage, question, options = item
        sentences = cut_sentences(passage) or [passage]
        columns: list[Sequence[float]] = []
        for similarity in self._similarities:
            asked = np.array(similarity.compare(question, sentences))
            filled = [fill_blank(item, number) for number in range(len(options))]
            alone = np.array([similarity.compare(option, sentences) for option in options])
            columns += [
                similarity.compare(passage, filled),
                [max(similarity.compare(text, sentences)) for text in filled],
                alone.max(1).tolist(),
                (alone + asked).max(1).tolist(),  # a sentence that both the question and the option are about
                similarity.compare(passage, options),
                similarity.compare(question, options),
            ]
        columns.append([np.log1p(len(split_words(option))) for option in options])
        found = np.array(columns, np.float64).T
        return np.asarray(found - found.mean(0))

    @property
    def size_bytes(self) -> int:
        """Bytes of what the similarities have learnt, and of the weights."""
        return sum(similarity.size_bytes for similarity in self._similarities) + 16 * len(self._weights)


def fill_blank(item: ChoiceItem, option: int) -> str:
    """A question with an option instead of its blank (`_`), or behind it."""
    _, question, options = item
    return question.replace(BLANK, options[option], 1) if BLANK in question else f"{question} {options[option]}"


def _learn(items: Sequence[Floats], answers: Sequence[int], expected: Floats) -> Floats:
    """The weights under which the answers are likeliest, with a deviation of 1 from what is expected of each.

    >>> _learn([np.array([[1.0], [-1.0]])] * 40, [1] * 40, np.array([0.5])).round(1).tolist()
    [-1.8]
    """
    widest = max(len(item) for item in items)
    table, missing = np.zeros((len(items), widest, len(expected))), np.full((len(items), widest), -np.inf)
    for number, item in enumerate(items):
        table[number, : len(item)], missing[number, : len(item)] = item, 0.0
    right = table[np.arange(len(items)), list(answers)]

    def measure(weights: Floats) -> tuple[float, Floats]:
        logits = table @ weights + missing
        total = np.logaddexp.reduce(logits, axis=1)
        shares = np.exp(logits - total[:, None])
        slope = np.einsum("io,iof->f", shares, table) - right.sum(0) + (weights - expected)
        return float((total - right @ weights).sum() + ((weights - expected) ** 2).sum() / 2), slope

    found: Any = minimize(measure, expected, jac=True, method="L-BFGS-B")
    return np.asarray(found.x)
