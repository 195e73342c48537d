"""Vectors of texts from an encoder that stays as it is: what stands between counting words and fine-tuning."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.ladder import Baseline
from litebert.baselines.linear import (
    LinearClassifier,
    LinearLabeler,
    LinearModel,
    LinearRegressor,
)
from litebert.baselines.options import SimilarOption
from litebert.baselines.overlap import IdfSimilarity
from litebert.baselines.tf_idf import MOST_WEIGHTS
from litebert.baselines.word2vec import AveragedVectors
from litebert.errors import RequestError
from litebert.inference.load import Pipeline, TruncationWarning, normalize
from litebert.tasks.kinds.kind import AnswerType
from litebert.tasks.kinds.options import TargetScale
from litebert.tasks.linear import LinearHead, WordTable, join_vectors
from litebert.tasks.tf_idf import TfIdf

__all__ = ["FROZEN_STRENGTH", "EncoderSimilarity", "EncoderVectors", "keep_frozen", "make_frozen"]

FROZEN_STRENGTH = 0.03  # C on some hundred features of deviation 1
_MIXED_STRENGTH = 10.0  # C on rows of length 1, as for tf-idf


class EncoderVectors:
    """What an encoder makes of texts, in the form of word vectors. A text is embedded once.

    Beside the mean of its last states stands what `words` say: in that mean frequent words drown rare ones, and of a
    small encoder the word vectors say more than the states (docs/LOG.md). `size_bytes` is that of the encoder.
    """

    def __init__(
        self,
        embed: Callable[[list[str]], NDArray[Any]],
        size_bytes: int,
        words: WordTable | None = None,
        max_length: int = 512,
    ) -> None:
        self._embed, self.words, self.max_length = embed, words, max_length
        self.size_bytes = size_bytes + (0 if words is None else words.size_bytes)
        self._known: dict[str, NDArray[np.float32]] = {}
        self._seconds = 0.0
        self.saved_seconds = 0.0
        """What it would have taken to embed known texts again, about: whoever measures time adds it."""

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        words: bool = True,
        depth: int | None = None,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> Self:
        """Of a model that is open; of a long text it reads the beginning, and of its words all, if they are wanted."""

        def embed(texts: list[str]) -> NDArray[Any]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TruncationWarning)
                return np.asarray(pipeline.embed(texts, depth=depth, on_progress=on_progress))

        if len(pipeline.members) > 1:
            raise RequestError(f"an ensemble of {len(pipeline.members)} models is no encoder: name one of them")
        (member,) = pipeline.members
        return cls(embed, member.engine.num_bytes, member.words if words else None, member.max_length)

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn how rare words are; the encoder stays as it is."""
        if self.words is not None:
            self.words.fit(texts)
        return self

    def average(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if self._known:
            self.saved_seconds += (len(texts) - len(new)) * self._seconds / len(self._known)
        if new:
            begun = time.perf_counter()
            vectors = normalize(np.asarray(self._embed(new), np.float32))
            self._known |= dict(zip(new, vectors, strict=True))
            self._seconds += time.perf_counter() - begun
        states = np.stack([self._known[text] for text in texts])
        if self.words is None:
            return states
        return join_vectors(states, self.words.average(texts))


class EncoderSimilarity:
    """The cosine between an encoder's vectors."""

    def __init__(self, vectors: EncoderVectors) -> None:
        self._vectors = vectors
        self._known: dict[str, NDArray[np.float32]] = {}

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn how rare words are."""
        self._vectors.fit(texts)
        self._known = {}
        return self

    def weigh(self, word: str) -> float:
        """1 for every word."""
        return 1.0

    def compare(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of a text with each of the others."""
        if new := list(dict.fromkeys(one for one in (text, *others) if one not in self._known)):
            self._known |= dict(zip(new, self._vectors.average(new), strict=True))
        return [float(self._known[text] @ self._known[other]) for other in others]

    @property
    def size_bytes(self) -> int:
        """That of the encoder."""
        return self._vectors.size_bytes


def make_frozen(
    vectors: EncoderVectors, answer_type: AnswerType, words: bool, seed: int = 0, balanced: bool = False
) -> Baseline:
    """A linear model on an encoder's vectors, of choices on likenesses by them; with tf-idf beside them or without.

    `balanced`: every class counts the same, however rare it is. Words are fewer than those of tf-idf alone where there
    are more than 20 labels (5 of pairs), so that a folder stays small.
    """
    if answer_type == "option":
        alike = EncoderSimilarity(vectors)
        return SimilarOption(IdfSimilarity(), alike) if words else SimilarOption(alike)
    strength = _MIXED_STRENGTH if words else FROZEN_STRENGTH
    models: dict[AnswerType, LinearModel] = {
        "label": LinearClassifier(strength, seed, balanced),
        "labels": LinearLabeler(strength, seed),
        "number": LinearRegressor(seed),
    }
    model = models[answer_type]
    return BagOfWords(model, "tf-idf", vectors, MOST_WEIGHTS) if words else AveragedVectors(model, seed, vectors)


def keep_frozen(
    rung: Baseline, vectors: EncoderVectors, labels: Sequence[str], scale: TargetScale | None = None
) -> tuple[LinearHead, TfIdf | None]:
    """What a linear model has learnt, so that it can be kept: of the vectors, and of the words beside them.

    With a `scale` both say numbers as that shrinks them, so that their size is no matter where few bits are stored.
    """
    assert isinstance(rung, BagOfWords | AveragedVectors), "likenesses are not kept"
    assert vectors.words is not None, "word vectors are kept"
    weights, bias = rung.vector_coefficients(labels)
    tf_idf = rung.as_tf_idf(labels) if isinstance(rung, BagOfWords) else None
    limits = np.array(rung.limits)
    if scale is not None:
        weights, bias, limits = weights / np.float32(scale.spread), scale.shrink(bias), scale.shrink(limits)
        tf_idf = None if tf_idf is None else tf_idf.scaled(1 / scale.spread)
    return LinearHead(weights, bias, vectors.words.rarity, limits.astype(np.float32)), tf_idf
