"""`litebert models` and `litebert plan`: the family, and what a run of one of its members needs."""

from typing import Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, print_json

__all__ = ["models", "plan"]


@app.command(epilog="Example:  litebert models --json")
def models(as_json: Json = False) -> None:
    """List the family: every ALBERT and BERT of the paper, with parameters, shape, cost and size."""
    from litebert.planning import tables

    rows = tables.family()
    if as_json:
        print_json(rows)
    else:
        tables.print_family(rows)


@app.command(epilog="Example:  litebert plan albert-base --batch 8 --length 128 --tokens 100M")
def plan(
    preset: Annotated[str | None, typer.Argument(help="A name of `litebert models`; not needed with --budget.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=65536, help="Sequences in a step; 32 if not given.")] = None,
    length: Annotated[
        int | None, typer.Option(min=8, max=65536, help="Tokens in a sequence; 128 if not given.")
    ] = None,
    tokens: Annotated[str | None, typer.Option(help="How many tokens to train on, such as 100M.")] = None,
    budget: Annotated[str | None, typer.Option(help="Recommend a run for this time, such as 30m or 3h.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Size of your text: tokens (25M) or bytes (100MB).")] = None,
    recompute: Annotated[bool, typer.Option(help="Measure with activations computed again.")] = False,
    compiled: Annotated[bool, typer.Option(help="Measure with compiled kernels; takes half a minute more.")] = False,
    measure: Annotated[bool, typer.Option(help="Run a few steps here to see the speed.")] = True,
    as_json: Json = False,
) -> None:
    """Say what a pretraining run needs, before it runs: memory, operations, time. Or recommend one for a time."""
    from litebert import quantities
    from litebert.planning import planner, tables

    if budget is not None:
        if corpus is None:
            raise typer.BadParameter("--budget needs --corpus, the size of your text")
        if not measure or any(choice is not None for choice in (preset, batch, length, tokens)):
            raise typer.BadParameter(
                "--budget chooses the preset, its shape and the tokens by measuring: leave them out"
            )
        seconds, size = quantities.parse_duration(budget), quantities.parse_corpus(corpus)
        _prepare(compiled)
        advice = planner.recommend(seconds, size)
        print_json(vars(advice)) if as_json else tables.print_recommendation(advice)
        return
    if preset is None:
        raise typer.BadParameter("name a preset of `litebert models`, or give --budget and --corpus")
    count = None if tokens is None else quantities.parse_count(tokens)
    result = planner.make_plan(preset, batch or 32, length or 128, recompute)
    if measure:
        _prepare(compiled)
        result = planner.measure_plan(result)
    if as_json:
        print_json(result.as_json() | {"seconds": None if count is None else result.seconds(count)})
    else:
        tables.print_plan(result, count)


def _prepare(compiled: bool) -> None:
    """Make the process fit for heavy work, before torch is loaded, and say what it is about to do."""
    from litebert.runtime import prepare_process

    typer.echo("measuring a few steps on this machine …", err=True)
    prepare_process()
    if compiled:
        from litebert.model.lean.kernels import use_compiled

        use_compiled(True)
