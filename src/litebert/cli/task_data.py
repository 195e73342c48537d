"""Options that say which examples a command works on, for every command that has some."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.tasks.task import Columns, Dataset, Kind

__all__ = [
    "Data",
    "Dev",
    "Format",
    "IdColumn",
    "KindName",
    "LabelColumn",
    "NoHeader",
    "OptionColumns",
    "PairColumn",
    "Separator",
    "TaskOrFile",
    "Test",
    "TextColumn",
    "check_kind",
    "make_columns",
    "read_data",
    "refuse_data",
    "refuse_own_options",
]

TaskOrFile = Annotated[
    str,
    typer.Argument(
        help="A task with official files (cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli, squad1, squad2, race), "
        "or a file of your own: .csv, .tsv, .jsonl, .json, .parquet, .conll, or SQuAD's .json.",
        metavar="TASK|FILE",
    ),
]
Data = Annotated[Path | None, typer.Option("--data", "-d", help="The folder of the task's official files.")]
Dev = Annotated[
    Path | None, typer.Option(help="Your own file for development; if there is none, a tenth of the other is held out.")
]
Test = Annotated[Path | None, typer.Option(help="Your own file for a last test.")]
KindName = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="classification, multi-label, regression, tagging, questions or choice; guessed if not given.",
    ),
]
TextColumn = Annotated[str, typer.Option("--text", help="The column with the text (or the passage).")]
PairColumn = Annotated[str | None, typer.Option("--pair", help="The column with the second text (or the question).")]
LabelColumn = Annotated[str, typer.Option("--label", help="The column with the label, the score or the answer.")]
OptionColumns = Annotated[
    str | None, typer.Option("--options", help="Multiple choice: the columns with the options, such as a,b,c,d.")
]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column with names of examples.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, tsv, jsonl, json, parquet or conll, for a file whose suffix does not tell it."),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line names no columns: they are called 1, 2, … (--text 1 --label 2)."),
]
Separator = Annotated[str, typer.Option(help="Multi-label: what stands between the labels of a cell.")]


def make_columns(
    text: str, pair: str | None, label: str, options: str | None, id_: str | None, separator: str = ","
) -> "Columns":
    """The columns that the options name."""
    from litebert.tasks.task import Columns

    names = tuple(name.strip() for name in options.split(",")) if options else ()
    return Columns(text=text, pair=pair, label=label, options=names, id=id_, separator=separator)


def read_data(
    name: str,
    data: Path | None,
    dev: Path | None,
    test: Path | None,
    kind: str | None,
    columns: "Columns",
    skip_bad: bool,
    format: str | None = None,
    no_header: bool = False,
) -> "Dataset":
    """Read what the options name: an official task, or a user's own files."""
    from litebert.tasks.readers.sources import OFFICIAL, OwnData, explain_missing, read_official, read_own

    if name in OFFICIAL and not Path(name).is_file():
        given = {"--dev": dev, "--test": test, "--kind": kind, "--format": format, "--no-header": no_header or None}
        refuse_own_options(name, columns, given)
        if data is None:
            raise typer.BadParameter(f"say where {name}'s official files lie", param_hint="--data")
        return read_official(name, data, skip_bad=skip_bad)
    file = Path(name)
    if not file.is_file():
        raise explain_missing(name)
    refuse_data(name, data)
    own = OwnData(file, dev, test, check_kind(kind), columns, format=format, header=not no_header)
    return read_own(own, skip_bad)


def tell_data(data: "Dataset", label: str) -> None:
    """Say on standard error what was made of the files, before anything is learnt from it."""
    from litebert.tasks.saved import hash_examples

    task, train, dev = data.task, data.splits.get("train", ()), data.splits.get("dev", ())
    kind = f"{task.kind}, {len(task.labels)} labels" if task.labels else task.kind
    kind += ", some without an answer" if task.has_unanswerable else ""
    skipped = f", {data.num_skipped:,} bad ones left out" if data.num_skipped else ""
    told = f"{len(train):,} examples to learn from, {len(dev):,} for development{skipped}"
    typer.echo(f"{task.name}: {kind}; {told}", err=True)
    if task.kind == "classification" and 2 * len(task.labels) > len(train) > 4:
        words = f"nearly every example has a label of its own: is {label!r} the right column? "
        typer.echo(f"litebert: {words}For scores, say --kind regression", err=True)
    if len(dev) == len(train) and hash_examples(dev) == hash_examples(train):
        typer.echo("litebert: development examples are those to learn from: what they score says nothing", err=True)


def refuse_own_options(name: str, columns: "Columns", options: Mapping[str, object]) -> None:
    """Refuse options for a user's own files beside an official task, which would not look at them."""
    from litebert.tasks.task import Columns

    plain = Columns()
    named = [f"--{field}" for field in Columns.model_fields if getattr(columns, field) != getattr(plain, field)]
    given = [option for option, value in options.items() if value is not None] + named
    if given:
        raise RequestError(f"{given[0]} is for files of your own, and {name} has official ones: leave it out")


def refuse_data(name: str, data: Path | None) -> None:
    """Refuse a folder of official files beside a user's own file."""
    if data is not None:
        raise RequestError(f"--data is for tasks with official files, and {name} is a file of your own: leave it out")


def check_kind(kind: str | None) -> "Kind | None":
    """A kind of task that was named, if it is one."""
    from litebert.tasks.task import Kind

    kinds = get_args(Kind)
    if kind is not None and kind not in kinds:
        raise typer.BadParameter(f"choose one of {', '.join(kinds)}", param_hint="--kind")
    return cast("Kind | None", kind)
