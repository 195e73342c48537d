"""`litebert evaluate`, `predict`, `score` and `ensemble`: what fine-tuned models say, and how good it is."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, print_json, takes
from litebert.cli.task_data import layout, reading, split_reading
from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.inference.load import Member, Pipeline
    from litebert.tasks.readers.known import Examples
    from litebert.tasks.task import Predictions, Task

__all__ = ["ensemble", "evaluate", "predict", "score"]

ModelName = Annotated[str, typer.Argument(help="A fine-tuned run, model folder or ensemble.")]
SplitOfDev = Annotated[
    str | None, typer.Option(help="Which file of a folder: dev (the default), test, dev_mismatched …")
]
SplitOfTest = Annotated[
    str | None, typer.Option(help="Which file of a folder: test (the default), dev, test_mismatched …")
]
FileOrFolder = Annotated[
    Path, typer.Option("--data", "-d", help="The file with the right answers, or a folder of official files.")
]
HeldOut = Annotated[
    bool, typer.Option("--held-out", help="Of your own training file, only the tenth that `finetune` held out.")
]


@app.command(epilog="Example:  litebert evaluate sst-2-run --data glue/SST-2 --split dev")
@takes(layout)
def evaluate(
    model: ModelName,
    data: FileOrFolder,
    split: SplitOfDev = None,
    held_out: HeldOut = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder for answers, metrics and a report.")] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Measure a fine-tuned model on examples whose answers are known."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference.load import load
    from litebert.training.run_folder import RunFolder

    if out is not None and RunFolder(out).exists:
        raise RequestError(f"{out} is the folder of a run, whose own figures would be lost: name another with -o")
    _check_split(data, split)
    pipeline = load(model)
    read = _read(pipeline.task, data, split or "dev", given, pipeline.members if held_out else None)
    evaluation = pipeline.evaluate(read.examples)
    if out is not None:
        from litebert.reports.finetuning import write_task_report
        from litebert.tasks.finetune import write_evaluation
        from litebert.tasks.task import Dataset

        out.mkdir(parents=True, exist_ok=True)
        dataset = Dataset(pipeline.task, {read.split: read.examples}, read.num_skipped)
        write_evaluation(RunFolder(out), dataset, {read.split: evaluation})
        write_task_report(out, pipeline.task, read.examples, evaluation.predictions, evaluation.metrics)
    _show(pipeline.task, evaluation.metrics, read, as_json)


@app.command(
    epilog="Examples:  litebert predict sst-2-run reviews.txt\n\ncat questions.jsonl | litebert predict my-run - \n\n"
    "litebert predict mnli-run glue/MNLI --split test_mismatched --submission upload"
)
@takes(layout)
def predict(
    model: ModelName,
    file: Annotated[str, typer.Argument(help="A file, a folder of official files, or - for standard input.")] = "-",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .jsonl, .tsv or (SQuAD) .json file; standard output.")
    ] = None,
    split: SplitOfTest = None,
    submission: Annotated[
        Path | None, typer.Option(help="Write the file that GLUE's site takes into this folder.")
    ] = None,
    **given: Any,
) -> None:
    """Answer new examples: a text a line (a pair with a tab between), or files as in fine-tuning, labels not needed.

    Lines are answered as they come, however many there are. Empty ones are passed over; ids are the numbers of the
    lines, from 0.
    """
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.cli.progress import showing_progress
    from litebert.inference.load import load
    from litebert.tasks.kinds import kind_of
    from litebert.tasks.predictions import (
        check_destination,
        render_rows,
        write_glue_submission,
        write_predictions,
        write_squad_predictions,
    )

    if out is not None and submission is not None:
        raise RequestError("-o and --submission both say where the answers go: leave one out")
    _check_split(None if file == "-" else Path(file), split)
    pipeline = load(model)
    task = pipeline.task
    check_destination(task, out, submission)
    if submission is None and (out is None or out.suffix == ".jsonl") and _has_lines(task, file, given):
        _answer_lines(pipeline, file, out)
        return
    read = _read_unanswered(task, file, split or "test", given)
    _show_skipped(read)
    examples, total = read.examples, len(read.examples)
    with showing_progress("answering", total) as show:
        predictions = pipeline.answer_examples(examples, lambda done: show(min(done, total), f"{done:,} rows"))
    _show_truncated(_count_truncated(predictions), total, pipeline.members[0].task.max_length)
    if submission is not None:
        typer.echo(f"{write_glue_submission(submission, task, read.split, examples, predictions.answers)}")
    elif out is None:
        for row in render_rows(task, examples, predictions, with_text=True):
            typer.echo(row)
    elif kind_of(task).file_format == "squad" and out.suffix == ".json":
        odds = predictions.null_odds if task.has_unanswerable else None
        write_squad_predictions(out, examples, predictions.answers, odds)
        typer.echo(f"{out}: {len(examples):,} answers", err=True)
    else:
        write_predictions(out, task, examples, predictions, with_text=True)
        typer.echo(f"{out}: {len(examples):,} answers", err=True)


@app.command(
    epilog="Examples:  litebert score squad2 --data dev-v2.0.json --predictions mine.json --json\n\n"
    "litebert score reviews.csv --text review --label stars --predictions theirs.jsonl"
)
@takes(reading, layout)
def score(
    task: Annotated[str, typer.Argument(help="A task with official files, or your own file with the answers.")],
    predictions: Annotated[
        Path, typer.Option("--predictions", "-p", help="Answers of any system: .jsonl, .tsv, .csv, .json or .txt.")
    ],
    data: Annotated[Path | None, typer.Option("--data", "-d", help="The folder of the task's official files.")] = None,
    split: SplitOfDev = None,
    null_odds: Annotated[Path | None, typer.Option(help="squad2: a .json with the odds that there is none.")] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Measure a file of predictions by the official metrics, whoever made it."""
    from litebert import api
    from litebert.tasks.metrics import compute_metrics
    from litebert.tasks.predictions import read_predictions
    from litebert.tasks.readers.sources import OFFICIAL, add_labels, read_labelled
    from litebert.tasks.task import Columns

    read, _ = split_reading(given)
    columns = Columns(**{name: read[name] for name in Columns.model_fields})
    if task in OFFICIAL:
        own = {"kind": read["kind"], "format": read["format"], "no-header": None if read["header"] else True}
        api.refuse_own_options(task, columns, own)
        if data is None:
            raise typer.BadParameter(f"say where {task}'s right answers lie", param_hint="--data")
        _check_split(data, split)
        known = OFFICIAL[task]
        gold = _read(known, data, split or "dev", given)
        found = read_predictions(known, gold.examples, predictions, null_odds)
    else:
        if data is not None:
            raise RequestError(
                f"--data is for tasks with official files, and {task} is a file of your own: leave it out"
            )
        _check_split(Path(task), split)
        known, examples, num_skipped = read_labelled(
            Path(task), read["kind"], columns, read["skip_bad"], read["format"], read["header"]
        )
        gold = api.Examples(examples, num_skipped, "")
        found = read_predictions(known, examples, predictions, null_odds, takes_any_label=True)
        _show_strangers(known, found, predictions, Path(task))
        known = add_labels(known, found.answers)
    _show(known, compute_metrics(known, gold.examples, found), gold, as_json)


