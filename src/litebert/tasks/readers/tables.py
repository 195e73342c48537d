"""A user's own data as examples: CSV, tab-separated values, JSON lines, CoNLL, SQuAD's JSON, each also compressed.

`read_table` reads a file for a kind of task, `guess_kind` says which kind a file looks like, and `make_task` collects
its labels. What is wrong is said in one sentence with file and line.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.tasks.cells import Cells, example_maker, read_number, wanted_columns
from litebert.tasks.readers.squad import read_squad
from litebert.tasks.records import (
    BadRecordError,
    Sieve,
    check_width,
    find_column,
    load_json,
    quote,
    read_lines,
    read_objects,
    read_rows,
    suffix_of,
)
from litebert.tasks.task import Columns, DataError, Example, Kind, QuestionExample, TaggedExample, Task, TextExample

__all__ = ["Table", "guess_kind", "list_columns", "make_task", "read_table", "sort_labels"]

_CONLL = (".conll", ".conll2003", ".iob", ".iob2", ".bio")
_OBJECTS = (".jsonl", ".ndjson", ".json")
_READABLE = ".csv, .tsv, .jsonl or .json (sentences with tags also .conll), each also with .gz or .zst"
_NUM_LOOKED_AT = 1000
_MOST_LABELS = 100_000
_MOSTLY = 0.9
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_BETWEEN_CELLS = re.compile(r"[ \t]+")
_METRICS: dict[Kind, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1"),
    "multi-label": ("micro_f1", "macro_f1"),
    "regression": ("pearson", "spearman"),
    "tagging": ("entity_f1", "accuracy"),
    "questions": ("f1", "exact"),
    "choice": ("accuracy",),
}


@dataclass(frozen=True)
class Table:
    """The examples of a file, and how many bad records were left out."""

    examples: list[Example]
    num_skipped: int = 0


def read_table(
    file: Path,
    kind: Kind,
    columns: Columns,
    *,
    skip_bad: bool = False,
    labels: tuple[str, ...] | None = None,
    with_labels: bool = True,
) -> Table:
    """Read a file for a kind of task, from the columns that are named.

    The first bad record is an error, unless `skip_bad` asks to count them. If `labels` are given, a record with
    another one is bad; without `with_labels` the answers are neither needed nor looked at, as for predictions.
    """
    suffix = suffix_of(file)
    sieve = Sieve(file, skip_bad)
    examples: list[Example]
    if kind == "questions":
        if suffix != ".json":
            raise RequestError(f"{file} cannot hold questions about contexts: write them as SQuAD's JSON, into a .json")
        examples = [*_read_questions(sieve, with_labels)]
    elif kind == "tagging" and suffix not in (".csv", ".tsv", *_OBJECTS):
        examples = [*_read_conll(sieve, with_labels, labels)]
    else:
        make = example_maker(kind, columns, with_labels, labels)
        examples = sieve.sift(_read_cells(sieve, wanted_columns(kind, columns, with_labels)), make)
    if not examples:
        bad_ones = "1 bad one" if sieve.num_skipped == 1 else f"{sieve.num_skipped:,} bad ones"
        skipped = f" ({bad_ones} left out)" if sieve.num_skipped else ""
        raise DataError(f"{file} has no examples that can be used{skipped}: add some")
    return Table(examples, sieve.num_skipped)


def list_columns(file: Path) -> list[str]:
    """The names of a table's columns: the cells of its first row, or the keys of its first JSON object."""
    sieve = Sieve(file, skip_bad=True)
    if suffix_of(file) in _OBJECTS:
        return list(next(read_objects(sieve), ("", {}))[1])
    rows = read_rows(sieve, is_csv=suffix_of(file) == ".csv", has_header=False)
    return [name.strip() for name in next(rows, ("", []))[1]]


def _read_cells(sieve: Sieve, wanted: Sequence[str]) -> Iterator[tuple[str, Cells]]:
    """Give the records of a table as cells by name."""
    suffix = suffix_of(sieve.file)
    if suffix in _OBJECTS:
        yield from read_objects(sieve)
        return
    if suffix not in (".csv", ".tsv"):
        raise RequestError(f"{sieve.file} has no suffix that tells its format: name it {_READABLE}")
    rows = read_rows(sieve, is_csv=suffix == ".csv")
    first = next(rows, None)
    if first is None:
        raise DataError(f"{sieve.file} is empty: its first line should name the columns")
    where, header = first
    header = [name.strip() for name in header]
    places = [(name, find_column(header, name, sieve.file, where)) for name in wanted]
    for where, cells in rows:
        try:
            check_width(cells, len(header))
        except BadRecordError as error:
            sieve.refuse(where, str(error))
        else:
            yield where, {name: cells[place] for name, place in places}


def _read_questions(sieve: Sieve, with_answers: bool) -> list[QuestionExample]:
    examples, num_bad = read_squad(sieve.file, skip_bad=sieve.skip_bad, with_answers=with_answers)
    sieve.num_skipped += num_bad
    kept = []
    for example in examples:
        if with_answers and example.answers is None:
            sieve.refuse(f"question {quote(example.id)}", "has no answers: add them")
        else:
            kept.append(example)
    return kept


def _read_conll(sieve: Sieve, with_labels: bool, labels: tuple[str, ...] | None) -> list[TaggedExample]:
    """Read sentences of lines with a word first and its tag last; a bad line spoils its sentence."""

    def make(number: str, rows: list[list[str]], place: str) -> TaggedExample:
        words = tuple(cells[0] for cells in rows)
        return TaggedExample(number, words, tuple(cells[-1] for cells in rows) if with_labels else None, place)

    return sieve.sift(_read_sentences(sieve, with_labels, labels), make)


