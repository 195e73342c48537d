"""Examples without answers, a line each, as one types or pipes them: plain text with tabs, or JSON objects."""

from collections.abc import Callable
from typing import IO, Any

from litebert.tasks.cells import Cells, example_maker, pick_columns
from litebert.tasks.readers.sources import columns_of
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
from litebert.text.formats import Bad, parse_json
from litebert.text.records import BadRecordError, RecordReader, match_keys, take_text

__all__ = ["read_lines"]

_FORMS = {
    "pair": "a text, a tab and the second text",
    "questions": "a context that may hold the answer, a tab and the question",
    "choice": "a passage, a question and two options at least, with tabs between them",
}


def read_lines(task: Task, stream: IO[bytes], name: str) -> list[Example]:
    """Read an example from each line; blank ones count, so that answers stay beside their lines.

    A line that begins with { is a JSON object with the task's columns, as in a file of JSON lines, or with the names
    that everybody would choose (text, pair, question, context, passage, options, words); every other line is text,
    with tabs between its parts.
    """
    reader = RecordReader(stream, name=name, skip_bad=None)
    make_from_object = _object_reader(task)
    examples: list[Example] = []
    for location, line in reader.lines():
        number, whole = str(len(examples)), f"{name}, {location}"
        try:
            if line.lstrip().startswith("{"):
                examples.append(make_from_object(number, line, whole))
            else:
                examples.append(_from_text(task, number, line, whole))
        except BadRecordError as error:
            reader.stop(location, str(error))
    if not examples:
        raise DataError(f"{name} is empty: give one text a line")
    return examples


def _from_text(task: Task, number: str, line: str, location: str) -> Example:
    parts = line.split("\t")
    if task.kind == "tagging":
        return TaggedExample(number, tuple(line.split()), place=location)
    if task.kind == "questions" and len(parts) == 2:
        return QuestionExample(number, question=parts[1], context=parts[0], place=location)
    if task.kind == "choice" and len(parts) >= 4:
        return ChoiceExample(number, parts[0], parts[1], tuple(parts[2:]), place=location)
    if task.kind not in ("questions", "choice") and not task.is_pair:
        return TextExample(number, line, place=location)
    if task.kind not in ("questions", "choice") and len(parts) == 2:
        return TextExample(number, parts[0], parts[1], place=location)
    form = _FORMS[task.kind if task.kind in _FORMS else "pair"]
    raise BadRecordError(f"has {len(parts)} parts: {task.name} takes {form}, or a JSON object")


def _object_reader(task: Task) -> Callable[[str, str, str], Example]:
    """Make the function that reads an object; it knows the ids that were there before."""
    makers: dict[Columns, Callable[[str, Cells, str], Example]] = {}

    def read(number: str, line: str, location: str) -> Example:
        record = parse_json(line)
        if isinstance(record, Bad):
            raise BadRecordError(f"begins with {{ and {record.reason}")
        if task.kind == "questions":
            return _make_question(number, record, location)
        columns = pick_columns(task.kind, columns_of(task), record)
        if columns not in makers:
            makers[columns] = example_maker(task.kind, columns, with_labels=False, labels=None)
        return makers[columns](number, match_keys(record, (columns.text, columns.pair or "")), location)

    return read


def _make_question(number: str, record: dict[str, Any], location: str) -> QuestionExample:
    given = record.get("id")
    name = str(given) if isinstance(given, str | int) else number
    question, context = (take_text(record.get(key), key) for key in ("question", "context"))
    return QuestionExample(name, question, context, place=location)