@app.command(
    epilog="Examples:  litebert ensemble rte-run/seed-0 rte-run/seed-1 rte-run/seed-2 --data glue/RTE -o rte-all\n\n"
    "litebert ensemble reviews-run/seed-* --data reviews.csv --held-out -o reviews-all"
)
@takes(layout)
def ensemble(
    models: Annotated[list[str], typer.Argument(help="Fine-tuned runs or model folders, of one task.")],
    data: FileOrFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the ensemble.")],
    split: SplitOfDev = None,
    held_out: HeldOut = False,
    take_all: Annotated[bool, typer.Option("--all", help="Take every model, without choosing.")] = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Choose the models that answer best together, on examples for development; `evaluate` and `predict` take it."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference.ensemble import choose_members, write_ensemble
    from litebert.inference.load import Member

    _check_split(data, split)
    members = [Member.open(model) for model in models]
    task = members[0].task.task
    read = _read(task, data, split or "dev", given, members if held_out else None)
    _show_skipped(read)
    choice = choose_members(members, read.examples, take_all)
    file = write_ensemble(out, choice)
    if as_json:
        names = [str(member.folder) for member in choice.pipeline.members]
        print_json({"file": str(file), "members": names, "metrics": choice.metrics, "alone": choice.alone})
        return
    for name, value in choice.alone.items():
        typer.echo(f"{value:.4f}  {name}")
    typer.echo(
        f"{choice.metrics[-1][task.metric]:.4f}  {len(choice.pipeline.members)} of them together ({task.metric})"
    )
    typer.echo(f"The ensemble is {out}. Next:  litebert predict {out} your-file")


def _check_split(path: Path | None, split: str | None) -> None:
    """Refuse a split of what is no folder."""
    if split is not None and (path is None or path.is_file()):
        what = "standard input" if path is None else path
        raise RequestError(f"--split chooses a file of a folder, and {what} is none: leave it out, or name the folder")


def _read(
    task: "Task", path: Path, split: str, given: dict[str, Any], held_out_by: "Sequence[Member] | None" = None
) -> "Examples":
    """Examples whose answers are known."""
    from litebert.tasks.readers.known import read_task_examples

    hashes = None if held_out_by is None else [member.task.dev for member in held_out_by]
    read, _ = split_reading(given)
    how = {name: read[name] for name in ("format", "header", "skip_bad")}
    return read_task_examples(task, path, split, held_out_by=hashes, **how)


def _has_lines(task: "Task", name: str, given: dict[str, Any]) -> bool:
    """Whether an example stands on each line, as on standard input, and not in a table."""
    from litebert.tasks.readers.sources import has_plain_lines

    read, _ = split_reading(given)
    is_table = read["format"] is not None or not read["header"]
    return name == "-" or (not is_table and Path(name).is_file() and has_plain_lines(task, Path(name)))


def _answer_lines(pipeline: "Pipeline", name: str, out: Path | None) -> None:
    """Answer lines as they come, however many there are."""
    from litebert.cli.progress import showing_progress
    from litebert.inference.lines import stream_lines
    from litebert.tasks.predictions import render_rows, write_lines

    cut: Counter[str] = Counter()

    def answer(stream: IO[bytes], on_progress: Callable[[int], None]) -> Iterator[str]:
        examples = stream_lines(pipeline.task, stream, "standard input" if name == "-" else name)
        for some, predictions in pipeline.answer_stream(examples, on_progress):
            cut.update(cut=_count_truncated(predictions), all=len(some))
            yield from render_rows(pipeline.task, some, predictions, with_text=True)

    with ExitStack() as stack:
        stream = sys.stdin.buffer if name == "-" else stack.enter_context(Path(name).open("rb"))
        show = stack.enter_context(showing_progress("answering", None))
        rows = answer(stream, lambda done: show(done, f"{done:,} rows"))
        if out is not None:
            count = write_lines(out, rows)
        else:
            for row in rows:
                typer.echo(row)
    _show_truncated(cut["cut"], cut["all"], pipeline.members[0].task.max_length)
    if out is not None:
        typer.echo(f"{out}: {count:,} answers", err=True)


def _read_unanswered(task: "Task", name: str, split: str, given: dict[str, Any]) -> "Examples":
    """Examples whose answers need not be known, also from lines of text or from standard input."""
    from litebert.inference.lines import read_lines
    from litebert.tasks.readers.known import Examples, read_task_examples
    from litebert.tasks.readers.sources import stem_of

    if name == "-":
        return Examples(read_lines(task, sys.stdin.buffer, "standard input"), 0, split)
    file, (read, _) = Path(name), split_reading(given)
    if not _has_lines(task, name, given):
        how = {key: read[key] for key in ("format", "header", "skip_bad")}
        return read_task_examples(task, file, split, with_labels=False, **how)
    with file.open("rb") as stream:
        return Examples(read_lines(task, stream, name), 0, stem_of(file))


def _show_strangers(task: "Task", found: "Predictions", file: Path, gold: Path) -> None:
    """Say that predictions are not labels of the file that they are measured by; all of them are counted as wrong."""
    from litebert.tasks.kinds import kind_of

    if not task.labels:
        return
    named = [{*kind_of(task).answer_labels(answer)} - {*task.labels} for answer in found.answers]
    strangers = [min(labels) for labels in named if labels]
    if strangers:
        message = f"{len(strangers):,} of {len(named):,} predictions are labels that {gold} does not have"
        typer.echo(f"litebert: {message}, such as {strangers[0]!r}: is {file} for it?", err=True)


def _show_skipped(read: "Examples") -> None:
    if read.num_skipped:
        typer.echo(f"{read.num_skipped:,} bad records were left out", err=True)


def _count_truncated(predictions: "Predictions") -> int:
    return sum("truncated" in details for details in predictions.details)


def _show_truncated(count: int, total: int, limit: int) -> None:
    if count:
        of_them = f"{count:,} of {total:,} texts"
        message = f"of {of_them} the encoder read only the beginning, {limit} tokens"
        typer.echo(f"litebert: {message}", err=True)


def _show(task: "Task", metrics: dict[str, float], read: "Examples", as_json: bool) -> None:
    if as_json:
        counts: dict[str, Any] = {"num_examples": len(read.examples), "num_skipped": read.num_skipped}
        print_json({"task": task.name, **counts, "metric": task.metric, "metrics": metrics})
        return
    from litebert.tasks.metrics import explain_metric

    skipped = f", {read.num_skipped:,} bad records left out" if read.num_skipped else ""
    typer.echo(f"{task.name}: {len(read.examples):,} examples{skipped}")
    for name, value in metrics.items():
        shown = f"{value:,.0f}" if name.endswith("total") else f"{value:.4f}"
        typer.echo(f"  {name:<18} {shown:>9}   {explain_metric(name, task)}")
