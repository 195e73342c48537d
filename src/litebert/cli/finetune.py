"""`litebert finetune`: from an encoder and examples to a model that answers."""

import functools
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, SkipBad, print_json, sound
from litebert.cli.task_data import (
    Data,
    Dev,
    Format,
    IdColumn,
    KindName,
    LabelColumn,
    NoHeader,
    OptionColumns,
    PairColumn,
    Separator,
    TaskOrFile,
    Test,
    TextColumn,
    make_columns,
    read_data,
    tell_data,
)
from litebert.cli.tuning import Batch, Budget, Epochs, MaxLength, Rate, Steps, check_duration_options
from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.tasks.config import FinetuneConfig
    from litebert.tasks.task import Dataset
    from litebert.text.tokenizer import Tokenizer
    from litebert.training.job import ProgressEvent, RunResult

__all__ = ["finetune"]


@app.command(
    epilog="Examples:  litebert finetune sst-2 --data glue/SST-2 --model my-run --epochs 3 --lr 2e-4\n\n"
    "litebert finetune reviews.csv --text review --label stars --model my-run --seeds 5\n\n"
    "litebert finetune squad2 --data squad --model my-run --out answers"
)
def finetune(
    task: TaskOrFile,
    model: Annotated[str, typer.Option("--model", "-m", help="The encoder: a run, a model folder or a hub name.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of the run; TASK-run if not given.")
    ] = None,
    data: Data = None,
    dev: Dev = None,
    test: Test = None,
    kind: KindName = None,
    text: TextColumn = "text",
    pair: PairColumn = None,
    label: LabelColumn = "label",
    options: OptionColumns = None,
    id_: IdColumn = None,
    separator: Separator = ",",
    format: Format = None,
    no_header: NoHeader = False,
    epochs: Epochs = None,
    steps: Steps = None,
    budget: Budget = None,
    lr: Rate = None,
    batch: Batch = None,
    max_length: MaxLength = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the head's weights and of the order.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with so many seeds: median, spread, failures.")] = 1,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many evaluations without a better score.")
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Leave the layers as they are; train the pooler and the head.")
    ] = False,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="Begin with random weights, to see what pretraining is worth.")
    ] = False,
    plain_head: Annotated[
        bool, typer.Option("--plain-head", help="squad2: the head that transformers knows, not the paper's.")
    ] = False,
    skip_bad: SkipBad = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    as_json: Json = False,
) -> None:
    """Fine-tune an encoder for a task. Recipes are the paper's (Table 14); own data get three epochs."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.quantities import parse_duration
    from litebert.tasks.finetune import choose_length, configure, measure_volume, open_encoder
    from litebert.training.run_folder import RunFolder

    check_duration_options(epochs, steps, budget)
    columns = make_columns(text, pair, label, options, id_, separator)
    dataset = read_data(task, data, dev, test, kind, columns, skip_bad, format, no_header)
    if plain_head and not dataset.task.has_unanswerable:
        raise typer.BadParameter("only questions that may have no answer have two heads", param_hint="--plain-head")
    if not dataset.splits.get("dev") and (seeds > 1 or patience is not None):
        raise RequestError(f"{dataset.task.name} has no examples for development here: seeds and patience need some")
    shape, tokenizer, place = open_encoder(model)
    length = choose_length(dataset.task, shape, max_length)
    volume = measure_volume(dataset.task, dataset.splits.get("train", ()), tokenizer, length)
    folder = out or Path(f"{dataset.task.name}-run")
    _check_folder(folder, seeds, resume)
    if os.environ.get("RANK", "0") == "0":
        tell_data(dataset, label)

    def choose(number: int) -> "FinetuneConfig":
        return configure(
            dataset.task,
            volume,
            shape,
            None if scratch else place,
            steps=steps,
            epochs=epochs,
            seconds=None if budget is None else parse_duration(budget),
            batch_size=batch,
            lr=lr,
            max_length=max_length,
            seed=number,
            frozen=frozen,
            patience=patience,
            answerability=not plain_head,
        )

    for number in range(seed, seed + seeds):
        config = sound(functools.partial(choose, number))
        run = folder if seeds == 1 else folder / f"seed-{number}"
        result = _train(dataset, run, config, tokenizer, resume and RunFolder(run).exists, as_json)
        if result.status == "interrupted":
            if not as_json:
                typer.echo(f"Stopped at step {result.step:,}, and saved. The same command with --resume goes on.")
            raise typer.Exit(128 + (result.signal or 0))
    if os.environ.get("RANK", "0") == "0":
        _conclude(folder, dataset, list(range(seed, seed + seeds)), as_json)


def _check_folder(folder: Path, seeds: int, resume: bool) -> None:
    """Refuse to go on with what is not there, and to put several runs into the folder of one."""
    from litebert.training.run_folder import RunFolder

    run = RunFolder(folder)
    if seeds > 1 and run.exists:
        raise RequestError(f"{folder} is the folder of a single run: choose another --out for {seeds} of them")
    if resume and not any(each.exists for each in ([run] if seeds == 1 else run.seeds())):
        raise RequestError(f"{folder} holds no run: leave --resume away to begin one")


def _train(
    data: "Dataset", out: Path, config: "FinetuneConfig", tokenizer: "Tokenizer", resume: bool, quiet: bool
) -> "RunResult":
    from litebert.cli.progress import showing_progress
    from litebert.lab.tuning import tune

    is_main = os.environ.get("RANK", "0") == "0"
    quiet = quiet or not is_main
    with showing_progress(out.name, 1000, quiet, fill=False) as show:

        def on_step(event: "ProgressEvent") -> None:
            show(round(1000 * event.progress), _describe(event, config.task.score))

        def on_message(words: str) -> None:
            if not quiet:
                typer.echo(f"litebert: {words}", err=True)

        return tune(
            data, out, config, tokenizer, resume=resume, is_main=is_main, on_step=on_step, on_message=on_message
        )


def _describe(event: "ProgressEvent", score: str) -> str:
    """A line about the run."""
    meter, scores = event.recent, event.metrics
    words = [f"step {event.step:,}"]
    if meter.get("loss") is not None:
        words.append(f"loss {meter['loss']:.3f}")
    if score in scores:
        words.append(f"{score} {scores[score]:.3f}")
    if meter:
        words.append(f"{meter['tokens_per_second']:,.0f} tokens/s")
    return ", ".join(words)


def _conclude(folder: Path, data: "Dataset", seeds: list[int], as_json: bool) -> None:
    """Say what came out; of several seeds, median and spread."""
    from litebert.tasks.seeds import has_learnt
    from litebert.training.run_folder import RunFolder

    runs = [folder] if len(seeds) == 1 else [folder / f"seed-{seed}" for seed in seeds]
    evaluations = [json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["splits"] for run in runs]
    majority = RunFolder(runs[0]).read_about()["baselines"]["majority"]
    score = data.task.score
    summary: dict[str, Any] = {"folder": str(folder), "task": data.task.name, "score": score, "majority": majority}
    if len(seeds) == 1:
        summary["splits"] = evaluations[0]
    else:
        summary["summary"] = _summarize(folder, seeds, evaluations, score, majority)
    if as_json:
        print_json(summary)
        return
    if data.num_skipped:
        typer.echo(f"{data.num_skipped:,} bad records were left out.")
    for split, scores in evaluations[0].items() if len(seeds) == 1 else ():
        typer.echo(f"{split}: " + ", ".join(f"{name} {scores[name]:.3f}" for name in data.task.metrics))
    for split, figures in summary.get("summary", {}).items():
        typer.echo(
            f"{split}: {score} {figures['median']:.3f} (median of {len(seeds)} seeds; {figures['lowest']:.3f} to "
            f"{figures['highest']:.3f})"
            + (f"; failed to train: seed {', '.join(map(str, figures['failed']))}" if figures["failed"] else "")
        )
    if score in majority:
        found = evaluations[0].get("dev", {}).get(score) if len(seeds) == 1 else None
        verdict = (
            ""
            if found is None or has_learnt(found, majority[score])
            else " This model is no better: it has not learnt."
        )
        typer.echo(f"Always the most frequent answer: {score} {majority[score]:.3f}.{verdict}")
    best = runs[0] if len(seeds) == 1 else runs[_best(evaluations, score)]
    command = shlex.join(["litebert", "predict", str(best), "your-file"])
    typer.echo(f"The model is {best / 'model'}, the report {best / 'report.html'}. Next:  {command}")


def _best(evaluations: list[dict[str, Any]], score: str) -> int:
    return max(range(len(evaluations)), key=lambda place: evaluations[place].get("dev", {}).get(score, 0.0))


def _summarize(
    folder: Path, seeds: list[int], evaluations: list[dict[str, Any]], score: str, majority: dict[str, float]
) -> dict[str, Any]:
    from litebert.folders import write_json
    from litebert.tasks.seeds import summarize_seeds

    summary = {
        split: summarize_seeds(
            {seed: evaluation[split][score] for seed, evaluation in zip(seeds, evaluations, strict=True)},
            majority.get(score) if split == "dev" else None,
        )
        for split in evaluations[0]
    }
    write_json(folder / "seeds.json", {"score": score, "splits": summary})
    return summary
