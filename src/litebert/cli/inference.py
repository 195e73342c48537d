"""`litebert embed`, `similarity`, `search`, `index` and `fill-mask`: what any encoder can do, without fine-tuning."""

import contextlib
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Columns, EncoderName, Json, SkipBad, print_json, said_bad, takes
from litebert.hub import DEFAULT_ENCODER

if TYPE_CHECKING:
    from litebert.inference.search import Found

__all__ = ["embed", "fill_mask", "index", "search", "similarity"]


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
    """Give the vector of each text, for search, clusters or a classifier of your own.

    Interrupted, the same command with --out goes on; its memory does not grow with the number of texts.
    """
    from litebert.runtime import prepare_process

    if not texts and not file:
        raise typer.BadParameter("name texts, or a file with --file")
    if out is not None and out.suffix != ".npy":
        raise typer.BadParameter(f"{out} must end in .npy", param_hint="--out")
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}: make it first", param_hint="--out")
    prepare_process()
    from litebert.cli.progress import showing_progress
    from litebert.inference.load import load
    from litebert.inference.vectors import embed_file

    given = TextsGiven(texts or [], file or [], column, skip_bad)
    encoder, total = load(model), _count(given, file or [])
    quiet = total is not None and total < 1000
    with showing_progress("embedding", total, quiet) as show, saying_what_was_cut():

        def on_progress(done: int) -> None:
            show(done, f"{done:,} texts")

        if out is None:
            for_vectors, shown = tee(given)
            for block in encoder.embed_stream(for_vectors, on_progress=on_progress, **how):
                for vector, text in zip(block, shown, strict=False):
                    _print_line({"text": text, "vector": [round(float(value), 6) for value in vector]})
            return
        goes_on = "goes on with what is done" if given.origin else "starts over"
        with _stopping_gently(f"interrupted; the same command {goes_on}"):
            count, size = embed_file(encoder, given, out, given.origin, on_progress, _say, **how)
    typer.echo(f"{out}: {count:,} vectors of {size} numbers")


class TextsGiven:
    """Texts that were typed, and those of files: a line each of plain text, a record each of a table."""

    def __init__(self, typed: list[str], files: list[str], columns: list[str] | None, skip_bad: bool) -> None:
        self._typed, self._files, self._columns, self._skip_bad = typed, files, columns, skip_bad
        self._told: set[str] = set()

    @property
    def origin(self) -> dict[str, Any] | None:
        """By what to know the same texts again; None where they do not come from ordinary files alone."""
        if not all(Path(name).is_file() for name in self._files):
            return None
        states = [Path(name).stat() for name in self._files]
        files = [
            [str(Path(name).absolute()), state.st_size, state.st_mtime_ns]
            for name, state in zip(self._files, states, strict=True)
        ]
        return {"texts": self._typed, "files": files, "columns": self._columns, "skip_bad": self._skip_bad}

    def __iter__(self) -> Iterator[str]:
        """Read them from the start, no more than are asked for."""
        from litebert.text.formats import format_of
        from litebert.text.sources import open_sources

        yield from self._typed
        for name in self._files:
            if name == "-" or (Path(name).is_file() and format_of(name)[0] in (None, "text")):
                yield from self._read_lines(name)
            else:
                reader = open_sources([name], self._columns or "text", self._skip_bad)
                yield from (document.text for document in reader)

    def _read_lines(self, name: str) -> Iterator[str]:
        from litebert.text.records import RecordReader

        reader = RecordReader(sys.stdin.buffer if name == "-" else name, name=name, skip_bad=self._skip_bad)
        num_lines = num_empty = 0
        for _, line in reader.lines():
            num_lines += 1
            if line.strip():
                yield line
            else:
                num_empty += 1
        if num_empty and name not in self._told:
            _say(f"{num_empty:,} of {num_lines:,} lines of {name} are empty and left out")
        self._told.add(name)


def _count(items: Iterable[object], sources: list[str]) -> int | None:
    """How many there are, where they can be read twice: so the end is known, and what is wrong is found at once."""
    from litebert.errors import RequestError

    if any(name == "-" or name.startswith("hf:") or _is_pipe(name) for name in sources):
        return None
    count = sum(1 for _ in items)
    if not count:
        raise RequestError("there is nothing to embed: the file holds no text")
    return count


def _is_pipe(name: str) -> bool:
    return Path(name).exists() and not Path(name).is_file() and not Path(name).is_dir()


def _say(message: str) -> None:
    typer.echo(f"litebert: {message}", err=True)


