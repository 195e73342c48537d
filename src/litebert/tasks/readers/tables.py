"""A user's own data as examples: tables in every format, CoNLL, SQuAD's JSON, or tables in memory.

`read_table` reads one for a kind of task, `guess_kind` says which kind it looks like, and `make_task` collects its
labels. What is wrong is said in one sentence with file and line.
"""

import itertools
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.errors import RequestError
from litebert.tasks.kinds import find_kind
from litebert.tasks.kinds.kind import Cells, Kind, check_allowed, read_id, read_number
from litebert.tasks.readers.squad import read_squad
from litebert.tasks.task import Columns, DataError, Example, QuestionExample, TaggedExample, Task
from litebert.text.records import BadRecordError, Fields, RecordReader, RecordSource, quote

__all__ = [
    "Table",
    "example_maker",
    "find_pair",
    "guess_kind",
    "list_columns",
    "make_task",
    "read_table",
    "sort_labels",
]

_NUM_LOOKED_AT = 1000
_MOST_LABELS = 100_000
_MOSTLY = 0.9
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Table:
    """The examples of a file, and how many bad records were left out."""

    examples: list[Example]
    num_skipped: int = 0


def read_table(
    source: RecordSource,
    kind: str,
    columns: Columns,
    *,
    skip_bad: bool = False,
    labels: tuple[str, ...] | None = None,
    with_labels: bool = True,
    format: str | None = None,
    header: bool = True,
) -> Table:
    """Read a table for a kind of task, from the columns that are named.

    The first bad record is an error, unless `skip_bad` asks to count them. If `labels` are given, a record with
    another one is bad; without `with_labels` the answers are neither needed nor looked at, as for predictions.
    """
    reader = RecordReader(source, format=format, header=header, skip_bad=skip_bad)
    how = find_kind(kind)
    if how.file_format == "conll" and reader.format in (None, "text"):
        reader = RecordReader(source, format="conll", skip_bad=skip_bad)
    examples: list[Example]
    if how.file_format == "squad":
        if reader.format != "json" or reader.path is None:
            advice = "write them as SQuAD's JSON, into a .json"
            raise RequestError(f"{reader.name} cannot hold questions about contexts: {advice}")
        examples = [*_read_questions(reader.path, reader, skip_bad, with_labels)]
    elif how.file_format == "conll" and reader.format == "conll":
        examples = [*_read_conll(reader, with_labels, labels)]
    else:
        _refuse_text(reader)
        make = example_maker(how, columns, with_labels, labels)
        examples = reader.convert(reader.records(how.wanted_columns(columns, with_labels)), make)
        if not examples and reader.columns is None and reader.format in ("csv", "tsv"):
            raise DataError(f"{reader.name} is empty: its first line should name the columns")
    if not examples:
        bad_ones = "1 bad one" if reader.num_skipped == 1 else f"{reader.num_skipped:,} bad ones"
        skipped = f" ({bad_ones} left out)" if reader.num_skipped else ""
        raise DataError(f"{reader.name} has no examples that can be used{skipped}: add some")
    return Table(examples, reader.num_skipped)


def example_maker(
    kind: Kind, columns: Columns, with_labels: bool, labels: tuple[str, ...] | None
) -> Callable[[str, Cells, str], Example]:
    """Make the function that turns a record's number, cells and location into an example.

    Where `labels` are given, no others are accepted; where a column of ids is named, no id may come twice.
    """
    kind.check_columns(columns)
    seen: dict[str, str] = {}
    allowed = None if labels is None else dict.fromkeys(labels)

    def make(number: str, cells: Cells, location: str) -> Example:
        name = number if columns.id is None else read_id(cells, columns.id)
        if columns.id is not None and name in seen:
            raise BadRecordError(f"has the id {quote(name)}, as {seen[name]} has: give each its own")
        example = kind.parse(name, cells, columns, with_labels, location)
        check_allowed(kind.label_names(example), allowed)
        if columns.id is not None:
            seen[name] = location
        return example

    return make


def list_columns(source: RecordSource, format: str | None = None, header: bool = True) -> list[str]:
    """The names of a table's columns, or the keys of its first record."""
    return RecordReader(source, format=format, header=header, skip_bad=True).list_columns()


def find_pair(
    source: RecordSource, kind: str, columns: Columns, format: str | None = None, header: bool = True
) -> Columns:
    """The columns with that of the second text: the one that was named, or else one that is called pair."""
    if columns.pair is not None or find_kind(kind).file_format is not None:
        return columns
    there = list_columns(source, format, header)
    return columns.model_copy(update={"pair": "pair"}) if "pair" in there else columns


