"""Where examples come from: a task by its name and official files, or a user's own files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from litebert.errors import RequestError
from litebert.tasks.glue import GLUE, read_glue
from litebert.tasks.race import RACE, read_race
from litebert.tasks.squad import SQUAD, read_squad, read_squad_folder
from litebert.tasks.table import check_labels, guess_kind, make_task, read_table
from litebert.tasks.task import Columns, Dataset, Example, Kind, Task, TextExample

__all__ = ["OFFICIAL", "OwnData", "hold_out", "read_examples", "read_labelled", "read_official", "read_own"]

OFFICIAL: dict[str, Task] = {**GLUE, **SQUAD, **RACE}
"""Tasks with official files, by name."""

_DEV_SHARE = 0.1
_MOST_DEV = 5000


@dataclass(frozen=True)
class OwnData:
    """A user's own files, and how they are to be read."""

    train: Path
    dev: Path | None = None
    test: Path | None = None
    kind: Kind | None = None
    columns: Columns = field(default_factory=Columns)


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
    raise RequestError(f"{name!r} is neither a file nor a task: tasks are {', '.join(OFFICIAL)}")


def read_own(data: OwnData, skip_bad: bool = False, seed: int = 0) -> Dataset:
    """Read a user's own files; where there is none for development, some of the training examples are held out."""
    kind = data.kind or guess_kind(data.train, data.columns)
    table = read_table(data.train, kind, data.columns, skip_bad=skip_bad)
    task = make_task(_name_of(data.train), kind, data.columns, table.examples)
    splits: dict[str, Sequence[Example]] = {"train": table.examples}
    num_skipped = table.num_skipped
    labels = task.labels or None
    for split, file in (("dev", data.dev), ("test", data.test)):
        if file is not None:
            read = read_table(file, kind, data.columns, skip_bad=skip_bad, labels=labels)
            check_labels(task, read.examples)
            splits[split], num_skipped = read.examples, num_skipped + read.num_skipped
    if data.dev is None:
        splits["train"], splits["dev"] = hold_out(table.examples, seed)
    return Dataset(task, splits, num_skipped)


def read_examples(task: Task, file: Path, with_labels: bool, skip_bad: bool = False) -> tuple[list[Example], int]:
    """Read one file of examples of a known task, in its official layout or by the columns of a user's own."""
    if task.kind == "questions":
        questions, num_bad = read_squad(
            file, skip_bad=skip_bad, has_unanswerable=task.has_unanswerable, with_answers=with_labels
        )
        return [*questions], num_bad
    if task.columns is None:
        return _read_official_file(task, file, skip_bad)
    labels = task.labels if with_labels and task.labels else None
    table = read_table(file, task.kind, task.columns, skip_bad=skip_bad, labels=labels, with_labels=with_labels)
    return table.examples, table.num_skipped


def read_labelled(
    file: Path, kind: Kind | None, columns: Columns, skip_bad: bool = False
) -> tuple[Task, list[Example], int]:
    """Read one of a user's own files with answers, and make a task of what is in it."""
    if not file.is_file():
        raise RequestError(f"{str(file)!r} is neither a file nor a task: tasks are {', '.join(OFFICIAL)}")
    chosen = kind or guess_kind(file, columns)
    table = read_table(file, chosen, columns, skip_bad=skip_bad)
    task = make_task(_name_of(file), chosen, columns, table.examples)
    return task, table.examples, table.num_skipped


def _name_of(file: Path) -> str:
    """What to call a task: by its file, or by the folder of a file that is called train, dev or test.

    >>> _name_of(Path("reviews.csv.gz")), _name_of(Path("/data/reviews/train.csv"))
    ('reviews', 'reviews')
    """
    stem = file.name.partition(".")[0]
    return (file.resolve().parent.name or stem) if stem in ("train", "dev", "test") else stem


def _read_official_file(task: Task, file: Path, skip_bad: bool) -> tuple[list[Example], int]:
    """A file of an official task tells by its name which split it is."""
    stem = file.name.partition(".")[0].lower().removeprefix("msr_paraphrase_")
    split = stem.removesuffix("_matched")
    data = read_official(task.name, file.parent, [split], skip_bad)
    return [*data.splits[split]], data.num_skipped


def hold_out(examples: Sequence[Example], seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Set a tenth of the examples aside for development (5,000 at most), the same ones for the same seed.

    Each class gives its share, so that a rare one is in both parts if it can be.
    """
    if len(examples) < 2:
        raise RequestError("a single example cannot be divided: name a file for development with --dev")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(examples))
    wanted = min(_MOST_DEV, max(1, round(_DEV_SHARE * len(examples))))
    groups: dict[object, list[int]] = {}
    for number in order.tolist():
        example = examples[number]
        label = example.label if isinstance(example, TextExample) and isinstance(example.label, str) else None
        groups.setdefault(label, []).append(number)
    # Where each example stands in its class, from 0 to 1: those below some bound are the same part of every class.
    places = {number: (at + 0.5) / len(group) for group in groups.values() for at, number in enumerate(group)}
    held = set(sorted(order.tolist(), key=places.__getitem__)[:wanted])
    rest = [example for number, example in enumerate(examples) if number not in held]
    return rest, [examples[number] for number in sorted(held)]
