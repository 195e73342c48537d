"""`litebert evaluate`, `predict`, `score` and `ensemble`: what fine-tuned models say, and how good it is."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, SkipBad, print_json
from litebert.cli.task_data import Data, IdColumn, KindName, LabelColumn, OptionColumns, PairColumn, TextColumn
from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.tasks.task import Example, Task

__all__ = ["ensemble", "evaluate", "predict", "score"]

Split = Annotated[str, typer.Option(help="Which of the official files: dev, test, dev_mismatched …")]
FileOrFolder = Annotated[
    Path, typer.Option("--data", "-d", help="The file with the right answers, or a folder of official files.")
]


@app.command(epilog="Example:  litebert evaluate sst-2-run --data glue/SST-2 --split dev")
def evaluate(
    model: Annotated[str, typer.Argument(help="A fine-tuned run, model folder or ensemble.")],
    data: FileOrFolder,
    split: Split = "dev",
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

    predictor = open_predictor(model)
    examples, num_skipped = _read(predictor.task, data, split, True, skip_bad)
    scores, answers = predictor.score(examples)
    if out is not None:
        from litebert.lab.task_report import write_task_report

        out.mkdir(parents=True, exist_ok=True)
        dataset = Dataset(predictor.task, {split: examples}, num_skipped)
        write_results(out, dataset, {split: Result(scores, answers)})
        write_task_report(out, predictor.task, examples, answers, scores)
    _show(predictor.task, scores, len(examples), num_skipped, as_json)


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
    split: Split = "test",
    submission: Annotated[
        Path | None, typer.Option(help="Write the file that GLUE's site takes into this folder.")
    ] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Answer new examples: a text a line (a pair with a tab between), or files as in fine-tuning, labels not needed."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.tasks.lines import read_lines
    from litebert.tasks.predictions import write_glue_submission, write_predictions, write_squad_predictions
    from litebert.tasks.predictor import open_predictor
    from litebert.tasks.submissions import render_rows

    predictor = open_predictor(model)
    task = predictor.task
    if file == "-" or (Path(file).suffix in ("", ".txt") and Path(file).is_file()):
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            examples = read_lines(task, stream, "standard input" if file == "-" else file)
    else:
        examples, _ = _read(task, Path(file), split, False, skip_bad)
    answers = predictor.answer(examples)
    if submission is not None:
        typer.echo(f"{write_glue_submission(submission, task, split, examples, answers.answers)}")
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
    "litebert score reviews.csv --label stars --predictions theirs.jsonl"
)
def score(
    task: Annotated[str, typer.Argument(help="A task with official files, or your own file with the answers.")],
    predictions: Annotated[
        Path, typer.Option("--predictions", "-p", help="Answers of any system: .jsonl, .tsv, .csv, .json or .txt.")
    ],
    data: Data = None,
    split: Split = "dev",
    null_odds: Annotated[Path | None, typer.Option(help="squad2: a .json with the odds that there is none.")] = None,
    kind: KindName = None,
    text: TextColumn = "text",
    pair: PairColumn = None,
    label: LabelColumn = "label",
    options: OptionColumns = None,
    id_: IdColumn = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Score a file of predictions by the official metrics, whoever made it."""
    from litebert.cli.task_data import check_kind, make_columns
    from litebert.tasks.metrics import score_answers
    from litebert.tasks.predictions import read_predictions
    from litebert.tasks.sources import OFFICIAL, read_labelled

    if task in OFFICIAL:
        if data is None:
            raise typer.BadParameter(f"say where {task}'s right answers lie", param_hint="--data")
        known = OFFICIAL[task]
        examples, num_skipped = _read(known, data, split, True, skip_bad)
    else:
        columns = make_columns(text, pair, label, options, id_)
        known, examples, num_skipped = read_labelled(Path(task), check_kind(kind), columns, skip_bad)
    read = read_predictions(known, examples, predictions, null_odds)
    scores = score_answers(known, examples, read.answers, read.null_odds)
    _show(known, scores, len(examples), num_skipped, as_json)


@app.command(
    epilog="Example:  litebert ensemble rte-run/seed-0 rte-run/seed-1 rte-run/seed-2 --data glue/RTE -o rte-all"
)
def ensemble(
    models: Annotated[list[str], typer.Argument(help="Fine-tuned runs or model folders, of one task.")],
    data: FileOrFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the ensemble.")],
    split: Split = "dev",
    take_all: Annotated[bool, typer.Option("--all", help="Take every model, without choosing.")] = False,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Choose the models that answer best together, on examples for development; `evaluate` and `predict` take it."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.tasks.ensemble import choose_members, write_ensemble
    from litebert.tasks.predictor import Member

    members = [Member.open(model) for model in models]
    task = members[0].saved.task
    examples, _ = _read(task, data, split, True, skip_bad)
    choice = choose_members(members, examples, take_all)
    file = write_ensemble(out, choice)
    if as_json:
        names = [str(member.folder) for member in choice.predictor.members]
        print_json({"file": str(file), "members": names, "scores": choice.scores, "alone": choice.alone})
        return
    for name, value in choice.alone.items():
        typer.echo(f"{value:.4f}  {name}")
    typer.echo(f"{choice.scores[-1][task.score]:.4f}  {len(choice.predictor.members)} of them together ({task.score})")
    typer.echo(f"The ensemble is {out}. Next:  litebert predict {out} your-file")


def _read(task: "Task", place: Path, split: str, with_labels: bool, skip_bad: bool) -> tuple[list["Example"], int]:
    """Examples of a known task from a file, or from a folder of official files."""
    from litebert.tasks.sources import read_examples, read_official

    if not place.exists():
        raise RequestError(f"{place} is not there: name a file of examples, or a folder of official files")
    if place.is_dir():
        if task.columns is not None:
            raise RequestError(f"{place} is a folder: name a file of {task.name}'s examples")
        data = read_official(task.name, place, [split], skip_bad)
        return [*data.splits[split]], data.num_skipped
    return read_examples(task, place, with_labels, skip_bad)


def _show(task: "Task", scores: dict[str, float], num_examples: int, num_skipped: int, as_json: bool) -> None:
    if as_json:
        figures: dict[str, Any] = {"task": task.name, "num_examples": num_examples, "num_skipped": num_skipped}
        print_json({**figures, "score": task.score, "scores": scores})
        return
    from litebert.tasks.metrics import METRICS

    skipped = f", {num_skipped:,} bad records left out" if num_skipped else ""
    typer.echo(f"{task.name}: {num_examples:,} examples{skipped}")
    for name, value in scores.items():
        shown = f"{value:,.0f}" if name.endswith("total") else f"{value:.4f}"
        typer.echo(f"  {name:<18} {shown:>9}   {METRICS.get(name, '')}")
