"""Files of predictions: read from whoever made them, and written so that others can use them.

Predictions find their examples by id, or by position where a file has no ids. Which column is the prediction and which
the id is found by their names, since others' files have their own. A file is written under another name first and then
takes its own, so that it is there whole or not at all.
"""

import contextlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.errors import DataError, LitebertError, RequestError
from litebert.folders import PARTIAL
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.kind import FilePrediction, expect_number
from litebert.tasks.readers.glue import GLUE, GLUE_FOLDERS
from litebert.tasks.task import Example, Predictions, Task
from litebert.text.formats import format_of
from litebert.text.records import BadRecordError, RecordReader

__all__ = [
    "check_destination",
    "read_predictions",
    "render_rows",
    "write_glue_submission",
    "write_lines",
    "write_predictions",
    "write_squad_predictions",
]

NULL_ODDS = "null_odds"
"""The key of a row that says how likely there is no answer."""
_INDEX = re.compile("[0-9]{1,9}")
_ID_KEYS = ("id", "index", "guid", "idx", "qid", "question_id")
_ANSWER_KEYS = ("prediction", "predicted", "pred", "prediction_text")
_ASKED = ("text", "pair", "words", "question", "context", "passage", "options")
_LINE_END = re.compile(r"\r\n|[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class FileRow:
    """One prediction as a file has it, and where."""

    location: str
    id: str | None
    value: Any
    details: dict[str, Any] = field(default_factory=dict)


def read_predictions(
    task: Task,
    examples: Sequence[Example],
    file: Path,
    null_odds_file: Path | None = None,
    *,
    takes_any_label: bool = False,
) -> Predictions:
    """Read one prediction for each example from JSON lines, TSV or CSV (GLUE's too), SQuAD's JSON or lines of text.

    Each id must be there once and be known; each value must be an answer to the task. A second JSON file may hold the
    null odds by id. With `takes_any_label` the task's labels are only those that happen to be in the examples: others
    are taken as they are written, and indices are refused, since nobody knows what they count.
    """
    rows = _align(list(_read_rows(task, examples, file)), examples, file)
    given = [FilePrediction(row.location, row.value) for row in rows]
    answers = kind_of(task).parse_predictions(task, examples, given, takes_any_label)
    null_odds = _take_null_odds(rows)
    if null_odds_file is not None:
        odds = _align(list(_read_object(null_odds_file)), examples, null_odds_file)
        null_odds = tuple(expect_number(FilePrediction(row.location, row.value)) for row in odds)
    return Predictions(tuple(answers), tuple(row.details for row in rows), null_odds)


def _read_rows(task: Task, examples: Sequence[Example], file: Path) -> Iterator[FileRow]:
    """Read a file by its suffix; whether a table has a header is told by the ids of the examples."""
    match format_of(file)[0]:
        case "json":
            return _read_object(file)
        case "jsonl" | "parquet":
            return _read_objects(task, file)
        case "tsv" | "csv":
            return _read_table(task, {example.id for example in examples}, file)
        case "text":
            lines = RecordReader(file, skip_bad=None).lines()
            return (FileRow(f"{file}, {location},", None, line) for location, line in lines)
    raise RequestError(f"{file} must end in .jsonl, .tsv, .csv, .json (SQuAD's) or .txt, which says what it holds")


def _read_object(file: Path) -> Iterator[FileRow]:
    """Read `{id: value}`; an id that comes twice is given twice."""
    try:
        pairs = RecordReader(file).load_json(pairs=tuple)
    except BadRecordError as error:
        raise DataError(f"{file} {error}, and name JSON lines .jsonl") from None
    if not isinstance(pairs, tuple):
        raise DataError(f"{file} must hold one JSON object that gives each id its prediction")
    for id_, value in pairs:
        yield FileRow(f"{file}, id {id_!r},", id_, value)


def _read_objects(task: Task, file: Path) -> Iterator[FileRow]:
    for line, record in RecordReader(file, skip_bad=None):
        location = f"{file}, {line},"
        key, id_key = _find_key(task, record), _find_id(task, record)
        if key is None:
            raise DataError(f"{location} has no key 'prediction', nor one named 'label', 'answer' or 'score'")
        _refuse_rival(task, location, key, {name: record[name] for name in record if name != id_key})
        more = {name: value for name, value in record.items() if name not in (id_key, key, "label")}
        yield FileRow(location, None if id_key is None else str(record[id_key]), record[key], more)


def _read_table(task: Task, ids: set[str], file: Path) -> Iterator[FileRow]:
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
    has_indices = kind_of(task).writes_indices and key == "prediction" and "probabilities" in names
    for line, cells in rows if key is not None else itertools.chain([first], rows):
        location = f"{file}, {line},"
        if not cells and len(names) > 1:
            continue
        cells = cells or [""]
        if len(cells) != len(names):
            raise DataError(f"{location} has {len(cells)} columns instead of {len(names)}")
        if key is not None:
            others = (number for number in range(len(names)) if number != id_column)
            _refuse_rival(task, location, key, {names[number]: cells[number] for number in others})
        value = int(cells[column]) if has_indices and _INDEX.fullmatch(cells[column]) else cells[column]
        yield FileRow(location, None if id_column is None else cells[id_column], value)


def _find_key(task: Task, names: Sequence[str] | Mapping[str, Any]) -> str | None:
    """Which of the names is that of the prediction; others' files may hold several."""
    return next((key for key in (*_ANSWER_KEYS, *kind_of(task).prediction_keys) if key in names), None)


def _find_id(task: Task, names: Sequence[str] | Mapping[str, Any]) -> str | None:
    """Which of the names is that of the id: the one that the task's own tables have, or a usual one."""
    own = task.columns.id if task.columns is not None else None
    known = (own, own.lower()) if own is not None else ()
    return next((key for key in (*known, *_ID_KEYS) if key in names), None)


def _refuse_rival(task: Task, location: str, key: str, record: Mapping[str, Any]) -> None:
    """Ask which one is meant, where what is taken for the prediction may be the right label beside it."""
    if kind_of(task).answer_type != "label" or key in _ANSWER_KEYS:
        return
    rival = next((name for name, value in record.items() if name != key and str(value) in task.labels), None)
    if rival is not None:
        raise DataError(f"{location} has labels under {key!r} and under {rival!r}: call the one to score 'prediction'")


def _align(rows: list[FileRow], examples: Sequence[Example], file: Path) -> list[FileRow]:
    """Put rows in the order of the examples."""
    if all(row.id is None for row in rows):
        if len(rows) != len(examples):
            raise DataError(
                f"{file} holds {len(rows):,} predictions without ids for {len(examples):,} examples: give one for each"
            )
        return rows
    by_id: dict[str, FileRow] = {}
    known = {example.id for example in examples}
    if len(known) != len(examples):
        raise DataError(f"{file} gives predictions by id, but some examples have the same: make the ids differ")
    for row in rows:
        if row.id is None:
            raise DataError(f"{row.location} has no id, though others have: add it")
        if row.id not in known:
            raise DataError(f"{row.location} has the id {row.id!r}, which no example has: is it for other data?")
        if row.id in by_id:
            raise DataError(f"{row.location} gives the id {row.id!r} a second time: keep one of them")
        by_id[row.id] = row
    missing = [example for example in examples if example.id not in by_id]
    if missing:
        where = f" ({missing[0].location})" if missing[0].location else ""
        raise DataError(
            f"{file} has no prediction for {len(missing):,} of {len(examples):,} examples: "
            f"add them, first that of {missing[0].id!r}{where}"
        )
    return [by_id[example.id] for example in examples]


def _take_null_odds(rows: Sequence[FileRow]) -> tuple[float, ...] | None:
    given = [row for row in rows if NULL_ODDS in row.details]
    if not given:
        return None
    if len(given) < len(rows):
        location = next(row.location for row in rows if NULL_ODDS not in row.details)
        raise DataError(f"{location} has no {NULL_ODDS}, though others have: add it")
    return tuple(expect_number(FilePrediction(row.location, row.details[NULL_ODDS])) for row in rows)


def write_predictions(
    file: Path,
    task: Task,
    examples: Sequence[Example],
    predictions: Predictions,
    with_text: bool = False,
) -> None:
    """Write JSON lines or TSV, by the name's ending: id, prediction, label (where it is known), then the details.

    With `with_text`, what was asked stands beside the prediction.

    In TSV, tabs and line ends within a value become spaces; several labels stand as in the task's own tables, tags
    with spaces between them, and lists as JSON.
    """
    records = _make_records(task, examples, predictions, with_text)
    if file.suffix in (".jsonl", ".ndjson"):
        lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
    elif file.suffix == ".tsv":
        columns = list(dict.fromkeys(key for record in records for key in record))
        rows = ([_show(task, key, record.get(key, "")) for key in columns] for record in records)
        lines = ["\t".join(_LINE_END.sub(" ", cell) for cell in row) for row in (columns, *rows)]
    else:
        raise RequestError(f"predictions are written as .jsonl or .tsv: give {file} one of these endings")
    write_lines(file, lines)


def write_lines(file: Path, lines: Iterable[str]) -> int:
    """Write lines as they come, into a file that is there when all are; say how many they were."""
    partial, count = file.with_name(file.name + PARTIAL), 0
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as out:
            for line in lines:
                # Half a character, which JSON may hold, becomes JSON's escape.
                out.write(f"{line}\n".encode("utf-8", "backslashreplace"))
                count += 1
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LitebertError(f"cannot write {file}: {error.strerror or error}") from error
        raise
    return count


def check_destination(task: Task, file: Path | None, submission: Path | None) -> None:
    """Refuse a path that answers cannot be written to, before they are worked out."""
    if file is not None:
        endings = (".jsonl", ".ndjson", ".tsv", *([".json"] if kind_of(task).file_format == "squad" else []))
        if file.suffix not in endings:
            raise RequestError(f"predictions are written as .jsonl or .tsv: give {file} one of these endings")
        if file.is_dir():
            raise RequestError(f"{file} is a folder: name a file in it")
    if submission is not None and task.name not in GLUE:
        raise RequestError(f"GLUE has no task {task.name!r}: choose from {', '.join(GLUE)}")
    folder = submission if submission is not None else None if file is None else file.parent
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LitebertError(f"cannot write to {folder}: {error.strerror or error}") from error
        if not os.access(folder, os.W_OK):
            raise LitebertError(f"cannot write to {folder}: it is not yours; choose another folder")


def render_rows(
    task: Task, examples: Sequence[Example], predictions: Predictions, with_text: bool = False
) -> list[str]:
    """The same as JSON lines in memory, for standard output."""
    records = _make_records(task, examples, predictions, with_text)
    return [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]


def _make_records(
    task: Task, examples: Sequence[Example], predictions: Predictions, with_text: bool
) -> list[dict[str, Any]]:
    """Id, what was asked (if wanted), the prediction, the label (if known), and what speaks for the prediction."""
    details = predictions.details or ({},) * len(predictions.answers)
    _check_lengths(examples, predictions.answers, details)
    kind = kind_of(task)
    records: list[dict[str, Any]] = []
    for example, answer, more in zip(examples, predictions.answers, details, strict=True):
        record: dict[str, Any] = {"id": example.id}
        if with_text:
            asked = {name: getattr(example, name) for name in example.__slots__ if name in _ASKED}
            record |= {name: _to_plain(value) for name, value in asked.items() if value not in (None, "")}
        record["prediction"] = _to_plain(answer)
        gold = kind.gold(example)
        record |= {} if gold is None else {"label": _to_plain(gold)}
        assert not more.keys() & record.keys()
        records.append(record | {key: _to_plain(value) for key, value in more.items()})
    return records


def write_glue_submission(
    folder: Path, task: Task, split: str, examples: Sequence[Example], answers: Sequence[Any]
) -> Path:
    """Write the file that GLUE's site expects of a task, and give its path.

    MNLI has three: `MNLI-m.tsv`, `MNLI-mm.tsv` for the mismatched split, and `AX.tsv` for the file diagnostic.tsv.
    Scores of STS-B are kept within 0 and 5, to three decimals.
    """
    _check_lengths(examples, answers, None)
    if task.name not in GLUE:
        raise RequestError(f"GLUE has no task {task.name!r}: choose from {', '.join(GLUE)}")
    name, labels = GLUE_FOLDERS[task.name], GLUE[task.name].labels
    if task.name == "mnli":
        name = "AX" if split.startswith("diagnostic") else "MNLI-mm" if split.endswith("mismatched") else "MNLI-m"
    lines = ["index\tprediction"]
    for example, answer in zip(examples, answers, strict=True):
        if labels and answer not in labels:
            raise RequestError(f"GLUE's site knows no label {answer!r} of {name}: it takes {', '.join(labels)}")
        shown = answer if labels else f"{min(5.0, max(0.0, _finite(answer, example))):.3f}"
        lines.append(f"{example.id}\t{shown}")
    file = folder / f"{name}.tsv"
    write_lines(file, lines)
    return file


def write_squad_predictions(
    file: Path, examples: Sequence[Example], answers: Sequence[str], null_odds: Sequence[float] | None = None
) -> Path | None:
    """Write SQuAD's `{id: text}`; null odds go to a second file, `NAME_null_odds.json`, whose path is given."""
    _check_lengths(examples, answers, null_odds)
    ids = [example.id for example in examples]
    if len(set(ids)) != len(ids):
        raise RequestError("two questions have the same id, which SQuAD's file of predictions cannot hold: rename one")
    write_lines(file, [json.dumps(dict(zip(ids, answers, strict=True)), ensure_ascii=False, indent=1)])
    if null_odds is None:
        return None
    second = file.with_name(f"{file.stem}_{NULL_ODDS}.json")
    odds = {example.id: _finite(value, example) for example, value in zip(examples, null_odds, strict=True)}
    write_lines(second, [json.dumps(odds, indent=1)])
    return second


def _check_lengths(examples: Sized, answers: Sized, more: Sized | None) -> None:
    for count in (len(answers), len(answers if more is None else more)):
        if count != len(examples):
            raise RequestError(f"there are {count:,} predictions for {len(examples):,} examples: give one for each")


def _finite(value: Any, example: Example) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise RequestError(f"the prediction for {example.id!r} is {number}: only finite numbers can be written")
    return number


def _to_plain(value: Any) -> Any:
    """Lists, dictionaries and numbers that JSON can hold; it has no NaN and no infinity, which become null."""
    if hasattr(value, "tolist"):  # of NumPy and PyTorch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _show(task: Task, key: str, value: Any) -> str:
    """A value as a cell of a table."""
    if isinstance(value, str):
        return value
    shown = kind_of(task).show_cell(task, value) if key in ("prediction", "label") else None
    return json.dumps(value, ensure_ascii=False) if shown is None else shown
