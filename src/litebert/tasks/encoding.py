"""From examples to `Rows`: texts and pairs, words with tags, questions with windows, passages with options."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL
from litebert.tasks.rows import Rows
from litebert.tasks.task import ChoiceExample, Example, QuestionExample, TaggedExample, Task, TextExample
from litebert.tasks.windows import Window, WindowConfig, make_windows
from litebert.text.tokenizer import Tokenizer, fit_pair

__all__ = ["Encoded", "encode", "join_option"]

_MOST_QUESTION = 128  # tokens of a question and its option, of which the last ones stay
_BLANK = "_"  # where the option belongs in the question
Integers = NDArray[np.int64]
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Encoded:
    """Examples and the rows that were made of them."""

    rows: Rows
    windows: Sequence[Window] = ()
    """Questions: what each row shows."""
    words: Sequence[Sequence[int]] = ()
    """Tags: for each row, the tokens with which its words begin."""


def encode(
    task: Task, examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, windows: WindowConfig | None = None
) -> Encoded:
    """Encode the examples of a task. Nothing in their texts is special; what is too long is cut or goes on."""
    match task.kind:
        case "questions":
            return _encode_questions(
                [example for example in examples if isinstance(example, QuestionExample)],
                tokenizer,
                windows or WindowConfig(max_length=max_length),
            )
        case "tagging":
            return _encode_tags(
                task, [example for example in examples if isinstance(example, TaggedExample)], tokenizer, max_length
            )
        case "choice":
            return _encode_choices(
                [example for example in examples if isinstance(example, ChoiceExample)], tokenizer, max_length
            )
        case _:
            return _encode_texts(
                task, [example for example in examples if isinstance(example, TextExample)], tokenizer, max_length
            )


def _pieces(tokenizer: Tokenizer, texts: list[str]) -> list[Ids]:
    """The ids of each text."""
    ids, counts = tokenizer.encode_plain(texts)
    return np.split(ids, np.cumsum(counts)[:-1]) if len(texts) else []


def _assemble(tokenizer: Tokenizer, pairs: Sequence[tuple[Ids, Ids | None]]) -> tuple[Ids, Integers, Integers]:
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


def _encode_texts(task: Task, examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int) -> Encoded:
    firsts = _pieces(tokenizer, [example.text for example in examples])
    seconds = _pieces(tokenizer, [example.pair or "" for example in examples]) if task.is_pair else []
    pairs: list[tuple[Ids, Ids | None]] = []
    for number, first in enumerate(firsts):
        if not task.is_pair:
            pairs.append((first[: max_length - 2], None))
            continue
        keep_first, keep_second = fit_pair(len(first), len(seconds[number]), max_length - 3)
        pairs.append((first[:keep_first], seconds[number][:keep_second]))
    tokens, ends, splits = _assemble(tokenizer, pairs)
    labels = _text_labels(task, examples)
    return Encoded(Rows(tokens, ends, splits, np.arange(len(examples)), labels=labels))


def _text_labels(task: Task, examples: Sequence[TextExample]) -> NDArray[np.int64] | NDArray[np.float32] | None:
    """Labels as numbers; None if any example has none."""
    if any(example.label is None for example in examples):
        return None
    places = {name: place for place, name in enumerate(task.labels)}
    match task.kind:
        case "regression":
            return np.array([example.label for example in examples], np.float32)
        case "multi-label":
            table = np.zeros((len(examples), len(task.labels)), np.float32)
            for row, example in enumerate(examples):
                assert isinstance(example.label, tuple)
                table[row, [places[name] for name in example.label]] = 1
            return table
        case _:
            return np.array([places[str(example.label)] for example in examples], np.int64)


def _encode_tags(task: Task, examples: Sequence[TaggedExample], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """Each word's first token carries its tag. A sentence that is too long goes on in another row, between words."""
    places = {name: place for place, name in enumerate(task.labels)}
    pieces = _pieces(tokenizer, [word for example in examples for word in example.words])
    unknown = np.array([tokenizer.unknown_id], np.int32)
    room = max_length - 2
    pairs: list[tuple[Ids, Ids | None]] = []
    owners: list[int] = []
    words: list[list[int]] = []
    labels: list[NDArray[np.int64]] = []
    at = 0
    for number, example in enumerate(examples):
        tags = [NO_LABEL] * len(example.words) if example.tags is None else [places[tag] for tag in example.tags]
        row: list[Ids] = []
        starts: list[int] = []
        row_labels: list[int] = []
        size = 0
        for word, tag in enumerate(tags):
            piece = pieces[at + word][:room]
            piece = piece if len(piece) else unknown  # a word of which nothing is left still has its place
            if size + len(piece) > room:
                pairs.append((np.concatenate(row), None))
                owners.append(number)
                words.append(starts)
                labels.append(np.array([NO_LABEL, *row_labels, NO_LABEL], np.int64))
                row, starts, row_labels, size = [], [], [], 0
            starts.append(size + 1)
            row.append(piece)
            row_labels += [tag, *([NO_LABEL] * (len(piece) - 1))]
            size += len(piece)
        pairs.append((np.concatenate(row) if row else np.zeros(0, np.int32), None))
        owners.append(number)
        words.append(starts)
        labels.append(np.array([NO_LABEL, *row_labels, NO_LABEL], np.int64))
        at += len(example.words)
    tokens, ends, splits = _assemble(tokenizer, pairs)
    known = all(example.tags is not None for example in examples)
    flat = np.concatenate(labels) if labels and known else None
    return Encoded(Rows(tokens, ends, splits, np.array(owners, np.int64), tags=flat), words=words)


