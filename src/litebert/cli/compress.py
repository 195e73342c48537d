"""`litebert compress`: a trained model becomes a smaller one."""

import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Columns, Json, Set, SkipBad, print_json
from litebert.cli.progress import as_far_as_it_came, showing_run

if TYPE_CHECKING:
    from litebert.distillation.compress import CompressResult

__all__ = ["compress"]


@app.command(
    epilog="Examples:  litebert compress my-bert --method prune --keep 0.5 --out my-smaller-bert\n\n"
    "litebert compress my-bert --method share --blocks 2 --heal 30m --text books/ --out my-albert\n\n"
    "litebert compress my-albert --method quantize --out my-albert-int8"
)
def compress(
    model: Annotated[str, typer.Argument(help="The model to compress: a folder, a run or a hub name.")],
    method: Annotated[
        str,
        typer.Option(
            help="share (layers become a few blocks), low-rank (a narrow word table), trim (a smaller vocabulary), "
            "prune (heads and feed-forward units are taken out), distill (a student is taught), quantize (weights of "
            "eight bits).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the smaller model.")] = Path("compressed"),
    blocks: Annotated[
        int | None, typer.Option(min=1, help="share: how many blocks all layers share; 3 if not given and it fits.")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="share: what blocks are: spread (copies of the first to the last layer; if not given) or average."
        ),
    ] = None,
    embedding_size: Annotated[
        int | None, typer.Option(min=2, help="low-rank: size of the word table; 128 if not given.")
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=2, help="trim: pieces of the vocabulary; half of them if not given.")
    ] = None,
    keep: Annotated[
        float | None, typer.Option(help="prune: share of the feed-forward units to keep; 0.5 if nothing is given.")
    ] = None,
    keep_heads: Annotated[
        float | None,
        typer.Option(
            help="prune: share of the attention heads to keep; all if not given, so that transformers opens it."
        ),
    ] = None,
    heal: Annotated[
        str | None,
        typer.Option(help="Then let it learn from the original for this time, such as 10m; distill does if not given."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Heal for so many steps instead; such a run is reproducible.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="Text to judge, heal and measure by: files, folders, patterns or a corpus; repeat it. "
            "builtin:documentation if not given.",
        ),
    ] = None,
    column: Columns = None,
    skip_bad: SkipBad = False,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with healing that was interrupted.")] = False,
    as_json: Json = False,
) -> None:
    """Make a trained BERT or ALBERT smaller; what that breaks can be healed on text without labels."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api

    with showing_run("healing", as_json, "agreement") as watch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "transformers (cannot|has no)")  # said in the end
        result = as_far_as_it_came(
            api.compress,
            model,
            method,
            out,
            blocks=blocks,
            layers=layers,
            embedding_size=embedding_size,
            vocab_size=vocab_size,
            keep=keep,
            keep_heads=keep_heads,
            text=text[0] if text and len(text) == 1 else text or "builtin:documentation",
            column=column or "text",
            skip_bad=skip_bad,
            heal=heal,
            steps=steps,
            set=set_ or (),
            resume=resume,
            **watch,
        )
    _conclude(result, as_json)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


def _conclude(result: "CompressResult", as_json: bool) -> None:
    """Say what came out, and how to go on."""
    from litebert.quantities import format_bytes

    (old, new), (old_bytes, new_bytes) = result.parameters, result.weight_bytes
    if as_json:
        sizes = {"parameters": {"before": old, "after": new}, "bytes": {"before": old_bytes, "after": new_bytes}}
        about = {"folder": str(result.folder), "method": result.method, "status": result.status, "done": result.done}
        opens = {"opens_in_transformers": result.opens_in_transformers}
        print_json({**about, **sizes, "agreement": result.agreement, **opens})
        return
    if result.healing is not None and result.status == "interrupted":
        step = result.healing.step
        typer.echo(f"Stopped at step {step:,} of healing, and saved. Go on with the same command and --resume.")
        return
    typer.echo(
        f"{result.folder}: {result.done}. {old:,} → {new:,} parameters, "
        f"{format_bytes(old_bytes)} → {format_bytes(new_bytes)}; its similarities correlate {result.agreement:.3f} "
        "with the original's"
    )
    if not result.opens_in_transformers:
        typer.echo("transformers cannot open it: it is in litebert's own form.")
    command = shlex.join(["litebert", "similarity", "a text", "another one", "--model", str(result.folder)])
    typer.echo(f"Next:  {command}")