def _refuse_text(reader: RecordReader) -> None:
    if reader.format in ("text", "conll"):
        advice = "name it .csv, .tsv, .jsonl, .json or .parquet, or say its format with --format"
        raise RequestError(f"{reader.name} has no suffix that tells its format: {advice}")


def _read_questions(file: Path, reader: RecordReader, skip_bad: bool, with_answers: bool) -> list[QuestionExample]:
    examples, num_bad = read_squad(file, skip_bad=skip_bad, with_answers=with_answers)
    reader.num_skipped += num_bad
    kept = []
    for example in examples:
        if with_answers and example.answers is None:
            reader.refuse(f"question {quote(example.id)}", "has no answers: add them")
        else:
            kept.append(example)
    return kept


def _read_conll(reader: RecordReader, with_labels: bool, labels: tuple[str, ...] | None) -> list[TaggedExample]:
    """Read sentences whose first column has the words and whose last one has the tags."""

    def make(number: str, fields: Fields, location: str) -> TaggedExample:
        words, *others = fields.values()
        if not with_labels:
            return TaggedExample(number, tuple(words), None, location)
        if not others:
            raise BadRecordError("has one column where a word and its tag should be: add the tags")
        tags = tuple(others[-1])
        for line, tag in enumerate(tags, int(location.rpartition(" ")[2])):
            if labels is not None and tag not in labels:
                known = ", ".join(map(quote, labels[:30]))
                raise BadRecordError(f"has the tag {quote(tag)}, which is none of {known}: mend it", f"line {line}")
        return TaggedExample(number, tuple(words), tags, location)

    return reader.convert(reader.records(), make)


def guess_kind(source: RecordSource, columns: Columns, format: str | None = None, header: bool = True) -> str:
    """Say which kind of task a table is for, by its name, the named columns and its first thousand labels.

    Numbers are taken for scores only if some of them are no integers, and then even if a few labels are none, so that
    these are noticed; several labels in a cell have to be asked for, unless they are a list in JSON.
    """
    reader = RecordReader(source, format=format, header=header, skip_bad=True)
    if reader.format == "conll":
        return "tagging"
    if columns.options:
        return "choice"
    if reader.format == "json" and _is_squad(source):
        return "questions"
    _refuse_text(reader)
    records = itertools.islice(reader.records((columns.text, columns.label)), _NUM_LOOKED_AT)
    looked_at = [(cells.get(columns.text), cells[columns.label]) for _, cells in records if columns.label in cells]
    if any(isinstance(label, list) for _, label in looked_at):
        return "tagging" if any(isinstance(text, list) for text, _ in looked_at) else "multi-label"
    labels = [label for _, label in looked_at if label is not None and str(label).strip()]
    numbers = [read_number(label, may_be_infinite=True) for label in labels]
    known = [number for number in numbers if number is not None]
    has_fractions = any(math.isfinite(number) and not number.is_integer() for number in known)
    return "regression" if has_fractions and len(known) >= _MOSTLY * len(labels) else "classification"


def _is_squad(source: RecordSource) -> bool:
    try:
        value = RecordReader(source).load_json()
    except BadRecordError:
        return False
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def make_task(name: str, kind: str, columns: Columns, examples: Sequence[Example], *, is_learnt: bool = True) -> Task:
    """Make the task of a user's own data: its labels are those of the examples.

    Where it is to be learnt from them, there must be two labels at least.
    """
    if not examples:
        raise DataError(f"{name} has no training examples: add some")
    how = find_kind(kind)
    if is_learnt:
        how.check_learnable(name, examples)
    labels = sort_labels({label for example in examples for label in how.label_names(example)})
    if len(labels) > _MOST_LABELS:
        raise DataError(f"{name} has {len(labels):,} labels, and {_MOST_LABELS:,} are possible: is it another column?")
    return Task(
        name=name,
        kind=kind,
        labels=labels,
        metrics=how.default_metrics(labels),
        is_pair=columns.pair is not None or how.is_pair,
        has_unanswerable=any(isinstance(one, QuestionExample) and one.answers == () for one in examples),
        columns=None if how.file_format == "squad" else columns,
    )


def sort_labels(labels: Collection[str]) -> tuple[str, ...]:
    """Labels in alphabetical order, or in that of the numbers if all of them are numbers.

    >>> sort_labels({"10", "9", "-1"}), sort_labels({"10", "9", "x"})
    (('-1', '9', '10'), ('10', '9', 'x'))
    """
    if all(_NUMBER.fullmatch(label) for label in labels):
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    return tuple(sorted(labels))