def _encode_choices(examples: Sequence[ChoiceExample], tokenizer: Tokenizer, max_length: int) -> Encoded:
    """`[CLS] passage [SEP] question and option [SEP]`: the end of the latter stays, and what fits of the passage."""
    passages = list(dict.fromkeys(example.passage for example in examples))
    encoded = dict(zip(passages, _pieces(tokenizer, passages), strict=True))
    asked = [join_option(example.question, option) for example in examples for option in example.options]
    questions = _pieces(tokenizer, asked)
    pairs: list[tuple[Ids, Ids | None]] = []
    at = 0
    most = min(_MOST_QUESTION, (max_length - 3) // 2)
    for example in examples:
        passage = encoded[example.passage]
        for question in questions[at : at + len(example.options)]:
            kept = question[-most:]
            pairs.append((passage[: max_length - 3 - len(kept)], kept))
        at += len(example.options)
    tokens, ends, splits = _assemble(tokenizer, pairs)
    options = np.array([len(example.options) for example in examples], np.int64)
    answers = [example.answer for example in examples]
    labels = None if None in answers else np.array(answers, np.int64)
    return Encoded(Rows(tokens, ends, splits, np.arange(len(examples)), options=options, labels=labels))


def join_option(question: str, option: str) -> str:
    """A question and one of its options as one text; a blank in the question is where the option belongs.

    >>> join_option("The cat sat on the _ .", "mat"), join_option("Where is it?", "On the mat.")
    ('The cat sat on the mat .', 'Where is it? On the mat.')
    """
    return question.replace(_BLANK, option, 1) if _BLANK in question else f"{question} {option}"


def _encode_questions(examples: Sequence[QuestionExample], tokenizer: Tokenizer, config: WindowConfig) -> Encoded:
    windows = make_windows(examples, tokenizer, config)
    masks = []
    for window in windows:
        mask = window.answer_mask
        mask[0] = True  # [CLS] stands for no answer
        masks.append(mask)
    known = any(window.start is not None for window in windows)
    spans = [
        (NO_LABEL, NO_LABEL) if window.start is None or window.end is None else (window.start, window.end)
        for window in windows
    ]
    rows = Rows(
        tokens=np.concatenate([window.input_ids for window in windows]) if windows else np.zeros(0, np.int32),
        ends=np.cumsum([len(window.input_ids) for window in windows], dtype=np.int64),
        splits=np.array([window.split for window in windows], np.int64),
        examples=np.array([window.example for window in windows], np.int64),
        spans=np.array(spans, np.int64) if known else None,
        allowed=np.concatenate(masks) if masks else np.zeros(0, bool),
    )
    return Encoded(rows, windows=windows)
