"""A linear model on what an encoder makes of texts as it is: learnt in seconds, kept in a file beside the encoder.

`litebert.baselines.vectors` learns it; here it is kept and answers, with NumPy alone. It reads the vector of each text:
the mean of its last states beside the mean of its word vectors, in which rare words weigh more. What counted words say
may be added (`litebert.tasks.tf_idf`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from litebert.errors import FolderError
from litebert.text.tokenizer import Tokenizer

__all__ = ["ALONE", "LINEAR_FILE", "LinearHead", "WordTable", "combine_vectors", "join_vectors", "normalize"]

LINEAR_FILE = "linear.safetensors"
ALONE = 0.25
"""What a feature of one text of a pair weighs beside those of both."""
_LEAST_RARITY = 0.01  # of a piece that is in every text
_BLOCK = 100_000  # tokens whose vectors are looked up at a time: 50 MB

Floats = NDArray[np.float32]


class WordTable:
    """The mean of a text's word vectors, as the table of an encoder has them.

    A piece weighs the more the fewer of the training texts it is in: the logarithm of their inverse share.
    """

    def __init__(self, tokenizer: Tokenizer, table: Floats) -> None:
        self._tokenizer, self._table = tokenizer, table
        self.rarity: Floats = np.ones(len(table), np.float32)
        """(pieces,)"""

    def weighed(self, rarity: Floats) -> "WordTable":
        """The same vectors with other weights."""
        other = WordTable(self._tokenizer, self._table)
        other.rarity = rarity
        return other

    def fit(self, texts: Sequence[str]) -> Self:
        """Count in how many different texts each piece is."""
        distinct = list(dict.fromkeys(texts))
        holding = np.zeros(len(self._table), np.int64)
        for ids, counts in self._read(distinct):
            rows = np.repeat(np.arange(len(counts)), counts)
            holding += np.bincount(np.unique(rows * len(holding) + ids) % len(holding), minlength=len(holding))
        self.rarity = np.log((1 + len(distinct)) / (1 + holding)).astype(np.float32) + np.float32(_LEAST_RARITY)
        return self

    def average(self, texts: Sequence[str]) -> Floats:
        """A vector of length 1 for each text; zeros for one without pieces."""
        sums = [np.zeros((0, self._table.shape[1]), np.float32)]
        for ids, counts in self._read(texts):
            found = np.zeros((len(counts), self._table.shape[1]), np.float32)
            if len(ids):
                starts = np.cumsum(counts) - counts
                weighed = self._table[ids] * self.rarity[ids, None]
                found[counts > 0] = np.add.reduceat(weighed, starts[counts > 0])
            sums.append(found)
        return normalize(np.concatenate(sums))

    def _read(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Pieces of some texts at a time, one text after the other, and how many each has."""
        if not texts:
            return
        ids, counts = self._tokenizer.encode_plain(list(texts))
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(counts):
            before = int(ends[begin] - counts[begin])
            end = max(begin + 1, int(np.searchsorted(ends, before + _BLOCK, side="right")))
            yield ids[before : int(ends[end - 1])], counts[begin:end]
            begin = end

    @property
    def size_bytes(self) -> int:
        """Bytes of the weights; the table is the encoder's."""
        return int(self.rarity.nbytes)


