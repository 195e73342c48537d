"""`BatchStream`: an endless stream of batches from a corpus, the same for any number of ranks, from any point on.

Everything is a function of seed, epoch and position. In each epoch the shards are shuffled, some of them at a time are
cut up into examples (`examples`) and arranged in rows, and rows are masked when they are read (`masking`), and other
tokens replaced where that is asked for (`replacement`). A cursor says how far a run has come; it is all that resuming
needs, on as many ranks as there are then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.examples import Examples, Pairs, make_examples
from litebert.corpus.masking import expand_ranges, mask_tokens, piece_table
from litebert.corpus.randomness import draw, key
from litebert.corpus.replacement import Replacements
from litebert.errors import RequestError

__all__ = ["BatchStream", "Cursor", "PackedRows", "StreamConfig", "arrange_rows"]

Array = NDArray[Any]
_RowIndex = tuple[int, int, int]  # epoch, group, row
_BLOCK_ROWS = 128  # rows that are made together; a matter of speed alone


class StreamConfig(BaseModel):
    """What is asked of the text, and how it is cut. The defaults are the paper's, but for packing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    length: Annotated[int, Field(ge=8, le=65536)] = 512
    pairs: Pairs = "sop"
    mask_rate: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.15
    max_ngram: Annotated[int, Field(ge=1, le=8)] = 3
    short_rate: Annotated[float, Field(ge=0.0, le=1.0)] = 0.1
    packing: bool = True
    seed: Annotated[int, Field(ge=0)] = 0
    shuffle_shards: Annotated[int, Field(ge=1)] = 8  # shards whose examples are shuffled together


class Cursor(NamedTuple):
    """How far a stream has been read: rows of a group of shards in an epoch."""

    epoch: int = 0
    group: int = 0
    row: int = 0


@dataclass(frozen=True)
class PackedRows:
    """Which examples share a row: row `r` holds the examples `members[offsets[r]:offsets[r + 1]]`."""

    members: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return self.offsets.size - 1


def arrange_rows(lengths: NDArray[np.int64], row_length: int, packing: bool, seed: int) -> PackedRows:
    """Put examples of these lengths into rows, in random order.

    Examples are shuffled by hashes. With packing, each then goes into the row that it fills best, so that hardly any
    padding is left; without, it has a row of its own.
    """
    order = np.argsort(draw(key(seed, "order"), np.arange(lengths.size)), kind="stable")
    if not packing:
        return PackedRows(order, np.arange(order.size + 1))
    row_of = _pack(lengths[order].tolist(), row_length)
    num_rows = int(row_of.max(initial=-1)) + 1
    rank = np.empty(num_rows, np.int64)
    rank[np.argsort(draw(key(seed, "rows"), np.arange(num_rows)), kind="stable")] = np.arange(num_rows)
    new_row_of = rank[row_of]
    by_row = np.argsort(new_row_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(new_row_of, minlength=num_rows))])
    return PackedRows(order[by_row], offsets)


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


class _Group(NamedTuple):
    """Some shards, cut up for one epoch."""

    shards: list[Array]  # their tokens
    examples: Examples
    rows: PackedRows
    seed: int


