"""Words that are counted beside an encoder: a linear model on tf-idf, whose logits are added to the encoder's.

For questions it says which sentence is like the question (`litebert.tasks.kinds.questions.sentences`).

Counting words and reading a text make different mistakes, so that both together mostly answer better than either
(docs/LOG.md). `litebert.baselines.tf_idf` learns such a model; here it is kept in a file and
answers, with NumPy alone.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from litebert.errors import FolderError
from litebert.text.words import Text, split_pair, split_words

__all__ = ["TF_IDF_FILE", "TF_IDF_WEIGHT", "TfIdf", "choose_weight", "list_terms", "list_weights"]

TF_IDF_FILE = "tf-idf.safetensors"
TF_IDF_WEIGHT = 0.75
"""How much counted words weigh beside an encoder where nothing else is known (docs/LOG.md)."""
_WEIGHTS = TF_IDF_WEIGHT * 2.0 ** np.arange(-2, 3.5, 0.5)  # that are tried, from 0.19 to 6
_TEMPERATURES = 2.0 ** np.arange(-4, 2.5, 0.5)  # of the sum: an encoder that saw its examples often is too sure
_DOUBT = math.log(2)  # the deviation of a good weight's logarithm from the usual one's
_PARTS = (1, 4, 0)  # of a text; of a pair: first, second, product, difference; of one whose cosine alone says something

Floats = NDArray[np.float32]
_Bag = tuple[NDArray[np.int64], NDArray[Any]]


def list_terms(text: str) -> list[str]:
    """Words, and pairs of neighbouring words.

    >>> list_terms("not so bad")
    ['not', 'so', 'bad', 'not so', 'so bad']
    """
    words = split_words(text)
    return words + [f"{first} {second}" for first, second in pairwise(words)]


@dataclass(frozen=True)
class TfIdf:
    """Terms with their weights, and what they say for each label of a task.

    A text is the bag of its terms: 1 + log of how often each occurs, times its `idf`, brought to length 1. Of a pair
    there are both bags, their product and their difference term by term, and their cosine.
    """

    terms: tuple[str, ...]
    idf: Floats
    """(terms,)"""
    weights: Floats
    """(terms, parts, labels); one part for texts, four for pairs, none where the cosine says all"""
    cosine: Floats
    """(labels,): what the cosine of a pair says"""
    bias: Floats
    """(labels,)"""

    @property
    def is_pair(self) -> bool:
        """Whether it reads pairs of texts."""
        return bool(self.weights.shape[1] != _PARTS[0])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {term: number for number, term in enumerate(self.terms)}

    def scaled(self, weight: float) -> "TfIdf":
        """The same words with other weight: all that they say is multiplied."""
        said = {name: np.float32(weight) * getattr(self, name) for name in ("weights", "cosine", "bias")}
        return replace(self, **said)

    def score(self, texts: Sequence[Text]) -> list[Floats]:
        """The logits of each text or pair; terms that training did not see count for nothing, but in a cosine alone."""
        return [self._score_pair(*split_pair(text)) if self.is_pair else self._score(text) for text in texts]

    def _score(self, text: Text) -> Floats:
        numbers, values = self._bag(text if isinstance(text, str) else " ".join(text))
        return np.asarray(values @ self.weights[numbers, 0] + self.bias, np.float32)

    def _score_pair(self, first: str, second: str) -> Floats:
        if not self.weights.shape[1]:
            return np.asarray(self._compare(first, second) * self.cosine + self.bias, np.float32)
        bags = self._bag(first), self._bag(second)
        numbers = np.unique(np.concatenate([bag[0] for bag in bags]))
        one, other = np.zeros(len(numbers)), np.zeros(len(numbers))
        for row, (found, values) in zip((one, other), bags, strict=True):
            row[np.searchsorted(numbers, found)] = values
        parts = np.stack([one, other, one * other, abs(one - other)], axis=1)
        said = np.einsum("tp,tpl->l", parts, self.weights[numbers])
        return np.asarray(said + (one @ other) * self.cosine + self.bias, np.float32)

    def _compare(self, first: str, second: str) -> float:
        """The cosine of two bags; a term that training did not see is as rare as the rarest that it did."""
        rarest = float(self.idf.max(initial=1.0))

        def weigh(text: str) -> dict[str, float]:
            found = Counter(list_terms(text))
            idf = {term: float(self.idf[self._numbers[term]]) if term in self._numbers else rarest for term in found}
            return {term: (1 + math.log(count)) * idf[term] for term, count in found.items()}

        one, other = weigh(first), weigh(second)
        product = math.fsum(value * other.get(term, 0.0) for term, value in one.items())
        return product / max(math.hypot(*one.values()) * math.hypot(*other.values()), 1e-12)

    def _bag(self, text: str) -> _Bag:
        """The numbers of a text's terms in order, and their values."""
        known = [number for term in list_terms(text) if (number := self._numbers.get(term)) is not None]
        numbers, counts = np.unique(np.array(known, np.int64), return_counts=True)
        values = (1 + np.log(counts)) * self.idf[numbers]
        return numbers, values / max(float(np.linalg.norm(values)), 1e-12)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        tensors = {
            "idf": self.idf,
            "weights": self.weights.astype(np.float16),
            "cosine": self.cosine,
            "bias": self.bias,
        }
        whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}  # of views it writes other bytes
        content: bytes = save(whole, metadata={"format": "1", "terms": "\n".join(self.terms)})
        return content

    @classmethod
    def read(cls, path: Path) -> "TfIdf":
        """Read a file; one that is damaged, or does not hold together, is refused."""
        try:
            with safe_open(path, framework="np") as file:
                tensors = {name: np.asarray(file.get_tensor(name), np.float32) for name in file.keys()}  # noqa: SIM118
                about = file.metadata() or {}
            terms = tuple(about["terms"].split("\n"))
            found = cls(terms, *(tensors[name] for name in ("idf", "weights", "cosine", "bias")))
            if about["format"] != "1" or not found._holds_together():
                raise ValueError("its parts do not belong together")
        except (SafetensorError, OSError, KeyError, ValueError, MemoryError) as error:
            raise FolderError(f"{path} is damaged ({error}): fine-tune or download the model again") from None
        return found

    def _holds_together(self) -> bool:
        count, labels = len(self.terms), len(self.bias)
        shapes = [array.shape for array in (self.idf, self.weights, self.cosine, self.bias)]
        fits = any(shapes == [(count,), (count, parts, labels), (labels,), (labels,)] for parts in _PARTS)
        arrays: list[Any] = [self.idf, self.weights, self.cosine, self.bias]
        return fits and all(math.isfinite(float(np.abs(array).sum(dtype=np.float64))) for array in arrays)


