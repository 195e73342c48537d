"""`litebert finetune`: from an encoder and examples to a model that answers."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import ConfigFile, EncoderName, Json, Set, print_json, takes
from litebert.cli.progress import as_far_as_it_came, is_main_process, showing_run
from litebert.cli.task_data import TaskOrFile, layout, reading, show_data, split_reading, splits, tuning
from litebert.errors import RequestError
from litebert.hub import DEFAULT_ENCODER

if TYPE_CHECKING:
    from litebert.api import FinetuneResult
    from litebert.baselines.fit import FitResult
    from litebert.tasks.task import Dataset

__all__ = ["conclude", "finetune"]


@app.command(
    epilog="Examples:  litebert finetune sst-2 --data glue/SST-2 --model my-run --epochs 3 --lr 2e-4\n\n"
    "litebert finetune reviews.csv --text review --label stars --model my-run --seeds 5\n\n"
    "litebert finetune pairs.tsv --kind similarity --text first --pair second --label score --model my-run\n\n"
    "litebert finetune reviews.csv --tf-idf --out reviews-run\n\n"
    "litebert finetune reviews.csv --teacher large-run --unlabelled more-reviews.csv --out small-run\n\n"
    "litebert finetune squad2 --data squad --model my-run --out answers"
)
@takes(splits, reading, layout, tuning)
def finetune(
    task: TaskOrFile,
    model: EncoderName = DEFAULT_ENCODER,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of the run; TASK-run if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the head's weights and of the order.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with so many seeds: median, spread, failures.")] = 1,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many evaluations without a better metric.")
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Leave the layers as they are; train the pooler and the head.")
    ] = False,
    elastic: Annotated[
        bool, typer.Option("--elastic", help="Learn to answer after every pass, for `litebert optimize`.")
    ] = False,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="Begin with random weights, to see what pretraining is worth.")
    ] = False,
    plain_head: Annotated[
        bool, typer.Option("--plain-head", help="squad2: the head that transformers knows, not the paper's.")
    ] = False,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Let every class count the same in the loss, however rare it is.")
    ] = False,
    teacher: Annotated[
        str | None,
        typer.Option(help="A larger model that was fine-tuned for this task: learn what it says, beside the labels."),
    ] = None,
    unlabelled: Annotated[
        Path | None, typer.Option(help="Texts without labels, to learn what the teacher says about them.")
    ] = None,
    tf_idf: Annotated[
        bool,
        typer.Option(
            "--tf-idf",
            help="Count words beside the encoder, and add what they say: of a class, or of the sentence that holds an "
            "answer.",
        ),
    ] = False,
    config: ConfigFile = None,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Fine-tune an encoder for a task. Recipes: the paper's (Table 14); own data: three epochs, 150 steps at least."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api
    from litebert.training.run_folder import RunFolder

    read, tune = split_reading(given)
    dataset = api.read_data(task, **read)
    if not dataset.splits.get("dev") and (seeds > 1 or patience is not None):
        raise RequestError(f"{dataset.task.name} has no examples for development here: seeds and patience need some")
    folder = RunFolder(out or f"{dataset.task.name}-run")
    _check_folder(folder, seeds, resume)
    if is_main_process():
        show_data(dataset, read["label"])
        if read["header"] and read["text"].isdecimal() and dataset.task.columns is not None:
            message = "columns are named by number, and the first line was taken for their names: if it is an example,"
            typer.echo(f"litebert: {message} say --no-header", err=True)
    results = []
    for number in range(seed, seed + seeds):
        run = folder if seeds == 1 else folder.seed(number)
        with showing_run(run.path.name, as_json, dataset.task.metric) as watch:
            result = as_far_as_it_came(
                api.finetune,
                dataset,
                model=model,
                out=run.path,
                seed=number,
                patience=patience,
                frozen=frozen,
                elastic=elastic,
                scratch=scratch,
                plain_head=plain_head,
                balanced=balanced,
                teacher=teacher,
                unlabelled=unlabelled,
                tf_idf=tf_idf,
                config=config,
                set=set_ or (),
                resume=resume and run.exists,
                **watch,
                **tune,
            )
        if result.status == "interrupted":
            if not as_json:
                typer.echo(f"Stopped at step {result.step:,}, and saved. The same command with --resume goes on.")
            raise typer.Exit(128 + (result.signal or 0))
        results.append(result)
    if is_main_process():
        conclude(folder.path, dataset, range(seed, seed + seeds), results, as_json)


def _check_folder(folder: Any, seeds: int, resume: bool) -> None:
    """Refuse to go on with what is not there, and to put several runs into the folder of one."""
    if seeds > 1 and folder.exists:
        raise RequestError(f"{folder.path} is the folder of a single run: choose another --out for {seeds} of them")
    if resume and not (folder.exists if seeds == 1 else any(run.exists for run in folder.seeds())):
        raise RequestError(f"{folder.path} holds no run: leave --resume away to begin one")


def conclude(
    folder: Path, data: "Dataset", seeds: range, results: "Sequence[FinetuneResult | FitResult]", as_json: bool
) -> None:
    """Say what came out; of several seeds, median and spread."""
    from litebert.tasks.metrics import has_learnt

    metric, majority = data.task.metric, results[0].baselines.get("majority", {})
    summary: dict[str, Any] = {"folder": str(folder), "task": data.task.name, "metric": metric, "majority": majority}
    if len(seeds) == 1:
        summary["splits"] = results[0].splits
    else:
        summary["summary"] = _summarize(folder, seeds, results, metric, majority)
    if as_json:
        print_json(summary)
        return
    if data.num_skipped:
        typer.echo(f"{data.num_skipped:,} bad records were left out.")
    for split, metrics in results[0].splits.items() if len(seeds) == 1 else ():
        typer.echo(f"{split}: " + ", ".join(f"{name} {metrics[name]:.3f}" for name in data.task.metrics))
    for split, spread in summary.get("summary", {}).items():
        typer.echo(
            f"{split}: {metric} {spread['median']:.3f} (median of {len(seeds)} seeds; {spread['lowest']:.3f} to "
            f"{spread['highest']:.3f})"
            + (f"; failed to train: seed {', '.join(map(str, spread['failed']))}" if spread["failed"] else "")
        )
    if metric in majority:
        found = results[0].metrics.get(metric) if len(seeds) == 1 else None
        is_learnt = found is None or has_learnt(found, majority[metric])
        verdict = "" if is_learnt else " This model is no better: it has not learnt."
        typer.echo(f"Always the most frequent answer: {metric} {majority[metric]:.3f}.{verdict}")
    best = max(results, key=lambda result: result.metrics.get(metric, 0.0))
    command = shlex.join(["litebert", "predict", str(best.folder), "your-file"])
    report = f", the report {best.report}" if best.report is not None else ""
    typer.echo(f"The model is {best.model}{report}. Next:  {command}")


def _summarize(
    folder: Path,
    seeds: range,
    results: "Sequence[FinetuneResult | FitResult]",
    metric: str,
    majority: dict[str, float],
) -> dict[str, Any]:
    from litebert.folders import write_json
    from litebert.tasks.metrics import summarize_seeds
    from litebert.training.run_folder import RunFolder

    summary = {
        split: summarize_seeds(
            {seed: result.splits[split][metric] for seed, result in zip(seeds, results, strict=True)},
            majority.get(metric) if split == "dev" else None,
        )
        for split in results[0].splits
    }
    write_json(RunFolder(folder).seeds_file, {"metric": metric, "splits": summary})
    return summary
