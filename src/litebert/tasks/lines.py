"""Examples without answers, a line each, as one types or pipes them: plain text with tabs, or JSON objects."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from litebert.tasks.task import ChoiceExample, DataError, Example, QuestionExample, TaggedExample, Task, TextExample
from litebert.text.cleanup import mend

__all__ = ["read_lines"]

_MOST_BYTES = 64 << 20
_FORMS = {
    "pair": "a text, a tab and the second text",
    "questions": "a question, a tab and the text that may hold the answer",
    "choice": "a passage, a question and two options at least, with tabs between them",
}


def read_lines(task: Task, lines: Iterable[bytes], name: str) -> list[Example]:
    """Read an example from each line; blank ones count, so that answers stay beside their lines.

    A line that begins with { is a JSON object with the task's columns (text, pair, question, context, passage, options,
    words); every other line is text, with tabs between its parts.
    """
    examples = []
    for number, line in enumerate(lines):
        place = f"{name}, line {number + 1}"
        if len(line) > _MOST_BYTES:
            raise DataError(f"{place} is longer than {_MOST_BYTES >> 20} MiB: put fewer texts into a line")
        try:
            text = line.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"{place} is not UTF-8: convert the file, for example with iconv -t UTF-8") from None
        make = _from_object if text.lstrip().startswith("{") else _from_text
        examples.append(make(task, str(number), text, place))
    if not examples:
        raise DataError(f"{name} is empty: give one text a line")
    return examples


def _from_text(task: Task, number: str, line: str, place: str) -> Example:
    parts = line.split("\t")
    if task.kind == "tagging":
        return TaggedExample(number, tuple(line.split()), place=place)
    if task.kind == "questions" and len(parts) == 2:
        return QuestionExample(number, parts[0], parts[1], place=place)
    if task.kind == "choice" and len(parts) >= 4:
        return ChoiceExample(number, parts[0], parts[1], tuple(parts[2:]), place=place)
    if task.kind not in ("questions", "choice") and not task.is_pair:
        return TextExample(number, line, place=place)
    if task.kind not in ("questions", "choice") and len(parts) == 2:
        return TextExample(number, parts[0], parts[1], place=place)
    form = _FORMS[task.kind if task.kind in _FORMS else "pair"]
    raise DataError(f"{place} has {len(parts)} parts: {task.name} takes {form}, or a JSON object")


def _from_object(task: Task, number: str, line: str, place: str) -> Example:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{place} begins with {{ and is no JSON: write one object a line") from None

    def take(*names: str) -> str:
        return str(_take(record, names, place, lambda value: isinstance(value, str)))

    def take_list(name: str) -> tuple[str, ...]:
        value = _take(record, (name,), place, lambda it: isinstance(it, list) and all(isinstance(x, str) for x in it))
        return tuple(mend(entry) for entry in value)

    columns = task.columns
    text = columns.text if columns else "text"
    pair = columns.pair if columns and columns.pair else "pair"
    given = record.get("id")
    name = str(given) if isinstance(given, str | int) else number
    match task.kind:
        case "tagging":
            return TaggedExample(name, take_list("words"), place=place)
        case "questions":
            return QuestionExample(name, take("question"), take("context"), place=place)
        case "choice":
            return ChoiceExample(name, take("passage", text), take("question", pair), take_list("options"), place=place)
        case _:
            return TextExample(name, take(text, "text"), take(pair, "pair") if task.is_pair else None, place=place)


def _take(record: dict[str, Any], names: tuple[str, ...], place: str, is_fit: Callable[[Any], bool]) -> Any:
    for name in names:
        if name in record:
            if not is_fit(record[name]):
                raise DataError(f"{place} has an unfit value for {name!r}: it should hold text, or a list of texts")
            return mend(record[name]) if isinstance(record[name], str) else record[name]
    raise DataError(f"{place} has no {' or '.join(map(repr, names))}: add it to the object")