class BatchStream:
    """Batches of one split of a corpus; with `replacements`, some of the tokens that are not masked are replaced."""

    def __init__(
        self,
        corpus: Corpus,
        config: StreamConfig | None = None,
        split: str = TRAIN,
        replacements: Replacements | None = None,
    ) -> None:
        self.config = config or StreamConfig()
        self._replacements = replacements
        self._shards = [shard for shard in corpus.shards[split] if shard.tokens.size]
        if not self._shards:
            hint = (
                "; prepare more documents (a blank line ends one) or use a larger --held-out" if split != TRAIN else ""
            )
            raise RequestError(f"{corpus.folder} has no text in {split!r}{hint}")
        tokenizer = corpus.tokenizer
        self._table = piece_table(tokenizer)
        self._ids = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        self._groups: dict[tuple[int, int], _Group] = {}

    @property
    def num_groups(self) -> int:
        """Groups of shards in an epoch."""
        return -(-len(self._shards) // self.config.shuffle_shards)

    def batches(
        self,
        batch_size: int,
        cursor: Cursor | None = None,
        rank: int = 0,
        num_ranks: int = 1,
        worker: int = 0,
        num_workers: int = 1,
    ) -> Iterator[tuple[Batch, Cursor]]:
        """Batches from a cursor on, each with the cursor after it, without end.

        `batch_size` counts the rows of all ranks together. Each rank gets its part of every batch, in order; of
        several workers of a rank, each makes one batch in `num_workers`.
        """
        if batch_size < 1 or num_ranks < 1 or batch_size % num_ranks:
            raise RequestError(f"a batch of {batch_size} rows cannot be shared by {num_ranks} ranks: choose a multiple")
        if not 0 <= rank < num_ranks or not 0 <= worker < num_workers:
            raise RequestError(f"there is no rank {rank} of {num_ranks}, or no worker {worker} of {num_workers}")
        share = batch_size // num_ranks
        mine: list[_RowIndex] = []  # rows to make
        ends: list[Cursor] = []
        batches_at_once = max(1, _BLOCK_ROWS // share)
        for number, (rows, end) in enumerate(self._rows_of_batches(batch_size, cursor or Cursor())):
            if number % num_workers != worker:
                continue
            mine += rows[rank * share : (rank + 1) * share]
            ends.append(end)
            if len(ends) == batches_at_once or end.row == 0:
                yield from zip(self._make_batches(mine, share), ends, strict=True)
                mine, ends = [], []

    def epoch(self, batch_size: int, epoch: int = 0) -> Iterator[Batch]:
        """The batches of one epoch; the last of a group may be smaller. For evaluation, epoch 0 is always the same."""
        for group in range(self.num_groups):
            rows = range(len(self._group(epoch, group).rows))
            for begin in range(0, len(rows), batch_size):
                chosen = [(epoch, group, row) for row in rows[begin : begin + batch_size]]
                yield from self._make_batches(chosen, len(chosen))

    def num_rows(self, epoch: int = 0) -> int:
        """Rows of an epoch."""
        return sum(len(self._group(epoch, group).rows) for group in range(self.num_groups))

    def _rows_of_batches(self, batch_size: int, cursor: Cursor) -> Iterator[tuple[list[_RowIndex], Cursor]]:
        """The rows of each batch of all ranks, and the cursor after it."""
        epoch, group, row = cursor
        if min(cursor) < 0 or group >= self.num_groups or row > len(self._group(epoch, group).rows):
            raise RequestError(f"{cursor} does not belong to this corpus and configuration: begin with Cursor()")
        rows: list[_RowIndex] = []
        while True:
            count = len(self._group(epoch, group).rows)
            taken = min(batch_size - len(rows), max(0, count - row))
            rows += [(epoch, group, index) for index in range(row, row + taken)]
            row += taken
            if row >= count:
                epoch, group = (epoch, group + 1) if group + 1 < self.num_groups else (epoch + 1, 0)
                row = 0
            if len(rows) == batch_size:
                yield rows, Cursor(epoch, group, row)
                rows = []

    def _group(self, epoch: int, group: int) -> _Group:
        """A group of shards in an epoch; the last two are kept."""
        if (epoch, group) not in self._groups:
            while len(self._groups) > 1:
                del self._groups[next(iter(self._groups))]
            self._groups[epoch, group] = self._make_group(epoch, group)
        return self._groups[epoch, group]

    def _make_group(self, epoch: int, group: int) -> _Group:
        config = self.config
        order = np.argsort(draw(key(config.seed, epoch, "shards"), np.arange(len(self._shards))), kind="stable")
        chosen = order[group * config.shuffle_shards : (group + 1) * config.shuffle_shards]
        shards = [self._shards[i] for i in chosen]
        seed = key(config.seed, epoch, group)
        # Cutting up depends on the shard, not on its group.
        examples = make_examples(shards, config.pairs, config.length, config.short_rate, key(config.seed, epoch))
        rows = arrange_rows(examples.lengths, config.length, config.packing, seed)
        return _Group([shard.tokens for shard in shards], examples, rows, seed)

    def _make_batches(self, rows: list[_RowIndex], share: int) -> Iterator[Batch]:
        """Make rows group by group, and cut them up into batches."""
        blocks = []
        begin = 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or rows[end][:2] != rows[begin][:2]:
                group = self._group(*rows[begin][:2])
                blocks.append(self._make_rows(group, np.array([row for _, _, row in rows[begin:end]])))
                begin = end
        made = _join(blocks)
        for begin in range(0, len(rows), share):
            yield _batch({name: column[begin : begin + share] for name, column in made.items()}, self.config)

    def _make_rows(self, group: _Group, rows: NDArray[np.int64]) -> dict[str, Array]:
        """Rows of ids with everything that is asked about them, as arrays."""
        length, (pad_id, cls_id, sep_id, mask_id) = self.config.length, self._ids
        counts = group.rows.offsets[rows + 1] - group.rows.offsets[rows]
        members = group.rows.members[expand_ranges(group.rows.offsets[rows], counts)]
        examples = group.examples.take(members)
        row_of = np.repeat(np.arange(rows.size), counts)
        number = expand_ranges(np.zeros_like(counts), counts)  # of the example within its row
        sizes = examples.lengths
        before = np.cumsum(sizes) - sizes
        column = before - np.repeat(before[np.cumsum(counts) - counts], counts)
        start = row_of * length + column  # where each example begins, all rows seen as one line

        ids = np.full(rows.size * length, pad_id, np.int64)
        sequence_ids = np.zeros_like(ids)
        types = np.zeros_like(ids)
        first = examples.first_end - examples.first_begin
        second = examples.second_end - examples.second_begin
        sequence_ids[expand_ranges(start, sizes)] = np.repeat(number + 1, sizes)
        paired = np.flatnonzero(second)
        types[expand_ranges((start + first + 2)[paired], (second + 1)[paired])] = 1
        ids[start] = cls_id
        ids[start + first + 1] = sep_id
        ids[(start + sizes - 1)[paired]] = sep_id

        # Two segments for each example, the second possibly empty.
        segment_shard = np.stack([examples.first_shard, examples.second_shard], 1).ravel()
        segment_begin = np.stack([examples.first_begin, examples.second_begin], 1).ravel()
        segment_lengths = np.stack([first, second], 1).ravel()
        source = expand_ranges(segment_begin, segment_lengths)
        target = expand_ranges(np.stack([start + 1, start + first + 2], 1).ravel(), segment_lengths)
        tokens = _gather(group.shards, np.repeat(segment_shard, segment_lengths), source)
        segment_examples = np.repeat(np.arange(members.size), 2)
        masked = mask_tokens(
            tokens,
            segment_lengths,
            segment_examples,
            draw(group.seed, members),
            self._table,
            mask_id,
            self.config.mask_rate,
            self.config.max_ngram,
        )
        ids[target] = tokens
        masked_at = target[masked.positions]
        shape = (rows.size, length)
        asked: dict[str, Array] = {}
        if self._replacements is not None:
            keys = draw(key(group.seed, "replaced"), members)
            shown, replaced = self._replacements.replace_tokens(
                tokens, segment_lengths, segment_examples, keys, masked.positions
            )
            ids[target] = shown
            labels = np.full_like(ids, NO_LABEL)
            labels[target] = replaced
            asked["replaced_labels"] = labels.reshape(shape)
        ids[masked_at] = masked.shown
        return {
            "input_ids": ids.reshape(shape),
            "sequence_ids": sequence_ids.reshape(shape),
            "token_type_ids": types.reshape(shape),
            "sequence_starts": _table(rows.size, row_of, column, -1),
            "sentence_labels": _table(rows.size, row_of, examples.label, NO_LABEL),
            "masked_positions": _table(rows.size, masked_at // length, masked_at % length, -1),
            "masked_labels": _table(rows.size, masked_at // length, tokens[masked.positions], NO_LABEL),
            **asked,
        }


def _gather(shards: list[Array], shard_of: NDArray[np.int64], source: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read tokens from where they lie."""
    if len(shards) == 1:
        return shards[0][source].astype(np.int64)
    tokens = np.empty(source.size, np.int64)
    for number, shard in enumerate(shards):
        found = np.flatnonzero(shard_of == number)
        tokens[found] = shard[source[found]]
    return tokens


def _table(num_rows: int, row_of: NDArray[np.int64], values: Array, padding: int) -> NDArray[np.int64]:
    """Values that belong to rows, in ascending order, as a table that is padded on the right."""
    counts = np.bincount(row_of, minlength=num_rows)
    table = np.full((num_rows, max(1, int(counts.max(initial=0)))), padding, np.int64)
    table[row_of, expand_ranges(np.zeros_like(counts), counts)] = values
    return table


def _join(blocks: list[dict[str, Array]]) -> dict[str, Array]:
    """Rows of several groups in one; narrower tables are padded."""
    if len(blocks) == 1:
        return blocks[0]
    joined = {}
    for name in blocks[0]:
        padding = NO_LABEL if name.endswith("labels") else -1
        width = max(block[name].shape[1] for block in blocks)
        joined[name] = np.concatenate(
            [
                np.pad(block[name], ((0, 0), (0, width - block[name].shape[1])), constant_values=padding)
                for block in blocks
            ]
        )
    return joined


def _batch(columns: dict[str, Array], config: StreamConfig) -> Batch:
    """Arrays as tensors; tables no wider than this batch needs, and no labels where nothing is asked."""
    for names in (("sequence_starts", "sentence_labels"), ("masked_positions", "masked_labels")):
        width = max(1, int((columns[names[0]] >= 0).sum(1).max(initial=0)))
        for name in names:
            columns[name] = columns[name][:, :width]
    tensors = {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in columns.items()}
    if not config.packing:
        tensors["attention_mask"] = tensors.pop("sequence_ids")
        tensors["sentence_labels"] = tensors["sentence_labels"][:, 0]
        del tensors["sequence_starts"]
    if config.pairs == "none":
        del tensors["sentence_labels"]
    return Batch(**tensors)
