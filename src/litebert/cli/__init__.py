"""The command line: one Typer app; every command imports its room only when it runs."""

import sys

import typer

from litebert.cli import corpus as corpus
from litebert.cli import models as models
from litebert.cli import tokenizer
from litebert.cli.app import app
from litebert.errors import LitebertError

__all__ = ["app", "main"]

_GROUPS = {"tokenizer": tokenizer.app}

for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """Run the app; an error that a user can mend is one sentence and exit code 1."""
    try:
        app()
    except LitebertError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"litebert: {error}", err=True)
        sys.exit(1)
