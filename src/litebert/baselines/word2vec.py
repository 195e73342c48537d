"""word2vec: a vector for each word, learnt by telling its neighbours from words drawn at random.

The vectors come from the training texts alone (skip-gram with negative sampling, by gensim). A text is the average of
the vectors of its words, whatever their order, with a linear model on top.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from litebert.baselines.bag_of_words import choose_rows, list_singles, make_counter
from litebert.baselines.linear import LinearModel, TextVectors, check_examples, combine_pairs
from litebert.errors import RequestError
from litebert.text.words import Text, split_words

__all__ = ["AveragedVectors", "WordVectors", "skip_gram_rows"]

_MOST_WORDS = 200_000  # in the vocabulary
_LONGEST = 1_000  # gensim passes silently over what a text has beyond 10,000 words: texts are cut before that
_TRAINED_WORDS = 6_000_000  # how many words to train on, in as many passes as that takes: half a minute or so
_MOST_CHARACTERS = 100_000_000  # of text that is trained on: some 20 million words
_MOST_ROWS = 200_000  # of 100 features, that the coefficients are learnt from
_BLOCK = 10_000  # texts whose features are in memory at a time
_FEWEST_PASSES, _MOST_PASSES = 3, 20  # after a single one, averages of six million words are clearly worse


def skip_gram_rows(words: Sequence[str], window: int) -> list[tuple[str, tuple[str, ...]]]:
    """What skip-gram learns from: each word with its neighbours, at most `window` words away on either side.

    >>> for centre, context in skip_gram_rows("the fat cat sat on the mat".split(), window=2):
    ...     print(f"{centre}:", *context)
    the: fat cat
    fat: the cat sat
    cat: the fat sat on
    sat: fat cat on the
    on: cat sat the mat
    the: sat on mat
    mat: on the
    """
    return [
        (word, (*words[max(0, index - window) : index], *words[index + 1 : index + 1 + window]))
        for index, word in enumerate(words)
    ]


class WordVectors:
    """Vectors of words, learnt from texts by skip-gram with five negative samples.

    They depend on the texts and the seed only. Training passes 20 times over a small text and 3 times over one of
    two million words or more; of more than 100 million characters, it takes some of the texts at random.
    Words that occur once are left out, unless there are no others; at most 200,000 words are kept.
    """

    def __init__(self, size: int = 100, window: int = 5, seed: int = 0) -> None:
        self._size, self._window, self._seed = size, window, seed

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn a vector for each word of the texts."""
        train = _import_word2vec()
        share = _MOST_CHARACTERS / max(1, sum(map(len, texts)))
        chosen = choose_rows(len(texts), int(len(texts) * min(1.0, share)), self._seed)
        sentences = list(_cut_sentences(texts[row] for row in chosen))
        counts: dict[str, int] = {}
        for sentence in sentences:
            for word in sentence:
                counts[word] = counts.get(word, 0) + 1
        num_words = sum(counts.values())
        self.words: list[str] = []
        self.vectors: NDArray[np.float32] = np.zeros((0, self._size), np.float32)
        if num_words:
            model = train(
                sentences,
                sg=1,
                negative=5,
                vector_size=self._size,
                window=self._window,
                min_count=2 if max(counts.values()) > 1 else 1,
                max_final_vocab=_MOST_WORDS,
                epochs=min(_MOST_PASSES, max(_FEWEST_PASSES, round(_TRAINED_WORDS / num_words))),
                workers=1,  # with more, the vectors depend on which thread is first
                seed=self._seed,
                hashfxn=_hash_word,
            )
            self.words, self.vectors = list(model.wv.index_to_key), np.array(model.wv.vectors, np.float32)
        self._counter = make_counter({word: number for number, word in enumerate(self.words)}, split_words)
        return self

    def average(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """For each text the mean of the vectors of its words; zeros if it has no word that is known."""
        if not self.words or not texts:
            return np.zeros((len(texts), self._size), np.float32)
        counts = self._counter.transform(texts)
        lengths = np.maximum(1, np.asarray(counts.sum(1)).reshape(-1, 1))
        return np.asarray((counts @ self.vectors) / lengths, np.float32)

    @property
    def size_bytes(self) -> int:
        """Bytes of the vectors, and of the words in UTF-8."""
        return int(self.vectors.nbytes) + sum(len(word.encode()) for word in self.words)


class AveragedVectors:
    """The average of the word vectors of a text, and a linear model on top of it.

    `vectors` give another vector for each text instead.

    For pairs of texts, see `combine_pairs`. The coefficients are learnt from at most 200,000 texts (50,000 pairs),
    drawn at random. Each feature is brought to mean 0 and spread 1 on the training texts.
    """

    def __init__(self, model: LinearModel, seed: int = 0, vectors: TextVectors | None = None) -> None:
        self._seed, self._model = seed, model
        self._vectors: TextVectors = WordVectors(seed=seed) if vectors is None else vectors

    def fit(self, texts: Sequence[Text], targets: Sequence[Any]) -> Self:
        """Learn the vectors, then what their averages say about the targets."""
        check_examples(len(texts), targets)
        self._is_pair = any(not isinstance(text, str) for text in texts)
        self._vectors.fit(list_singles(texts, self._is_pair))
        # A few hundred coefficients are learnt no better from more, and these rows are dense.
        rows = choose_rows(len(texts), _MOST_ROWS // 4 if self._is_pair else _MOST_ROWS, self._seed)
        features = self._make_features([texts[row] for row in rows])
        spread = features.std(0)
        self._mean, self._spread = features.mean(0), np.where(spread > 0, spread, 1)
        self._model.fit((features - self._mean) / self._spread, [targets[row] for row in rows])
        return self

    def predict(self, texts: Sequence[Text]) -> list[Any]:
        """A target for each text; words that training did not see count for nothing."""
        predictions: list[Any] = []
        for begin in range(0, len(texts), _BLOCK):
            features = self._make_features(texts[begin : begin + _BLOCK])
            predictions += self._model.predict((features - self._mean) / self._spread)
        return predictions

    def vector_coefficients(self, labels: Sequence[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """By which the vectors, as they come, make each logit, or a number; and the bias."""
        coefficients, bias = self._model.coefficients(labels)
        weights = coefficients / self._spread
        return weights.astype(np.float32), (bias - weights @ self._mean).astype(np.float32)

    @property
    def limits(self) -> tuple[float, float]:
        """Between which numbers stay."""
        return self._model.limits

    def _make_features(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        averages = self._vectors.average(list_singles(texts, self._is_pair)).astype(np.float64)
        features: NDArray[np.float64] = combine_pairs(averages[::2], averages[1::2]) if self._is_pair else averages
        return features

    @property
    def size_bytes(self) -> int:
        """Bytes of the vectors, the words, the coefficients, and the mean and spread of the features."""
        return self._vectors.size_bytes + self._model.size_bytes + int(self._mean.nbytes + self._spread.nbytes)


def _import_word2vec() -> Any:
    try:
        from gensim.models import Word2Vec  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise RequestError(
            "word2vec needs gensim, which is not installed: install it with pip install 'litebert[baselines]'"
        ) from error
    return Word2Vec


def _cut_sentences(texts: Iterable[str]) -> Iterator[list[str]]:
    """The words of the texts, in rows of at most a thousand. Equal words are one object, which saves memory."""
    known: dict[str, str] = {}
    for text in texts:
        words = [known.setdefault(word, word) for word in split_words(text)]
        for begin in range(0, len(words), _LONGEST):
            yield words[begin : begin + _LONGEST]


def _hash_word(word: str) -> int:
    """A number for a word; Python's own differs from process to process."""
    return zlib.crc32(word.encode())
