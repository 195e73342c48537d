"""Files of predictions, row by row: JSON lines, tables with or without a header, SQuAD's JSON, lines of text.

Which column is the prediction and which the id is found by their names, since others' files have their own.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.tasks.task import DataError, Example, Task
from litebert.text.formats import format_of
from litebert.text.records import BadRecordError, RecordReader

__all__ = ["Row", "read_object", "read_rows"]

_INDEX = re.compile("[0-9]{1,9}")
_ID_KEYS = ("id", "index", "guid", "idx", "qid", "question_id")
_ANSWER_KEYS = ("prediction", "predicted", "pred", "prediction_text")


@dataclass(frozen=True)
class Row:
    """One prediction as a file has it, and where."""

    place: str
    id: str | None
    value: Any
    details: dict[str, Any] = field(default_factory=dict)


def read_rows(task: Task, examples: Sequence[Example], file: Path) -> Iterator[Row]:
    """Read a file by its suffix; whether a table has a header is told by the ids of the examples."""
    match format_of(file)[0]:
        case "json":
            return read_object(file)
        case "jsonl" | "parquet":
            return _read_objects(task, file)
        case "tsv" | "csv":
            return _read_table(task, {example.id for example in examples}, file)
        case "text":
            return (
                Row(f"{file}, {location},", None, line) for location, line in RecordReader(file, skip_bad=None).lines()
            )
    raise RequestError(f"{file} must end in .jsonl, .tsv, .csv, .json (SQuAD's) or .txt, which says what it holds")


def read_object(file: Path) -> Iterator[Row]:
    """Read `{id: value}`; an id that comes twice is given twice."""
    try:
        pairs = RecordReader(file).load_json(pairs=tuple)
    except BadRecordError as error:
        raise DataError(f"{file} {error}, and name JSON lines .jsonl") from None
    if not isinstance(pairs, tuple):
        raise DataError(f"{file} must hold one JSON object that gives each id its prediction")
    for id_, value in pairs:
        yield Row(f"{file}, id {id_!r},", id_, value)


def _read_objects(task: Task, file: Path) -> Iterator[Row]:
    for location, record in RecordReader(file, skip_bad=None):
        place = f"{file}, {location},"
        key, id_key = _find_key(task, record), _find_id(task, record)
        if key is None:
            raise DataError(f"{place} has no key 'prediction', nor one named 'label', 'answer' or 'score'")
        _refuse_rival(task, place, key, {name: record[name] for name in record if name != id_key})
        more = {name: value for name, value in record.items() if name not in (id_key, key, "label")}
        yield Row(place, None if id_key is None else str(record[id_key]), record[key], more)


def _read_table(task: Task, ids: set[str], file: Path) -> Iterator[Row]:
    reader = RecordReader(file, skip_bad=None)
    # In tab-separated values a blank line may be an empty prediction; CSV would have quotes there.
    rows = reader.rows(keep_blank=reader.format == "tsv")
    first = next(((location, cells or [""]) for location, cells in rows), None)
    if first is None:
        return
    names = [cell.strip().lower() for cell in first[1]]
    key = _find_key(task, names) if first[1][0] not in ids else None
    if key is not None:
        id_key = _find_id(task, names)
        id_column = None if id_key is None else names.index(id_key)
        column = names.index(key)
    elif len(names) <= 2:
        id_column, column = (0 if len(names) == 2 else None), len(names) - 1
    else:
        there = f"as there are {len(names)}"
        raise DataError(f"{file}, {first[0]}, must name the columns, among them id and prediction, {there}")
    # Our own tables have probabilities: their options are indices, which a text need not be.
    has_indices = task.kind == "choice" and key == "prediction" and "probabilities" in names
    for location, cells in rows if key is not None else itertools.chain([first], rows):
        place = f"{file}, {location},"
        if not cells and len(names) > 1:
            continue
        cells = cells or [""]
        if len(cells) != len(names):
            raise DataError(f"{place} has {len(cells)} columns instead of {len(names)}")
        if key is not None:
            others = (number for number in range(len(names)) if number != id_column)
            _refuse_rival(task, place, key, {names[number]: cells[number] for number in others})
        value = int(cells[column]) if has_indices and _INDEX.fullmatch(cells[column]) else cells[column]
        yield Row(place, None if id_column is None else cells[id_column], value)


def _find_key(task: Task, names: Sequence[str] | Mapping[str, Any]) -> str | None:
    """Which of the names is that of the prediction; others' files may hold several."""
    preferred = {"regression": "score", "questions": "answer"}.get(task.kind, "label")
    return next((key for key in (*_ANSWER_KEYS, preferred, "label", "answer", "score") if key in names), None)


def _find_id(task: Task, names: Sequence[str] | Mapping[str, Any]) -> str | None:
    """Which of the names is that of the id: the one that the task's own tables have, or a usual one."""
    own = task.columns.id if task.columns is not None else None
    known = (own, own.lower()) if own is not None else ()
    return next((key for key in (*known, *_ID_KEYS) if key in names), None)


def _refuse_rival(task: Task, place: str, key: str, record: Mapping[str, Any]) -> None:
    """Ask which one is meant, where what is taken for the prediction may be the right label beside it."""
    if task.kind != "classification" or key in _ANSWER_KEYS:
        return
    rival = next((name for name, value in record.items() if name != key and str(value) in task.labels), None)
    if rival is not None:
        raise DataError(f"{place} has labels under {key!r} and under {rival!r}: call the one to score 'prediction'")
