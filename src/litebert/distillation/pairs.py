"""Rows of two texts, made of single ones: a student that has read single texts alone cannot compare two in one row.

A text is followed by itself with words left out, replaced and moved (what paraphrases share), by its own second half
(what goes on), or by another text (what has nothing to do with it). The teacher says what it makes of such rows, so no
label is needed.
"""

from collections.abc import Sequence

import torch

from litebert.batch import Batch

__all__ = ["pair_up"]

_LEFT_OUT, _REPLACED, _MOVED = 0.15, 0.1, 0.3  # of the tokens, of the tokens, of the texts
_SHORTEST = 4  # tokens of a text that can be cut in two


def pair_up(batch: Batch, cls_id: int, sep_id: int, pad_id: int, length: int, generator: torch.Generator) -> Batch:
    """Packed rows of pairs from the texts of packed rows: at most `length` tokens a row, about as many tokens in all.

    >>> batch = Batch(torch.tensor([[2, 7, 8, 9, 5, 3]]), sequence_ids=torch.ones(1, 6, dtype=torch.long),
    ...               sequence_starts=torch.tensor([[0]]))
    >>> pair_up(batch, 2, 3, 0, 16, torch.Generator().manual_seed(3)).input_ids.tolist()
    [[2, 7, 8, 3, 9, 5, 3]]
    """
    texts = _unpack(batch, {cls_id, sep_id})
    wanted, found = batch.num_tokens, 0
    pairs: list[tuple[list[int], list[int]]] = []
    for number in torch.randperm(len(texts), generator=generator).tolist():
        if found >= wanted:
            break
        first, second = _make_pair(number, texts, generator)
        first, second = first[: (length - 3) // 2], second[: (length - 3) // 2]
        pairs.append((first, second))
        found += len(first) + len(second) + 3
    return _pack(pairs, cls_id, sep_id, pad_id, length)


def _unpack(batch: Batch, left_out: set[int]) -> list[list[int]]:
    """The texts of packed rows, without special tokens; empty ones are passed over."""
    assert batch.sequence_ids is not None
    texts: list[list[int]] = []
    for ids, numbers in zip(batch.input_ids.tolist(), batch.sequence_ids.tolist(), strict=True):
        row: list[list[int]] = [[] for _ in range(max(numbers, default=0))]
        for token, number in zip(ids, numbers, strict=True):
            if number and token not in left_out:
                row[number - 1].append(token)
        texts += [text for text in row if text]
    return texts


def _make_pair(number: int, texts: Sequence[list[int]], generator: torch.Generator) -> tuple[list[int], list[int]]:
    """A text and what follows it in its row."""
    text = texts[number]
    kind = int(torch.randint(3, (), generator=generator))
    other = texts[int(torch.randint(len(texts), (), generator=generator))]
    if kind == 0 or len(text) < _SHORTEST:
        return text, _disturb(text, other, generator)
    if kind == 1:
        cut = int(torch.randint(1, len(text), (), generator=generator))
        return text[:cut], text[cut:]
    return text, other


def _disturb(text: list[int], other: list[int], generator: torch.Generator) -> list[int]:
    """A text with tokens left out, tokens of another one in the place of some, and now and then its halves swapped."""
    chance = torch.rand(len(text) + 1, generator=generator).tolist()
    drawn = torch.randint(len(other), (len(text),), generator=generator).tolist()
    kept = [
        other[draw] if share < _LEFT_OUT + _REPLACED else token
        for token, share, draw in zip(text, chance, drawn, strict=False)
        if share >= _LEFT_OUT
    ]
    middle = len(kept) // 2
    return (kept[middle:] + kept[:middle] if chance[-1] < _MOVED else kept) or text


def _pack(pairs: Sequence[tuple[list[int], list[int]]], cls_id: int, sep_id: int, pad_id: int, length: int) -> Batch:
    """Pairs side by side in rows of at most `length` tokens: the longest first, each in the first row with room."""
    rows: list[list[tuple[list[int], list[int]]]] = []
    sizes: list[int] = []
    for pair in sorted(pairs, key=lambda pair: -len(pair[0]) - len(pair[1])):
        size = len(pair[0]) + len(pair[1]) + 3
        row = next((number for number, used in enumerate(sizes) if used + size <= length), len(rows))
        if row == len(rows):
            rows.append([])
            sizes.append(0)
        rows[row].append(pair)
        sizes[row] += size
    shape = (len(rows), max(sizes))
    ids = torch.full(shape, pad_id)
    types, numbers = torch.zeros_like(ids), torch.zeros_like(ids)
    starts = torch.full((len(rows), max(map(len, rows))), -1)
    for row, members in enumerate(rows):
        at = 0
        for number, (first, second) in enumerate(members):
            tokens = [cls_id, *first, sep_id, *second, sep_id]
            end = at + len(tokens)
            ids[row, at:end] = torch.tensor(tokens)
            types[row, at + len(first) + 2 : end] = 1
            numbers[row, at:end] = number + 1
            starts[row, number] = at
            at = end
    return Batch(ids, token_type_ids=types, sequence_ids=numbers, sequence_starts=starts)
