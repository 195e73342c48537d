"""`litebert evaluate`, `predict`, `score` and `ensemble`: what fine-tuned models say, and how good it is."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, SkipBad, print_json
from litebert.cli.task_data import (
    Data,
    Format,
    IdColumn,
    KindName,
    LabelColumn,
    NoHeader,
    OptionColumns,
    PairColumn,
    Separator,
    TextColumn,
    check_kind,
    make_columns,
    refuse_data,
    refuse_own_options,
)
from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.tasks.predictor import Member
    from litebert.tasks.task import Example, Task

__all__ = ["ensemble", "evaluate", "predict", "score"]

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


@dataclass(frozen=True)
class _Read:
    """Examples, how many bad records were left out, and what the split is called."""

    examples: list["Example"]
    num_skipped: int
    split: str


@app.command(epilog="Example:  litebert evaluate sst-2-run --data glue/SST-2 --split dev")
def evaluate(
    model: Annotated[str, typer.Argument(help="A fine-tuned run, model folder or ensemble.")],
    data: FileOrFolder,
    split: SplitOfDev = None,
    held_out: HeldOut = False,
    format: Format = None,
    no_header: NoHeader = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder for answers, figures and a report.")] = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Score a fine-tuned model on examples whose answers are known."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.tasks.predictor import open_predictor
    from litebert.tasks.results import Result, write_results
    from litebert.tasks.task import Dataset
    from litebert.training.run_folder import RunFolder

    if out is not None and RunFolder(out).exists:
        raise RequestError(f"{out} is the folder of a run, whose own figures would be lost: name another with -o")
    _check_split(data, split)
    predictor = open_predictor(model)
    members = predictor.members if held_out else ()
    read = _read(predictor.task, data, split or "dev", True, skip_bad, members, format, not no_header)
    scores, answers = predictor.score(read.examples)
    if out is not None:
        from litebert.reports.finetuning import write_task_report

        out.mkdir(parents=True, exist_ok=True)
        dataset = Dataset(predictor.task, {read.split: read.examples}, read.num_skipped)
        write_results(out, dataset, {read.split: Result(scores, answers)})
        write_task_report(out, predictor.task, read.examples, answers, scores)
    _show(predictor.task, scores, read, as_json)


@app.command(
    epilog="Examples:  litebert predict sst-2-run reviews.txt\n\ncat questions.jsonl | litebert predict my-run - \n\n"
    "litebert predict mnli-run glue/MNLI --split test_mismatched --submission upload"
)
def predict(
    model: Annotated[str, typer.Argument(help="A fine-tuned run, model folder or ensemble.")],
    file: Annotated[str, typer.Argument(help="A file, a folder of official files, or - for standard input.")] = "-",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .jsonl, .tsv or (SQuAD) .json file; standard output.")
    ] = None,
    split: SplitOfTest = None,
    submission: Annotated[
        Path | None, typer.Option(help="Write the file that GLUE's site takes into this folder.")
    ] = None,
    format: Format = None,
    no_header: NoHeader = False,
    skip_bad: SkipBad = False,
) -> None:
    """Answer new examples: a text a line (a pair with a tab between), or files as in fine-tuning, labels not needed."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.cli.progress import showing_progress
    from litebert.tasks.predictions import write_glue_submission, write_predictions, write_squad_predictions
    from litebert.tasks.predictor import open_predictor
    from litebert.tasks.submissions import check_destination, render_rows

    if out is not None and submission is not None:
        raise RequestError("-o and --submission both say where the answers go: leave one out")
    _check_split(None if file == "-" else Path(file), split)
    predictor = open_predictor(model)
    task = predictor.task
    check_destination(task, out, submission)
    read = _read_unanswered(task, file, split or "test", skip_bad, format, not no_header)
    _tell_skipped(read)
    examples = read.examples
    total = len(examples)
    with showing_progress("answering", total) as show:
        answers = predictor.answer(examples, lambda done: show(min(done, total), f"{done:,} rows"))
    if submission is not None:
        typer.echo(f"{write_glue_submission(submission, task, read.split, examples, answers.answers)}")
    elif out is None:
        for row in render_rows(examples, answers.answers, answers.details):
            typer.echo(row)
    elif task.kind == "questions" and out.suffix == ".json":
        write_squad_predictions(out, examples, answers.answers, answers.null_odds if task.has_unanswerable else None)
        typer.echo(f"{out}: {len(examples):,} answers", err=True)
    else:
        write_predictions(out, task, examples, answers.answers, answers.details)
        typer.echo(f"{out}: {len(examples):,} answers", err=True)


