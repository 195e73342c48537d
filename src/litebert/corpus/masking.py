"""Masking: n-grams of whole words, 15 % of the tokens of each example, for many examples at once.

For one example it goes like this. Draw a length n from p(n) ∝ 1/n; go through the words in random order until one
begins n words of its segment that are all free; mask them; draw the next n, until 15 % of the tokens are masked. Near
the end, where some n would exceed that, an n-gram counts as many tokens as one has there on average, whatever n is; and
the last is masked with the probability (what is left) / (that average). So rate and p(n) hold on average, for any
length of words and sequences. Here every step is taken for all examples together, as arrays.

A word begins at a piece with ▁ (or, in WordPiece, at one without ##). In scripts that are written without spaces, such
as Chinese, Japanese and Thai, each piece counts as a word.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.randomness import draw, uniform
from litebert.text.tokenizer import Tokenizer

__all__ = ["Masked", "PieceTable", "expand_ranges", "mask_tokens", "piece_table"]

Integers = NDArray[np.int64]
# Thai and Lao, Tibetan, Myanmar, Khmer, kana, CJK ideographs with their punctuation, full-width forms.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\uff01-\uff9f"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class PieceTable:
    """Facts about each id of a vocabulary."""

    starts_word: NDArray[np.bool_]
    stands_alone: NDArray[np.bool_]  # what follows it begins a word, too
    ordinary_ids: Integers  # neither special nor unused: what may replace a masked token

    def find_starts(self, tokens: Integers) -> NDArray[np.bool_]:
        """Which tokens of running text begin a word; the first does."""
        starts = self.starts_word[tokens]
        starts[1:] |= self.stands_alone[tokens[:-1]]
        starts[:1] = True
        return starts


def piece_table(tokenizer: Tokenizer) -> PieceTable:
    """Look at every piece once."""
    pieces = [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]
    continues = tokenizer.continues
    alone = np.array([bool(_UNSPACED.search(piece)) for piece in pieces])
    begins = [not piece.startswith(continues) if continues else piece.startswith("▁") for piece in pieces]
    ordinary = sorted(set(range(tokenizer.vocab_size)) - tokenizer.reserved_ids)
    return PieceTable(np.array(begins) | alone, alone, np.array(ordinary, np.int64))


@dataclass(frozen=True)
class Masked:
    """What masking did to the tokens of some examples."""

    positions: Integers  # of the masked tokens, in order
    shown: Integers  # what stands there now: [MASK], a random piece, or the token itself


def mask_tokens(
    tokens: Integers,  # of all segments, one after the other
    segment_lengths: Integers,
    segment_examples: Integers,  # which example each segment belongs to, from 0, ascending
    keys: NDArray[np.uint64],  # one for each example
    table: PieceTable,
    mask_id: int,
    rate: float,
    max_ngram: int,
) -> Masked:
    """Choose words to mask, and what is shown instead: 80 % [MASK], 10 % a random piece, 10 % themselves."""
    words = _Words.find(tokens, segment_lengths, segment_examples, table)
    begins, counts = _choose(words, keys, rate, max_ngram)
    order = np.argsort(begins)
    begins, counts = begins[order], counts[order]
    first, last = words.begin[begins], words.begin[begins + counts]
    positions = expand_ranges(first, last - first)
    example = np.repeat(words.example[begins], last - first)
    # Counters above 2**32 belong to tokens; those below to the choice of words.
    bits = draw(keys[example], positions - words.example_begin[example] + (1 << 32))
    chance = uniform(bits)
    random_piece = table.ordinary_ids[(draw(bits, 1) % np.uint64(table.ordinary_ids.size)).astype(np.int64)]
    shown = np.where(chance < 0.8, mask_id, np.where(chance < 0.9, random_piece, tokens[positions]))
    return Masked(positions, shown)


@dataclass(frozen=True)
class _Words:
    """The words of some examples, one after the other."""

    begin: Integers  # first token of each word; one more for the end
    room: Integers  # words from this one to the end of its segment, itself included
    example: Integers
    first_of_example: Integers  # index of the first word of each example; one more for the end
    example_begin: Integers  # first token of each example
    num_tokens: Integers  # of each example

    @classmethod
    def find(cls, tokens: Integers, lengths: Integers, examples: Integers, table: PieceTable) -> "_Words":
        starts = table.find_starts(tokens)
        segment_ends = np.cumsum(lengths)
        starts[(segment_ends - lengths)[lengths > 0]] = True
        begin = np.flatnonzero(starts)
        segment = np.searchsorted(segment_ends, begin, side="right")
        last_word = np.searchsorted(begin, segment_ends)  # of each segment, one after
        num_examples = int(examples[-1]) + 1 if examples.size else 0
        example = examples[segment]
        num_tokens = np.bincount(examples, weights=lengths, minlength=num_examples).astype(np.int64)
        return cls(
            begin=np.append(begin, tokens.size),
            room=last_word[segment] - np.arange(begin.size),
            example=example,
            first_of_example=np.searchsorted(example, np.arange(num_examples + 1)),
            example_begin=np.cumsum(num_tokens) - num_tokens,
            num_tokens=num_tokens,
        )


def _choose(words: _Words, keys: NDArray[np.uint64], rate: float, max_ngram: int) -> tuple[Integers, Integers]:
    """Choose n-grams: the word each begins with, and its number of words."""
    num_words = words.example.size
    within = np.arange(num_words) - words.first_of_example[words.example]
    # Sorting numbers that hold example, random bits and index orders the words of each example randomly.
    bits = draw(keys[words.example], within) >> np.uint64(43)
    packed = (words.example.astype(np.uint64) << np.uint64(42)) | (bits << np.uint64(21)) | within.astype(np.uint64)
    assert keys.size < 1 << 22
    packed.sort()
    index = (packed & np.uint64((1 << 21) - 1)).astype(np.int64)
    candidates = index + words.first_of_example[words.example]

    lengths = np.arange(1, max_ngram + 1)
    shares = (1 / lengths) / (1 / lengths).sum()
    thresholds = np.cumsum(shares)[:-1]  # beyond the last one lies the longest
    free = np.ones(num_words + max_ngram, bool)
    left = rate * words.num_tokens
    active = np.flatnonzero(np.diff(words.first_of_example) > 0)
    pointer, stop = words.first_of_example[:-1].copy(), words.first_of_example[1:]
    num_drawn = np.zeros(keys.size, np.int64)
    wanted = _draw_ngrams(keys, num_drawn, thresholds)
    chosen: list[tuple[Integers, Integers]] = []
    while active.size:
        word = candidates[pointer[active]]
        count = np.minimum(wanted[active], words.room[word])
        is_free = free[word]
        for step in range(1, max_ngram):
            is_free &= free[word + step] | (count <= step)
        # Tokens of each n-gram that could begin here, the one that is wanted, and the average.
        sizes = words.begin[word[:, None] + np.minimum(lengths, words.room[word][:, None])] - words.begin[word][:, None]
        average = sizes @ shares
        near_end = sizes[:, -1] > left[active]
        cost = np.where(near_end, average, sizes[np.arange(word.size), count - 1])
        is_last = is_free & near_end & (average > left[active])
        chance = uniform(draw(keys[active], pointer[active] - words.first_of_example[active] + (1 << 31)))
        taken = is_free & (~is_last | (chance * average < left[active]))
        begins, counts, example = word[taken], count[taken], active[taken]
        chosen.append((begins, counts))
        for step in range(max_ngram):
            free[begins[counts > step] + step] = False
        left[example] -= cost[taken]
        num_drawn[example] += 1
        wanted[example] = _draw_ngrams(keys[example], num_drawn[example], thresholds)
        pointer[active] += 1
        active = active[~is_last & (left[active] > 1e-9) & (pointer[active] < stop[active])]
    if not chosen:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([begins for begins, _ in chosen]), np.concatenate([counts for _, counts in chosen])


def _draw_ngrams(keys: NDArray[np.uint64], number: Integers, thresholds: NDArray[np.float64]) -> Integers:
    """Lengths of n-grams, p(n) ∝ 1/n."""
    return np.searchsorted(thresholds, uniform(draw(keys, number + (1 << 30))), side="right") + 1


def expand_ranges(begins: Integers, lengths: Integers) -> Integers:
    """All numbers of several ranges, one after the other.

    >>> expand_ranges(np.array([5, 20]), np.array([2, 3])).tolist()
    [5, 6, 20, 21, 22]
    """
    ends = np.cumsum(lengths)
    return np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1] if ends.size else 0)