def _read_sentences(
    sieve: Sieve, with_labels: bool, labels: tuple[str, ...] | None
) -> Iterator[tuple[str, list[list[str]]]]:
    rows: list[list[str]] = []
    first = width = 0
    is_bad = False
    for number, line in enumerate(itertools.chain(read_lines(sieve), [b"\n"]), 1):
        cells, fault = _split_line(line)
        if not fault and (not cells or cells[0] == "-DOCSTART-"):
            if rows and not is_bad:
                yield f"line {first}", rows
            rows, is_bad = [], False
            continue
        width = width or len(cells)
        if not fault and len(cells) != width:
            fault = f"has {len(cells)} columns where earlier lines have {width}: mend it"
        if not fault and with_labels and width < 2:
            fault = "has one column where a word and its tag should be: add the tags"
        if not fault and with_labels and labels is not None and cells[-1] not in labels:
            fault = f"has the tag {quote(cells[-1])}, which is none of {', '.join(map(quote, labels[:30]))}: mend it"
        if fault and not is_bad:
            sieve.refuse(f"line {number}", fault)
            is_bad = True
        first = first if rows else number
        rows.append(cells)


def _split_line(line: bytes | None) -> tuple[list[str], str]:
    """Split a line at blanks and tabs (other white space may be a word), or say what is wrong with it."""
    if line is None:
        return [], "is longer than a line may be: split it"
    if b"\0" in line:
        return [], "holds a NUL character, which no text has: mend it"
    try:
        text = line.decode().strip(" \t\r\n")
    except UnicodeDecodeError:
        return [], "is not UTF-8: convert the file (iconv -t UTF-8, with -f LATIN1, UTF-16 or whatever it is)"
    return _BETWEEN_CELLS.split(text) if text else [], ""


def guess_kind(file: Path, columns: Columns) -> Kind:
    """Say which kind of task a file is for, by its name, the named columns and its first thousand labels.

    Numbers are taken for scores only if some of them are no integers, and then even if a few labels are none, so that
    these are noticed; several labels in a cell have to be asked for, unless they are a list in JSON.
    """
    if suffix_of(file) in _CONLL:
        return "tagging"
    if columns.options:
        return "choice"
    if suffix_of(file) == ".json" and _is_squad(file):
        return "questions"
    sieve = Sieve(file, skip_bad=True)
    records = itertools.islice(_read_cells(sieve, (columns.text, columns.label)), _NUM_LOOKED_AT)
    looked_at = [(cells.get(columns.text), cells[columns.label]) for _, cells in records if columns.label in cells]
    if any(isinstance(label, list) for _, label in looked_at):
        return "tagging" if any(isinstance(text, list) for text, _ in looked_at) else "multi-label"
    labels = [label for _, label in looked_at if label is not None and str(label).strip()]
    numbers = [read_number(label, may_be_infinite=True) for label in labels]
    known = [number for number in numbers if number is not None]
    has_fractions = any(math.isfinite(number) and not number.is_integer() for number in known)
    return "regression" if has_fractions and len(known) >= _MOSTLY * len(labels) else "classification"


def _is_squad(file: Path) -> bool:
    try:
        value = load_json(Sieve(file))
    except BadRecordError:
        return False
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def make_task(name: str, kind: Kind, columns: Columns, examples: Sequence[Example], *, is_learnt: bool = True) -> Task:
    """Make the task of a user's own data: its labels are those of the examples.

    Where it is to be learnt from them, there must be two labels at least.
    """
    if not examples:
        raise DataError(f"{name} has no training examples: add some")
    if is_learnt:
        _check_learnable(name, kind, examples)
    labels = sort_labels({label for example in examples for label in _labels_of(example)})
    if len(labels) > _MOST_LABELS:
        raise DataError(f"{name} has {len(labels):,} labels, and {_MOST_LABELS:,} are possible: is it another column?")
    metrics = _METRICS[kind]
    if kind == "classification" and len(labels) == 2:
        metrics = (*metrics, "matthews")
    return Task(
        name=name,
        kind=kind,
        labels=labels,
        metrics=metrics,
        is_pair=columns.pair is not None or kind in ("questions", "choice"),
        has_unanswerable=any(isinstance(one, QuestionExample) and one.answers == () for one in examples),
        columns=None if kind == "questions" else columns,
    )


def sort_labels(labels: Collection[str]) -> tuple[str, ...]:
    """Labels in alphabetical order, or in that of the numbers if all of them are numbers.

    >>> sort_labels({"10", "9", "-1"}), sort_labels({"10", "9", "x"})
    (('-1', '9', '10'), ('10', '9', 'x'))
    """
    if all(_NUMBER.fullmatch(label) for label in labels):
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    return tuple(sorted(labels))


def _check_learnable(name: str, kind: Kind, examples: Sequence[Example]) -> None:
    if kind in ("questions", "choice"):
        return
    found: dict[Any, None] = {}
    for example in examples:
        is_score = isinstance(example, TextExample) and isinstance(example.label, float)
        found.update(dict.fromkeys([example.label] if is_score else _labels_of(example)))  # type: ignore[union-attr]
    what, advice = ("score", "others") if kind == "regression" else ("label", "examples of another class")
    if not found:
        raise DataError(f"the training examples of {name} have no {what}s: name the column that holds them")
    is_same = kind != "multi-label" or all(_labels_of(example) for example in examples)
    if len(found) == 1 and is_same:
        raise DataError(f"only the {what} {quote(*found)} occurs in the training examples of {name}: add {advice}")


def _labels_of(example: Example) -> tuple[str, ...]:
    if isinstance(example, TaggedExample):
        return example.tags or ()
    label = example.label if isinstance(example, TextExample) else None
    return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()
