"""Options that say which examples a command works on and how an encoder is tuned on them, declared once for all."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.options import SkipBad

if TYPE_CHECKING:
    from litebert.tasks.task import Dataset

__all__ = ["TaskOrFile", "layout", "reading", "show_data", "split_reading", "splits", "tuning"]

TaskOrFile = Annotated[
    str,
    typer.Argument(
        help="A task with official files (cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli, squad1, squad2, race), "
        "or a file of your own: .csv, .tsv, .jsonl, .parquet, .conll, or SQuAD's .json.",
        metavar="TASK|FILE",
    ),
]


def splits(
    data: Annotated[Path | None, typer.Option("--data", "-d", help="The folder of the task's official files.")] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Your own file for development; if there is none, a tenth of the other is held out."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Your own file for a last test.")] = None,
) -> None:
    """Which files there are."""


def layout(
    format_: Annotated[
        str | None, typer.Option("--format", help="csv, tsv, jsonl, json, parquet or conll, if the name does not tell.")
    ] = None,
    header: Annotated[
        bool,
        typer.Option("--header/--no-header", help="Whether the first line names the columns; else they are 1, 2 …"),
    ] = True,
    skip_bad: SkipBad = False,
) -> None:
    """How a file is read."""


def reading(
    kind: Annotated[
        str | None,
        typer.Option(
            help="classification, multi-label, regression, similarity, tagging, questions or choice; guessed if not "
            "given."
        ),
    ] = None,
    text: Annotated[str, typer.Option(help="The column with the text (or the passage).")] = "text",
    pair: Annotated[
        str | None,
        typer.Option(help="The column with the second text (or the question); one that is called pair if not given."),
    ] = None,
    label: Annotated[str, typer.Option(help="The column with the label, the score or the answer.")] = "label",
    options: Annotated[
        str | None, typer.Option(help="Multiple choice: the columns with the options, such as a,b,c,d.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The column with names of examples.")] = None,
    separator: Annotated[str, typer.Option(help="Multi-label: what stands between the labels of a cell.")] = ",",
    metric: Annotated[
        str | None, typer.Option(help="The metric that decides, such as macro_f1; the task's own if not given.")
    ] = None,
) -> None:
    """Where a table of your own keeps what."""


def tuning(
    epochs: Annotated[float | None, typer.Option(min=0.001, help="How often the encoder sees each example.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Train for so many steps instead.")] = None,
    budget: Annotated[str | None, typer.Option(help="Train for this time instead, such as 90s or 2h.")] = None,
    lr: Annotated[float | None, typer.Option(min=1e-9, max=1, help="Peak of the learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Examples in a step.")] = None,
    max_length: Annotated[int | None, typer.Option(min=8, help="Tokens of a row.")] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Begin with so many layers of the encoder: fewer are faster.")
    ] = None,
) -> None:
    """How long and how to fine-tune."""


def split_reading(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of `splits` and `reading` as `litebert.api.read_data` takes them, and the others."""
    names = ("data", "dev", "test", "kind", "text", "pair", "label", "options", "id_", "separator", "metric")
    wanted = {name: given[name] for name in (*names, "format_", "header", "skip_bad") if name in given}
    options = wanted.pop("options", None)
    read = {name.rstrip("_"): value for name, value in wanted.items()}
    read["options"] = tuple(name.strip() for name in options.split(",")) if options else ()
    return read, {name: value for name, value in given.items() if name not in wanted and name != "options"}


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def show_data(data: "Dataset", label: str) -> None:
    """Say on standard error what was made of the files, before anything is learnt from it."""
    from litebert.tasks.kinds import kind_of
    from litebert.tasks.task import hash_examples

    task, train, dev = data.task, data.splits.get("train", ()), data.splits.get("dev", ())
    kind = f"{task.kind} of pairs" if task.is_pair and not kind_of(task).is_pair else task.kind
    kind += f", {len(task.labels)} labels" if task.labels else ""
    kind += ", some without an answer" if task.has_unanswerable else ""
    skipped = f", {data.num_skipped:,} bad ones left out" if data.num_skipped else ""
    sizes = f"{len(train):,} examples to learn from, {len(dev):,} for development{skipped}"
    typer.echo(f"{task.name}: {kind}; {sizes}", err=True)
    if kind_of(task).answer_type == "label" and 2 * len(task.labels) > len(train) > 4:
        message = f"nearly every example has a label of its own: is {label!r} the right column? "
        typer.echo(f"litebert: {message}For scores, say --kind regression", err=True)
    elif kind_of(task).answer_type == "label" and len(task.labels) > 5 and all(map(_is_number, task.labels)):
        typer.echo(f"litebert: the {len(task.labels)} labels are numbers: for scores, say --kind regression", err=True)
    learnt = {name for example in train for name in kind_of(task).label_names(example)}
    strange = sorted({name for example in dev for name in kind_of(task).label_names(example)} - learnt)
    if strange:
        message = f"development examples have labels that none to learn from has, such as {strange[0]!r}"
        typer.echo(f"litebert: {message}: no model can know them", err=True)
    if len(dev) == len(train) and hash_examples(dev) == hash_examples(train):
        typer.echo("litebert: development examples are those to learn from: what they score says nothing", err=True)
