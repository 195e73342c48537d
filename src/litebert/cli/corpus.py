"""`litebert prepare` and `litebert lint`: from sources to a corpus, and a look at what the model will be fed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
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
    from litebert.corpus.lint import Report

__all__ = ["lint", "prepare"]

_MARKS = {"good": "[green]✓[/]", "look": "[yellow]![/]", "bad": "[red]✗[/]"}


@app.command(epilog="Example:  litebert prepare books/ -t my-tokenizer -o my-corpus")
def prepare(
    tokenizer: TokenizerName,
    sources: Sources = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("corpus"),
    deduplicate: Annotated[bool, typer.Option(help="Drop documents that repeat an earlier one exactly.")] = True,
    held_out: Annotated[float, typer.Option(help="Share of the documents to keep for evaluation.")] = 0.01,
    shard_tokens: Annotated[int, typer.Option(help="Tokens of a shard.")] = 1 << 23,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes on this machine; all cores if not given.")
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="Run on the Dask cluster at this address instead.")] = None,
    column: Columns = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Turn text into shards of ids. Interrupted, the same command goes on; more workers give the same bytes."""
    from litebert.cli.progress import showing_progress
    from litebert.corpus import prepare as preparation
    from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
    from litebert.runtime import num_cores
    from litebert.text.tokenizer import Tokenizer

    config = checked(preparation.PrepareConfig, deduplicate=deduplicate, held_out=held_out, shard_tokens=shard_tokens)
    reader = open_reader(sources, column, skip_bad, out)
    num_workers = workers or num_cores()
    with showing_progress("preparing", reader.bytes_total, quiet=as_json) as show:

        def on_progress(so_far: preparation.Summary) -> None:
            show(reader.bytes_read, f"{so_far.documents_read:,} documents, {so_far.characters / 1e6:,.0f} M characters")

        try:
            summary = preparation.prepare(
                reader, Tokenizer.from_pretrained(tokenizer), out, config, num_workers, scheduler, on_progress
            )
        except KeyboardInterrupt:
            typer.echo("litebert: interrupted; the same command goes on from the last complete shard", err=True)
            raise typer.Exit(130) from None
    corpus = Corpus.open(out, verify=False)
    tokens = {split: corpus.num_tokens(split) for split in (TRAIN, HELD_OUT)}
    if as_json:
        print_json({"folder": str(out), "tokens": tokens, **summary.model_dump()})
        return
    typer.echo(
        f"{out}: {tokens[TRAIN]:,} tokens to train on, {tokens[HELD_OUT]:,} held out, from {summary.documents_read:,} "
        f"documents; {summary.duplicates:,} duplicates dropped{said_bad(summary.bad_records)}"
    )
    if not tokens[HELD_OUT] and held_out:
        why = "with so few, choose a larger --held-out"
        if summary.documents_read == 1:
            why = "there is only one, since a blank line ends a document in plain text; put one between your texts"
        typer.echo(f"No document was held out: {why}.", err=True)
    typer.echo(f"Next:  litebert lint {out}")


@app.command(epilog="Example:  litebert lint my-corpus --length 128")
def lint(
    folder: Annotated[Path, typer.Argument(help="A corpus that `litebert prepare` made.")],
    length: Annotated[int, typer.Option(help="Tokens in a sequence.")] = 128,
    pairs: Annotated[str, typer.Option(help="What is asked about two segments: sop, nsp or none.")] = "sop",
    mask_rate: Annotated[float, typer.Option(help="Share of the tokens that are masked.")] = 0.15,
    max_ngram: Annotated[int, typer.Option(help="Longest run of words that is masked together.")] = 3,
    packing: Annotated[bool, typer.Option(help="Put several short sequences into one row.")] = True,
    seed: Annotated[int, typer.Option(help="Another seed gives other batches.")] = 0,
    sequences: Annotated[int, typer.Option(min=1, help="How many to look at.")] = 20_000,
    tokenizer: Annotated[Path | None, typer.Option(help="Check that the corpus was made with this folder's.")] = None,
    as_json: Json = False,
) -> None:
    """Look at what a model will be fed: masks, labels, leaks, lengths, unknown words, duplicates."""
    from litebert.corpus import lint as linting
    from litebert.corpus.corpus import Corpus
    from litebert.corpus.stream import StreamConfig

    config = checked(
        StreamConfig,
        length=length,
        pairs=pairs,
        mask_rate=mask_rate,
        max_ngram=max_ngram,
        packing=packing,
        seed=seed,
    )
    corpus = Corpus.open(folder)
    if tokenizer is not None:
        corpus.check_tokenizer(tokenizer)
    report = linting.lint(corpus, config, sequences)
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report, corpus.manifest)
    if report.verdict == "bad":
        raise typer.Exit(1)


def _print_report(report: "Report", manifest: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in report.findings:
        advice = f"\n[bold]{escape(finding.advice)}[/]" if finding.advice else ""
        table.add_row(_MARKS[finding.verdict], finding.name, escape(finding.message) + advice)
    for example in report.examples:
        label, _, text = example.partition(": ")
        console.print(f"[bold]{label}[/]  {escape(text)}\n", highlight=False)
    console.print(table)
    bad = [finding.name for finding in report.findings if finding.verdict == "bad"]
    look = any(finding.verdict == "look" for finding in report.findings)
    good = "Nothing is wrong with what the model will be fed" + (", but look at what is marked !." if look else ".")
    console.print(f"\n{'Bad: ' + ', '.join(bad) + '.' if bad else good}")
