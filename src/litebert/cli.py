"""The command line: one Typer app; every command imports its room only when it runs."""

import json
import sys
from typing import Annotated, Any

import typer

from litebert import __version__
from litebert.errors import LitebertError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Lite language encoders: from raw text to a trained, small and fast ALBERT or BERT.",
    epilog="Start with:  litebert models   ·   litebert plan albert-mini --batch 32 --length 128",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"litebert {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example:  litebert models --json")
def models(as_json: Json = False) -> None:
    """List the family: every ALBERT and BERT of the paper, with parameters, shape, cost and size."""
    from litebert.lab import show

    rows = show.family()
    if as_json:
        _print_json(rows)
    else:
        show.print_family(rows)


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
    from litebert.lab import planner, quantities, show

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
        _print_json(vars(advice)) if as_json else show.print_recommendation(advice)
        return
    if preset is None:
        raise typer.BadParameter("name a preset of `litebert models`, or give --budget and --corpus")
    count = None if tokens is None else quantities.parse_count(tokens)
    result = planner.make_plan(preset, batch or 32, length or 128, recompute)
    if measure:
        _prepare(compiled)
        result = planner.measure_plan(result)
    if as_json:
        _print_json(result.as_json() | {"seconds": None if count is None else result.seconds(count)})
    else:
        show.print_plan(result, count)


def _prepare(compiled: bool) -> None:
    """Make the process fit for heavy work, before torch is loaded, and say what it is about to do."""
    from litebert.runtime import prepare_process

    typer.echo("measuring a few steps on this machine …", err=True)
    prepare_process()
    if compiled:
        from litebert.model.kernels import use_compiled

        use_compiled(True)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def main() -> None:
    """Run the app; an error that a user can mend is one sentence and exit code 1."""
    try:
        app()
    except LitebertError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"litebert: {error}", err=True)
        sys.exit(1)
