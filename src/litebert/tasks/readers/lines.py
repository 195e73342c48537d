"""Examples without answers, a line each, as one types or pipes them: plain text with tabs, or JSON objects."""

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from litebert.tasks.cells import Cells, example_maker, pick_columns
from litebert.tasks.readers.sources import columns_of
from litebert.tasks.records import BadRecordError, take_text
from litebert.tasks.task import (
    ChoiceExample,
    Columns,
    DataError,
    Example,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)

__all__ = ["read_lines"]

_MOST_BYTES = 64 << 20
_FORMS = {
    "pair": "a text, a tab and the second text",
    "questions": "a context that may hold the answer, a tab and the question",
    "choice": "a passage, a question and two options at least, with tabs between them",
}


def read_lines(task: Task, stream: BinaryIO, name: str) -> list[Example]:
    """Read an example from each line; blank ones count, so that answers stay beside their lines.

    A line that begins with { is a JSON object with the task's columns, as in a file of JSON lines, or with the names
    that everybody would choose (text, pair, question, context, passage, options, words); every other line is text,
    with tabs between its parts.
    """
    examples = []
    make_from_object = _object_reader(task)
    for number, line in enumerate(_walk(stream, name)):
        place = f"{name}, line {number + 1}"
        try:
            text = line.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"{place} is not UTF-8: convert the file, for example with iconv -t UTF-8") from None
        if text.lstrip().startswith("{"):
            examples.append(make_from_object(str(number), text, place))
        else:
            examples.append(_from_text(task, str(number), text, place))
    if not examples:
        raise DataError(f"{name} is empty: give one text a line")
    return examples


def _walk(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Give lines; one that is too long is never held in memory as a whole."""
    number = 0
    while line := stream.readline(_MOST_BYTES + 1):
        number += 1
        if len(line) > _MOST_BYTES:
            raise DataError(f"{name}, line {number} is longer than {_MOST_BYTES:,} bytes: put fewer texts into a line")
        yield line


def _from_text(task: Task, number: str, line: str, place: str) -> Example:
    parts = line.split("\t")
    if task.kind == "tagging":
        return TaggedExample(number, tuple(line.split()), place=place)
    if task.kind == "questions" and len(parts) == 2:
        return QuestionExample(number, question=parts[1], context=parts[0], place=place)
    if task.kind == "choice" and len(parts) >= 4:
        return ChoiceExample(number, parts[0], parts[1], tuple(parts[2:]), place=place)
    if task.kind not in ("questions", "choice") and not task.is_pair:
        return TextExample(number, line, place=place)
    if task.kind not in ("questions", "choice") and len(parts) == 2:
        return TextExample(number, parts[0], parts[1], place=place)
    form = _FORMS[task.kind if task.kind in _FORMS else "pair"]
    raise DataError(f"{place} has {len(parts)} parts: {task.name} takes {form}, or a JSON object")


def _object_reader(task: Task) -> Callable[[str, str, str], Example]:
    """Make the function that reads an object; it knows the ids that were there before."""
    makers: dict[Columns, Callable[[str, Cells, str], Example]] = {}

    def read(number: str, line: str, place: str) -> Example:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{place} begins with {{ and is no JSON: write one object a line") from None
        try:
            if task.kind == "questions":
                return _make_question(number, record, place)
            columns = pick_columns(task.kind, columns_of(task), record)
            if columns not in makers:
                makers[columns] = example_maker(task.kind, columns, with_labels=False, labels=None)
            return makers[columns](number, record, place)
        except BadRecordError as error:
            raise DataError(f"{place}, {error}") from None

    return read


def _make_question(number: str, record: dict[str, Any], place: str) -> QuestionExample:
    given = record.get("id")
    name = str(given) if isinstance(given, str | int) else number
    question, context = (take_text(record.get(key), key) for key in ("question", "context"))
    return QuestionExample(name, question, context, place=place)
