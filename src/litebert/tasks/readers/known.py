"""Examples of a task that is known already, and pairs of texts that people have rated. Without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.errors import RequestError
from litebert.tasks.readers.sources import hold_out, is_official, read_examples, read_labelled, read_official, stem_of
from litebert.tasks.readers.tables import list_columns
from litebert.tasks.task import Columns, Example, Task, TextExample, hash_examples

__all__ = ["Examples", "read_rated_examples", "read_task_examples"]


@dataclass(frozen=True)
class Examples:
    """Examples of a known task, how many bad records were left out, and what the split is called."""

    examples: list[Example]
    num_skipped: int
    split: str


def read_task_examples(
    task: Task,
    path: Path,
    split: str = "dev",
    *,
    with_labels: bool = True,
    held_out_by: Sequence[str | None] | None = None,
    skip_bad: bool = False,
    format: str | None = None,
    header: bool = True,
) -> Examples:
    """Read examples of a known task from a file, or from a folder of official files.

    `held_out_by` are hashes of the examples that models held out of a training file: then only these are given.
    """
    if not path.exists():
        raise RequestError(f"{path} is not there: name a file of examples, or a folder of official files")
    if held_out_by is not None and is_official(task):
        raise RequestError(f"{task.name} has official examples for development: leave --held-out out")
    if path.is_dir():
        if not is_official(task):
            raise RequestError(f"{path} is a folder: name a file of {task.name}'s examples")
        data = read_official(task.name, path, [split], skip_bad)
        return Examples([*data.splits[split]], data.num_skipped, split)
    examples, num_skipped = read_examples(task, path, with_labels, skip_bad, format, header)
    if held_out_by is not None:
        _, examples = hold_out(task, examples)
        if any(one != hash_examples(examples) for one in held_out_by):
            raise RequestError(
                f"the model did not hold these out: {path} has changed since, its run had another file, --dev or other "
                "bad records, or `litebert compare` fine-tuned it; leave --held-out out, and give other examples"
            )
    return Examples(examples, num_skipped, stem_of(path))


def read_rated_examples(
    path: Path, split: str = "dev", skip_bad: bool = False, format: str | None = None, header: bool = True
) -> list[TextExample]:
    """Pairs of texts with scores: STS-B's development set, or a file of your own."""
    if path.is_dir():
        examples: Sequence[Example] = read_official("sts-b", path, [split], skip_bad).splits[split]
    else:
        is_known = path.is_file() and format is None and header
        names = {name.lower() for name in list_columns(path)} if is_known else {*()}
        official = Columns(text="sentence1", pair="sentence2", label="score")
        columns = official if {"sentence1", "sentence2", "score"} <= names else Columns(pair="pair")
        columns = columns if header else Columns(text="1", pair="2", label="3")
        _, examples, _ = read_labelled(path, "similarity", columns, skip_bad, format, header)
    found = [one for one in examples if isinstance(one, TextExample)]
    rated = [one for one in found if one.pair and isinstance(one.label, int | float)]
    if len(rated) < 2:
        raise RequestError(f"{path} has no pairs of texts with scores: it needs the columns text, pair and label")
    return rated
