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


@app.command(
    epilog="Example:  litebert plan albert-base --batch 8 --length 128 --tokens 100M\n\n"
    "Example:  litebert plan --workers 64 --link 25Gbit --rate 50T"
)
def plan(
    preset: Annotated[
        str | None, typer.Argument(help="A name of `litebert models`; not needed with --budget or --workers.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=65536, help="Sequences in a step; 32 if not given, 4096 with --workers.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=8, max=65536, help="Tokens in a sequence; 128 if not given, 512 with --workers."),
    ] = None,
    tokens: Annotated[str | None, typer.Option(help="How many tokens to train on, such as 100M.")] = None,
    budget: Annotated[str | None, typer.Option(help="Recommend a run for this time, such as 30m or 3h.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Size of your text: tokens (25M) or bytes (100MB).")] = None,
    workers: Annotated[int | None, typer.Option(help="Train on so many workers; needs --link.")] = None,
    link: Annotated[str | None, typer.Option(help="What joins the workers, such as 25Gbit.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Operations a second of a worker, such as 50T; measured here if not given.")
    ] = None,
    recompute: Annotated[bool, typer.Option(help="Measure with activations computed again.")] = False,
    compiled: Annotated[bool, typer.Option(help="Measure with compiled kernels; takes half a minute more.")] = False,
    measure: Annotated[bool, typer.Option(help="Run a few steps here to see the speed.")] = True,
    as_json: Json = False,
) -> None:
    """Say what a pretraining run needs, before it runs: memory, operations, time. Or recommend one for a time.

    With --workers and --link: what a step takes on many machines, ALBERT beside BERT.
    """
    from litebert import quantities
    from litebert.planning import cluster, planner, tables

    if workers is not None or link is not None or rate is not None:
        if workers is None or link is None:
            raise typer.BadParameter("--workers and --link belong together; --rate is for them alone")
        if tokens is not None or budget is not None or corpus is not None or recompute:
            raise typer.BadParameter("--workers is about one step: leave out --tokens, --budget, --corpus, --recompute")
        if rate is None and not measure:
            raise typer.BadParameter("--no-measure needs --rate, the operations a second of a worker")
        bits, given = quantities.parse_bandwidth(link), None if rate is None else quantities.parse_rate(rate)
        shape = (batch or cluster.PAPER_BATCH, length or cluster.PAPER_LENGTH)
        found = planner.plan_cluster(preset, *shape, workers, bits, given, lambda: _prepare(compiled))
        print_json(found) if as_json else tables.print_cluster(found)
        return
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
