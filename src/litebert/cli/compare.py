"""`litebert compare`: the ladder of baselines and an encoder, on the same examples, in one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from litebert.training.job import ProgressEvent

__all__ = ["compare"]


@app.command(
    epilog="Examples:  litebert compare reviews.csv --text review --label stars --model my-run\n\n"
    "litebert compare sst-2 --data glue/SST-2 --model my-run --seeds 5 --lr 2e-4 --epochs 2"
)
def compare(
    task: TaskOrFile,
    model: Annotated[str, typer.Option("--model", "-m", help="The encoder: a run, a model folder or a hub name.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A folder for the runs, table and page.")] = None,
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
    split: Annotated[str | None, typer.Option(help="Score on this split; dev, or test for your own data.")] = None,
    rungs: Annotated[
        str | None, typer.Option(help="Only these rungs, such as tf-idf,pretrained encoder; all if not given.")
    ] = None,
    epochs: Epochs = None,
    steps: Steps = None,
    budget: Budget = None,
    lr: Rate = None,
    batch: Batch = None,
    max_length: MaxLength = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the encoder; the table has the median.")] = 1,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Run the ladder: majority, bag of words, tf-idf, word2vec, n-grams, an encoder from scratch, and yours."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.baselines.compare import Comparison
    from litebert.baselines.compare import compare as run_ladder
    from litebert.cli.progress import showing_progress
    from litebert.lab.tuning import tune
    from litebert.quantities import parse_duration
    from litebert.reports.comparison import render_comparison_text, write_comparison

    check_duration_options(epochs, steps, budget)
    columns = make_columns(text, pair, label, options, id_, separator)
    dataset = read_data(task, data, dev, test, kind, columns, skip_bad, format, no_header)
    tell_data(dataset, label)
    comparison = sound(
        lambda: Comparison.plan(
            dataset,
            model,
            out or Path(f"{dataset.task.name}-compared"),
            split=split,
            num_seeds=seeds,
            steps=steps,
            epochs=epochs,
            seconds=None if budget is None else parse_duration(budget),
            batch_size=batch,
            lr=lr,
            max_length=max_length,
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

        try:
            result = run_ladder(comparison, wanted, on_message=on_message, on_step=on_step, train=tune)
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
