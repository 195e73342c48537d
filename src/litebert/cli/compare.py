"""`litebert compare`: the ladder of baselines and an encoder, on the same examples, in one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, SkipBad, print_json, sound
from litebert.cli.task_data import (
    Data,
    Dev,
    IdColumn,
    KindName,
    LabelColumn,
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
    from litebert.training.job import News

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
    from litebert.baselines.compare import Contest, choose_split
    from litebert.baselines.compare import compare as run_ladder
    from litebert.cli.progress import showing_progress
    from litebert.lab.tuning import tune
    from litebert.quantities import parse_duration
    from litebert.reports.compare_report import render_comparison_text, write_comparison
    from litebert.tasks.finetune import choose_length, configure, measure_volume, open_encoder

    check_duration_options(epochs, steps, budget)
    dataset = read_data(task, data, dev, test, kind, make_columns(text, pair, label, options, id_, separator), skip_bad)
    tell_data(dataset, label)
    shape, tokenizer, place = open_encoder(model)
    length = choose_length(dataset.task, shape, max_length)
    config = sound(
        lambda: configure(
            dataset.task,
            measure_volume(dataset.task, dataset.splits.get("train", ()), tokenizer, length),
            shape,
            place,
            steps=steps,
            epochs=epochs,
            seconds=None if budget is None else parse_duration(budget),
            batch_size=batch,
            lr=lr,
            max_length=max_length,
        )
    )
    folder = out or Path(f"{dataset.task.name}-compared")
    folder.mkdir(parents=True, exist_ok=True)
    contest = Contest(dataset, choose_split(dataset, split), config, tokenizer, folder, seeds)
    wanted = None if rungs is None else [name.strip() for name in rungs.split(",")]
    with showing_progress("comparing", 1000, as_json, fill=False) as show:
        current = ""

        def on_message(words: str) -> None:
            nonlocal current
            current = words
            show(0, words)

        def on_step(news: "News") -> None:
            show(round(1000 * news.progress), f"{current} step {news.step:,}")

        try:
            rows: list[dict[str, Any]] = run_ladder(contest, wanted, on_message=on_message, on_step=on_step, train=tune)
        except KeyboardInterrupt:
            typer.echo("Stopped, and saved. The same command goes on with the run that it was at.", err=True)
            raise typer.Exit(130) from None
    score = dataset.task.score
    title = f"{dataset.task.name}: {len(contest.examples):,} examples of {contest.split}"
    page = write_comparison(folder / "compare.html", title, rows, score)
    if as_json:
        print_json({"task": dataset.task.name, "split": contest.split, "score": score, "rows": rows})
        return
    typer.echo(title)
    typer.echo(render_comparison_text(rows, score))
    typer.echo(f"The page is {page}.")
