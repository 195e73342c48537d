"""`litebert fill-mask`: ask an encoder for the words that are missing."""

from typing import Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, print_json

__all__ = ["fill_mask"]


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
