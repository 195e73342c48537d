"""`litebert embed`, `similarity`, `search` and `fill-mask`: what any encoder can do, without fine-tuning."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Columns, EncoderName, Json, SkipBad, print_json, takes
from litebert.hub import DEFAULT_ENCODER

if TYPE_CHECKING:
    from litebert.inference.search import Found

__all__ = ["embed", "fill_mask", "search", "similarity"]


def vectors(
    depth: Annotated[
        int | None, typer.Option(min=1, help="Passes through the layers: fewer are faster; all if not given.")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many numbers of each vector; all if not given.")
    ] = None,
) -> None:
    """How vectors are made."""


@app.command(
    epilog="Examples:  litebert embed 'a text' 'another one'\n\nlitebert embed --file reviews.txt --out vectors.npy\n\n"
    "cat reviews.txt | litebert embed --file - --out vectors.npy --dimensions 128"
)
@takes(vectors)
def embed(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="A file with a text a line, a table, or -; repeat it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .npy file for the vectors; JSON to standard output if none.")
    ] = None,
    model: EncoderName = DEFAULT_ENCODER,
    column: Columns = None,
    skip_bad: SkipBad = False,
    **how: Any,
) -> None:
    """Give the vector of each text, for search, clusters or a classifier of your own."""
    from litebert.errors import RequestError
    from litebert.runtime import prepare_process

    listed = list(texts or [])
    if not listed and not file:
        raise typer.BadParameter("name texts, or a file with --file")
    if out is not None and out.suffix != ".npy":
        raise typer.BadParameter(f"{out} must end in .npy", param_hint="--out")
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}: make it first", param_hint="--out")
    prepare_process()
    import numpy as np

    from litebert.cli.progress import showing_progress
    from litebert.folders import PARTIAL
    from litebert.inference.load import load

    if file:
        listed += _read_texts(file, column, skip_bad)
    if not listed:
        raise RequestError("there is nothing to embed: the file holds no text")
    encoder = load(model)
    with showing_progress("embedding", len(listed), quiet=len(listed) < 1000) as show, _saying_what_was_cut():
        found = encoder.embed(listed, on_progress=lambda done: show(done, f"{done:,} texts"), **how)
    if out is None:
        for text, vector in zip(listed, found, strict=True):
            _print_line({"text": text, "vector": [round(float(value), 6) for value in vector]})
        return
    partial = out.with_name(out.name + PARTIAL)
    with partial.open("wb") as stream:
        np.save(stream, found)
    partial.replace(out)
    typer.echo(f"{out}: {found.shape[0]:,} vectors of {found.shape[1]} numbers")


@contextlib.contextmanager
def _saying_what_was_cut() -> Iterator[None]:
    """Say in one sentence that texts were longer than the encoder reads, however many there were."""
    from litebert.inference.load import TruncationWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruncationWarning)
        yield
    cut = [str(one.message) for one in caught if issubclass(one.category, TruncationWarning)]
    if cut:
        some = cut[0] if len(cut) == 1 else "some texts were longer than this model reads: only their beginning counts"
        typer.echo(f"litebert: {some}", err=True)


def _read_texts(files: list[str], columns: list[str] | None, skip_bad: bool) -> list[str]:
    """The texts of files: a line each of plain text, a record each of a table."""
    from litebert.text.formats import format_of
    from litebert.text.records import RecordReader
    from litebert.text.sources import open_sources

    found: list[str] = []
    for name in files:
        if name == "-" or (Path(name).is_file() and format_of(name)[0] in (None, "text")):
            reader = RecordReader(sys.stdin.buffer if name == "-" else name, name=name, skip_bad=skip_bad)
            lines = [line for _, line in reader.lines()]
            texts = [line for line in lines if line.strip()]
            found += texts
            if len(texts) < len(lines):
                message = f"{len(lines) - len(texts):,} of {len(lines):,} lines of {name} are empty and have no vector"
                typer.echo(f"litebert: {message}", err=True)
        else:
            found += [document.text for document in open_sources([name], columns or "text", skip_bad)]
    return found


def _print_line(value: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(value, ensure_ascii=False))


@app.command(epilog="Example:  litebert similarity 'a cat sleeps' 'the kitten is asleep' 'stocks fell on Monday'")
@takes(vectors)
def similarity(
    text: Annotated[str, typer.Argument(help="A text.")],
    others: Annotated[list[str], typer.Argument(help="Texts to compare it with.")],
    model: EncoderName = DEFAULT_ENCODER,
    as_json: Json = False,
    **how: Any,
) -> None:
    """Say how alike texts are in meaning: the cosine of their vectors, 1 for the same."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference.load import load

    with _saying_what_was_cut():
        cosines = load(model).similarity(text, others, **how).tolist()
    if as_json:
        print_json([{"text": other, "cosine": cosine} for other, cosine in zip(others, cosines, strict=True)])
        return
    for cosine, other in sorted(zip(cosines, others, strict=True), key=lambda pair: -pair[0]):
        typer.echo(f"{cosine:6.3f}  {other}")


