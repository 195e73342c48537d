"""`litebert distill`: a BERT or ALBERT that you have becomes a smaller one."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import Columns, ConfigFile, Json, Set, SkipBad, Sources, print_json
from litebert.cli.progress import as_far_as_it_came, is_main_process, showing_run

if TYPE_CHECKING:
    from litebert.training.job import RunResult

__all__ = ["distill"]


@app.command(
    epilog="Examples:  litebert distill my-bert books/ --budget 2h --out my-albert\n\n"
    "litebert distill sentence-transformers/all-MiniLM-L6-v2 my-corpus --rated glue/STS-B --depths 2,4,6\n\n"
    "litebert distill my-bert books/ --out my-albert --resume"
)
def distill(
    teacher: Annotated[str, typer.Argument(help="The model to learn from: a folder, a run or a hub name.")],
    text: Sources = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run.")] = Path("distilled"),
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="The student: a name of `litebert models`, or a folder to begin with. If not given, "
            "the teacher as an ALBERT: words of size 96, three narrow blocks for all layers.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", "-t", help="Word pieces of the student; the teacher's if not given.")
    ] = None,
    rated: Annotated[
        Path | None,
        typer.Option(help="Measure vectors on the way by pairs with scores: STS-B's folder, or a file of your own."),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Train for this time, such as 20m or 2h; 1h if not given.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Train for so many steps instead; such a run is reproducible.")
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(help="Passes at which the student shall work, such as 2,4,6; all from 2 on if not given."),
    ] = None,
    dimensions: Annotated[
        str | None, typer.Option(help="Parts of a vector that shall work alone, such as 64,128,256 (if not given).")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Rows in a step, of all processes together.")] = None,
    length: Annotated[int | None, typer.Option(min=8, help="Tokens in a row; 64 if not given, 256 at the end.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak of the learning rate; 1e-3 if not given.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw or lamb.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the weights and of the text's order.")] = None,
    micro_batch: Annotated[int | None, typer.Option(min=1, help="Rows to hold in memory at once.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16, or auto: what is faster here.")] = None,
    parallel: Annotated[str | None, typer.Option(help="Under torchrun: ddp or fsdp.")] = None,
    save_every: Annotated[
        str | None, typer.Option(help="How often to save: 10m (if not given), or 500 for every 500 steps.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="How many of the last checkpoints to keep.")] = None,
    column: Columns = None,
    skip_bad: SkipBad = False,
    config: ConfigFile = None,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    as_json: Json = False,
) -> None:
    """Teach a small encoder what a trained one makes of text without labels. Killed, --resume goes on."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert import api

    with showing_run("distilling", as_json, "agreement") as watch:
        result = as_far_as_it_came(
            api.distill,
            teacher,
            text[0] if text and len(text) == 1 else text or "builtin:documentation",
            out,
            rated=rated,
            tokenizer=tokenizer,
            column=column or "text",
            skip_bad=skip_bad,
            config=config,
            set=set_ or (),
            resume=resume,
            model=model,
            budget=budget,
            steps=steps,
            depths=_numbers(depths, "--depths"),
            dimensions=_numbers(dimensions, "--dimensions"),
            batch=batch,
            length=length,
            lr=lr,
            optimizer=optimizer,
            seed=seed,
            micro_batch=micro_batch,
            precision=precision,
            parallel=parallel,
            save_every=save_every,
            keep=keep,
            **watch,
        )
    if is_main_process():
        asked = {"--tokenizer": tokenizer, "--rated": rated}
        named = [str(word) for option in asked.items() if option[1] is not None for word in option]
        _conclude(result, [teacher, *(text or []), *named], as_json)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


def _numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Numbers with commas between."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"write numbers with commas between, such as 2,4,6, not {text!r}", param_hint=option
        ) from None


def _conclude(result: "RunResult", named: list[str], as_json: bool) -> None:
    """Say what came out, and how to go on."""
    metrics = result.metrics
    if as_json:
        extent = {"step": result.step, "tokens": result.tokens, "seconds": result.seconds}
        outcome = {"folder": str(result.folder), "status": result.status, **extent, "metrics": metrics}
        print_json({**outcome, "report": str(result.report)})
        return
    if result.status == "interrupted":
        command = shlex.join(["litebert", "distill", *named, "-o", str(result.folder), "--resume"])
        typer.echo(f"Stopped at step {result.step:,}, and saved. Go on with:  {command}")
        return
    rated = f", {metrics['sts']:.3f} with the rated pairs" if "sts" in metrics else ""
    typer.echo(
        f"{result.model}: its similarities correlate {metrics['agreement']:.3f} with the teacher's"
        f"{rated}; {result.step:,} steps, {result.tokens:,} tokens, {result.seconds / 60:.1f} minutes"
    )
    for depth in sorted(int(name.rpartition("_")[2]) for name in metrics if name.startswith("agreement_depth_")):
        rated = f", rated pairs {metrics[f'sts_depth_{depth}']:.3f}" if "sts" in metrics else ""
        typer.echo(f"  at depth {depth}: agreement {metrics[f'agreement_depth_{depth}']:.3f}{rated}")
    command = shlex.join(["litebert", "finetune", "your-file.csv", "--model", str(result.folder)])
    typer.echo(f"The report is {result.report}. Next:  {command}")
