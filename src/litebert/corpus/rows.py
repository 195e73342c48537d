"""Rows: the order in which examples come, and which of them share a row.

Examples are shuffled by hashes. With packing, each then goes into the row that it fills best, so that hardly any
padding is left; without, it has a row of its own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.randomness import draw, key

__all__ = ["Rows", "arrange"]


@dataclass(frozen=True)
class Rows:
    """Row `r` holds the examples `members[offsets[r]:offsets[r + 1]]`."""

    members: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return self.offsets.size - 1


def arrange(lengths: NDArray[np.int64], row_length: int, packing: bool, seed: int) -> Rows:
    """Put examples of these lengths into rows, in random order."""
    order = np.argsort(draw(key(seed, "order"), np.arange(lengths.size)), kind="stable")
    if not packing:
        return Rows(order, np.arange(order.size + 1))
    row_of = _pack(lengths[order].tolist(), row_length)
    num_rows = int(row_of.max(initial=-1)) + 1
    rank = np.empty(num_rows, np.int64)
    rank[np.argsort(draw(key(seed, "rows"), np.arange(num_rows)), kind="stable")] = np.arange(num_rows)
    place = rank[row_of]
    by_row = np.argsort(place, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=num_rows))])
    return Rows(order[by_row], offsets)


def _pack(lengths: list[int], row_length: int) -> NDArray[np.int64]:
    """Best fit: each example goes into the open row with the least room that is enough.

    Rows are kept by their room; the bits of one integer say for which rooms there is a row, so that the best one is
    found without a search.
    """
    open_rows: list[list[int]] = [[] for _ in range(row_length + 1)]
    rooms, num_rows = 0, 0
    row_of = np.empty(len(lengths), np.int64)
    for example, length in enumerate(lengths):
        enough = rooms >> length
        if enough:
            room = length + (enough & -enough).bit_length() - 1
            row = open_rows[room].pop()
            if not open_rows[room]:
                rooms &= ~(1 << room)
        else:
            room, row = row_length, num_rows
            num_rows += 1
        row_of[example] = row
        left = room - length
        if left:
            open_rows[left].append(row)
            rooms |= 1 << left
    return row_of
