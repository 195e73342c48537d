"""Batches taken apart again: the sequences that the model is fed, what was hidden in them, and what is asked.

`lint` looks at these rather than at how they were made, so that it also finds what went wrong in the making.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.text.tokenizer import Tokenizer

__all__ = ["Sequence", "show_sequence", "unfold"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Sequence:
    """One sequence of a batch, with its special tokens."""

    shown: Integers  # what the model sees
    original: Integers  # what stood there before masking
    masked: NDArray[np.bool_]
    first: slice  # the tokens of the first segment
    second: slice | None
    label: int


def unfold(batches: Iterable[Batch], sep_id: int) -> Iterator[Sequence]:
    """Give the sequences of batches, packed or not."""
    for batch in batches:
        ids = batch.input_ids.numpy()
        numbers = _sequence_numbers(batch)
        originals, masked = ids.copy(), np.zeros(ids.shape, bool)
        if batch.masked_positions is not None and batch.masked_labels is not None:
            rows, places = np.nonzero(batch.masked_positions.numpy() >= 0)
            columns = batch.masked_positions.numpy()[rows, places]
            originals[rows, columns] = batch.masked_labels.numpy()[rows, places]
            masked[rows, columns] = True
        labels = None if batch.sentence_labels is None else batch.sentence_labels.numpy().reshape(len(ids), -1)
        for row, column in zip(*np.nonzero(_begins(numbers)), strict=True):
            number = int(numbers[row, column])
            end = column + int(np.argmin(np.append(numbers[row, column:] == number, False)))
            here = originals[row, column:end]
            ends = np.flatnonzero(here == sep_id)
            cut = int(ends[0]) if ends.size else here.size
            second = slice(cut + 1, int(ends[-1])) if ends.size > 1 else None
            label = NO_LABEL if labels is None or number > labels.shape[1] else int(labels[row, number - 1])
            yield Sequence(ids[row, column:end], here, masked[row, column:end], slice(1, cut), second, label)


def _begins(numbers: Integers) -> NDArray[np.bool_]:
    """Where a sequence begins: a number that is not 0, nor that of the token before."""
    before = np.pad(numbers, ((0, 0), (1, 0)))[:, :-1]
    return np.asarray((numbers > 0) & (numbers != before))


def _sequence_numbers(batch: Batch) -> Integers:
    """For each token the number of its sequence in the row, 0 for padding."""
    given = batch.sequence_ids if batch.sequence_ids is not None else batch.attention_mask
    return np.ones(batch.input_ids.shape, np.int64) if given is None else given.numpy()


def show_sequence(sequence: Sequence, tokenizer: Tokenizer) -> str:
    """A sequence for people: ⟦cat⟧ is masked, ⟦cat→dog⟧ replaced, ⟦cat=⟧ left as it was but asked about."""
    words, reserved = [], tokenizer.reserved_ids
    for shown, original, masked in zip(sequence.shown, sequence.original, sequence.masked, strict=True):
        piece = tokenizer.piece(int(original))
        if tokenizer.continues:
            space = "" if piece.startswith(tokenizer.continues) else " "
            piece = piece.removeprefix(tokenizer.continues)
        else:
            space = " " if piece.startswith("▁") or int(original) in reserved else ""
            piece = piece.removeprefix("▁") or "▁"  # a space alone is a piece, too
        if masked:
            if shown == original:
                piece = f"{piece}="
            elif shown != tokenizer.mask_id:
                piece = f"{piece}→{tokenizer.piece(int(shown)).removeprefix('▁')}"
            piece = f"⟦{piece}⟧"
        words.append(space + piece)
    return "".join(words).strip()
