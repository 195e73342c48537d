"""Examples without answers, a line each, as one types or pipes them: plain text with tabs, or JSON objects."""

from collections.abc import Iterator
from typing import IO

from litebert.errors import DataError
from litebert.tasks.kinds import kind_of
from litebert.tasks.readers.sources import columns_of
from litebert.tasks.task import Example, Task
from litebert.text.formats import Bad, parse_json
from litebert.text.records import BadRecordError, RecordReader, quote

__all__ = ["read_lines", "stream_lines"]


def read_lines(task: Task, stream: IO[bytes], name: str) -> list[Example]:
    """All examples of some lines."""
    return [*stream_lines(task, stream, name)]


def stream_lines(task: Task, stream: IO[bytes], name: str) -> Iterator[Example]:
    """Read an example from each line but blank ones, as they come; ids are the numbers of the lines, from 0.

    A line that begins with { is a JSON object with the task's columns, as in a file of JSON lines, or with the names
    that everybody would choose (text, pair, question, context, passage, options, words); every other line is text,
    with tabs between its parts.
    """
    reader = RecordReader(stream, name=name, skip_bad=None)
    kind, columns = kind_of(task), columns_of(task)
    is_empty, seen = True, dict[str, str]()
    for index, (location, line) in enumerate(reader.lines()):
        if not line.strip():
            continue
        number, whole = str(index), f"{name}, {location}"
        try:
            if not line.lstrip().startswith("{"):
                yield kind.parse_line(task, number, line, whole)
                is_empty = False
                continue
            record = parse_json(line)
            if isinstance(record, Bad):
                raise BadRecordError(f"begins with {{ and {record.reason}")
            example = kind.parse_object(task, number, record, columns, whole)
            if example.id != number and example.id in seen:
                raise BadRecordError(f"has the id {quote(example.id)}, as {seen[example.id]} has: give each its own")
            if example.id != number:
                seen[example.id] = whole
            yield example
            is_empty = False
        except BadRecordError as error:
            reader.stop(location, str(error))
    if is_empty:
        raise DataError(f"{name} is empty: give one text a line")
