"""`litebert quickstart`: the whole way on the documentation of this machine, command by command."""

import shlex
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from litebert.cli.app import app

__all__ = ["quickstart"]

_QUESTIONS = (
    "this function [MASK] a list of all files in the directory.",
    "if the argument is not given, the [MASK] value is used.",
    "see the [MASK] page for more information.",
)
_CONTENTS = ("tokenizer", "corpus", "run")


@app.command(epilog="Example:  litebert quickstart --out quickstart --budget 4m")
def quickstart(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for all that is made.")] = Path("quickstart"),
    budget: Annotated[str, typer.Option(help="How long to pretrain.")] = "4m",
) -> None:
    """From nothing to a trained encoder: text, tokenizer, corpus, check, pretraining, questions, report."""
    from litebert.errors import RequestError

    left = [name for name in _CONTENTS if (out / name).exists()]
    if out.exists() and (not out.is_dir() or set(_names(out)) - set(_CONTENTS)):
        raise RequestError(f"{out} holds other things: choose another --out")
    for name in left:
        shutil.rmtree(out / name)  # of an earlier quickstart
    begun = time.monotonic()
    tokenizer, corpus, run = (str(out / name) for name in _CONTENTS)
    _do("Read the English documentation on this machine, and learn a vocabulary from it.")
    _run("tokenizer", "train", "--vocab-size", "8000", "--out", tokenizer)
    _do("Turn the text into shards of ids.")
    _run("prepare", "--tokenizer", tokenizer, "--out", corpus, "--held-out", "0.02")
    _do("Look at what the model will be fed.")
    _run("lint", corpus)
    _do(f"Pretrain a small ALBERT for {budget}.")
    _run("pretrain", corpus, "--model", "albert-mini", "--budget", budget, "--out", run)
    _do("Ask it for missing words.")
    _run("fill-mask", f"{run}/model", *_QUESTIONS, "--top", "3")
    _conclude(out, run, corpus, time.monotonic() - begun)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _do(words: str) -> None:
    typer.secho(f"\n{words}", bold=True)


def _run(*words: str) -> None:
    """Show a command, and run it."""
    typer.secho(f"$ litebert {shlex.join(words)}", fg="cyan")
    app(list(words), standalone_mode=False)


def _conclude(out: Path, run: str, corpus: str, seconds: float) -> None:
    from litebert.lab.quantities import format_duration

    _do(f"Done in {format_duration(seconds)}.")
    typer.echo(f"Look at {run}/report.html in a browser. The model is {run}/model; transformers opens it, too.\n")
    typer.echo("Three commands to go on with:")
    typer.echo(f"  litebert pretrain {corpus} --budget 30m --out {out}-longer")
    typer.echo("  litebert tokenizer train YOUR-TEXT/ --out my-tokenizer    # then prepare, lint, pretrain as above")
    typer.echo(f"  litebert fill-mask {run}/model 'your own text with a [MASK] in it'")
