"""Options that several commands have, and what they do with them."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from litebert.text.sources import Reader

__all__ = [
    "Columns",
    "ConfigFile",
    "EncoderName",
    "Json",
    "Set",
    "SkipBad",
    "Sources",
    "TokenizerName",
    "checked",
    "open_reader",
    "print_json",
    "said_bad",
    "takes",
    "validated",
]

Config = TypeVar("Config")

# Options that do not bear the name of the field that they set.
_OPTIONS = {"max_sentences": "sentences", "symbols": "symbol", "do_lower_case": "lower-case"}

TokenizerName = Annotated[
    str, typer.Option("--tokenizer", "-t", help="A folder, a hub name, or a spiece.model, tokenizer.json or vocab.txt.")
]
EncoderName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="The encoder: a run, a model folder or a hub name; the one that comes with litebert if not given.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, patterns, - for standard input, hf:NAME[:CONFIG][:SPLIT], or builtin:documentation, the "
        "English documentation on this machine, which is also the default.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="The column with the text, by name or number. Repeat it for several: of each record, all that are there "
        "are read, in this order, as paragraphs of one document.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Settings from a .toml or .json file, such as a run.json.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Any setting by name, such as train.optim.lr=1e-3; repeat it.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad records out and count them.")]


def takes(*bundles: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some bundles, which it gets as keyword arguments.

    A bundle is a function whose parameters are the options; it is never called.
    """

    def join(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        kept = [it for it in own.parameters.values() if it.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [it for bundle in bundles for it in inspect.signature(bundle).parameters.values()]
        last = [it for it in kept if it.name == "as_json"]
        first = [it for it in kept if it.name != "as_json"]
        command.__signature__ = own.replace(parameters=[*first, *more, *last])  # type: ignore[attr-defined]
        return command

    return join


def open_reader(
    sources: list[str] | None, columns: list[str] | None, skip_bad: bool, without: Path | None = None
) -> "Reader":
    """Open what the arguments name, without the folder that the result goes to."""
    from litebert.text.sources import open_sources

    if not sources:
        typer.echo("no source is named: reading builtin:documentation, the documentation on this machine", err=True)
    return open_sources(sources or ["builtin:documentation"], columns or "text", skip_bad, without)


def checked(kind: type[Config], **settings: Any) -> Config:
    """Make a configuration; what is wrong with an option is said in one sentence."""
    from pydantic import ValidationError

    from litebert.config import explain

    try:
        return kind(**settings)
    except ValidationError as error:
        field, colon, message = explain(error).partition(": ")
        if not colon or " " in field:
            raise typer.BadParameter(explain(error)) from None
        option = _OPTIONS.get(field, field).replace("_", "-")
        raise typer.BadParameter(message[0].lower() + message[1:], param_hint=f"--{option}") from None


def validated(make: Callable[[], Config]) -> Config:
    """Make a configuration of options that several fields depend on; what is wrong is said in one sentence."""
    from pydantic import ValidationError

    from litebert.config import explain

    try:
        return make()
    except ValidationError as error:
        raise typer.BadParameter(explain(error)) from None


def said_bad(count: int) -> str:
    """How many bad records were left out, if any."""
    return f" ({count:,} bad records were left out)" if count else ""


def print_json(value: Any) -> None:
    """Print JSON for machines, with letters of every language as they are."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
