"""GLUE's nine tasks as one table of rows, and the one reader of their official folders.

The folders differ in their traps: CoLA has no header, MRPC may begin with a byte order mark and has its labels in the
first column, MNLI has two dev sets, QQP has broken lines. Columns are found by name and quotes are literal.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from litebert.errors import RequestError
from litebert.tasks.task import Columns, DataError, Dataset, Example, Recipe, Task, TextExample
from litebert.text.records import BadRecordError, KnownFlawError, RecordReader, check_width, quote, take_text

__all__ = ["GLUE", "GLUE_COLUMNS", "GLUE_FOLDERS", "GLUE_SPLITS", "NO_GOLD", "read_glue", "read_glue_file"]

NO_GOLD = "-"
"""MNLI: the label of a pair on which people did not agree."""

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
_ACCURACY = ("accuracy",)
_WITH_F1 = ("accuracy", "f1")
_FILES: dict[str, tuple[str, ...]] = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_MRPC_FILES: dict[str, tuple[str, ...]] = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "dev": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}
_MNLI_FILES: dict[str, tuple[str, ...]] = {
    "train": ("train.tsv",),
    "dev": ("dev_matched.tsv",),
    "dev_mismatched": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}
_COLA_HEADER = ["source", "label", "star", "sentence"]
_BEST_SCORE = 5.0


@dataclass(frozen=True)
class _Row:
    """A task of GLUE: its folder, the columns of its files, its labels (none for scores), metrics and recipe."""

    folder: str
    text: str
    pair: str | None
    label: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    recipe: Recipe
    index: str = "index"
    files: dict[str, tuple[str, ...]] = field(default_factory=lambda: _FILES)

    def make_task(self, name: str) -> Task:
        return Task(
            name=name,
            kind="classification" if self.labels else "regression",
            labels=self.labels,
            metrics=self.metrics,
            is_pair=self.pair is not None,
            recipe=self.recipe,
        )


def _recipe(lr: float, batch_size: int, dropout: float, steps: int, warmup_steps: int) -> Recipe:
    return Recipe(lr=lr, batch_size=batch_size, dropout=dropout, steps=steps, warmup_steps=warmup_steps, max_length=512)


# fmt: off
_ROWS = {
    "cola": _Row("CoLA", "sentence", None, "label", _BINARY, ("matthews",), _recipe(1e-5, 16, 0.0, 5336, 320)),
    "sst-2": _Row("SST-2", "sentence", None, "label", _BINARY, _ACCURACY, _recipe(1e-5, 32, 0.0, 20935, 1256)),
    "mrpc": _Row("MRPC", "#1 String", "#2 String", "Quality", _BINARY, _WITH_F1, _recipe(2e-5, 32, 0.0, 800, 200),
                 files=_MRPC_FILES),
    "sts-b": _Row("STS-B", "sentence1", "sentence2", "score", (), ("pearson", "spearman"),
                  _recipe(2e-5, 16, 0.0, 3598, 214)),
    "qqp": _Row("QQP", "question1", "question2", "is_duplicate", _BINARY, _WITH_F1,
                _recipe(5e-5, 128, 0.1, 14000, 1000), index="id"),
    "mnli": _Row("MNLI", "sentence1", "sentence2", "gold_label", _NLI, _ACCURACY, _recipe(3e-5, 128, 0.0, 10000, 1000),
                 files=_MNLI_FILES),
    "qnli": _Row("QNLI", "question", "sentence", "label", _ENTAILMENT, _ACCURACY, _recipe(1e-5, 32, 0.0, 33112, 1986)),
    "rte": _Row("RTE", "sentence1", "sentence2", "label", _ENTAILMENT, _ACCURACY, _recipe(3e-5, 32, 0.1, 800, 200)),
    "wnli": _Row("WNLI", "sentence1", "sentence2", "label", _BINARY, _ACCURACY, _recipe(2e-5, 16, 0.1, 2000, 250)),
}
# fmt: on

GLUE: dict[str, Task] = {name: row.make_task(name) for name, row in _ROWS.items()}
"""The nine tasks, with the recipes of the ALBERT paper's Table 14."""

GLUE_COLUMNS: dict[str, Columns] = {
    name: Columns(text=row.text, pair=row.pair, label=row.label, id=row.index) for name, row in _ROWS.items()
}
"""What the columns of each task's files are called."""

GLUE_FOLDERS: dict[str, str] = {name: row.folder for name, row in _ROWS.items()}
"""What the folder of each task is called; files for GLUE's site have the same names."""

GLUE_SPLITS: dict[str, tuple[str, ...]] = {name: tuple(row.files) for name, row in _ROWS.items()}
"""The splits that each task has."""


@dataclass(frozen=True)
class _Layout:
    """What is to be expected of a file."""

    is_test: bool = False
    """Labels may be missing, and texts may be empty."""
    has_flaws: bool = False
    """Broken lines are known to be there, and are left out."""
    labels: Literal["needed", "optional", "ignored"] = "needed"


