"""`Features`: encoded examples, one after the other, and the batches that are made of them.

What is batched is an item: a row, or all rows of an item that has several (the options of a multiple choice, the two
texts of a similarity). Which items meet in a step is chance alone: batches of like length would tell the label wherever
length does. Padding is saved inside a step instead. Its items are sorted by length and parted into micro-batches, whose
gradients add up to those of the whole step; short texts also share rows, as in pretraining.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Features", "assemble", "encode_apart", "encode_texts", "order_epoch", "part_by_length"]

Array = NDArray[Any]
Integers = NDArray[np.int64]
Ids = NDArray[np.int32]

_MICRO_BATCH_TOKENS = 1536  # enough for matrix products at full speed, few enough to be of like length
_LETTERS_PER_TOKEN = 16  # more than nearly all texts have
_WORTH_PACKING = 0.9  # of the padded tokens: below that, short texts share rows


@dataclass(frozen=True)
class Features:
    """Token ids of many rows in one array, and what is asked about each item."""

    tokens: Ids
    ends: Integers
    """Where each row ends in `tokens`."""
    splits: Integers
    """Where the second segment of each row begins, counted from its first token; its length if there is one segment."""
    examples: Integers
    """The example that each item belongs to."""
    num_rows: Integers | None = None
    """How many rows each item has; None if each has one."""
    is_flat: bool = False
    """Items with several rows: whether a batch has them one below the other, (rows, tokens), not side by side."""
    can_pack: bool = False
    """Whether the head takes rows that several items share."""
    labels: Array | None = None
    """A class, a score, or a row of yes and no, for each item."""
    tags: Integers | None = None
    """A class or NO_LABEL for each token."""
    spans: Integers | None = None
    """(items, 2): first and last token of the answer."""
    allowed: NDArray[np.bool_] | None = None
    """For each token, whether an answer may begin or end there."""
    parts: Sequence[Any] = ()
    """What the kind of task remembers of each item, to decode what the model says about it."""
    cut: frozenset[int] = field(default_factory=frozenset)
    """Examples of which not everything fitted."""

    @property
    def num_items(self) -> int:
        """How many there are to be batched."""
        return len(self.ends) if self.num_rows is None else len(self.num_rows)

    @property
    def row_lengths(self) -> Integers:
        """Tokens of each row."""
        return np.diff(self.ends, prepend=0)

    def lengths(self) -> Integers:
        """Tokens of each item's longest row."""
        if self.num_rows is None:
            return self.row_lengths
        starts = np.cumsum(self.num_rows) - self.num_rows
        return np.maximum.reduceat(self.row_lengths, starts) if len(starts) else np.zeros(0, np.int64)

    def micro_batches(self, items: Integers, pad_id: int, most_items: int | None = None) -> list[Batch]:
        """Batches that together hold these items, each once: of like length, packed where that saves a tenth."""
        lengths = self.lengths()[items]
        rows = None if self.num_rows is None else self.num_rows[items]
        groups = part_by_length(lengths, _MICRO_BATCH_TOKENS, rows, most_items, counts_padding=not self.can_pack)
        return [self._pack(items[group], pad_id) or self.collate(items[group], pad_id) for group in groups]

    def collate(self, items: Sequence[int] | Integers, pad_id: int = 0) -> Batch:
        """Make a batch of some items, padded to the longest of them."""
        arrays = self.collate_arrays(items, pad_id)
        return Batch(**{name: _tensor(array) for name, array in arrays.items()})

    def collate_arrays(self, items: Sequence[int] | Integers, pad_id: int = 0) -> dict[str, Array]:
        """The same as NumPy arrays, by the names that `Batch` has for them."""
        chosen = np.asarray(items, np.int64)
        if self.num_rows is not None:
            return self._collate_rows(chosen, pad_id)
        arrays = self._pad(chosen, pad_id)
        if self.spans is not None:
            arrays |= {"start_positions": self.spans[chosen, 0], "end_positions": self.spans[chosen, 1]}
        if self.allowed is not None:
            arrays["answer_mask"] = self._pad_values(chosen, self.allowed, False)
        if self.labels is not None:
            arrays["labels"] = self.labels[chosen]
        if self.tags is not None:
            arrays["labels"] = self._pad_values(chosen, self.tags, NO_LABEL)
        return arrays

    def _collate_rows(self, items: Integers, pad_id: int) -> dict[str, Array]:
        """Rows of each item side by side; where an item has fewer rows than others, an empty row stands in."""
        assert self.num_rows is not None
        counts = self.num_rows[items]
        width = int(counts.max(initial=1))
        begins = np.cumsum(self.num_rows) - self.num_rows
        rows = begins[items][:, None] + np.minimum(np.arange(width), counts[:, None] - 1)
        arrays = self._pad(rows.ravel(), pad_id)
        is_there = (np.arange(width) < counts[:, None]).ravel()
        arrays["attention_mask"][~is_there, 1:] = 0  # its first token stays, so that attention has something to look at
        num_tokens = arrays["input_ids"].shape[1]
        shape = (-1, num_tokens) if self.is_flat else (len(items), width, num_tokens)
        arrays = {name: array.reshape(shape) for name, array in arrays.items()}
        return arrays if self.labels is None else {**arrays, "labels": self.labels[items]}

    def _pack(self, items: Integers, pad_id: int) -> Batch | None:
        """Put several items into a row, none of which is longer than the longest item; None if that saves little."""
        if not self.can_pack:
            return None
        lengths = self.row_lengths[items]
        width = int(lengths.max(initial=1))
        rows = _fit_rows(lengths, width)
        if len(rows) > _WORTH_PACKING * len(items):
            return None
        order = np.array([index for row in rows for index in row], np.int64)
        row_of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        number = np.concatenate([np.arange(len(row)) for row in rows])  # of an item in its row
        lengths, chosen = lengths[order], items[order]
        ends = np.cumsum(lengths)
        first_of_row = np.searchsorted(row_of, np.arange(len(rows)))
        begins = ends - lengths - (ends - lengths)[first_of_row][row_of]  # in the row
        source = np.concatenate(
            [np.arange(end - size, end) for end, size in zip(self.ends[chosen], lengths, strict=True)]
        )
        column = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths) + np.repeat(begins, lengths)
        row = np.repeat(row_of, lengths)

        def lay(values: Array, padding: int) -> "Tensor":
            table = np.full((len(rows), width), padding, np.int64)
            table[row, column] = values
            return _tensor(table)

        starts = np.full((len(rows), int(number.max()) + 1), -1, np.int64)
        starts[row_of, number] = begins
        is_second = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths) >= np.repeat(self.splits[chosen], lengths)
        labels = None if self.labels is None else _tensor(self.labels[chosen])
        if self.tags is not None:
            labels = lay(self.tags[source], NO_LABEL)
        return Batch(
            input_ids=lay(self.tokens[source], pad_id),
            token_type_ids=lay(is_second, 0),
            sequence_ids=lay(np.repeat(number + 1, lengths), 0),
            sequence_starts=_tensor(starts),
            labels=labels,
        )

    def _pad(self, rows: Integers, pad_id: int) -> dict[str, Array]:
        """What every model takes, each (rows, tokens)."""
        ids = self._pad_values(rows, self.tokens, pad_id).astype(np.int64)
        columns = np.arange(ids.shape[1])
        mask = (columns < self.row_lengths[rows][:, None]).astype(np.int64)
        types = ((columns >= self.splits[rows][:, None]) & (mask == 1)).astype(np.int64)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}

    def _pad_values(self, rows: Integers, values: Array, padding: Any) -> Array:
        """Values of the rows' tokens as (rows, tokens)."""
        lengths = self.row_lengths[rows]
        width = int(lengths.max(initial=1))
        columns = np.arange(width)
        is_there = columns < lengths[:, None]
        positions = (self.ends[rows] - lengths)[:, None] + np.where(is_there, columns, 0)
        padded: Array = np.where(is_there, values[positions], padding).astype(values.dtype)
        return padded


