"""Vectors of texts from an encoder that stays as it is: what stands between counting words and fine-tuning."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.ladder import Baseline
from litebert.baselines.linear import LinearClassifier, LinearLabeler, LinearModel, LinearRegressor
from litebert.baselines.word2vec import AveragedVectors
from litebert.tasks.kinds.kind import AnswerType

__all__ = ["FROZEN_STRENGTH", "EncoderVectors", "make_frozen"]

FROZEN_STRENGTH = 0.03  # C on some hundred features of deviation 1
_MIXED_STRENGTH = 10.0  # C on rows of length 1, as for tf-idf


class EncoderVectors:
    """What an encoder makes of texts, in the form of word vectors that need no learning. A text is embedded once.

    `size_bytes` is that of the encoder.
    """

    def __init__(self, embed: Callable[[list[str]], NDArray[Any]], size_bytes: int) -> None:
        self._embed, self.size_bytes = embed, size_bytes
        self._known: dict[str, NDArray[np.float32]] = {}
        self._seconds = 0.0
        self.saved_seconds = 0.0
        """What it would have taken to embed known texts again, about: whoever measures time adds it."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Nothing is learnt."""
        return self

    def average(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if self._known:
            self.saved_seconds += (len(texts) - len(new)) * self._seconds / len(self._known)
        if new:
            begun = time.perf_counter()
            vectors = np.asarray(self._embed(new), np.float32)
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            self._known |= dict(zip(new, vectors, strict=True))
            self._seconds += time.perf_counter() - begun
        return np.stack([self._known[text] for text in texts])


def make_frozen(vectors: EncoderVectors, answer_type: AnswerType, words: bool, seed: int = 0) -> Baseline:
    """A linear model on an encoder's vectors, with tf-idf beside them or without."""
    strength = _MIXED_STRENGTH if words else FROZEN_STRENGTH
    models: dict[AnswerType, LinearModel] = {
        "label": LinearClassifier(strength, seed),
        "labels": LinearLabeler(strength, seed),
        "number": LinearRegressor(seed),
    }
    model = models[answer_type]
    return BagOfWords(model, "tf-idf", vectors) if words else AveragedVectors(model, seed, vectors)
