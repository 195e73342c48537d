"""`litebert tokenizer`: train, inspect, encode, decode."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from litebert.cli.options import (
    Columns,
    Json,
    SkipBad,
    Sources,
    TokenizerName,
    checked,
    open_reader,
    print_json,
    said_bad,
)

if TYPE_CHECKING:
    from litebert.text.tokenizer import Tokenizer

__all__ = ["app"]

app = typer.Typer(help="Train a tokenizer, look at it, and use it.", no_args_is_help=True)

_LONGEST_LINE = 4_000_000

InputFile = Annotated[Path | None, typer.Argument(help="A file with one item a line; standard input if not given.")]


@app.command(epilog="Example:  litebert tokenizer train books/ --out my-tokenizer")
def train(
    sources: Sources = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("tokenizer"),
    vocab_size: Annotated[int, typer.Option(help="Number of pieces.")] = 30_000,
    coverage: Annotated[float, typer.Option(help="Share of the characters that get a piece.")] = 0.99995,
    lower_case: Annotated[bool, typer.Option(help="Turn capitals into small letters.")] = True,
    accents: Annotated[
        bool, typer.Option("--keep-accents/--strip-accents", help="Keep accents, or drop them.")
    ] = False,
    form: Annotated[str, typer.Option(help="nfkc, or nfkd, which takes Korean syllables apart.")] = "nfkc",
    symbol: Annotated[
        list[str] | None, typer.Option(help="A symbol to keep apart from words; repeat it. Default: Google's eight.")
    ] = None,
    sentences: Annotated[int, typer.Option(help="Train on at most so many sentences, drawn at random.")] = 1_000_000,
    column: Columns = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Train a SentencePiece unigram tokenizer, as ALBERT's, on text of any language."""
    from litebert.text.vocabulary import GOOGLE_SYMBOLS, VocabularyConfig, train_tokenizer

    config = checked(
        VocabularyConfig,
        vocab_size=vocab_size,
        coverage=coverage,
        do_lower_case=lower_case,
        keep_accents=accents,
        form=form,
        symbols=GOOGLE_SYMBOLS if symbol is None else tuple(symbol),
        max_sentences=sentences,
    )
    reader = open_reader(sources, column, skip_bad, out)
    typer.echo("reading and training; millions of sentences take some minutes …", err=True)
    # The library does not look at Python's signals while it trains: Ctrl-C ends the process, and nothing is written.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        tokenizer = train_tokenizer(reader, out, config=config)
    finally:
        signal.signal(signal.SIGINT, before)
    if as_json:
        print_json({"folder": str(out), "vocab_size": tokenizer.vocab_size, "bad_records": reader.num_bad})
    else:
        typer.echo(f"{out}: {tokenizer.vocab_size:,} pieces{said_bad(reader.num_bad)}")
        columns = [f"--column {name}" for name in column or []]
        words = " ".join(["litebert prepare", *(sources or []), *columns, f"--tokenizer {out} --out corpus"])
        typer.echo(f"Next:  {words}")


@app.command(epilog="Example:  litebert tokenizer inspect books/ -t my-tokenizer")
def inspect(
    tokenizer: TokenizerName,
    sources: Sources = None,
    documents: Annotated[int, typer.Option(min=1, help="Look at so many documents.")] = 1_000,
    column: Columns = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Say what a tokenizer does to a sample: pieces a word, unknown characters, coverage, what it never uses."""
    from itertools import islice

    from litebert.text.inspection import inspect_tokenizer

    opened = _open(tokenizer)
    reader = open_reader(sources, column, skip_bad)
    found = inspect_tokenizer(opened, islice((document.text for document in reader), documents))
    if as_json:
        print_json(found.as_json() | {"bad_records": reader.num_bad})
        return
    unknown = " ".join(f"{_visible(character)}×{count}" for character, count in found.unknown_characters) or "none"
    scripts = ", ".join(f"{name.lower()} {share:.1%}" for name, share in found.scripts.items())
    rows = [
        ("vocabulary", f"{found.vocab_size:,} pieces, {found.vocabulary_used:.1%} of them in this sample"),
        ("sample", f"{found.num_documents:,} documents, {found.num_words:,} words, {found.num_tokens:,} tokens"),
        ("fertility", f"{found.fertility:.2f} tokens a word, {found.characters_per_token:.2f} characters a token"),
        ("unknown", f"{found.unknown_rate:.3%} of the tokens; {found.coverage:.3%} of the characters are covered"),
        ("not known", unknown),
        ("longest", " ".join(found.longest_pieces)),
        ("scripts", scripts or "none"),
    ]
    for name, words in rows:
        typer.echo(f"{name:12}{words}")


@app.command(epilog="Example:  litebert tokenizer encode text.txt -t my-tokenizer --json")
def encode(tokenizer: TokenizerName, file: InputFile = None, as_json: Json = False) -> None:
    """Encode text, a line at a time: its pieces, or with --json ids, pieces and offsets in the line."""
    opened = _open(tokenizer)
    for line in _lines(file):
        spans = opened.spans(line)
        if as_json:
            content = {
                "ids": [span.id for span in spans],
                "pieces": [span.piece for span in spans],
                "offsets": [[span.begin, span.end] for span in spans],
            }
            typer.echo(json.dumps(content, ensure_ascii=False))
        else:
            typer.echo(" ".join(span.piece for span in spans))


@app.command(epilog="Example:  litebert tokenizer decode ids.txt -t my-tokenizer")
def decode(tokenizer: TokenizerName, file: InputFile = None) -> None:
    """Decode ids, a line at a time: numbers with spaces or commas, or what `encode --json` prints."""
    opened = _open(tokenizer)
    for number, line in enumerate(_lines(file), 1):
        typer.echo(opened.decode(_parse_ids(line, number)))


def _visible(character: str) -> str:
    return character if character.isprintable() else f"U+{ord(character):04X}"


def _parse_ids(line: str, number: int) -> list[int]:
    from litebert.errors import RequestError

    try:
        if line.lstrip().startswith(("{", "[")):
            content = json.loads(line)
            ids = content["ids"] if isinstance(content, dict) else content
            if not isinstance(ids, list) or any(type(token) is not int for token in ids):
                raise ValueError
            return ids
        return [int(token) for token in line.replace(",", " ").split()]
    except (ValueError, KeyError, RecursionError):
        raise RequestError(f"line {number} holds no ids: write numbers, or what `encode --json` prints") from None


def _open(name: str) -> "Tokenizer":
    from litebert.text.tokenizer import Tokenizer

    return Tokenizer.from_pretrained(name)


def _lines(file: Path | None) -> Iterator[str]:
    """Lines of a file or of standard input, one after the other as they come."""
    from litebert.errors import RequestError
    from litebert.text.records import RecordReader

    if file is None and sys.stdin is None:
        raise RequestError("standard input is closed: name a file")
    source, name = (sys.stdin.buffer, "standard input") if file is None else (file, str(file))
    reader = RecordReader(source, name=name, skip_bad=None, max_record_bytes=_LONGEST_LINE)
    return (line for _, line in reader.lines())