@contextlib.contextmanager
def _stopping_gently(message: str) -> Iterator[None]:
    """End with one sentence when Ctrl-C or a kill interrupts the work."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        _say(message)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def saying_what_was_cut() -> Iterator[None]:
    """Say in one sentence that texts were longer than the encoder reads, however many there were."""
    from litebert.inference.load import TruncationWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruncationWarning)
        yield
    cut = [str(one.message) for one in caught if issubclass(one.category, TruncationWarning)]
    if cut:
        some = cut[0] if len(cut) == 1 else "some texts were longer than this model reads: only their beginning counts"
        _say(some)


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

    with saying_what_was_cut():
        cosines = load(model).similarity(text, others, **how).tolist()
    if as_json:
        print_json([{"text": other, "cosine": cosine} for other, cosine in zip(others, cosines, strict=True)])
        return
    for cosine, other in sorted(zip(cosines, others, strict=True), key=lambda pair: -pair[0]):
        typer.echo(f"{cosine:6.3f}  {other}")


@app.command(
    epilog="Examples:  litebert search notes/ 'how do I reset the password?'\n\n"
    "litebert search builtin:python 'read a compressed file' --top 3 --page found.html\n\n"
    "litebert search my-index 'how do I reset the password?'"
)
@takes(vectors)
def search(
    context: typer.Context,
    named: Annotated[
        list[str],
        typer.Argument(
            help="What to look through (files, folders, tables, -, builtin:python; or one index that `litebert index` "
            "made), and last the question.",
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
    from litebert.cli.progress import showing_progress
    from litebert.inference.index import is_index
    from litebert.inference.load import load
    from litebert.inference.search import cut_passages, search_passages
    from litebert.text.sources import open_sources

    *sources, question = named
    questions = [question, *(also or [])]
    if any(is_index(source) for source in sources):
        found, num_read, model = _search_index(sources, questions, top, context)
    else:
        passages = cut_passages(open_sources(sources, column or "text", skip_bad), per_document=per_document)
        encoder = load(model)
        num_read = 0

        def on_progress(done: int) -> None:
            nonlocal num_read
            num_read = done
            show(done, f"{done:,} passages")

        with showing_progress("searching", None, as_json, fill=False) as show, saying_what_was_cut():
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


def _search_index(
    sources: list[str], questions: list[str], top: int, context: typer.Context
) -> tuple[list[list["Found"]], int, str]:
    """What an index has about questions, how many passages it has, and the name of its encoder."""
    from litebert.errors import RequestError
    from litebert.inference.index import Index
    from litebert.inference.load import load

    if len(sources) > 1:
        raise RequestError("an index is searched alone: name one index, or files and folders without any")
    typed = {
        name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    for name in ("depth", "dimensions", "most", "per_document", "column", "skip_bad"):
        if name in typed:
            raise RequestError(f"an index is searched as it was made: leave --{name.replace('_', '-')} out")
    index = Index.open(sources[0], load(context.params["model"]) if "model" in typed else None)
    with saying_what_was_cut():
        return index.search(questions, top), len(index), index.info.encoder


def _as_dict(question: str, hits: "list[Found]") -> dict[str, Any]:
    found = [{"text": hit.passage.text, "location": hit.passage.location, "cosine": hit.cosine} for hit in hits]
    return {"question": question, "found": found}


@app.command(
    epilog="Examples:  litebert index notes/ --out my-index\n\nlitebert search my-index 'how do I reset the password?'"
)
@takes(vectors)
def index(
    sources: Annotated[list[str], typer.Argument(help="Files, folders, tables, -, builtin:python.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    per_document: Annotated[
        int | None, typer.Option(min=1, help="Take the first so many passages of each document only.")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Take the first so many passages only.")] = None,
    precision: Annotated[
        str, typer.Option(help="How numbers are kept: float16, float32, or int8, which is smallest and fastest.")
    ] = "float16",
    model: EncoderName = DEFAULT_ENCODER,
    column: Columns = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
    **how: Any,
) -> None:
    """Embed the passages of your files once, so that `litebert search` answers at once."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.cli.progress import showing_progress
    from litebert.inference.index import Index
    from litebert.inference.load import load
    from litebert.inference.search import Passage, cut_passages
    from litebert.text.sources import open_sources

    reader = open_sources(sources, column or "text", skip_bad, out)

    def cut() -> Iterator[Passage]:
        return islice(cut_passages(reader, per_document=per_document), most)

    encoder = load(model)
    Index.check_request(out, precision)
    with (
        showing_progress("embedding", _count(cut(), sources), as_json) as show,
        saying_what_was_cut(),
        _stopping_gently("interrupted; nothing was written"),
    ):
        how["precision"] = precision
        made = encoder.index(cut(), out, on_progress=lambda done: show(done, f"{done:,} passages"), **how)
    if as_json:
        print_json({"folder": str(out), **made.info.model_dump()})
        return
    typer.echo(f"{out}: {len(made):,} passages{said_bad(reader.num_bad)}, vectors of {made.info.size} numbers")
    typer.echo(f"Next:  litebert search {out} 'a question'")


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
    with saying_what_was_cut():
        answers = list(zip(texts, pipeline.fill_mask(texts, top), strict=True))
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
