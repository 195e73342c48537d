"""`read_predictions`: files of predictions, whoever made them, put beside the examples they are for.

Predictions find their examples by id, or by position where a file has no ids. The functions that write such files are
in `litebert.tasks.submissions`, and can be had from here as well.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.tasks.cells import find_option
from litebert.tasks.readers.prediction_files import Row, read_object, read_rows
from litebert.tasks.submissions import (
    NULL_ODDS,
    label_separator,
    write_glue_submission,
    write_predictions,
    write_squad_predictions,
)
from litebert.tasks.task import ChoiceExample, Columns, DataError, Example, TaggedExample, Task
from litebert.text.records import BadRecordError

__all__ = [
    "Predictions",
    "read_predictions",
    "write_glue_submission",
    "write_predictions",
    "write_squad_predictions",
]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Predictions:
    """Answers beside their examples, and what the file says about them."""

    answers: tuple[Any, ...]
    null_odds: tuple[float, ...] | None = None
    """How likely there is no answer, for questions that may have none."""
    details: tuple[dict[str, Any], ...] = ()
    """Of JSON lines: what else each of them holds, such as probabilities."""

    @property
    def raw_answers(self) -> tuple[Any, ...]:
        """Answers to questions before any threshold made some of them empty, where the file tells them."""
        best = [details.get("nbest") for details in self.details]
        return tuple(
            found[0].get("text", answer) if isinstance(found, list) and found and isinstance(found[0], dict) else answer
            for found, answer in zip(best, self.answers, strict=True)
        )


def read_predictions(
    task: Task,
    examples: Sequence[Example],
    file: Path,
    null_odds_file: Path | None = None,
    *,
    takes_any_label: bool = False,
) -> Predictions:
    """Read one prediction for each example from JSON lines, TSV or CSV (GLUE's too), SQuAD's JSON or lines of text.

    Each id must be there once and be known; each value must be an answer to the task. Two classes may also be given by
    index, if all are and no class has a number for a name. A second JSON file may hold the null odds by id.

    With `takes_any_label` the task's labels are only those that happen to be in the examples: others are taken as they
    are written, and indices are refused, since nobody knows what they count.
    """
    rows = _align(list(read_rows(task, examples, file)), examples, file)
    parse = _parse_labels(task, rows, takes_any_label)
    answers = tuple(_parse_all(task, examples, rows, parse))
    null_odds = _take_null_odds(rows)
    if null_odds_file is not None:
        odds_rows = _align(list(read_object(null_odds_file)), examples, null_odds_file)
        null_odds = tuple(map(_parse_number, odds_rows))
    return Predictions(answers, null_odds, tuple(row.details for row in rows))


def _align(rows: list[Row], examples: Sequence[Example], file: Path) -> list[Row]:
    """Put rows in the order of the examples."""
    if all(row.id is None for row in rows):
        if len(rows) != len(examples):
            raise DataError(
                f"{file} holds {len(rows):,} predictions without ids for {len(examples):,} examples: give one for each"
            )
        return rows
    by_id: dict[str, Row] = {}
    known = {example.id for example in examples}
    if len(known) != len(examples):
        raise DataError(f"{file} gives predictions by id, but some examples have the same: make the ids differ")
    for row in rows:
        if row.id is None:
            raise DataError(f"{row.place} has no id, though others have: add it")
        if row.id not in known:
            raise DataError(f"{row.place} has the id {row.id!r}, which no example has: is it for other data?")
        if row.id in by_id:
            raise DataError(f"{row.place} gives the id {row.id!r} a second time: keep one of them")
        by_id[row.id] = row
    missing = [example for example in examples if example.id not in by_id]
    if missing:
        place = f" ({missing[0].place})" if missing[0].place else ""
        raise DataError(
            f"{file} has no prediction for {len(missing):,} of {len(examples):,} examples: "
            f"add them, first that of {missing[0].id!r}{place}"
        )
    return [by_id[example.id] for example in examples]


def _parse_labels(task: Task, rows: Sequence[Row], takes_any_label: bool) -> Callable[[Row, str], str]:
    """Make the function that finds the label that a text of a row means."""
    texts = [_parse_label_text(row) for row in rows] if task.kind == "classification" else []
    by_index = bool(texts) and all(map(str.isdecimal, texts)) and not any(map(_NUMBER.fullmatch, task.labels))
    if by_index and (takes_any_label or len(task.labels) > 2):  # there is no one order of three that all agree on
        names = _show_labels(task)
        raise DataError(f"{rows[0].place} predicts {texts[0]!r}, an index, where the labels are {names}: write names")
    known = {str(number) if by_index else name: name for number, name in enumerate(task.labels)}

    def look_up(row: Row, text: str) -> str:
        name = known.get(text, known.get(text.strip()))
        if name is None and takes_any_label and text.strip():
            return text.strip()
        if name is None:
            labels = _show_labels(task)
            raise DataError(f"{row.place} predicts {text[:80]!r}, which is no label of the task: it has {labels}")
        return name

    return look_up


def _show_labels(task: Task) -> str:
    return ", ".join(list(task.labels)[:10]) + (", …" if len(task.labels) > 10 else "")


def _parse_all(
    task: Task, examples: Sequence[Example], rows: Sequence[Row], look_up: Callable[[Row, str], str]
) -> Iterator[Any]:
    match task.kind:
        case "classification":
            yield from (look_up(row, _parse_label_text(row)) for row in rows)
        case "multi-label":
            order = {name: number for number, name in enumerate(task.labels)}
            for row in rows:
                found = {look_up(row, text) for text in _parse_list(row, label_separator(task))}
                yield tuple(sorted(found, key=lambda name: (order.get(name, len(order)), name)))
        case "regression":
            yield from map(_parse_number, rows)
        case "questions":
            for row in rows:
                yield _expect(row, str, "a text, empty where there is no answer")
        case "tagging":
            yield from (_parse_tags(example, row, look_up) for example, row in zip(examples, rows, strict=True))
        case "choice":
            yield from (_parse_option(task, example, row) for example, row in zip(examples, rows, strict=True))


def _parse_label_text(row: Row) -> str:
    if isinstance(row.value, int) and not isinstance(row.value, bool):
        return str(row.value)
    return str(_expect(row, str, "the name of a label"))


def _parse_list(row: Row, separator: str | None) -> list[str]:
    """Names from a JSON list, or from a cell."""
    if isinstance(row.value, str):
        names = (name.strip() for name in row.value.split(separator))
        return [name for name in names if name]
    _expect(row, list, "a list of names")
    return [str(_expect(Row(row.place, None, name), str, "a list of names")) for name in row.value]


def _parse_tags(example: Example, row: Row, look_up: Callable[[Row, str], str]) -> tuple[str, ...]:
    assert isinstance(example, TaggedExample)
    tags = _parse_list(row, None)
    if len(tags) != len(example.words):
        raise DataError(f"{row.place} has {len(tags):,} tags for {len(example.words):,} words: give one for each")
    return tuple(look_up(row, tag) for tag in tags)


def _parse_number(row: Row) -> float:
    try:
        number = math.nan if isinstance(row.value, bool) else float(row.value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{row.place} predicts {str(row.value)[:80]!r}, which is not a finite number")
    return number


def _parse_option(task: Task, example: Example, row: Row) -> int:
    """An index from 0, as we write it ourselves, or a text that is read as the right answer in a table is."""
    assert isinstance(example, ChoiceExample)
    if isinstance(row.value, int) and not isinstance(row.value, bool):
        last = len(example.options) - 1
        if not 0 <= row.value <= last:
            raise DataError(f"{row.place} predicts {row.value}, which is no option: numbers count from 0 to {last}")
        return row.value
    text = str(_expect(row, str, "an option"))
    try:
        return find_option(text, example.options, task.columns or Columns(), "predicts")
    except BadRecordError as error:
        raise DataError(f"{row.place} {error}") from None


def _expect(row: Row, type_: type, what: str) -> Any:
    if not isinstance(row.value, type_):
        raise DataError(f"{row.place} predicts {str(row.value)[:80]!r}, where {what} must stand")
    return row.value


def _take_null_odds(rows: Sequence[Row]) -> tuple[float, ...] | None:
    given = [row for row in rows if NULL_ODDS in row.details]
    if not given:
        return None
    if len(given) < len(rows):
        place = next(row.place for row in rows if NULL_ODDS not in row.details)
        raise DataError(f"{place} has no {NULL_ODDS}, though others have: add it")
    return tuple(_parse_number(Row(row.place, None, row.details[NULL_ODDS])) for row in rows)
