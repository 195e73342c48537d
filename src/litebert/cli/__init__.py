"""The command line: one Typer app; every command imports its room only when it runs."""

import contextlib
import os
import sys

import typer

from litebert.cli import answers as answers
from litebert.cli import ask as ask
from litebert.cli import compare as compare
from litebert.cli import compress as compress
from litebert.cli import corpus as corpus
from litebert.cli import distill as distill
from litebert.cli import export as export
from litebert.cli import finetune as finetune
from litebert.cli import fit as fit
from litebert.cli import inference as inference
from litebert.cli import lab, tokenizer
from litebert.cli import models as models
from litebert.cli import optimize as optimize
from litebert.cli import pretrain as pretrain
from litebert.cli import quickstart as quickstart
from litebert.cli import serve as serve
from litebert.cli.app import app
from litebert.errors import LitebertError

__all__ = ["app", "main"]

_GROUPS = {"lab": lab.app, "tokenizer": tokenizer.app}
_EXTRAS = {
    **dict.fromkeys(("torch", "matplotlib", "jinja2", "sklearn", "scipy"), ("what training needs", "train")),
    **dict.fromkeys(
        ("fastapi", "starlette", "uvicorn", "orjson", "prometheus_client"), ("what serving needs", "serve")
    ),
}

for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """Run the app; an error that a user can mend is one sentence and exit code 1."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        # Text of any language, also where the terminal claims to know but one.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except (LitebertError, OSError, ModuleNotFoundError) as error:
        if "--debug" in sys.argv or (isinstance(error, ModuleNotFoundError) and error.name not in _EXTRAS):
            raise
        # What could not be written to standard output must not be tried again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with contextlib.suppress(OSError):
            typer.echo(f"litebert: {_explain(error)}", err=True)
        sys.exit(1)


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        needed, extra = _EXTRAS[error.name or ""]
        return f"this needs {error.name}, which comes with {needed}: pip install 'litebert[{extra}]'"
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; check the disk and the permissions"