def read_glue(name: str, folder: Path, *, splits: Sequence[str] | None = None, skip_bad: bool = False) -> Dataset:
    """Read a task from its official folder, or from the folder that holds all of GLUE's.

    Without `splits`, every split is read that is there. Two things of the official files are no errors: pairs of MNLI
    on whose label people did not agree are left out, and the few broken lines of QQP are left out and counted.
    """
    if name not in _ROWS:
        raise RequestError(f"{name!r} is no task of GLUE: choose one of {', '.join(_ROWS)}")
    row = _ROWS[name]
    home = folder / row.folder if (folder / row.folder).is_dir() else folder
    files = _find_files(name, home, splits)
    read: dict[str, Sequence[Example]] = {}
    num_skipped = 0
    for split, file in files.items():
        reader = _open(row, file, skip_bad)
        read[split] = _read_split(row, reader, _layout_of(name, split, with_labels=True))
        num_skipped += reader.num_skipped
    return Dataset(GLUE[name], read, num_skipped)


def read_glue_file(
    name: str, file: Path, split: str, *, with_labels: bool = True, skip_bad: bool = False
) -> tuple[list[TextExample], int]:
    """Read one file in a task's official layout, and say how many bad records were left out.

    `split` decides on the layout: `test` needs no labels. A name that is no split of the task is a user's own file,
    in which no flaw is known, and whose labels are not looked at without `with_labels`.
    """
    reader = _open(_ROWS[name], file, skip_bad)
    return _read_split(_ROWS[name], reader, _layout_of(name, split, with_labels)), reader.num_skipped


def _layout_of(name: str, split: str, with_labels: bool) -> _Layout:
    if split not in _ROWS[name].files:
        return _Layout(labels="needed" if with_labels else "ignored")
    is_test = split.startswith("test")
    return _Layout(is_test, name == "qqp" and not is_test, "optional" if is_test or not with_labels else "needed")


def _find_files(name: str, home: Path, splits: Sequence[str] | None) -> dict[str, Path]:
    known = _ROWS[name].files
    found: dict[str, Path] = {}
    for split in known if splits is None else splits:
        if split not in known:
            raise RequestError(f"{name} has no split {split!r}: its splits are {', '.join(known)}")
        there = [home / file for file in known[split] if (home / file).is_file()]
        if there:
            found[split] = there[0]
        elif splits is not None:
            raise DataError(f"{home / known[split][0]} is not there: name the folder of {name}'s official files")
    if not found:
        first = " or ".join(file for files in known.values() for file in files[:1])
        raise DataError(f"{home} holds none of {name}'s files ({first}): name the folder of its official files")
    return found


def _open(row: _Row, file: Path, skip_bad: bool) -> RecordReader:
    return RecordReader(file, format="tsv", header=row.folder != "CoLA", skip_bad=skip_bad)


def _read_split(row: _Row, reader: RecordReader, layout: _Layout) -> list[TextExample]:
    rows = reader.rows()
    first = next(rows, None)
    examples: list[TextExample] = []
    if first is not None:
        location, header = first
        if not reader.header and row.text not in header[:2]:  # CoLA's test set alone has a header
            header, rows = _COLA_HEADER, itertools.chain([first], rows)
        examples = reader.convert(rows, _maker(row, header, reader, location, layout))
    if not examples:
        raise DataError(f"{reader.name} has no examples that can be used: get the file again")
    return examples


def _maker(
    row: _Row, header: list[str], reader: RecordReader, location: str, layout: _Layout
) -> Callable[[str, list[str], str], TextExample | None]:
    """Make the function that turns cells into an example, for a file with this header."""
    text_at = reader.find_column(header, row.text, location)
    pair_at = None if row.pair is None else reader.find_column(header, row.pair, location)
    has_label = layout.labels == "needed" or (layout.labels == "optional" and row.label in header)
    label_at = reader.find_column(header, row.label, location) if has_label else None
    index_at = header.index(row.index) if row.index in header else None
    width = len(header)

    def make(number: str, cells: list[str], location: str) -> TextExample | None:
        if layout.has_flaws and (len(cells) < width or not (cells[text_at] and cells[pair_at or 0])):
            raise KnownFlawError
        check_width(cells, width)
        label = None if label_at is None else _read_label(cells[label_at], row)
        if label == NO_GOLD and layout.labels == "needed":
            return None
        label = None if label == NO_GOLD else label
        # A submission has to answer every line, so that a test set keeps even one without text.
        text = take_text(cells[text_at], row.text, may_be_empty=layout.is_test)
        pair = None if pair_at is None else take_text(cells[pair_at], row.pair or "", may_be_empty=layout.is_test)
        return TextExample(number if index_at is None else cells[index_at], text, pair, label, location)

    return make


def _read_label(cell: str, row: _Row) -> str | float:
    if row.labels:
        if cell not in row.labels and not (cell == NO_GOLD and row.labels is _NLI):
            raise BadRecordError(f"has the label {quote(cell)}, which is none of {', '.join(row.labels)}: mend it")
        return cell
    try:
        score = float(cell)
    except ValueError:
        score = -1.0
    if not 0.0 <= score <= _BEST_SCORE:
        raise BadRecordError(f"has {quote(cell)} for a score, which is no number from 0 to 5: mend it")
    return score
