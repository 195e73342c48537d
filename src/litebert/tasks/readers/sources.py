"""Where examples come from: a task by its name and official files, or a user's own files."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.readers.glue import GLUE, GLUE_COLUMNS, GLUE_SPLITS, NO_GOLD, read_glue, read_glue_file
from litebert.tasks.readers.race import RACE, RACE_COLUMNS, read_race, read_race_file
from litebert.tasks.readers.squad import SQUAD, read_squad, read_squad_folder
from litebert.tasks.readers.tables import find_pair, guess_kind, list_columns, make_task, read_table, sort_labels
from litebert.tasks.task import Columns, DataError, Dataset, Example, QuestionExample, Task, TextExample
from litebert.text.formats import format_of
from litebert.text.records import RecordReader, RecordSource
from litebert.text.sources import guess_name

__all__ = [
    "OFFICIAL",
    "OwnData",
    "add_labels",
    "columns_of",
    "has_plain_lines",
    "hold_out",
    "is_official",
    "read_examples",
    "read_labelled",
    "read_official",
    "read_own",
    "stem_of",
]

OFFICIAL: dict[str, Task] = {**GLUE, **SQUAD, **RACE}
"""Tasks with official files, by name."""

_DEV_SHARE = 0.1
_MOST_DEV = 5000
_MRPC = "msr_paraphrase_"
_COLA_WIDTH = 4


@dataclass(frozen=True)
class OwnData:
    """A user's own files or tables in memory, and how they are to be read."""

    train: RecordSource
    dev: RecordSource | None = None
    test: RecordSource | None = None
    kind: str | None = None
    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    """What files hold whose suffix does not tell: csv, tsv, jsonl, json, parquet or conll."""
    header: bool = True
    """Whether the first line of a table names its columns; if not, their names are "1", "2", and so on."""


def is_official(task: Task) -> bool:
    """Whether a task is one of `OFFICIAL`, so that its official files and layouts can be read.

    A user's own task may have the same name, or no columns either, as questions in SQuAD's JSON have none.
    """
    known = OFFICIAL.get(task.name)
    facts = ("kind", "labels", "columns", "has_unanswerable")
    return known is not None and all(getattr(task, fact) == getattr(known, fact) for fact in facts)


def columns_of(task: Task) -> Columns:
    """What the columns of a task's tables are called: a user's own, or the official names."""
    if task.columns is not None:
        return task.columns
    if is_official(task) and task.name not in SQUAD:
        return RACE_COLUMNS if task.name in RACE else GLUE_COLUMNS[task.name]
    return Columns(pair="pair" if task.is_pair else None, id="id")


def read_official(name: str, folder: Path, splits: Sequence[str] | None = None, skip_bad: bool = False) -> Dataset:
    """Read a task of `OFFICIAL` from the folder of its files."""
    if not folder.exists():
        raise RequestError(f"{folder} is not there: name the folder of {name}'s official files with --data")
    if name in GLUE:
        return read_glue(name, folder, splits=splits, skip_bad=skip_bad)
    if name in SQUAD:
        return read_squad_folder(name, folder, splits=splits, skip_bad=skip_bad)
    if name in RACE:
        return read_race(folder, splits=splits, skip_bad=skip_bad)
    raise explain_missing(name)


def explain_missing(name: str) -> RequestError:
    """Say that a file is not there, or that a bare word is neither a file nor a task.

    >>> str(explain_missing("my/reviews.csv"))
    'my/reviews.csv is not there: check its name'
    """
    if Path(name).suffix or "/" in name or os.sep in name:
        return RequestError(f"{name} is not there{guess_name(name)}")
    return RequestError(f"{name!r} is neither a file nor a task: tasks are {', '.join(OFFICIAL)}")


