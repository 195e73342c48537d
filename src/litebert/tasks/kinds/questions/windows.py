"""Windows: rows of a question and a piece of its context, for contexts of any length.

A row is `[CLS] question [SEP] piece of the context [SEP]`. The pieces overlap, so that an answer is seen whole, and
each token knows its characters in the original text, so that an answer is always a part of that text.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.tasks.kinds.options import NUM_SPECIAL, WindowConfig
from litebert.tasks.task import QuestionExample
from litebert.text.tokenizer import Tokenizer

__all__ = ["Window", "make_windows"]

Integers = NDArray[np.int32]
_NO_ANSWER = (0, 0)  # the position of [CLS]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A question and a piece of its context. The arrays may be shared with other windows: they are to be read only."""

    example: int
    """Number of the example that it is made of."""
    input_ids: Integers
    split: int
    """Where the second segment begins (token type 1): after the first [SEP]."""
    context_begin: int
    """Position in the row of the first token of the context."""
    char_begins: Integers
    char_ends: Integers
    """For each token of the context, its characters in the original text; none (equal numbers) if it marks a space."""
    is_max_context: NDArray[np.bool_]
    """For each token of the context, whether no other window shows more of the text on both sides of it."""
    start: int | None
    end: int | None
    """Positions in the row of the answer's first and last token; 0 ([CLS]) if it is not in this window or there is
    none; None if it is not known."""

    @property
    def context_end(self) -> int:
        """Position in the row after the last token of the context."""
        return self.context_begin + len(self.char_begins)

    @property
    def answer_mask(self) -> NDArray[np.bool_]:
        """For each token of the row, whether an answer may begin or end there: it holds characters of the context."""
        mask = np.zeros(len(self.input_ids), bool)
        mask[self.context_begin : self.context_end] = self.char_ends > self.char_begins
        return mask


def make_windows(examples: Sequence[QuestionExample], tokenizer: Tokenizer, config: WindowConfig) -> list[Window]:
    """Cut each example into windows, so that every token of its context is in one of them.

    Where people gave several answers, the first is the label. If it begins or ends inside a token, the label is the
    smallest row of tokens that covers it; an answer of which no token holds a character (white space, for example)
    gives no label. Windows beside the answer are there too, with [CLS] for a label.
    """
    ids, counts = tokenizer.encode_plain([example.question for example in examples])
    question_ends = np.cumsum(counts)
    contexts: dict[str, _Context] = {}
    layouts: dict[tuple[int, int], list[_Piece]] = {}
    windows = []
    for number, example in enumerate(examples):
        begin = int(question_ends[number] - counts[number])
        question = ids[begin : min(int(question_ends[number]), begin + config.max_query)]
        if example.context not in contexts:
            contexts[example.context] = _read_context(example.context, tokenizer)
        context = contexts[example.context]
        shape = len(context.ids), config.max_length - len(question) - NUM_SPECIAL
        if shape not in layouts:
            layouts[shape] = _lay_out(*shape, config.stride)
        gold = _find_answer(example, context)
        head = np.concatenate([[tokenizer.cls_id], question, [tokenizer.sep_id]]).astype(np.int32)
        tail = np.array([tokenizer.sep_id], np.int32)
        for piece in layouts[shape]:
            part = slice(piece.begin, piece.end)
            start, end = _place_label(gold, piece, len(head))
            windows.append(
                Window(
                    example=number,
                    input_ids=np.concatenate([head, context.ids[part], tail]),
                    split=len(head),
                    context_begin=len(head),
                    char_begins=context.begins[part],
                    char_ends=context.ends[part],
                    is_max_context=piece.is_max_context,
                    start=start,
                    end=end,
                )
            )
    return windows


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The tokens of a text and their characters."""

    ids: Integers
    begins: Integers
    ends: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A range of a context's tokens."""

    begin: int
    end: int
    is_max_context: NDArray[np.bool_]


def _read_context(text: str, tokenizer: Tokenizer) -> _Context:
    spans = tokenizer.spans(text, plain=True)
    table = np.array([(span.id, span.begin, span.end) for span in spans], np.int32).reshape(-1, 3)
    ids, begins, ends = np.ascontiguousarray(table.T)
    return _Context(ids, begins, ends if text.isascii() else _take_in_marks(text, begins, ends))


def _take_in_marks(text: str, begins: Integers, ends: Integers) -> Integers:
    """Let each token end after the accents that follow it in the text as characters of their own.

    Most tokenizers drop them, so that they belong to no token; an answer should not lose the accent of its last letter.

    >>> _take_in_marks("cafe\\u0301 noir", np.array([0, 6], np.int32), np.array([4, 10], np.int32))
    array([ 5, 10], dtype=int32)
    """
    is_mark = np.fromiter((unicodedata.category(character)[0] == "M" for character in text), bool, len(text))
    if not is_mark.any():
        return ends
    # For each character, the first one from there on that is no mark.
    positions = np.where(is_mark, len(text), np.arange(len(text)))
    after = np.append(np.minimum.accumulate(positions[::-1])[::-1], len(text)).astype(np.int32)
    limits = np.append(begins[1:], len(text)).astype(np.int32)
    return np.where(ends > begins, np.maximum(ends, np.minimum(after[ends], limits)), ends)


def _lay_out(num_tokens: int, room: int, stride: int) -> list[_Piece]:
    """Cut a number of tokens into overlapping pieces, each as long as there is room; none but the last are shorter.

    A token is best seen where the smaller of what stands on its left and on its right is greatest; of equal pieces,
    the longer one counts, then the earlier one. That is BERT's rule.

    >>> [(piece.begin, piece.end, piece.is_max_context.tolist()) for piece in _lay_out(5, 3, 2)]
    [(0, 3, [True, True, True]), (2, 5, [False, True, True])]
    """
    step = min(stride, room)  # a greater one would leave tokens out
    last = max(0, -(-(num_tokens - room) // step))
    ranges = [(number * step, min(number * step + room, num_tokens)) for number in range(last + 1)]
    best_score = np.full(num_tokens, -1.0)
    best_piece = np.zeros(num_tokens, np.int64)
    for number, (begin, end) in enumerate(ranges):
        length = end - begin
        aside = np.arange(length)
        score = np.minimum(aside, length - 1 - aside) + 0.01 * length
        is_better = score > best_score[begin:end]
        best_score[begin:end][is_better] = score[is_better]
        best_piece[begin:end][is_better] = number
    return [_Piece(begin, end, best_piece[begin:end] == number) for number, (begin, end) in enumerate(ranges)]


def _find_answer(example: QuestionExample, context: _Context) -> tuple[int, int] | None:
    """First and last token of the first answer; -1 for an example that has none, None if that is not known."""
    if example.answers is None:
        return None
    if not example.answers:
        return -1, -1
    begin = example.answers[0].begin
    end = begin + len(example.answers[0].text)
    touched = np.flatnonzero((context.begins < end) & (context.ends > begin) & (context.ends > context.begins))
    return (int(touched[0]), int(touched[-1])) if touched.size else None


def _place_label(gold: tuple[int, int] | None, piece: _Piece, shift: int) -> tuple[int | None, int | None]:
    """Positions in the row of the tokens in `gold`, if the piece holds all of them."""
    if gold is None:
        return None, None
    first, last = gold
    if piece.begin <= first and last < piece.end:
        return first - piece.begin + shift, last - piece.begin + shift
    return _NO_ANSWER
