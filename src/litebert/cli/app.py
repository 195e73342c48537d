"""The Typer app that every command joins."""

from typing import Annotated

import typer

from litebert import __version__

__all__ = ["app"]

app = typer.Typer(
    help="Lite language encoders: from raw text to a trained, small and fast ALBERT or BERT.",
    epilog="Start with:  litebert quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