def read_own(data: OwnData, skip_bad: bool = False) -> Dataset:
    """Read a user's own files; where there is none for development, some of the training examples are held out."""
    layout: dict[str, Any] = {"format": data.format, "header": data.header}
    kind = data.kind or guess_kind(data.train, data.columns, **layout)
    columns = find_pair(data.train, kind, data.columns, **layout)
    table = read_table(data.train, kind, columns, skip_bad=skip_bad, **layout)
    task = make_task(_name_of(data.train), kind, columns, table.examples)
    splits: dict[str, Sequence[Example]] = {"train": table.examples}
    num_skipped = table.num_skipped
    for split, source in (("dev", data.dev), ("test", data.test)):
        if source is not None:
            read = read_table(source, kind, columns, skip_bad=skip_bad, labels=task.labels or None, **layout)
            splits[split], num_skipped = read.examples, num_skipped + read.num_skipped
    everything = [example for examples in splits.values() for example in examples]
    if any(isinstance(example, QuestionExample) and example.answers == () for example in everything):
        task = task.model_copy(update={"has_unanswerable": True})
    if data.dev is None:
        splits["train"], splits["dev"] = hold_out(task, table.examples)
    return Dataset(task, splits, num_skipped)


def read_examples(
    task: Task,
    file: RecordSource,
    with_labels: bool,
    skip_bad: bool = False,
    format: str | None = None,
    header: bool = True,
) -> tuple[list[Example], int]:
    """Read one file of examples of a known task, in its official layout or by the columns of a user's own.

    A table in memory is read by its columns.
    """
    kind = kind_of(task)
    if kind.file_format == "squad" and isinstance(file, Path):
        questions, num_bad = read_squad(
            file, skip_bad=skip_bad, has_unanswerable=task.has_unanswerable, with_answers=with_labels
        )
        known = [example for example in questions if example.answers is not None or not with_labels]
        if len(known) < len(questions) and not skip_bad:
            nameless = next(example for example in questions if example.answers is None)
            raise DataError(
                f"{nameless.location} has no answers: add them, or pass over such questions with --skip-bad"
            )
        return [*known], num_bad + len(questions) - len(known)
    if is_official(task) and format is None and header and isinstance(file, Path):
        return _read_official_file(task, file, with_labels, skip_bad)
    labels = task.labels if with_labels and task.labels else None
    columns = columns_of(task)
    if kind.file_format != "conll" or RecordReader(file, format=format).format not in (None, "text", "conll"):
        columns = kind.pick_columns(columns, list_columns(file, format, header))
    table = read_table(
        file,
        task.kind,
        columns,
        skip_bad=skip_bad,
        labels=labels,
        with_labels=with_labels,
        format=format,
        header=header,
    )
    return table.examples, table.num_skipped


def has_plain_lines(task: Task, file: Path) -> bool:
    """Whether a file without answers is read as standard input is, a line for each example.

    Such are text files (but CoNLL's, and official ones) and JSON lines with questions, which no table can hold.
    """
    own_format = kind_of(task).file_format
    if own_format == "squad" and file.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    is_layout = (task.name == "mrpc" and file.name.startswith(_MRPC)) or (task.name == "race" and file.stem.isdecimal())
    return file.suffix.lower() in ("", ".txt") and own_format != "conll" and not (is_layout and is_official(task))


def read_labelled(
    file: Path,
    kind: str | None,
    columns: Columns,
    skip_bad: bool = False,
    format: str | None = None,
    header: bool = True,
) -> tuple[Task, list[Example], int]:
    """Read one of a user's own files with answers, to score others: the task is made of what is in it."""
    if not file.is_file():
        raise explain_missing(str(file))
    chosen = kind or guess_kind(file, columns, format, header)
    columns = find_pair(file, chosen, columns, format, header)
    table = read_table(file, chosen, columns, skip_bad=skip_bad, format=format, header=header)
    task = make_task(_name_of(file), chosen, columns, table.examples, is_learnt=False)
    return task, table.examples, table.num_skipped


def add_labels(task: Task, answers: Sequence[object]) -> Task:
    """A task that also has the labels of predictions: a file of right answers need not hold every class."""
    given = {label for answer in answers for label in kind_of(task).answer_labels(answer)}
    return task.model_copy(update={"labels": sort_labels({*task.labels, *given})})


def stem_of(file: Path) -> str:
    """A file's name without the endings that tell its format: for an official file this is its split.

    >>> stem_of(Path("glue/dev_mismatched.tsv.gz")), stem_of(Path("dev-v2.0.json")), stem_of(Path("reviews"))
    ('dev_mismatched', 'dev-v2.0', 'reviews')
    """
    name = file.stem if file.suffix.lower() in (".gz", ".zst") else file.name
    return Path(name).stem


