"""n-gram language models: the probability of a word after the few words before it, from counts alone.

A long context is rarely seen twice, so each estimate gives away a share of its probability to the one for a context
that is one word shorter, down to the single word and to a word that was never seen.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.text.words import Text, join_words

__all__ = ["END", "UNKNOWN", "NgramModel"]

UNKNOWN, END = "<unknown>", "<end>"
_UNKNOWN, _END, _BEGIN, _NUM_SIGNS = 0, 1, 2, 3  # numbers; words follow. Nothing is ever predicted to be a begin
_NONE = -1
_MOST_WORDS = 200_000  # in the vocabulary
_BLOCK = 1_000_000  # words that are scored at a time

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Level:
    """All n-grams of one length, as the number of the n-gram without its last word, and that word: see `_join`."""

    keys: Integers  # ascending
    counts: Integers
    discount: float
    totals: Integers  # for each shorter n-gram: how often it is continued,
    num_kinds: Integers  # and by how many different words

    @classmethod
    def count(cls, keys: Integers, num_contexts: int, num_words: int) -> "tuple[_Level, Integers]":
        """A level, and for each key the number of its n-gram."""
        distinct, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
        contexts, words = np.divmod(distinct, num_words)
        is_word = words != _BEGIN
        totals = np.bincount(contexts[is_word], counts[is_word], minlength=num_contexts).astype(np.int64)
        num_kinds = np.bincount(contexts[is_word], minlength=num_contexts)
        return cls(distinct, counts, _estimate_discount(counts[is_word]), totals, num_kinds), numbers.astype(np.int64)

    def find(self, keys: Integers) -> Integers:
        """The numbers of n-grams; -1 for those that were never seen."""
        if not self.keys.size:
            return np.full(keys.shape, _NONE, np.int64)
        found = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[found] == keys, found, _NONE)


class NgramModel:
    """Counts of n-grams up to `order` words, with interpolated absolute discounting.

    P(w | c) = max(count(c w) - D, 0) / count(c) + D · kinds(c) / count(c) · P(w | c without its first word), where D is
    estimated for each order as n1 / (n1 + 2 n2) from the numbers of n-grams seen once and twice, and the shortest
    estimate goes to the uniform distribution. Over all words, the end of the text and the unknown word, this sums to 1.

    A vocabulary may be given, for models that are to be compared; otherwise it is the 200,000 most frequent words of
    the texts. The first `max_words` words are counted, which bounds the memory: 20 million take some 2 GB
    while they are counted. Pairs of texts are joined with a separator.
    """

    def __init__(self, order: int = 3, vocabulary: Iterable[str] | None = None, max_words: int = 20_000_000) -> None:
        if order < 1:
            raise RequestError(f"an n-gram model of order {order} has no words to count: give 1 or more")
        self.order, self._max_words = order, max_words
        self._given = None if vocabulary is None else list(dict.fromkeys(vocabulary))

    def fit(self, texts: Iterable[Text]) -> Self:
        """Count the n-grams of the texts."""
        numbers = _Numbers()
        if self._given is not None:
            numbers.update({word: number for number, word in enumerate(self._given, _NUM_SIGNS)})
        ids, left = self._encode(
            _take_words(map(join_words, texts), self._max_words), numbers if self._given is None else numbers.find
        )
        if self._given is None:
            numbers, ids = _keep_frequent(numbers, ids)
        self.vocabulary: tuple[str, ...] = tuple(numbers)
        self._numbers, self._size = numbers, len(numbers) + _NUM_SIGNS
        self._levels: list[_Level] = []
        nodes, num_nodes = np.zeros(ids.size, np.int64), 1
        for length in range(1, self.order + 1):
            # nodes: the number of the n-gram of length - 1 that ends before a position; all n-grams lie within a text.
            is_inside = left >= length - 1
            level, found = _Level.count(nodes[is_inside] * self._size + ids[is_inside], num_nodes, self._size)
            self._levels.append(level)
            num_nodes = level.keys.size
            ending = np.full(ids.size, _NONE, np.int64)
            ending[is_inside] = found
            nodes[1:] = ending[:-1]
        return self

    def probability(self, word: str, context: Sequence[str] = (), smoothed: bool = True) -> float:
        """P(word | context), of which the last `order - 1` words count; words as `split_words` gives them, or `END`.

        Not `smoothed`, it is the share of the occurrences of the context that the word follows: 0 if there are none.

        >>> texts = ["boy is spreading insults"] * 500 + ["boy is spreading smiles"] * 200 + ["boy is spreading"] * 300
        >>> model = NgramModel(order=4).fit(texts)
        >>> model.probability("insults", ["boy", "is", "spreading"], smoothed=False)
        0.5
        >>> model.probability("smiles", ["boy", "is", "spreading"], smoothed=False)
        0.2
        """
        ids = np.array([[self._number(one) for one in (*self._last(context), word)]], np.int64)
        if smoothed:
            return float(self._smooth(ids)[0])
        count, total, _ = self._look_up(ids)
        return float(count[0] / total[0]) if total[0] else 0.0

    def log_likelihoods(self, texts: Iterable[Text]) -> NDArray[np.float64]:
        """For each text the logarithm of its probability, with its end."""
        rows = [join_words(text) for text in texts]
        likelihoods = np.zeros(len(rows))
        for begin, end in _cut_blocks([len(row) for row in rows]):
            likelihoods[begin:end] = self._score(rows[begin:end])
        return likelihoods

    def perplexity(self, texts: Sequence[Text]) -> float:
        """The inverse of the probability of a word, its geometric mean over the texts; their ends count as words.

        A model that knows nothing takes all words for equally probable: here two of them, the end and the unknown.

        >>> round(NgramModel(vocabulary=["heads", "tails"]).fit([]).perplexity(["heads tails heads"]), 6)
        4.0
        """
        if not texts:
            raise RequestError("there are no texts to measure the perplexity of: give at least one")
        num_words = sum(len(join_words(text)) + 1 for text in texts)
        return math.exp(-float(self.log_likelihoods(texts).sum()) / num_words)

    def score_continuation(self, context: Sequence[str], words: Sequence[str]) -> float:
        """The mean logarithm of the probabilities of words that follow others; if there are none, nothing follows."""
        if not words:
            return -math.inf
        known = [*self._last(context), *words]
        ids = np.array([self._number(word) for word in known], np.int64)
        padded = np.concatenate([np.full(self.order - 1, _BEGIN), ids])
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.order)[-len(words) :]
        return float(np.log(self._smooth(windows)).mean())

    @property
    def size_bytes(self) -> int:
        """Bytes of the counts, and of the words in UTF-8."""
        arrays = sum(level.keys.nbytes + level.counts.nbytes for level in self._levels)
        return arrays + sum(len(word.encode()) for word in self.vocabulary)

    def _number(self, word: str) -> int:
        return _END if word == END else self._numbers.find(word)

    def _last(self, context: Sequence[str]) -> Sequence[str]:
        """The part of a context that counts; a slice from -0 would be the whole."""
        return context[len(context) - min(len(context), self.order - 1) :]

    def _encode(self, rows: Iterable[Sequence[str]], number: Callable[[str], int]) -> tuple[Integers, Integers]:
        """All texts as numbers, one after another, and for each position how many words of its text are before it."""
        pad = [_BEGIN] * (self.order - 1)
        numbers, sizes = array("i"), array("i")
        for row in rows:
            numbers.extend([*pad, *map(number, row), _END])
            sizes.append(len(row) + self.order)
        ids, lengths = np.array(numbers, np.int64), np.array(sizes, np.int64)
        return ids, np.arange(ids.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def _score(self, rows: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """For each text the sum of the logarithms of its probabilities."""
        ids, left = self._encode(rows, self._numbers.find)
        windows = np.lib.stride_tricks.sliding_window_view(ids, self.order)
        is_word = left[self.order - 1 :] >= self.order - 1
        owners = np.repeat(np.arange(len(rows)), [len(row) + 1 for row in rows])
        sums: NDArray[np.float64] = np.bincount(
            owners, np.log(self._smooth(windows[is_word])), minlength=len(rows)
        ).astype(np.float64)
        return sums

    def _smooth(self, ids: Integers) -> NDArray[np.float64]:
        """The probability of the last word of each row after the words before it."""
        probability = np.full(ids.shape[0], 1 / (self._size - 1))  # of all numbers but the begin
        for length in range(1, ids.shape[1] + 1):
            count, total, kinds = self._look_up(ids[:, -length:])
            discount = self._levels[length - 1].discount
            seen = np.maximum(total, 1)
            better = np.maximum(count - discount, 0) / seen + discount * kinds / seen * probability
            probability = np.where(total > 0, better, probability)
        return probability

    def _look_up(self, ids: Integers) -> tuple[Integers, Integers, Integers]:
        """For each row: its count, that of the words before the last one, and how many kinds of words follow them."""
        nodes = np.zeros(ids.shape[0], np.int64)
        for position in range(ids.shape[1] - 1):
            nodes = self._step(position, nodes, ids[:, position])
        level = self._levels[ids.shape[1] - 1]
        found = self._step(ids.shape[1] - 1, nodes, ids[:, -1])
        is_seen = nodes != _NONE
        counts = _pick(level.counts, found, found != _NONE)
        return counts, _pick(level.totals, nodes, is_seen), _pick(level.num_kinds, nodes, is_seen)

    def _step(self, position: int, nodes: Integers, words: Integers) -> Integers:
        """From n-grams to those that are one word longer; -1 where there is none."""
        return self._levels[position].find(nodes * self._size + words)  # of -1 and any word, which is no key: -1 again


class _Numbers(dict[str, int]):
    """The numbers of words; called with a new word, it gives it the next number."""

    def __call__(self, word: str) -> int:
        return self.setdefault(word, len(self) + _NUM_SIGNS)

    def find(self, word: str) -> int:
        """The number of a word, or that of the unknown one."""
        return self.get(word, _UNKNOWN)


def _keep_frequent(numbers: _Numbers, ids: Integers) -> tuple[_Numbers, Integers]:
    """Turn all but the most frequent words into the unknown one; of equals, the first are kept."""
    if len(numbers) <= _MOST_WORDS:
        return numbers, ids
    counts = np.bincount(ids, minlength=len(numbers) + _NUM_SIGNS)[_NUM_SIGNS:]
    kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_WORDS])
    new_ids = np.full(len(numbers) + _NUM_SIGNS, _UNKNOWN, np.int64)
    new_ids[:_NUM_SIGNS] = np.arange(_NUM_SIGNS)
    new_ids[kept + _NUM_SIGNS] = np.arange(_MOST_WORDS) + _NUM_SIGNS
    words = list(numbers)
    return _Numbers({words[index]: number for number, index in enumerate(kept, _NUM_SIGNS)}), new_ids[ids]


def _pick(values: Integers, indices: Integers, is_there: NDArray[np.bool_]) -> Integers:
    """Values at indices; 0 where there is none."""
    picked = np.zeros(indices.shape, np.int64)
    picked[is_there] = values[indices[is_there]]
    return picked


def _estimate_discount(counts: Integers) -> float:
    """How much to take off each count: n1 / (n1 + 2 n2), or a half where that cannot be told."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else 0.5


def _take_words(rows: Iterable[list[str]], num_left: int) -> Iterable[list[str]]:
    """Rows, until they hold as many words as a model counts."""
    for row in rows:
        if num_left <= 0:
            return
        yield row[:num_left]
        num_left -= len(row)


def _cut_blocks(lengths: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Ranges of texts that hold about a million words each."""
    begin = total = 0
    for end, length in enumerate(lengths, 1):
        total += length
        if total >= _BLOCK or end == len(lengths):
            yield begin, end
            begin, total = end, 0
