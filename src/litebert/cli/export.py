"""`litebert export`: a model as a file that other programs run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, print_json

__all__ = ["export"]


@app.command(
    epilog="Examples:  litebert export my-run --out my-onnx\n\nlitebert export litebert-en --depth 2 --out small-onnx"
)
def export(
    model: Annotated[str, typer.Argument(help="The model: a folder, a run or a hub name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for model.onnx and the tokenizer.")] = Path(
        "exported"
    ),
    depth: Annotated[
        int | None, typer.Option(min=1, help="Passes through the layers: fewer are faster; all if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX file in which weights that layers share stand once."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference import export as exporting
    from litebert.quantities import format_bytes

    result = exporting.export(model, out, depth=depth)
    if as_json:
        about = {"file": str(result.file), "bytes": result.num_bytes, "weight_bytes": result.weight_bytes}
        lacks = {"lacks_tf_idf": result.lacks_tf_idf, "lacks_linear": result.lacks_linear}
        parts = {"int8": result.is_int8, **lacks}
        print_json({**about, "difference": result.difference, **parts})
        return
    checked = "torch or onnxruntime is not installed, so its outputs were not checked"
    if result.is_int8:
        checked = "with 8 bits, as `litebert optimize` measured them, for onnxruntime on CPUs like this one"
    if result.difference is not None:
        checked = f"its outputs differ from the model's by at most {result.difference:.1e}"
    sizes = f"{format_bytes(result.num_bytes)}, for weights of {format_bytes(result.weight_bytes)}"
    typer.echo(f"{result.file}: {sizes}; {checked}")
    if result.lacks_linear:
        typer.echo("litebert: the file gives vectors; the linear model on them (`litebert fit`) is not in it", err=True)
    elif result.lacks_tf_idf:
        typer.echo("litebert: the words that are counted beside the encoder (--tf-idf) are not in this file", err=True)
    typer.echo(f"Next:  python -c {shlex.quote(_describe(result.file))}")


def _describe(file: Path) -> str:
    return f"import onnxruntime; print([o.name for o in onnxruntime.InferenceSession({str(file)!r}).get_outputs()])"
