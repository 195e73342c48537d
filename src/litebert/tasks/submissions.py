"""Files of predictions that others can use: JSON lines or TSV, and what GLUE's and SQuAD's sites ask for.

A file is written beside its place first and then takes its name, so that it is there whole or not at all.
"""

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from litebert.errors import LitebertError, RequestError
from litebert.folders import PARTIAL
from litebert.tasks.metrics import gold_answer
from litebert.tasks.readers.glue import GLUE, GLUE_FOLDERS
from litebert.tasks.task import Example, Task

__all__ = [
    "NULL_ODDS",
    "check_destination",
    "label_separator",
    "render_rows",
    "write_glue_submission",
    "write_predictions",
    "write_squad_predictions",
]

NULL_ODDS = "null_odds"
"""The key of a row that says how likely there is no answer."""
_LINE_END = re.compile(r"\r\n|[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def write_predictions(
    file: Path,
    task: Task,
    examples: Sequence[Example],
    answers: Sequence[Any],
    details: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write JSON lines or TSV, by the name's ending: id, prediction, label (where it is known), then the details.

    In TSV, tabs and line ends within a value become spaces; several labels stand as in the task's own tables, tags
    with spaces between them, and lists as JSON.
    """
    records = _make_records(examples, answers, details)
    if file.suffix in (".jsonl", ".ndjson"):
        lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
    elif file.suffix == ".tsv":
        columns = list(dict.fromkeys(key for record in records for key in record))
        rows = ([_show(task, key, record.get(key, "")) for key in columns] for record in records)
        lines = ["\t".join(_LINE_END.sub(" ", cell) for cell in row) for row in (columns, *rows)]
    else:
        raise RequestError(f"predictions are written as .jsonl or .tsv: give {file} one of these endings")
    _write_whole(file, "".join(line + "\n" for line in lines))


def check_destination(task: Task, file: Path | None, submission: Path | None) -> None:
    """Refuse a place that answers cannot be written to, before they are worked out."""
    if file is not None:
        endings = (".jsonl", ".ndjson", ".tsv", *([".json"] if task.kind == "questions" else []))
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
            raise LitebertError(f"cannot write to {folder}: it is not yours; choose another place")


def render_rows(
    examples: Sequence[Example], answers: Sequence[Any], details: Sequence[Mapping[str, Any]] | None = None
) -> list[str]:
    """The same as JSON lines in memory, for standard output."""
    records = _make_records(examples, answers, details)
    return [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]


def _make_records(
    examples: Sequence[Example], answers: Sequence[Any], details: Sequence[Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    _check_lengths(examples, answers, details)
    records: list[dict[str, Any]] = []
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        record = {"id": example.id, "prediction": _to_plain(answer)}
        gold = gold_answer(example)
        record |= {} if gold is None else {"label": _to_plain(gold)}
        more = details[number] if details is not None else {}
        assert not more.keys() & {"id", "prediction", "label"}
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
    _write_whole(file, "\n".join(lines) + "\n")
    return file


def write_squad_predictions(
    file: Path, examples: Sequence[Example], answers: Sequence[str], null_odds: Sequence[float] | None = None
) -> Path | None:
    """Write SQuAD's `{id: text}`; null odds go to a second file, `NAME_null_odds.json`, whose path is given."""
    _check_lengths(examples, answers, null_odds)
    ids = [example.id for example in examples]
    if len(set(ids)) != len(ids):
        raise RequestError("two questions have the same id, which SQuAD's file of predictions cannot hold: rename one")
    _write_whole(file, json.dumps(dict(zip(ids, answers, strict=True)), ensure_ascii=False, indent=1) + "\n")
    if null_odds is None:
        return None
    second = file.with_name(f"{file.stem}_{NULL_ODDS}.json")
    odds = {example.id: _finite(value, example) for example, value in zip(examples, null_odds, strict=True)}
    _write_whole(second, json.dumps(odds, indent=1) + "\n")
    return second


def label_separator(task: Task) -> str:
    """What stands between several labels in one cell of a table."""
    return task.columns.separator if task.columns is not None else ","


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
    if key in ("prediction", "label") and task.kind in ("multi-label", "tagging"):
        separator = label_separator(task) if task.kind == "multi-label" else " "
        mixed = next((name for name in value if separator in name), None)
        if mixed is not None:
            raise RequestError(f"a table cannot hold the label {mixed!r}, as {separator!r} parts labels: write .jsonl")
        return separator.join(value)
    return json.dumps(value, ensure_ascii=False)


def _write_whole(file: Path, text: str) -> None:
    partial = file.with_name(file.name + PARTIAL)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as out:
            out.write(
                text.encode("utf-8", "backslashreplace")
            )  # half a character, which JSON may hold, as JSON's escape
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise LitebertError(f"cannot write {file}: {error.strerror or error}") from error
