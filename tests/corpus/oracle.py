"""Pairs, masks and preparation one at a time, in plain Python: the arrays of `litebert.corpus` are compared with it."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from litebert.corpus.corpus import HELD_OUT, TRAIN
from litebert.corpus.duplicates import digest_document
from litebert.corpus.prepare import PrepareConfig
from litebert.corpus.randomness import draw, uniform
from litebert.corpus.shards import EncodedText, ShardWriter, token_type
from litebert.text.inspection import script_of
from litebert.text.sentences import split_sentences
from litebert.text.sources import Document
from litebert.text.tokenizer import Tokenizer


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


@dataclass
class PlainPreparation:
    """Documents one after the other into shards: what a manifest has to say of them, whoever prepared them."""

    tokenizer: Tokenizer
    config: PrepareConfig
    folder: Path
    shards: dict[str, list[Any]] = field(default_factory=lambda: {TRAIN: [], HELD_OUT: []})
    counts: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)

    def run(self, documents: Iterable[Document]) -> None:
        """Cut the new documents into chunks; a shard ends after a chunk."""
        seen: set[int] = set()
        chunk: list[tuple[str, str]] = []
        writers: dict[str, ShardWriter] = {}
        side = TRAIN

        def end_chunk() -> None:
            for split in (TRAIN, HELD_OUT):
                if split not in writers:
                    path = self.folder / f"{split}-{len(self.shards[split]):05d}.shard"
                    writers[split] = ShardWriter(path, token_type(self.tokenizer.vocab_size))
                for text in (text for text, there in chunk if there == split):
                    self._append(writers[split], text)
            chunk.clear()
            if writers[TRAIN].num_tokens >= self.config.shard_tokens:
                end_shards()

        def end_shards() -> None:
            for split, writer in writers.items():
                self.shards[split].append(writer.finish().model_dump())
            writers.clear()

        for document in documents:
            digest = digest_document(document.text)
            if document.part == 0:
                self.counts["documents_read"] += 1
                side = HELD_OUT if digest < self.config.held_out * 2.0**64 else TRAIN
            self.counts["characters"] += len(document.text)
            if self.config.deduplicate and digest in seen:
                self.counts["duplicates"] += 1
                continue
            seen.add(digest)
            chunk.append((document.text, side))
            size = sum(len(text) for text, _ in chunk)
            if size >= min(1_000_000, self.config.shard_tokens) or len(chunk) >= 5_000:
                end_chunk()
        end_chunk()
        end_shards()

    def _append(self, writer: ShardWriter, text: str) -> None:
        self.scripts.update(script_of(letter) for letter in text[:200] if letter.isalpha())
        sentences = [self.tokenizer.encode_plain([sentence])[0] for sentence in split_sentences(text)]
        sentences = [ids for ids in sentences if ids.size]
        if sentences:
            tokens = np.concatenate(sentences)
            self.counts["unknown_tokens"] += int((tokens == self.tokenizer.unknown_id).sum())
            lengths = np.array([ids.size for ids in sentences], np.uint32)
            writer.append(EncodedText(tokens, lengths, np.array([len(sentences)], np.uint32)))
