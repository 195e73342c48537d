"""Examples: which sentences go together into one sequence, and what is asked about their order.

An example is a run of whole sentences of one document that fits into the sequence length, cut into two segments at a
sentence. Under SOP the segments are swapped half of the time; under NSP half of the examples get the second segment of
another document; under `none` there is one segment. Neither borders nor lengths give the answer away: every segment of
a pair consists of whole sentences, and half of the documents are cut up from their end. What has no two sentences (a
single one, or the fragments of one that is too long) becomes one segment that nothing is asked about but its words.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL
from litebert.corpus.randomness import draw, key, uniform
from litebert.corpus.shards import Shard

__all__ = ["Examples", "Pairs", "make_examples"]

Pairs = Literal["sop", "nsp", "none"]
Integers = NDArray[np.int64]
IN_ORDER, SWAPPED = 0, 1


@dataclass(frozen=True)
class Examples:
    """Columns of a table with one row for each example. Segments are given as ranges of tokens in a shard."""

    first_shard: Integers
    first_begin: Integers
    first_end: Integers
    second_shard: Integers
    second_begin: Integers
    second_end: Integers  # equal to second_begin if there is one segment
    label: Integers  # 0 in order, 1 swapped (SOP) or from another document (NSP), NO_LABEL
    document: Integers  # of the first segment, counted through the shards

    @property
    def num_tokens(self) -> Integers:
        """Tokens of the text, without special ones."""
        return self.first_end - self.first_begin + self.second_end - self.second_begin

    @property
    def lengths(self) -> Integers:
        """Tokens with [CLS] and one [SEP] for each segment."""
        return self.num_tokens + 2 + (self.second_end > self.second_begin)

    def take(self, index: NDArray[Any]) -> "Examples":
        """Some rows of the table."""
        return Examples(*(getattr(self, field.name)[index] for field in fields(self)))

    def __len__(self) -> int:
        return self.label.size


def make_examples(shards: list[Shard], pairs: Pairs, length: int, short_rate: float, seed: int) -> Examples:
    """Cut shards up into examples of at most `length` tokens. The seed stands for run, epoch and shards."""
    capacity = length - (2 if pairs == "none" else 3)
    parts, num_documents = [], 0
    for number, shard in enumerate(shards):
        runs = _cut_documents(shard, capacity, short_rate, pairs != "none", key(seed, shard.name))
        parts.append(_cut_pairs(runs, shard, number, num_documents, pairs, key(seed, shard.name, "pairs")))
        num_documents += shard.document_ends.size
    table = Examples(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Examples)))
    return _mix_documents(table, key(seed, "nsp")) if pairs == "nsp" else table


@dataclass(frozen=True)
class _Runs:
    """Runs of sentences: which tokens, which sentences (the same twice for fragments), of which document."""

    begin: Integers
    end: Integers
    first_sentence: Integers
    last_sentence: Integers  # the one after the last
    document: Integers


def _cut_documents(shard: Shard, capacity: int, short_rate: float, wants_two: bool, seed: int) -> _Runs:
    """Pack whole sentences up to the capacity, or now and then to a random shorter length.

    The sentence that did not fit begins the next run, so a run's first sentence is longer than others. Half of the
    documents are packed from their end, where the same holds for the last one: on the whole, lengths tell nothing.
    """
    count = np.arange(shard.sentence_ends.size, dtype=np.uint64)
    is_short = uniform(draw(key(seed, "short"), count)) < short_rate
    shorter = 2 + draw(key(seed, "length"), count) % np.uint64(max(1, capacity - 1))
    targets = np.where(is_short, shorter.astype(np.int64), capacity).tolist()
    from_end = (draw(key(seed, "direction"), np.arange(shard.document_ends.size)) & np.uint64(1)).tolist()
    ends = shard.sentence_ends.tolist()
    begins = [0, *ends[:-1]]
    rows: list[tuple[int, int, int, int, int]] = []
    first = 0
    for document, last in enumerate(shard.document_ends.tolist()):
        low, high = first, last
        while low < high:
            edge = high - 1 if from_end[document] else low
            if ends[edge] - begins[edge] > capacity:
                rows += _fragments(begins[edge], ends[edge], capacity, edge, document)
                low, high = (low, edge) if from_end[document] else (edge + 1, high)
                continue
            if from_end[document]:
                run = bisect_left(begins, ends[edge] - targets[edge], low, edge + 1)
                if wants_two and run >= edge and low < edge and ends[edge] - begins[edge - 1] <= capacity:
                    run = edge - 1
                run = min(run, edge)
                rows.append((begins[run], ends[edge], run, high, document))
                high = run
            else:
                run = bisect_right(ends, begins[edge] + targets[edge], edge, high)
                if wants_two and run <= edge + 1 < high and ends[edge + 1] - begins[edge] <= capacity:
                    run = edge + 2
                run = max(run, edge + 1)
                rows.append((begins[edge], ends[run - 1], edge, run, document))
                low = run
        first = last
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return _Runs(*columns)


def _fragments(
    begin: int, end: int, capacity: int, sentence: int, document: int
) -> list[tuple[int, int, int, int, int]]:
    """A sentence that is too long, in pieces."""
    cuts = range(begin, end, capacity)
    return [(cut, min(cut + capacity, end), sentence, sentence, document) for cut in cuts]


def _cut_pairs(runs: _Runs, shard: Shard, number: int, documents: int, pairs: Pairs, seed: int) -> Examples:
    """Cut each run that has two sentences at one of its inner borders, and throw a coin for the order."""
    num_runs = runs.begin.size
    counters = np.arange(num_runs)
    num_cuts = runs.last_sentence - runs.first_sentence - 1
    has_two = (num_cuts > 0) & (pairs != "none")
    cut = np.where(has_two, _nearest_borders(runs, shard, uniform(draw(key(seed, "cut"), counters))), runs.end)
    coin = (draw(key(seed, "coin"), counters) & np.uint64(1)).astype(np.int64)
    label = np.where(has_two, coin, NO_LABEL)
    swapped = has_two & (coin == SWAPPED) & (pairs == "sop")
    shards = np.full(num_runs, number)
    return Examples(
        first_shard=shards,
        first_begin=np.where(swapped, cut, runs.begin),
        first_end=np.where(swapped, runs.end, cut),
        second_shard=shards,
        second_begin=np.where(swapped, runs.begin, cut),
        second_end=np.where(swapped, cut, runs.end),
        label=label,
        document=runs.document + documents,
    )


def _nearest_borders(runs: _Runs, shard: Shard, shares: NDArray[np.float64]) -> Integers:
    """The inner border of each run that is nearest to a share of its tokens.

    Shares, not numbers of sentences: texts that open with long sentences and close with short ones have, on the
    whole, first segments no longer than their second ones.
    """
    ends = shard.sentence_ends.astype(np.int64)
    wanted = runs.begin + shares * (runs.end - runs.begin)
    after = np.searchsorted(ends, wanted)
    low, high = runs.first_sentence, np.maximum(runs.first_sentence, runs.last_sentence - 2)
    before, after = np.clip(after - 1, low, high), np.clip(after, low, high)
    return np.where(np.abs(ends[before] - wanted) <= np.abs(ends[after] - wanted), ends[before], ends[after])


def _mix_documents(table: Examples, seed: int) -> Examples:
    """NSP: give the examples labelled 1 a second segment of another document.

    Sorted by the length of their second segment, each takes that of the nearest one before it that is of another
    document: it is as long or a little shorter, so it fits, and lengths tell nothing. The first have none to take,
    and their label becomes 0.
    """
    lengths = table.second_end - table.second_begin
    chosen = np.flatnonzero(table.label == SWAPPED)
    order = chosen[np.lexsort((draw(seed, chosen), lengths[chosen]))]
    documents = table.document[order]
    begins_run = np.concatenate([[True], documents[1:] != documents[:-1]])[: order.size]
    donor = np.maximum.accumulate(np.where(begins_run, np.arange(order.size), 0)) - 1
    found = donor >= 0
    taker, giver = order[found], order[donor[found]]
    label = table.label.copy()
    label[order[~found]] = IN_ORDER
    columns = {"label": label}
    for name in ("second_shard", "second_begin", "second_end"):
        columns[name] = getattr(table, name).copy()
        columns[name][taker] = getattr(table, name)[giver]
    return replace(table, **columns)