@app.command(
    epilog="Examples:  litebert score squad2 --data dev-v2.0.json --predictions mine.json --json\n\n"
    "litebert score reviews.csv --text review --label stars --predictions theirs.jsonl"
)
def score(
    task: Annotated[str, typer.Argument(help="A task with official files, or your own file with the answers.")],
    predictions: Annotated[
        Path, typer.Option("--predictions", "-p", help="Answers of any system: .jsonl, .tsv, .csv, .json or .txt.")
    ],
    data: Data = None,
    split: SplitOfDev = None,
    null_odds: Annotated[Path | None, typer.Option(help="squad2: a .json with the odds that there is none.")] = None,
    kind: KindName = None,
    text: TextColumn = "text",
    pair: PairColumn = None,
    label: LabelColumn = "label",
    options: OptionColumns = None,
    id_: IdColumn = None,
    separator: Separator = ",",
    format: Format = None,
    no_header: NoHeader = False,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Score a file of predictions by the official metrics, whoever made it."""
    from litebert.tasks.predictions import read_predictions
    from litebert.tasks.readers.sources import OFFICIAL, add_labels, read_labelled
    from litebert.tasks.scoring import score_predictions

    columns = make_columns(text, pair, label, options, id_, separator)
    if task in OFFICIAL:
        refuse_own_options(task, columns, {"--kind": kind, "--format": format, "--no-header": no_header or None})
        if data is None:
            raise typer.BadParameter(f"say where {task}'s right answers lie", param_hint="--data")
        _check_split(data, split)
        known = OFFICIAL[task]
        gold = _read(known, data, split or "dev", True, skip_bad)
        read = read_predictions(known, gold.examples, predictions, null_odds)
    else:
        refuse_data(task, data)
        _check_split(Path(task), split)
        known, examples, num_skipped = read_labelled(
            Path(task), check_kind(kind), columns, skip_bad, format, not no_header
        )
        gold = _Read(examples, num_skipped, "")
        read = read_predictions(known, examples, predictions, null_odds, takes_any_label=True)
        _tell_strangers(known, read.answers, predictions, Path(task))
        known = add_labels(known, read.answers)
    scores = score_predictions(known, gold.examples, read)
    _show(known, scores, gold, as_json)


@app.command(
    epilog="Examples:  litebert ensemble rte-run/seed-0 rte-run/seed-1 rte-run/seed-2 --data glue/RTE -o rte-all\n\n"
    "litebert ensemble reviews-run/seed-* --data reviews.csv --held-out -o reviews-all"
)
def ensemble(
    models: Annotated[list[str], typer.Argument(help="Fine-tuned runs or model folders, of one task.")],
    data: FileOrFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the ensemble.")],
    split: SplitOfDev = None,
    held_out: HeldOut = False,
    take_all: Annotated[bool, typer.Option("--all", help="Take every model, without choosing.")] = False,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Choose the models that answer best together, on examples for development; `evaluate` and `predict` take it."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.tasks.ensemble import choose_members, write_ensemble
    from litebert.tasks.predictor import Member

    _check_split(data, split)
    members = [Member.open(model) for model in models]
    task = members[0].saved.task
    read = _read(task, data, split or "dev", True, skip_bad, members if held_out else ())
    _tell_skipped(read)
    choice = choose_members(members, read.examples, take_all)
    file = write_ensemble(out, choice)
    if as_json:
        names = [str(member.folder) for member in choice.predictor.members]
        print_json({"file": str(file), "members": names, "scores": choice.scores, "alone": choice.alone})
        return
    for name, value in choice.alone.items():
        typer.echo(f"{value:.4f}  {name}")
    typer.echo(f"{choice.scores[-1][task.score]:.4f}  {len(choice.predictor.members)} of them together ({task.score})")
    typer.echo(f"The ensemble is {out}. Next:  litebert predict {out} your-file")


def _check_split(place: Path | None, split: str | None) -> None:
    """Refuse a split of what is no folder."""
    if split is not None and (place is None or place.is_file()):
        what = "standard input" if place is None else place
        raise RequestError(f"--split chooses a file of a folder, and {what} is none: leave it out, or name the folder")


def _read(
    task: "Task",
    place: Path,
    split: str,
    with_labels: bool,
    skip_bad: bool,
    held_out_by: "Sequence[Member]" = (),
    format: str | None = None,
    header: bool = True,
) -> _Read:
    """Examples of a known task from a file, or from a folder of official files; or those that models held out of it."""
    from litebert.tasks.readers.sources import hold_out, is_official, read_examples, read_official, stem_of
    from litebert.tasks.saved import hash_examples

    if not place.exists():
        raise RequestError(f"{place} is not there: name a file of examples, or a folder of official files")
    if held_out_by and is_official(task):
        raise RequestError(f"{task.name} has official examples for development: leave --held-out out")
    if place.is_dir():
        if not is_official(task):
            raise RequestError(f"{place} is a folder: name a file of {task.name}'s examples")
        data = read_official(task.name, place, [split], skip_bad)
        return _Read([*data.splits[split]], data.num_skipped, split)
    examples, num_skipped = read_examples(task, place, with_labels, skip_bad, format, header)
    if held_out_by:
        _, examples = hold_out(examples)
        stranger = next((member for member in held_out_by if member.saved.dev != hash_examples(examples)), None)
        if stranger is not None:
            raise RequestError(
                f"{stranger.folder} did not hold these out: {place} has changed since, or its run had another file, "
                "--dev or other bad records; leave --held-out out"
            )
    return _Read(examples, num_skipped, stem_of(place))


def _read_unanswered(task: "Task", name: str, split: str, skip_bad: bool, format: str | None, header: bool) -> _Read:
    """Examples whose answers need not be known, also from lines of text or from standard input."""
    from litebert.tasks.readers.lines import read_lines
    from litebert.tasks.readers.sources import has_plain_lines, stem_of

    if name == "-":
        return _Read(read_lines(task, sys.stdin.buffer, "standard input"), 0, split)
    file = Path(name)
    is_table = format is not None or not header
    if is_table or not (file.is_file() and has_plain_lines(task, file)):
        return _read(task, file, split, False, skip_bad, (), format, header)
    with file.open("rb") as stream:
        return _Read(read_lines(task, stream, name), 0, stem_of(file))


def _tell_strangers(task: "Task", answers: Sequence[Any], file: Path, gold: Path) -> None:
    """Say that predictions are not labels of the file that they are scored by; all of them are counted as wrong."""
    if not task.labels:
        return
    named = [answer if isinstance(answer, tuple) else (answer,) for answer in answers]
    strangers = [min({*labels} - {*task.labels}) for labels in named if {*labels} - {*task.labels}]
    if strangers:
        words = f"{len(strangers):,} of {len(answers):,} predictions are labels that {gold} does not have"
        typer.echo(f"litebert: {words}, such as {strangers[0]!r}: is {file} for it?", err=True)


def _tell_skipped(read: _Read) -> None:
    if read.num_skipped:
        typer.echo(f"{read.num_skipped:,} bad records were left out", err=True)


def _show(task: "Task", scores: dict[str, float], read: _Read, as_json: bool) -> None:
    if as_json:
        figures: dict[str, Any] = {"num_examples": len(read.examples), "num_skipped": read.num_skipped}
        print_json({"task": task.name, **figures, "score": task.score, "scores": scores})
        return
    from litebert.tasks.metrics import METRICS

    skipped = f", {read.num_skipped:,} bad records left out" if read.num_skipped else ""
    typer.echo(f"{task.name}: {len(read.examples):,} examples{skipped}")
    for name, value in scores.items():
        shown = f"{value:,.0f}" if name.endswith("total") else f"{value:.4f}"
        typer.echo(f"  {name:<18} {shown:>9}   {METRICS.get(name, '')}")