@app.command(
    epilog="Examples:  litebert search notes/ 'how do I reset the password?'\n\n"
    "litebert search builtin:python 'read a compressed file' --top 3 --page found.html"
)
@takes(vectors)
def search(
    named: Annotated[
        list[str],
        typer.Argument(
            help="What to look through (files, folders, tables, -, builtin:python), and last the question.",
            metavar="SOURCES... QUESTION",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many passages to show.")] = 5,
    also: Annotated[list[str] | None, typer.Option("--also", help="Another question; repeat it.")] = None,
    per_document: Annotated[
        int | None, typer.Option(min=1, help="Look at the first so many passages of each document only.")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Look through the first so many passages only.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the answers into a page as well.")] = None,
    model: EncoderName = DEFAULT_ENCODER,
    column: Columns = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
    **how: Any,
) -> None:
    """Find the passages of your files that come nearest to a question in meaning, whatever words they use."""
    from litebert.runtime import prepare_process

    if len(named) < 2:
        raise typer.BadParameter("name what to look through, and then the question")
    prepare_process()
    from itertools import islice

    from litebert.cli.progress import showing_progress
    from litebert.inference.load import load
    from litebert.inference.search import cut_passages, search_passages
    from litebert.text.sources import open_sources

    *sources, question = named
    passages = cut_passages(open_sources(sources, column or "text", skip_bad), per_document=per_document)
    questions = [question, *(also or [])]
    encoder = load(model)
    num_read = 0

    def on_progress(done: int) -> None:
        nonlocal num_read
        num_read = done
        show(done, f"{done:,} passages")

    with showing_progress("searching", None, as_json, fill=False) as show, _saying_what_was_cut():
        found = search_passages(encoder, questions, islice(passages, most), top, on_progress, **how)
    looked = f"{num_read:,} passages of {', '.join(sources)}{' (the first ones)' if num_read == most else ''}"
    if page is not None:
        from litebert.reports.search import write_search

        write_search(page, questions, found, looked, model)
    if as_json:
        print_json([_as_dict(asked, hits) for asked, hits in zip(questions, found, strict=True)])
        return
    typer.echo(f"Looked through {looked}.", err=True)
    for asked, hits in zip(questions, found, strict=True):
        typer.secho(asked, bold=True)
        for hit in hits:
            typer.echo(f"{hit.cosine:6.3f}  {hit.passage.text}\n        {hit.passage.location}")
    if page is not None:
        typer.echo(f"The page is {page}.")


def _as_dict(question: str, hits: "list[Found]") -> dict[str, Any]:
    found = [{"text": hit.passage.text, "location": hit.passage.location, "cosine": hit.cosine} for hit in hits]
    return {"question": question, "found": found}


@app.command("fill-mask", epilog="Example:  litebert fill-mask my-run 'the [MASK] of the house was open .'")
def fill_mask(
    model: Annotated[str, typer.Argument(help="A run, a model folder or a hub name.")],
    texts: Annotated[list[str], typer.Argument(help="Texts with one or more masks, usually written [MASK].")],
    top: Annotated[int, typer.Option(min=1, help="Guesses for each mask.")] = 5,
    as_json: Json = False,
) -> None:
    """Say which words would fit best into the gaps of a text."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference.load import load

    pipeline = load(model)
    answers = [(text, pipeline.fill_mask(text, top)) for text in texts]
    if as_json:
        guesses = [
            {"text": text, "masks": [[{"text": g.text, "probability": g.probability} for g in mask] for mask in masks]}
            for text, masks in answers
        ]
        print_json(guesses)
        return
    for text, masks in answers:
        typer.echo(text)
        for mask in masks:
            shown = (f"{guess.text.replace('▁', ' ').strip() or guess.text} {guess.probability:.0%}" for guess in mask)
            typer.echo("  " + ", ".join(shown))
