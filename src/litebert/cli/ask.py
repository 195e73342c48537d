"""`litebert classify`, `tag`, `answer` and `order`: ask a model about a text that one types."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from litebert.cli.app import app
from litebert.cli.inference import TextsGiven, saying_what_was_cut
from litebert.cli.options import Json, print_json
from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.inference.load import Pipeline

__all__ = ["answer", "classify", "order", "tag"]

Model = Annotated[str, typer.Argument(help="A run, a model folder, an ensemble or a hub name.")]
Texts = Annotated[list[str] | None, typer.Argument(help="Texts.")]
File = Annotated[
    list[str] | None, typer.Option("--file", "-f", help="A file with a text a line, a table, or -; repeat it.")
]


@app.command(
    epilog="Examples:  litebert classify reviews-run 'what a film'\n\ncat reviews.txt | litebert classify my-run -f -"
)
def classify(model: Model, texts: Texts = None, file: File = None, as_json: Json = False) -> None:
    """Say which class each text is of, and how sure the model is."""
    from litebert.tasks.kinds.texts import Labels

    pipeline, given = _open(model, texts, file)
    with saying_what_was_cut():
        found = pipeline.classify(given)
    if as_json:
        print_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for text, one in zip(given, found, strict=True):
        names = one.labels if isinstance(one, Labels) else (one.label,)
        shown = ", ".join(f"{name} {one.probabilities[name]:.1%}" for name in names) or "none"
        typer.echo(f"{shown}  {text}")


@app.command(epilog="Example:  litebert tag names-run 'Anna went to Paris'")
def tag(model: Model, texts: Texts = None, file: File = None, as_json: Json = False) -> None:
    """Give every word of a text its tag, such as the names that it is part of."""
    pipeline, given = _open(model, texts, file)
    with saying_what_was_cut():
        found = pipeline.tag(given)
    if as_json:
        print_json([{"text": text, **vars(one)} for text, one in zip(given, found, strict=True)])
        return
    for one in found:
        pairs = zip(one.words, one.tags, strict=True)
        typer.echo(" ".join(word if name == "O" else f"{word}/{name}" for word, name in pairs))


@app.command(epilog="Example:  litebert answer squad-run 'Where does she live?' --context letter.txt")
def answer(
    model: Model,
    questions: Annotated[list[str], typer.Argument(help="Questions about the text.")],
    context: Annotated[
        str, typer.Option("--context", "-c", help="The file that holds the answer, or - for standard input.")
    ],
    as_json: Json = False,
) -> None:
    """Find the part of a text that answers a question."""
    from litebert.folders import read_text

    if context != "-" and not Path(context).is_file():
        raise RequestError(f"{context} is not there: name the file to look in with --context")
    pipeline = _load(model)
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if context == "-" else read_text(Path(context))
    with saying_what_was_cut():
        found = [pipeline.answer(question, text) for question in questions]
    if as_json:
        print_json([{"question": question, **vars(one)} for question, one in zip(questions, found, strict=True)])
        return
    for one in found:
        typer.echo(f"{one.text or '(no answer)'}  {one.probability:.1%}")


@app.command(epilog="Example:  litebert order my-run 'He went to bed.' 'He got up early.'")
def order(
    model: Model,
    first: Annotated[str, typer.Argument(help="A piece of text.")],
    second: Annotated[str, typer.Argument(help="Another one, from the same place.")],
    as_json: Json = False,
) -> None:
    """Say which of two pieces of text comes first, as a pretrained model has learnt it."""
    with saying_what_was_cut():
        share = _load(model).order(first, second)
    if as_json:
        print_json({"first": first, "second": second, "probability": share})
        return
    sure, text = max((share, first), (1 - share, second))
    typer.echo(f"{sure:.1%} that this comes first: {text}")


def _open(model: str, texts: list[str] | None, file: list[str] | None) -> "tuple[Pipeline, list[str]]":
    """The model, and the texts that were typed or stand in a file."""
    if not texts and not file:
        raise typer.BadParameter("name texts, or a file with --file")
    given = list(TextsGiven(texts or [], file or [], None, skip_bad=False))
    if not given:
        raise RequestError("there is nothing to ask about: the file holds no text")
    return _load(model), given


def _load(model: str) -> "Pipeline":
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference.load import load

    return load(model)