def _tensor(array: Array) -> "Tensor":
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


def _fit_rows(lengths: Integers, width: int) -> list[list[int]]:
    """Which items share a row: each goes into the first row that has room, the longest items first.

    >>> _fit_rows(np.array([3, 9, 5, 4]), 9)
    [[1], [2, 3], [0]]
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for item in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[item])
        row = next((row for row, left in enumerate(room) if left >= length), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(width)
        rows[row].append(item)
        room[row] -= length
    return rows


def order_epoch(num_items: int, batch_size: int, seed: int) -> Integers:
    """The batches of an epoch, as items (batches, batch_size), drawn at random.

    Every item comes at least once; the last batch is filled up with items from the beginning.

    >>> sorted(order_epoch(4, 2, seed=0).ravel().tolist())
    [0, 1, 2, 3]
    """
    order = np.random.default_rng(seed).permutation(num_items)
    missing = -len(order) % batch_size
    return np.concatenate([order, np.resize(order, missing)]).reshape(-1, batch_size)


def part_by_length(
    lengths: Integers,
    most_tokens: int,
    rows_per_item: Integers | None = None,
    most_items: int | None = None,
    counts_padding: bool = True,
    most_padding: int | None = None,
) -> Iterator[Integers]:
    """Part items into groups of like length, the longest first: each fills a budget of tokens, with padding or without.

    `most_padding` is how many tokens of padding a group may have: what it costs to begin another group.

    >>> [group.tolist() for group in part_by_length(np.array([3, 10, 4, 9]), 20)]
    [[1, 3], [2, 0]]
    >>> [group.tolist() for group in part_by_length(np.array([3, 10, 4, 9]), 40, most_padding=2)]
    [[1, 3], [2, 0]]
    """
    order = np.argsort(-lengths, kind="stable")
    sizes = (np.ones(len(lengths), np.int64) if rows_per_item is None else rows_per_item)[order]
    begin = 0
    while begin < len(order):
        longest = lengths[order[begin]]
        widths = longest if counts_padding else lengths[order[begin:]]
        num_fitting = int(np.searchsorted(np.cumsum(sizes[begin:] * widths), most_tokens, side="right"))
        end = begin + max(1, min(num_fitting, most_items or num_fitting))
        if most_padding is not None:
            padding = np.cumsum(sizes[begin:end] * (longest - lengths[order[begin:end]]))
            end = begin + max(1, int(np.searchsorted(padding, most_padding, side="right")))
        yield order[begin:end]
        begin = end


def encode_texts(tokenizer: Tokenizer, texts: list[str], most: int | None = None) -> list[Ids]:
    """The ids of each text, without special tokens. Nothing that stands in a text is special.

    With `most`, a text that has more ids than that may be encoded in part: the first so many are as they are.
    """
    if most is not None:
        return _encode_beginnings(tokenizer, texts, most)
    ids, counts = tokenizer.encode_plain(texts)
    return np.split(ids, np.cumsum(counts)[:-1]) if len(texts) else []


def encode_apart(tokenizer: Tokenizer, items: Sequence[Sequence[str]], max_length: int) -> Features:
    """Items of as many texts each: a row `[CLS] text [SEP]` for every text, cut where it is too long."""
    texts = [text for item in items for text in item]
    num_texts, room = len(items[0]) if items else 1, max_length - 2
    ids = encode_texts(tokenizer, texts, max_length)
    tokens, ends, splits = assemble(tokenizer, [(row[:room], None) for row in ids])
    return Features(
        tokens,
        ends,
        splits,
        np.arange(len(items)),
        num_rows=np.full(len(items), num_texts, np.int64),
        is_flat=True,
        cut=frozenset(row // num_texts for row, one in enumerate(ids) if len(one) > room),
    )


def _encode_beginnings(tokenizer: Tokenizer, texts: list[str], most: int) -> list[Ids]:
    """Long texts are cut at a space before they are encoded; those whose beginning was too short are encoded whole.

    No piece reaches over a space, so the ids of a beginning are those that the whole text begins with.
    """
    length = _LETTERS_PER_TOKEN * (most + 1)
    spaces = {number: text.rfind(" ", 0, length) for number, text in enumerate(texts) if len(text) > 2 * length}
    beginnings = [text[: spaces[number]] if spaces.get(number, -1) > 0 else text for number, text in enumerate(texts)]
    found = encode_texts(tokenizer, beginnings)
    again = [number for number in spaces if spaces[number] > 0 and len(found[number]) <= most]
    for number, ids in zip(again, encode_texts(tokenizer, [texts[number] for number in again]), strict=True):
        found[number] = ids
    return found


def assemble(tokenizer: Tokenizer, pairs: Sequence[tuple[Ids, Ids | None]]) -> tuple[Ids, Integers, Integers]:
    """Tokens, row ends and splits of `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`."""
    cls, sep = np.array([tokenizer.cls_id], np.int32), np.array([tokenizer.sep_id], np.int32)
    parts: list[Ids] = []
    lengths, splits = [], []
    for first, second in pairs:
        parts += [cls, first, sep] if second is None else [cls, first, sep, second, sep]
        splits.append(len(first) + 2)
        lengths.append(splits[-1] + (0 if second is None else len(second) + 1))
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return tokens, np.cumsum(lengths, dtype=np.int64), np.array(splits, np.int64)
