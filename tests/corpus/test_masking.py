"""Masking by arrays does exactly what the plain version does, and has the distribution that the paper asks for."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.corpus.masking import PieceTable, mask_tokens
from litebert.corpus.randomness import draw
from tests.corpus.oracle import Chances, mask_words

# Ids: 0 continues a word, 1 begins one, 2 begins one and stands alone (a script without spaces), 3 is never in text.
TABLE = PieceTable(np.array([False, True, True, False]), np.array([False, False, True, False]), np.array([0, 1, 2]))
MASK = 3


def masked_positions(segments: list[list[list[int]]], rate: float, max_ngram: int, seed: int) -> list[set[int]]:
    """Which tokens of each example are masked; examples are lists of segments, which are lists of tokens."""
    flat = [segment for example in segments for segment in example]
    owner = np.array([i for i, example in enumerate(segments) for _ in example])
    keys = draw(seed, np.arange(len(segments)))
    tokens = np.array([token for segment in flat for token in segment], np.int64)
    lengths = np.array([len(segment) for segment in flat])
    masked = mask_tokens(tokens, lengths, owner, keys, TABLE, MASK, rate, max_ngram)
    sizes = np.bincount(owner, weights=lengths, minlength=len(segments)).astype(int)
    ends = np.cumsum(sizes)
    split = np.split(masked.positions, np.searchsorted(masked.positions, ends[:-1]))
    return [set((places - end + size).tolist()) for places, end, size in zip(split, ends, sizes, strict=True)]


def word_sizes(segment: list[int]) -> list[int]:
    sizes: list[int] = []
    for i, token in enumerate(segment):
        if i == 0 or token in (1, 2) or segment[i - 1] == 2:
            sizes.append(0)
        sizes[-1] += 1
    return sizes


def expected_positions(example: list[list[int]], rate: float, max_ngram: int, key: int) -> set[int]:
    segments = [word_sizes(segment) for segment in example]
    begins = np.cumsum([0, *(size for segment in segments for size in segment)])
    chosen = mask_words(segments, rate, max_ngram, Chances.from_hashes(key))
    return {place for word, count in chosen for place in range(begins[word], begins[word + count])}


segment_lists = st.lists(st.sampled_from([0, 0, 1, 1, 2]), min_size=1, max_size=60)
example_lists = st.lists(st.lists(segment_lists, min_size=1, max_size=2), min_size=1, max_size=12)


@settings(max_examples=150)
@given(example_lists, st.sampled_from([0.0, 0.04, 0.15, 0.5, 0.9]), st.integers(1, 5), st.integers(0, 2**40))
def test_arrays_do_what_the_plain_version_does(
    examples: list[list[list[int]]], rate: float, max_ngram: int, seed: int
) -> None:
    keys = draw(seed, np.arange(len(examples)))
    expected = [
        expected_positions(example, rate, max_ngram, int(key)) for example, key in zip(examples, keys, strict=True)
    ]
    assert masked_positions(examples, rate, max_ngram, seed) == expected


@pytest.mark.parametrize(("num_words", "max_word"), [(3, 1), (9, 4), (80, 1), (300, 3), (40, 12)])
def test_the_rate_holds_at_every_length(num_words: int, max_word: int) -> None:
    generator = random.Random(1)
    examples = []
    for _ in range(4000 if num_words < 50 else 500):
        words = [[1, *[0] * generator.randrange(max_word)] for _ in range(num_words)]
        examples.append([[token for word in words for token in word]])
    masked = sum(map(len, masked_positions(examples, 0.15, 3, 5)))
    total = sum(len(example[0]) for example in examples)
    # Short examples are masked by chance: four standard deviations of that.
    assert masked / total == pytest.approx(0.15, abs=4 * (0.15 * 3 * max_word / total) ** 0.5)


def test_the_distribution_is_that_of_the_plain_version() -> None:
    """Lengths of masked runs and their places, against independent random numbers."""
    generator = random.Random(2)
    examples = []
    for _ in range(3000):
        sizes = [generator.choice([1, 1, 1, 2, 3]) for _ in range(60)]
        examples.append([[token for size in sizes for token in (1, *[0] * (size - 1))]])
    ours, theirs = Counter[int](), Counter[int]()
    places = np.zeros((2, 60))
    for example, masked in zip(examples, masked_positions(examples, 0.15, 3, 9), strict=True):
        sizes = word_sizes(example[0])
        begins = np.cumsum([0, *sizes[:-1]])
        words = [word for word, begin in enumerate(begins) if int(begin) in masked]
        chosen = mask_words([sizes], 0.15, 3, Chances.from_generator(generator))
        other = sorted(word for first, count in chosen for word in range(first, first + count))
        for counter, found in ((ours, words), (theirs, other)):
            counter.update(runs(found))
        places[0, words] += 1
        places[1, other] += 1
    assert chi_square(list(ours.values()), [theirs[n] for n in ours]) < 4
    assert chi_square(places[0].tolist(), places[1].tolist()) < 4


def runs(words: list[int]) -> list[int]:
    """Lengths of runs of neighbours."""
    lengths: list[int] = []
    for i, word in enumerate(words):
        if i and word == words[i - 1] + 1:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return [min(length, 6) for length in lengths]


def chi_square(a: list[float], b: list[float]) -> float:
    """How far two counts of the same things are apart, in standard deviations of the chi-square statistic."""
    first, second = np.array(a, float), np.array(b, float)
    scale = (second.sum() / first.sum()) ** 0.5
    statistic = (((first * scale - second / scale) ** 2) / (first + second)).sum()
    freedom = len(a) - 1
    return float((statistic - freedom) / (2 * freedom) ** 0.5)


def test_lengths_of_ngrams_follow_the_paper() -> None:
    """Alone in long text, n-grams have p(n) = (1/n) / Σ 1/k, and what is shown is 80/10/10."""
    tokens = np.ones(400_000, np.int64)
    lengths = np.full(1000, 400)
    masked = mask_tokens(tokens, lengths, np.arange(1000), draw(3, np.arange(1000)), TABLE, MASK, 0.02, 3)
    words = [masked.positions[masked.positions // 400 == row].tolist() for row in range(1000)]
    found = Counter(length for row in words for length in runs(row))
    total = found.total()
    assert [found[n] / total for n in (1, 2, 3)] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.03)
    shown = Counter(masked.shown.tolist())
    assert shown[MASK] / masked.shown.size == pytest.approx(0.8, abs=0.02)
    assert shown[1] / masked.shown.size == pytest.approx(0.1 + 0.1 / 3, abs=0.02)
    assert MASK not in TABLE.ordinary_ids


@pytest.mark.parametrize("num_words", [14, 40, 150])
def test_lengths_of_ngrams_hold_for_short_examples(num_words: int) -> None:
    """The last n-gram of an example is no shorter than others; only the end of a segment cuts some."""
    generator = random.Random(3)
    found = Counter[int]()
    for _ in range(20_000):
        chosen = mask_words([[1] * num_words], 0.15, 3, Chances.from_generator(generator))
        found.update(count for _, count in chosen)
    near_end = 2 / num_words
    shares = [found[n] / found.total() for n in (1, 2, 3)]
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02 + 0.4 * near_end)


def test_replacements_are_never_special() -> None:
    table = PieceTable(np.array([True] * 10), np.array([False] * 10), np.array([7, 8]))
    masked = mask_tokens(
        np.full(5000, 9), np.array([5000]), np.zeros(1, np.int64), draw(1, np.arange(1)), table, 4, 0.5, 3
    )
    assert set(masked.shown.tolist()) == {4, 7, 8, 9}
