"""`litebert quickstart`: what one can do with litebert in minutes, on the documentation of this machine."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Sources
from litebert.errors import RequestError
from litebert.folders import lock_folder, remove_abandoned

__all__ = ["example_task", "quickstart"]

_GAPS = (
    "this function [MASK] a list of all files in the directory.",
    "if the argument is not given, the [MASK] value is used.",
    "see the [MASK] page for more information.",
)
_QUESTIONS = (
    "how do I unpack an archive?",
    "make my program wait until another thread is done",
    "which numbers are the same in both lists?",
)
_RUNGS = (
    "majority,bag-of-words,tf-idf,word2vec,n-gram,vectors,vectors+tf-idf,pretrained encoder,pretrained encoder+tf-idf"
)
_LABELS = "400"  # few, where an encoder helps most: with all 3,504, tf-idf is as good (docs/LOG.md)
_PASSAGES = 15_000  # to search, a minute's work; Python's documentation has fewer
_CONTENTS = ("search.html", "libraries", "compared", "tokenizer", "corpus", "run")
_DOCUMENTATION = "Read the English documentation on this machine, and learn a vocabulary from it."
_MARK = ".litebert-quickstart"


@app.command(epilog="Examples:  litebert quickstart\n\nlitebert quickstart books/ --out from-my-books --budget 20m")
def quickstart(
    sources: Sources = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for all that is made.")] = Path("quickstart"),
    budget: Annotated[str, typer.Option(help="How long to pretrain.")] = "3m",
    vocab_size: Annotated[int, typer.Option(help="Pieces of the vocabulary.")] = 8000,
    tune: Annotated[str, typer.Option(help="How long to fine-tune the encoder that comes with litebert.")] = "90s",
) -> None:
    """What a small encoder can do: search by meaning, a task of your own; then one from nothing but raw text."""
    from litebert.quantities import parse_duration

    for given in (budget, tune):
        parse_duration(given)  # a wrong one is better said now
    held = _take_folder(out)
    begun = time.monotonic()
    page, libraries, compared, tokenizer, corpus, run = (str(out / name) for name in _CONTENTS)
    text = sources or ["builtin:documentation"]
    _do("First: what the encoder that comes with litebert can do. Search your text by meaning.")
    also = [word for question in _QUESTIONS[1:] for word in ("--also", question)]
    how = ("--depth", "2", "--top", "3", "--most", str(_PASSAGES), "--page", page)
    _run("search", *(sources or ["builtin:python"]), _QUESTIONS[0], *also, *how)
    if not sources:
        _do("Write a task: which library does a paragraph of documentation belong to?")
        _run("example-task", "--labels", _LABELS, "--out", libraries)
        _do("Fine-tune the encoder for it, and see what simpler means get.")
        files = ("--dev", f"{libraries}/dev.jsonl", "--test", f"{libraries}/test.jsonl")
        _run("compare", f"{libraries}/train.jsonl", *files, "--budget", tune, "--rungs", _RUNGS, "--out", compared)
    _do("Second: an encoder from raw text alone. " + ("Learn a vocabulary." if sources else _DOCUMENTATION))
    _run("tokenizer", "train", *text, "--vocab-size", str(vocab_size), "--out", tokenizer)
    _do("Turn the text into shards of ids.")
    _run("prepare", *text, "--tokenizer", tokenizer, "--out", corpus, "--held-out", "0.02")
    _do("Look at what the model will be fed.")
    _run("lint", corpus)
    _do(f"Pretrain a small ALBERT for {budget}.")
    _run("pretrain", corpus, "--budget", budget, "--out", run)
    _do("Ask it for missing words.")
    _run("fill-mask", f"{run}/model", *_GAPS, "--top", "3")
    _conclude(out, bool(sources), time.monotonic() - begun)
    os.close(held)


def _take_folder(out: Path) -> int:
    """Make the folder and hold it; empty it if an earlier quickstart made it. Nothing else is ever deleted."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / _MARK).is_file())):
        raise RequestError(f"{out} is not of a quickstart: choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    held = lock_folder(out, "`litebert quickstart`")
    (out / _MARK).touch()
    remove_abandoned(out)
    earlier = [name for name in _CONTENTS if (out / name).exists()]
    if earlier:
        typer.echo(f"removing what an earlier quickstart left in {out}: {', '.join(earlier)}", err=True)
    for name in earlier:
        if (out / name).is_dir():
            shutil.rmtree(out / name, ignore_errors=True)
        else:
            (out / name).unlink()
    return held


def _do(words: str) -> None:
    typer.secho(f"\n{words}", bold=True)


def _run(*words: str) -> None:
    """Show a command, and run it as one would, in a process of its own; if it fails, so does the quickstart.

    Ctrl-C reaches that process as well: it saves what it can, and we wait for it.
    """
    typer.secho(f"$ litebert {shlex.join(words)}", fg="cyan")
    sys.stdout.flush()
    child = subprocess.Popen([sys.executable, "-m", "litebert", *words])
    before = signal.signal(signal.SIGINT, lambda *_: None), signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    if code:
        raise typer.Exit(code if code > 0 else 128 - code)


def _conclude(out: Path, own_text: bool, seconds: float) -> None:
    from litebert.quantities import format_duration

    _do(f"Done in {format_duration(seconds)}.")
    pages = ["search.html", *([] if own_text else ["compared/compare.html"]), "run/report.html"]
    typer.echo(f"Look at these pages in a browser: {', '.join(str(out / page) for page in pages)}.\n")
    typer.echo("Commands to go on with:")
    typer.echo('  litebert search YOUR-FILES/ "your question"')
    typer.echo("  litebert compare YOUR-TABLE.csv --text COLUMN --label COLUMN   # what is worth it on your task")
    typer.echo("  litebert fit YOUR-TABLE.csv --text COLUMN --label COLUMN       # in seconds")
    typer.echo("  litebert finetune YOUR-TABLE.csv --text COLUMN --label COLUMN --tf-idf")
    typer.echo("  litebert distill A-BERT YOUR-TEXT/ --out my-encoder          # a BERT of your own made small")
    typer.echo(f"  litebert pretrain {out}/corpus --budget 30m --out longer-run   # or from raw text, for longer")


@app.command("example-task", epilog="Example:  litebert example-task --labels 400 --out libraries")
def example_task(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for train.jsonl, dev.jsonl and test.jsonl.")],
    labels: Annotated[
        int | None, typer.Option(min=8, help="Leave so many paragraphs to learn from; all if not given.")
    ] = None,
) -> None:
    """Write a small task to try things on: which library does a paragraph of documentation belong to?"""
    from litebert.tasks.readers.libraries import collect_libraries, write_library_task
    from litebert.text.documentation import documents

    sizes = write_library_task(out, collect_libraries(documents()), num_labels=labels)
    typer.echo(f"{out}: " + ", ".join(f"{size:,} paragraphs in {split}.jsonl" for split, size in sizes.items()))