@dataclass(frozen=True)
class LinearHead:
    """Coefficients on the vectors of a text, or of a pair, and what they say for each label of a task, or a number."""

    weights: Floats
    """(labels, features)"""
    bias: Floats
    """(labels,)"""
    rarity: Floats
    """(pieces,): what each weighs in the mean of a text's word vectors"""
    limits: Floats
    """(2,): of a number, between which it stays; of labels, no limits"""
    words: WordTable | None = None
    """The word vectors, once the encoder is open."""

    def opened(self, words: WordTable) -> "LinearHead":
        """The same with an encoder's word vectors."""
        known, there = len(self.rarity), len(words.rarity)
        if known != there:
            raise FolderError(f"{LINEAR_FILE} knows {known:,} pieces, the encoder beside it {there:,}: fit again")
        return replace(self, words=words.weighed(self.rarity))

    def score(self, states: Floats, texts: Sequence[tuple[str, ...]]) -> list[Floats]:
        """What each label gets, by the mean states of the texts (examples, 1 or 2, hidden), and by these texts.

        Every example is multiplied on its own: what stands beside it changes no bit of its answer.
        """
        assert self.words is not None, "the encoder is open"
        num_texts = states.shape[1]
        means = self.words.average([text for example in texts for text in example])
        vectors = join_vectors(normalize(states.reshape(len(means), -1)), means)
        features = vectors if num_texts == 1 else combine_vectors(vectors[::2], vectors[1::2])
        if features.shape[1] != self.weights.shape[1]:
            raise FolderError(
                f"{LINEAR_FILE} takes {self.weights.shape[1]:,} features, this encoder gives {features.shape[1]:,}: "
                "fit again"
            )
        return [self.weights @ np.ascontiguousarray(row, np.float32) + self.bias for row in features]

    def limit(self, output: Any) -> Any:
        """A number as far as it may go."""
        return np.clip(output, *self.limits)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        tensors = {name: np.ascontiguousarray(getattr(self, name)) for name in _TENSORS}
        content: bytes = save(tensors, metadata={"format": "1"})
        return content

    @classmethod
    def read(cls, path: Path) -> "LinearHead":
        """Read a file; one that is damaged, or does not hold together, is refused."""
        try:
            with safe_open(path, framework="np") as file:
                weights, bias, rarity, limits = [np.asarray(file.get_tensor(name), np.float32) for name in _TENSORS]
                version = (file.metadata() or {}).get("format")
            found = cls(weights, bias, rarity, limits)
            if version != "1" or not found._holds_together():
                raise ValueError("its parts do not belong together")
        except (SafetensorError, OSError, KeyError, ValueError, MemoryError) as error:
            raise FolderError(f"{path} is damaged ({error}): fit or download the model again") from None
        return found

    def _holds_together(self) -> bool:
        finite = (self.weights, self.bias, self.rarity)
        fits = [array.ndim for array in (*finite, self.limits)] == [2, 1, 1, 1]
        fits = fits and len(self.weights) == len(self.bias) and len(self.limits) == 2
        fits = fits and bool(self.limits[0] <= self.limits[1])
        return fits and all(math.isfinite(float(np.abs(array).sum(dtype=np.float64))) for array in finite)


_TENSORS = ("weights", "bias", "rarity", "limits")


def join_vectors(states: Floats, words: Floats) -> Floats:
    """The vector of a text: its mean state beside its mean word vector, both of length 1, brought to length 1."""
    return normalize(np.hstack([states, words]))


def combine_vectors(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """The features of pairs: both vectors, their product, their absolute difference, and their cosine.

    A linear model sees whether the texts agree only if it is shown: the product is large where both have a feature, the
    difference where one of them has it, and the cosine sums up the agreement in one number. What each text says alone
    counts less than that, or a few pairs are learnt by heart.

    >>> combine_vectors(np.array([[3.0, 4.0]]), np.array([[0.0, 5.0]]))
    array([[ 0.75,  1.  ,  0.  ,  1.25,  0.  , 20.  ,  3.  ,  1.  ,  0.8 ]])
    """
    product = first * second
    lengths = np.linalg.norm(first, axis=1, keepdims=True) * np.linalg.norm(second, axis=1, keepdims=True)
    cosines = product.sum(1, keepdims=True) / np.where(lengths > 0, lengths, 1.0)
    return np.hstack([ALONE * first, ALONE * second, product, abs(first - second), cosines])


def normalize(vectors: Floats) -> Floats:
    """Vectors of length 1; zeros stay zeros."""
    normed: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return normed