def list_weights() -> list[float]:
    """The weights among which one is chosen, from the smallest."""
    return [float(weight) for weight in _WEIGHTS]


def choose_weight(encoder: NDArray[Any], words: NDArray[Any], targets: NDArray[Any], exclusive: bool) -> float:
    """How much words should weigh beside an encoder, by examples that neither has learnt from.

    The weight under which these examples are likeliest (at the best temperature of the sum), with the usual one as what
    is expected: a few examples hardly move it. Logits and `targets` (1 for labels that are right) are (examples,
    labels); `exclusive` if each example has one label.
    """

    def surprise(weight: float) -> float:
        logits = encoder + weight * words
        found = min(_measure_loss(scale * logits, targets, exclusive) for scale in _TEMPERATURES)
        return found + (math.log(weight / TF_IDF_WEIGHT) / _DOUBT) ** 2 / 2

    return float(min(_WEIGHTS, key=surprise)) if len(encoder) else TF_IDF_WEIGHT


def _measure_loss(logits: NDArray[Any], targets: NDArray[Any], exclusive: bool) -> float:
    """How unlikely the targets are: the sum of their negative logarithms."""
    if exclusive:
        return float((np.logaddexp.reduce(logits, axis=1) - (logits * targets).sum(1)).sum())
    return float(np.logaddexp(0, np.where(targets > 0, -logits, logits)).sum())