def _name_of(source: RecordSource) -> str:
    """What to call a task: by its file, or by the folder of a file that is called train, dev or test.

    >>> _name_of(Path("reviews.csv.gz")), _name_of(Path("/data/reviews/train.csv"))
    ('reviews', 'reviews')
    """
    if not isinstance(source, str | os.PathLike):
        return "table"
    file = Path(source)
    stem = file.name.partition(".")[0]
    return (file.resolve().parent.name or stem) if stem in ("train", "dev", "test") else stem


def _read_official_file(task: Task, file: Path, with_labels: bool, skip_bad: bool) -> tuple[list[Example], int]:
    """Read the very file that is named: in the official layout if it looks so, or else by its columns."""
    if task.name in RACE and format_of(file)[0] == "text":
        passage, num_bad = read_race_file(file, skip_bad=skip_bad)
        return [*passage], num_bad
    there = list_columns(file, format="tsv" if file.name.startswith(_MRPC) else None)
    if task.name in RACE and "article" in there:
        passages, num_bad = read_race_file(file, skip_bad=skip_bad)
        return [*passages], num_bad
    split = stem_of(file).lower().removeprefix(_MRPC).removesuffix("_matched")
    if task.name in GLUE and _has_glue_layout(task.name, file, split, there):
        texts, num_bad = read_glue_file(task.name, file, split, with_labels=with_labels, skip_bad=skip_bad)
        return [*texts], num_bad
    columns = kind_of(task).pick_columns(columns_of(task), there)
    labels = (*task.labels, *([NO_GOLD] if task.name == "mnli" else [])) if with_labels and task.labels else None
    table = read_table(file, task.kind, columns, skip_bad=skip_bad, labels=labels, with_labels=with_labels)
    kept = [one for one in table.examples if not (isinstance(one, TextExample) and one.label == NO_GOLD)]
    return kept, table.num_skipped


def _has_glue_layout(name: str, file: Path, split: str, there: Collection[str]) -> bool:
    """Whether a file of tab-separated values has the official columns, or is as CoLA's, which have no header."""
    is_table = format_of(file)[0] == "tsv" or file.name.startswith(_MRPC)
    has_header = GLUE_COLUMNS[name].text in there
    if name == "cola" and is_table and not has_header:
        return len(there) == _COLA_WIDTH
    return is_table and has_header and split in GLUE_SPLITS[name]


def hold_out(task: Task, examples: Sequence[Example], seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Set a tenth of the examples aside for development (5,000 at most), the same ones for the same seed.

    Each class gives its share, and one at least where it has two. Equal texts stay together, and so do questions about
    one text, because a model that has read the text before is not tested by it.
    """
    if len(examples) < 2:
        raise RequestError("a single example cannot be divided: name a file for development with --dev")
    order: list[int] = np.random.default_rng(seed).permutation(len(examples)).tolist()
    groups: dict[object, list[int]] = {}
    for number in order:
        groups.setdefault(kind_of(task).text_key(examples[number]), []).append(number)
    if len(groups) < 2:
        raise RequestError("all examples have the same text, which cannot be divided: name a file with --dev")
    wanted = min(_MOST_DEV, max(1, round(_DEV_SHARE * len(examples))))
    held: set[int] = set()
    for group in _share_out(task, examples, [*groups.values()]):
        if len(held) + len(group) <= wanted:
            held.update(group)
    if not held:
        _, smallest = min((len(group), group) for group in groups.values())
        held = set(smallest)
    rest = [example for number, example in enumerate(examples) if number not in held]
    return rest, [examples[number] for number in sorted(held)]


def _share_out(task: Task, examples: Sequence[Example], groups: Sequence[list[int]]) -> list[list[int]]:
    """The groups in the order in which they are held out: one of each class, then as large a part of every class."""
    classes: dict[object, list[list[int]]] = {}
    for group in groups:
        classes.setdefault(kind_of(task).stratum(examples[group[0]]), []).append(group)
    # Where each group stands in its class, from 0 to 1: those below some bound are the same part of every class.
    ranks = [
        ((at > 0 or len(members) < 2, (at + 0.5) / len(members)), group)
        for members in classes.values()
        for at, group in enumerate(members)
    ]
    return [group for _, group in sorted(ranks, key=lambda rank: rank[0])]
