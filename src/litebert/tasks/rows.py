"""`Rows`: encoded examples, one after the other, and batches of them that are padded no further than they must be.

What is batched is an item: a row, or all options of a multiple choice. Items of like length come together: in training
within pools of many batches, so that chance still decides who meets whom; in prediction throughout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from litebert.batch import NO_LABEL, Batch

__all__ = ["Rows", "order_epoch", "pack_items"]

Array = NDArray[Any]
Integers = NDArray[np.int64]
_POOL = 64  # batches whose items are sorted by length together
_BLUR = 1 / 24  # share by which a length may be off when they are sorted, so that chance decides who meets whom


@dataclass(frozen=True)
class Rows:
    """Token ids of many rows in one array, and what is asked about each."""

    tokens: NDArray[np.int32]
    ends: Integers
    """Where each row ends in `tokens`."""
    splits: Integers
    """Where the second segment of each row begins, counted from its first token; its length if there is one segment."""
    examples: Integers
    """The example that each item belongs to."""
    options: Integers | None = None
    """Multiple choice: how many rows each item has."""
    labels: Array | None = None
    """A class, a score, or a row of yes and no, for each item."""
    tags: Integers | None = None
    """A class or NO_LABEL for each token."""
    spans: Integers | None = None
    """(items, 2): first and last token of the answer."""
    allowed: NDArray[np.bool_] | None = None
    """For each token, whether an answer may begin or end there."""

    @property
    def num_items(self) -> int:
        """How many there are to be batched."""
        return len(self.ends) if self.options is None else len(self.options)

    @property
    def row_lengths(self) -> Integers:
        """Tokens of each row."""
        return np.diff(self.ends, prepend=0)

    def lengths(self) -> Integers:
        """Tokens of each item's longest row."""
        if self.options is None:
            return self.row_lengths
        starts = np.cumsum(self.options) - self.options
        return np.maximum.reduceat(self.row_lengths, starts) if len(starts) else np.zeros(0, np.int64)

    def collate(self, items: Sequence[int] | Integers, pad_id: int = 0) -> Batch:
        """Make a batch of some items, padded to the longest of them."""
        chosen = np.asarray(items, np.int64)
        if self.options is not None:
            return self._collate_options(chosen, pad_id)
        ids, mask, types = self._pad(chosen, pad_id)
        extra: dict[str, Tensor] = {}
        if self.spans is not None:
            extra |= {
                "start_positions": _tensor(self.spans[chosen, 0]),
                "end_positions": _tensor(self.spans[chosen, 1]),
            }
        if self.allowed is not None:
            extra["answer_mask"] = _tensor(self._pad_values(chosen, self.allowed, False))
        if self.labels is not None:
            extra["labels"] = _tensor(self.labels[chosen])
        if self.tags is not None:
            extra["labels"] = _tensor(self._pad_values(chosen, self.tags, NO_LABEL))
        return Batch(_tensor(ids), _tensor(mask), _tensor(types), **extra)

    def _collate_options(self, items: Integers, pad_id: int) -> Batch:
        """Rows of each item side by side; where an item has fewer options than others, an empty row stands in."""
        assert self.options is not None
        counts = self.options[items]
        width = int(counts.max(initial=1))
        begins = np.cumsum(self.options) - self.options
        places = begins[items][:, None] + np.minimum(np.arange(width), counts[:, None] - 1)
        ids, mask, types = self._pad(places.ravel(), pad_id)
        is_there = (np.arange(width) < counts[:, None]).ravel()
        mask[~is_there, 1:] = 0  # its first token stays, so that attention has something to look at
        shape = (len(items), width, ids.shape[1])
        labels = None if self.labels is None else _tensor(self.labels[items])
        ids, mask, types = (array.reshape(shape) for array in (ids, mask, types))
        return Batch(_tensor(ids), _tensor(mask), _tensor(types), labels=labels)

    def _pad(self, rows: Integers, pad_id: int) -> tuple[Array, Array, Array]:
        ids = self._pad_values(rows, self.tokens, pad_id).astype(np.int64)
        lengths = self.row_lengths[rows]
        columns = np.arange(ids.shape[1])
        mask = (columns < lengths[:, None]).astype(np.int64)
        types = ((columns >= self.splits[rows][:, None]) & (mask == 1)).astype(np.int64)
        return ids, mask, types

    def _pad_values(self, rows: Integers, values: Array, padding: Any) -> Array:
        """Values of the rows' tokens as (rows, tokens)."""
        lengths = self.row_lengths[rows]
        width = int(lengths.max(initial=1))
        columns = np.arange(width)
        is_there = columns < lengths[:, None]
        places = (self.ends[rows] - lengths)[:, None] + np.where(is_there, columns, 0)
        padded: Array = np.where(is_there, values[places], padding).astype(values.dtype)
        return padded


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def order_epoch(lengths: Integers, batch_size: int, seed: int) -> Integers:
    """The batches of an epoch, as items (batches, batch_size): in random order, of like length within each.

    Every item comes at least once; the last batch is filled up with items from the beginning.

    >>> order = order_epoch(np.array([5, 90, 6, 80]), 2, seed=0)
    >>> sorted(sorted(batch) for batch in order.tolist())
    [[0, 2], [1, 3]]
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(lengths))
    missing = -len(order) % batch_size
    order = np.concatenate([order, np.resize(order, missing)])
    pool = batch_size * _POOL
    pools = [order[begin : begin + pool] for begin in range(0, len(order), pool)]
    blurred = lengths + generator.uniform(0, 1 + _BLUR * lengths)
    order = np.concatenate([part[np.argsort(blurred[part], kind="stable")] for part in pools])
    batches = order.reshape(-1, batch_size)
    return batches[generator.permutation(len(batches))]


def pack_items(lengths: Integers, budget: int, rows_per_item: Integers | None = None) -> Iterator[Integers]:
    """Groups of items for prediction, the longest first: each group fills a budget of tokens, padding included.

    >>> [group.tolist() for group in pack_items(np.array([3, 10, 4, 9]), 20)]
    [[1, 3], [2, 0]]
    """
    order = np.argsort(-lengths, kind="stable")
    counts = np.ones(len(lengths), np.int64) if rows_per_item is None else rows_per_item
    begin = 0
    while begin < len(order):
        longest = int(lengths[order[begin]])
        end, rows = begin + 1, int(counts[order[begin]])
        while end < len(order) and (rows + int(counts[order[end]])) * longest <= budget:
            rows += int(counts[order[end]])
            end += 1
        yield order[begin:end]
        begin = end
