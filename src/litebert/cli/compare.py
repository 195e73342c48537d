"""`litebert compare`: the ladder of baselines and an encoder, on the same examples, in one table."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import EncoderName, Json, print_json, takes, validated
from litebert.cli.task_data import TaskOrFile, layout, reading, show_data, split_reading, splits, tuning
from litebert.hub import DEFAULT_ENCODER

if TYPE_CHECKING:
    from litebert.tasks.task import Dataset
    from litebert.training.job import ProgressEvent, RunResult

__all__ = ["compare"]


@app.command(
    epilog="Examples:  litebert compare reviews.csv --text review --label stars --model my-run\n\n"
    "litebert compare sst-2 --data glue/SST-2 --model my-run --seeds 5 --lr 2e-4 --epochs 2"
)
@takes(splits, reading, layout, tuning)
def compare(
    task: TaskOrFile,
    model: EncoderName = DEFAULT_ENCODER,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder for the runs, table and page.")] = None,
    split: Annotated[str | None, typer.Option(help="Measure on this split; dev, or test for your own data.")] = None,
    rungs: Annotated[
        str | None, typer.Option(help="Only these rungs, such as tf-idf,pretrained encoder; all if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the encoder; the table has the median.")] = 1,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Run the ladder: majority, bags of words, tf-idf, word2vec, n-grams, your encoder's vectors, the encoder tuned."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api
    from litebert.baselines.compare import Comparison
    from litebert.baselines.compare import compare as run_ladder
    from litebert.cli.progress import showing_progress
    from litebert.quantities import parse_duration
    from litebert.reports.comparison import render_comparison_text, write_comparison
    from litebert.tasks.finetune import finetune

    read, tune = split_reading(given)
    budget = tune.pop("budget")
    if sum(value is not None for value in (tune["epochs"], tune["steps"], budget)) > 1:
        raise typer.BadParameter("--epochs, --steps and --budget all say how long to train: give one of them")
    dataset = api.read_data(task, **read)
    show_data(dataset, read["label"])
    comparison = validated(
        lambda: Comparison.plan(
            dataset,
            model,
            out or Path(f"{dataset.task.name}-compared"),
            split=split,
            num_seeds=seeds,
            seconds=None if budget is None else parse_duration(budget),
            batch_size=tune.pop("batch"),
            **tune,
        )
    )
    wanted = None if rungs is None else [name.strip() for name in rungs.split(",")]
    with showing_progress("comparing", 1000, as_json, fill=False) as show:
        current = ""

        def on_message(message: str) -> None:
            nonlocal current
            current = message
            show(0, message)

        def on_step(event: "ProgressEvent") -> None:
            show(round(1000 * event.progress), f"{current} step {event.step:,}")

        def train(data: "Dataset", folder: Path, *rest: Any, **options: Any) -> "RunResult":
            """Fine-tune, and leave a report in the folder of the run."""
            return finetune(data, folder, *rest, on_evaluation=api.report_writer(folder, data), **options)

        try:
            result = run_ladder(comparison, wanted, on_message=on_message, on_step=on_step, train=train)
        except KeyboardInterrupt:
            typer.echo("Stopped, and saved. The same command goes on with the run that it was at.", err=True)
            raise typer.Exit(130) from None
    title = f"{dataset.task.name}: {len(comparison.examples):,} examples of {comparison.split}"
    page = write_comparison(comparison.out / "compare.html", title, result["rows"], result["metric"], result)
    if as_json:
        print_json(result)
        return
    typer.echo(title)
    typer.echo(render_comparison_text(result["rows"], result["metric"], result))
    for row in result["rows"]:
        if row.get("only_majority"):
            typer.echo(f"The {row['name']} found no more than the majority: it has not learnt the task.")
    typer.echo(f"The page is {page}.")
    best = max((row for row in result["rows"] if "folder" in row), key=lambda row: row["score"], default=None)
    if best is not None:
        command = shlex.join(["litebert", "predict", best["folder"], "your-file"])
        typer.echo(f"Of those that are kept as models the best is {best['name']}. Next:  {command}")
