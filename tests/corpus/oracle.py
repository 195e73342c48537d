"""Pairs and masks, one example at a time, in plain Python: what the arrays of `litebert.corpus` are compared with."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from litebert.corpus.randomness import draw, uniform


@dataclass
class Chances:
    """Where the random numbers of an example come from: its words' order, lengths of n-grams, the last one's chance."""

    priority: Callable[[int], float]
    ngram: Callable[[int], float]
    last: Callable[[int], float]

    @classmethod
    def from_hashes(cls, key: int) -> "Chances":
        """Those that the stream itself draws."""
        one = np.array([key], np.uint64)
        return cls(
            priority=lambda word: float(draw(one, word)[0] >> np.uint64(43)),
            ngram=lambda number: float(uniform(draw(one, number + (1 << 30)))[0]),
            last=lambda step: float(uniform(draw(one, step + (1 << 31)))[0]),
        )

    @classmethod
    def from_generator(cls, generator: random.Random) -> "Chances":
        """Independent ones."""
        return cls(lambda _: generator.random(), lambda _: generator.random(), lambda _: generator.random())


def mask_words(segments: list[list[int]], rate: float, max_ngram: int, chances: Chances) -> list[tuple[int, int]]:
    """Choose n-grams of words. Segments are lists of word sizes in tokens; n-grams come as (first word, words)."""
    sizes = [size for segment in segments for size in segment]
    room = [len(segment) - i for segment in segments for i in range(len(segment))]
    weights = [1 / n for n in range(1, max_ngram + 1)]
    left = rate * sum(sizes)
    free = [True] * len(sizes)
    chosen: list[tuple[int, int]] = []

    def next_ngram() -> int:
        point = chances.ngram(len(chosen)) * sum(weights)
        return next((n for n in range(1, max_ngram) if point < sum(weights[:n])), max_ngram)

    wanted = next_ngram()
    order = sorted(range(len(sizes)), key=lambda word: (chances.priority(word), word))
    for step, word in enumerate(order):
        count = min(wanted, room[word])
        if not all(free[word : word + count]):
            continue
        possible = [sum(sizes[word : word + min(n, room[word])]) for n in range(1, max_ngram + 1)]
        average = sum(size * weight for size, weight in zip(possible, weights, strict=True)) / sum(weights)
        near_end = possible[-1] > left
        is_last = near_end and average > left
        if is_last and chances.last(step) * average >= left:
            break
        free[word : word + count] = [False] * count
        chosen.append((word, count))
        left -= average if near_end else possible[count - 1]
        if is_last or left <= 1e-9:
            break
        wanted = next_ngram()
    return chosen


def pack_document(sentences: list[int], capacity: int, short_rate: float, generator: random.Random) -> list[list[int]]:
    """Runs of whole sentences (their sizes) of one document, for pairs; each fragment of a long one is a run."""
    from_end = generator.random() < 0.5
    queue = sentences[::-1] if from_end else list(sentences)
    runs: list[list[int]] = []
    while queue:
        if queue[0] > capacity:
            size = queue.pop(0)
            runs += [[min(capacity, size - begin)] for begin in range(0, size, capacity)]
            continue
        target = generator.randint(2, capacity) if generator.random() < short_rate else capacity
        run = [queue.pop(0)]
        while queue and sum(run) + queue[0] <= target:
            run.append(queue.pop(0))
        if len(run) == 1 and queue and run[0] + queue[0] <= capacity:
            run.append(queue.pop(0))
        runs.append(run[::-1] if from_end else run)
    return runs


def cut_run(run: list[int], generator: random.Random) -> tuple[int, int]:
    """Tokens of the two segments, cut at the inner border nearest to a random share."""
    wanted = generator.random() * sum(run)
    borders = np.cumsum(run)[:-1]
    cut = int(borders[np.argmin(np.abs(borders - wanted))])
    return cut, sum(run) - cut
