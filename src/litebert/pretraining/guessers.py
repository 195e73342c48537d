"""`Guessers`: how many masked words can be guessed by counting alone, for a pretrained encoder to be compared with.

One guesser always says the most frequent token; the other says what was most often seen between, or beside, the visible
neighbours. An encoder that guesses no better than they do has learnt nothing that a table of counts does not hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.batch import Batch
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.masking import piece_table
from litebert.corpus.shards import Shard
from litebert.errors import RequestError

__all__ = ["GuesserMetrics", "Guessers"]

Integers = NDArray[np.int64]
_NONE = -1  # stands for a token that is not ordinary or lies beyond a border, and for a context that was never seen
_MOST_IDS = 1 << 21  # three of them go into 63 bits


@dataclass(frozen=True)
class GuesserMetrics:
    """The share of the masked words that each guesser gets right."""

    num_masked: int
    unigram: float
    ngram: float
    copying: float
    """n-gram again, but where a word is shown instead of a mask, it is taken for the answer: an encoder does that."""


class Guessers:
    """Two guessers that know the counts of a text, and nothing else.

    *unigram* says the most frequent ordinary token. *n-gram* says the most frequent one between the left and the right
    neighbour; if that context was never seen, the most frequent one after the two neighbours on the left; then, of the
    most frequent one after the left neighbour and the most frequent one before the right neighbour, that with the
    higher count; then what unigram says. (Choosing by relative frequency instead does not score better on held-out
    text.) Of equal counts, the smaller id wins. A neighbour that is special, masked, padding or part of another packed
    sequence is not used; ids that are not ordinary are never said.
    """

    def __init__(self, text: NDArray[Any], num_ids: int, mask_id: int) -> None:
        """Count a text of ordinary ids, with -1 for all others and between documents."""
        self._num_ids, self._mask_id = num_ids, mask_id
        self._unigram = int(np.bincount(text[text >= 0], minlength=num_ids).argmax())
        one, two, three = text[:-2], text[1:-1], text[2:]
        self._between = _Table.count(_join(one, three, num_ids), two, num_ids)
        self._after_two = _Table.count(_join(one, two, num_ids), three, num_ids)
        one, two = text[:-1], text[1:]
        self._after = _Table.count(one, two, num_ids)
        self._before = _Table.count(two, one, num_ids)

    @classmethod
    def count(cls, corpus: Corpus, max_tokens: int = 20_000_000) -> "Guessers":
        """Count the training split, or of a larger one the same share of every shard, from its beginning.

        `max_tokens` bounds the memory: counting takes some 50 bytes for each of these tokens, and the tables that stay
        take 16 for each context that occurs.
        """
        num_ids = corpus.tokenizer.vocab_size
        assert num_ids < _MOST_IDS
        is_ordinary = np.zeros(num_ids, bool)
        is_ordinary[piece_table(corpus.tokenizer).ordinary_ids] = True
        num_tokens = max(1, corpus.num_tokens(TRAIN))
        taken = min(max(0, max_tokens), num_tokens)
        parts = [
            _read_text(shard, shard.tokens.size * taken // num_tokens, is_ordinary) for shard in corpus.shards[TRAIN]
        ]
        text = np.concatenate([*parts, np.zeros(0, np.int32)])
        if not (text >= 0).any():
            raise RequestError(f"there is no text to count in {corpus.folder}: prepare more, or raise max_tokens")
        return cls(text, num_ids, corpus.tokenizer.mask_id)

    def evaluate(self, batches: Iterable[Batch]) -> GuesserMetrics:
        """Guess the masked words of batches, packed or not, from what a model is shown of them.

        Of the words that are asked for, one in ten stands there as itself and one in ten is replaced at random. A model
        learns to trust what is shown, which brings some 7 points; `copying` does the same, and is what to compare with.
        """
        num_masked = num_unigram = num_ngram = num_copying = 0
        for batch in batches:
            if batch.masked_positions is None or batch.masked_labels is None:
                continue
            rows, indices = np.nonzero(batch.masked_positions.cpu().numpy() >= 0)
            columns = batch.masked_positions.cpu().numpy()[rows, indices]
            labels = batch.masked_labels.cpu().numpy()[rows, indices]
            num_masked += labels.size
            num_unigram += int((labels == self._unigram).sum())
            guesses, shown = self._guess(batch, rows, columns), batch.input_ids.cpu().numpy()[rows, columns]
            num_ngram += int((labels == guesses).sum())
            num_copying += int((labels == np.where(shown == self._mask_id, guesses, shown)).sum())
        if not num_masked:
            raise RequestError("the batches hold no masked word: take a longer text, or a higher mask_rate")
        return GuesserMetrics(num_masked, *(hits / num_masked for hits in (num_unigram, num_ngram, num_copying)))

    def _guess(self, batch: Batch, rows: Integers, columns: Integers) -> Integers:
        """What the n-gram guesser says at these positions."""
        shown = batch.input_ids.cpu().numpy()  # special tokens too: no table holds a context with one
        numbers = _number_sequences(batch)
        # The position itself is not looked at, though one in ten shows the answer.
        left2, left, right = (_look_aside(shown, numbers, rows, columns, step) for step in (-2, -1, 1))
        best = self._between.find(_join(left, right, self._num_ids))
        after_two = self._after_two.find(_join(left2, left, self._num_ids))
        beside = np.maximum(self._after.find(left), self._before.find(right))
        for fallback in (after_two, beside):
            best = np.where(best == _NONE, fallback, best)
        return np.where(best == _NONE, self._unigram, self._num_ids - 1 - best % self._num_ids)


@dataclass(frozen=True)
class _Table:
    """The most frequent token of each context.

    Token and count are kept as one number, count · num_ids + (num_ids - 1 - token): the greater of two such numbers
    has the higher count or, of equal counts, the smaller id.
    """

    contexts: Integers  # ascending, with one at the end that never occurs
    best: Integers

    @classmethod
    def count(cls, contexts: NDArray[Any], tokens: NDArray[Any], num_ids: int) -> "_Table":
        """Count each token in its context; where one of the two is not there, nothing is counted."""
        keys = _join(contexts, tokens, num_ids)
        keys = keys[keys != _NONE]
        keys.sort()
        begins = _find_changes(keys)
        counts = np.diff(begins, append=keys.size)
        seen, token = np.divmod(keys[begins], num_ids)
        del keys
        firsts = _find_changes(seen)
        best = np.maximum.reduceat(counts * num_ids + (num_ids - 1 - token), firsts)
        return cls(np.append(seen[firsts], np.iinfo(np.int64).max), np.append(best, _NONE))

    def find(self, contexts: Integers) -> Integers:
        """The best of each context, -1 for one that was never seen."""
        indices = np.searchsorted(self.contexts, contexts)
        return np.where(self.contexts[indices] == contexts, self.best[indices], _NONE)


def _join(first: NDArray[Any], second: NDArray[Any], num_ids: int) -> Integers:
    """Two numbers, the second of them an id, as one; -1 where one of them is -1."""
    joined = first.astype(np.int64)
    joined *= num_ids
    joined += second
    joined[(first == _NONE) | (second == _NONE)] = _NONE
    return joined


def _find_changes(values: Integers) -> Integers:
    """Where a value differs from the one before; the first does."""
    return np.flatnonzero(np.concatenate([np.ones(min(1, values.size), bool), values[1:] != values[:-1]]))


def _read_text(shard: Shard, num_tokens: int, is_ordinary: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The first tokens of a shard, -1 for those that are not ordinary and after each document."""
    tokens = shard.tokens[:num_tokens].astype(np.int32)
    tokens[~is_ordinary[tokens]] = _NONE
    ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1]
    borders = np.append(ends[ends < num_tokens], num_tokens).astype(np.int64)
    return np.insert(tokens, borders, _NONE)


def _number_sequences(batch: Batch) -> NDArray[Any]:
    """For each token a number that differs between the packed sequences of its row, and from that of padding."""
    given = batch.sequence_ids if batch.sequence_ids is not None else batch.attention_mask
    return np.ones(batch.input_ids.shape, np.int64) if given is None else given.cpu().numpy()


def _look_aside(shown: Integers, numbers: NDArray[Any], rows: Integers, columns: Integers, step: int) -> Integers:
    """What is shown some steps beside each position, -1 beyond its sequence."""
    aside = np.clip(columns + step, 0, shown.shape[1] - 1)
    is_inside = (aside == columns + step) & (numbers[rows, aside] == numbers[rows, columns])
    return np.where(is_inside, shown[rows, aside], _NONE)
