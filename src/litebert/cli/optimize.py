"""`litebert optimize`: the accuracy gate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from litebert.cli.app import app
from litebert.cli.options import Json, print_json, takes
from litebert.cli.task_data import layout, split_reading

if TYPE_CHECKING:
    from litebert.inference.optimize import Variant

__all__ = ["optimize"]


@app.command(
    epilog="Examples:  litebert optimize reviews-run --data dev.csv --max-drop 0.5\n\n"
    "litebert optimize litebert-en --data glue/STS-B --out fast-encoder"
)
@takes(layout)
def optimize(
    model: Annotated[str, typer.Argument(help="A fine-tuned run or model folder, or an encoder.")],
    data: Annotated[
        Path,
        typer.Option("--data", "-d", help="Examples with labels, which the model has not learnt from; or a folder."),
    ],
    max_drop: Annotated[float, typer.Option(min=0, help="How many points of its metric the model may lose.")] = 0.5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder for an optimized copy; beside the weights if none.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which file of a folder.")] = "dev",
    exits: Annotated[
        bool, typer.Option("--exits/--no-exits", help="Whether certain answers may be given before the last pass.")
    ] = True,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Find out how fast a model may run before it gets worse than you allow, and let it run so from now on.

    Measures 8-bit numbers and early answers on your examples, and takes the fastest way that keeps the metric.
    """
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.inference import optimize as gate

    read, _ = split_reading(given)
    how = {name: read[name] for name in ("format", "header", "skip_bad")}
    found = gate.optimize(model, data, max_drop=max_drop, out=out, exits=exits, split=split, on_variant=_show, **how)
    best = found.chosen
    if as_json:
        print_json(
            {
                "metric": found.metric,
                "examples": found.num_examples,
                "variants": [_as_dict(one) for one in found.variants],
                "chosen": _as_dict(best),
                "native": found.is_native,
            }
        )
        return
    if best is found.variants[0]:
        copied = "" if out is None else f"; {out} is a copy of it"
        typer.echo(
            f"Nothing was faster without losing more than {max_drop:g} points: the model stays as it is{copied}."
        )
        return
    kept = f"{found.metric} {best.metric:.4f} on {found.num_examples:,} examples, agreement {best.agreement:.4f}"
    runner = "litebert's own kernels" if found.is_native else "onnxruntime"
    typer.echo(f"{best.name}: {best.speed or 1:.1f} times as fast on {runner}, {kept}.")
    typer.echo(f"Whatever opens {out or model} follows it from now on; litebert.load(…, optimized=False) does not.")


def _show(variant: "Variant") -> None:
    if variant.name == "fp32":  # the first one
        typer.echo(f"{'':32} {'metric':>7} {'lost':>6} {'alike':>7} {'passes':>6} {'speed':>6}", err=True)
    speed = f"{variant.speed:5.2f} ×" if variant.speed is not None else ""
    figures = f"{variant.metric:7.4f} {variant.drop:+6.2f} {variant.agreement:7.1%} {variant.passes:6.2f} {speed}"
    typer.echo(f"{variant.name:32} {figures}", err=True)


def _as_dict(variant: "Variant") -> dict[str, Any]:
    figures = {
        name: getattr(variant, name) for name in ("name", "metric", "drop", "agreement", "passes", "depth", "speed")
    }
    exits = variant.exits.model_dump(exclude_none=True) if variant.exits else None
    return {**figures, "int8": list(variant.int8), "exits": exits}
