"""`litebert lab`: the paper's tables and figures, and grids of your own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.options import Columns, Json, print_json
from litebert.cli.progress import showing_progress

if TYPE_CHECKING:
    from litebert.lab.grid import Grid, GridEvent

__all__ = ["app"]

app = typer.Typer(help="Run the paper's tables and figures at the size of this machine.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", "-o", help="The folder of the grid: cells, tables, pages.")]


@app.command("list", epilog="Example:  litebert lab list")
def list_(as_json: Json = False) -> None:
    """List the experiments, and the scales at which they run."""
    from litebert.lab.experiment import list_experiments
    from litebert.lab.scales import SCALES

    known = list_experiments()
    if as_json:
        experiments = {name: {"title": one.title, "cells": len(one.all_cells())} for name, one in known.items()}
        print_json({"experiments": experiments, "scales": {name: scale.about for name, scale in SCALES.items()}})
        return
    for name, one in known.items():
        typer.echo(f"{name:<9} {one.title.partition(': ')[2]}, {len(one.all_cells())} cells")
    typer.echo("\nscales: " + "; ".join(f"{name} ({scale.about})" for name, scale in SCALES.items()))


@app.command(
    epilog="Examples:  litebert lab run table4 --budget 1h\n\n"
    "litebert lab run table3 table4 --corpus my-corpus --task sst-2=glue/SST-2 --seeds 5\n\n"
    "litebert lab run my-grid.toml --text books/ --dry-run"
)
def run(
    names: Annotated[list[str], typer.Argument(help="Names of `litebert lab list`, or .toml files of your own.")],
    scale: Annotated[str, typer.Option(help="nano, mini, small or paper: what becomes of the paper's sizes.")] = "nano",
    corpus: Annotated[Path | None, typer.Option(help="A prepared corpus to train on.")] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="Text to prepare one of: files, folders; repeat it. builtin:documentation if not given."),
    ] = None,
    column: Columns = None,
    more_text: Annotated[
        Path | None, typer.Option(help="A larger corpus with the same tokenizer, for experiments about more text.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task to score frozen states on: sst-2=FOLDER for official files, or a file with text and label; "
            "repeat it. With the built-in text, an example task if not given."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="How often each cell is run.")] = 3,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of a cell; those of the scale if not given.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time for the whole grid, such as 2h; the steps follow from it.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Cells that run at a time; as many as there are cores if not given."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads of each.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on a Dask cluster whose workers share this disk: its scheduler's address.")
    ] = None,
    out: Out = Path("lab"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells with their time and memory.")] = False,
    as_json: Json = False,
) -> None:
    """Run experiments: pretrain every cell for every seed, measure it, write tables and pages. Interrupted, the same
    command goes on."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api
    from litebert.folders import read_json

    options: dict[str, Any] = {
        "corpus": corpus,
        "text": text[0] if text and len(text) == 1 else text or "builtin:documentation",
        "column": column or "text",
        "more_text": more_text,
        "tasks": task,
        "scale": scale,
        "seeds": seeds,
        "steps": steps,
        "budget": budget,
        "workers": workers,
        "threads": threads,
        "scheduler": scheduler,
        "out": out,
    }

    def say(message: str) -> None:
        if not as_json:
            typer.echo(f"litebert: {message}", err=True)

    if dry_run:
        _print_plan(api.plan_experiments(names, **options, dry_run=True, on_message=say), as_json)
        return
    with showing_progress("lab", 1000, as_json, fill=False) as show:

        def on_event(event: "GridEvent") -> None:
            show(round(1000 * event.done), event.message)
            if "failed" in event.message:
                say(event.message)

        result = api.run_experiments(names, **options, on_event=on_event, on_message=say)
    stems = [Path(name).stem for name in names]
    if as_json:
        failures = dict(sorted(result.failures.items()))
        tables = {name: out / name / "results.json" for name in stems}
        print_json(
            {
                "done": result.done,
                "total": result.total,
                "failures": failures,
                "tables": {name: str(path) for name, path in tables.items()},
                "verdicts": {name: read_json(path)["verdicts"] for name, path in tables.items()},
            }
        )
    else:
        for name in stems:
            typer.echo((out / name / "table.md").read_text(encoding="utf-8"))
        typer.echo(f"{result.done} of {result.total} cells are done. Pages: {out / 'index.html'}")
        if result.interrupted or result.failures:
            typer.echo("Go on with the same command.")
    if result.interrupted:
        raise typer.Exit(130)
    if result.failures:
        raise typer.Exit(1)


@app.command(epilog="Example:  litebert lab show table4")
def show(
    name: Annotated[str, typer.Argument(help="A name of `litebert lab list`, or a .toml file of your own.")],
    out: Out = Path("lab"),
    as_json: Json = False,
) -> None:
    """Show an experiment: its table, if it was run into the folder, or else its cells with the paper's values."""
    from litebert.folders import read_json, read_text
    from litebert.lab.experiment import open_experiment

    if not as_json and (out / name / "table.md").is_file():  # also of a file that is not here any more
        typer.echo(read_text(out / name / "table.md"))
        return
    stem, experiment = open_experiment(name)
    if as_json:
        path = out / stem / "results.json"
        print_json(read_json(path) if path.is_file() else experiment.model_dump(mode="json", exclude_defaults=True))
        return
    if (out / stem / "table.md").is_file():
        typer.echo(read_text(out / stem / "table.md"))
        return
    typer.echo(f"{experiment.title}\n{' '.join(experiment.about.split())}\n")
    for cell in experiment.all_cells():
        paper = ", ".join(f"{title} {value}" for title, value in cell.paper.items())
        typer.echo(f"  {cell.name}" + (f"  (paper: {paper})" if paper else ""))
    typer.echo(f"\nNot run into {out} yet:  litebert lab run {name} --out {out}")


def _print_plan(grid: "Grid", as_json: bool) -> None:
    """The cells, with what they take."""
    from litebert.model.cost import count_encoder_parameters
    from litebert.quantities import format_bytes, format_count, format_duration

    seeds, workers = grid.options.seeds, max(1, grid.options.workers)
    total = seeds * sum(cell.seconds or 0.0 for cell in grid.cells) / workers
    if as_json:
        rows = [
            {
                "cell": cell.name,
                "parameters": count_encoder_parameters(cell.config.model),
                "steps": cell.config.train.steps,
                "seconds": cell.seconds,
                "memory": cell.memory,
            }
            for cell in grid.cells
        ]
        print_json({"cells": rows, "seeds": seeds, "workers": workers, "seconds": total})
        return
    for cell in grid.cells:
        size = format_count(count_encoder_parameters(cell.config.model))
        time = "too large to be measured here" if cell.seconds is None else format_duration(cell.seconds)
        typer.echo(
            f"{cell.name:<40} {size:>6} parameters  {cell.config.train.steps:>7,} steps  "
            f"{time}, {format_bytes(cell.memory)}"
        )
    typer.echo(f"{len(grid.cells)} cells × {seeds} seeds, {workers} at a time: about {format_duration(total)} in all.")
