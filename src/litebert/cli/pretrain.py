"""`litebert pretrain` and `litebert report`: from a corpus to an encoder, and a page about how it went."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from litebert.cli.app import app
from litebert.cli.options import ConfigFile, Json, Set, print_json

if TYPE_CHECKING:
    from litebert.corpus.corpus import Corpus
    from litebert.pretraining.config import PretrainConfig
    from litebert.training.job import ProgressEvent, RunResult

__all__ = ["pretrain", "report"]


@app.command(
    epilog="Examples:  litebert pretrain my-corpus --budget 2h --out my-run\n\n"
    "litebert pretrain my-corpus --out my-run --resume\n\n"
    "torchrun --nproc-per-node 8 -m litebert pretrain my-corpus --model albert-base --recipe paper --batch 1024"
)
def pretrain(
    folder: Annotated[Path, typer.Argument(help="A corpus that `litebert prepare` made.", metavar="CORPUS")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run.")] = Path("run"),
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="A name of `litebert models` (albert-micro if not given), or a folder to begin with."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="budget: learn most in little time (if not given); paper: LAMB as in the paper."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Train for this time, such as 90s or 2h; 30m if nothing is said.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Train for so many steps instead; such a run is reproducible.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Rows (sequences) in a step, of all processes together.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=8, help="Tokens in a row; 128, or 512 for the paper's recipe.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to learn beside masked words: nsp (next sentence; if not given), sop (sentence order; the "
            "paper's recipe) or none."
        ),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Peak of the learning rate; the recipe's if not given.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="lamb or adamw.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the weights and of the data's order.")] = None,
    micro_batch: Annotated[
        int | None,
        typer.Option(
            "--micro-batch", "--rows-at-once", min=1, help="Rows to hold in memory at once; gradients are accumulated."
        ),
    ] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16, or auto: what is faster here.")] = None,
    parallel: Annotated[str | None, typer.Option(help="Under torchrun: ddp or fsdp.")] = None,
    compiled: Annotated[
        bool | None, typer.Option("--compiled/--plain", help="Compile kernels: half a minute, then faster steps.")
    ] = None,
    save_every: Annotated[
        str | None, typer.Option(help="How often to save: 10m (if not given), or 500 for every 500 steps.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="How many of the last checkpoints to keep, beside the best; 2 if not given."),
    ] = None,
    config: ConfigFile = None,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, with memory and speed.")] = False,
    as_json: Json = False,
) -> None:
    """Pretrain an encoder on a corpus. It can be killed at any time: --resume goes on from the last checkpoint."""
    from litebert.runtime import prepare_process

    prepare_process()
    from litebert.corpus.corpus import Corpus
    from litebert.errors import RequestError
    from litebert.pretraining.settings import choose_pretraining, resume_pretraining

    options = {
        "model": model,
        "recipe": recipe,
        "budget": budget,
        "steps": steps,
        "batch": batch,
        "length": length,
        "objective": objective,
        "lr": lr,
        "optimizer": optimizer,
        "seed": seed,
        "micro_batch": micro_batch,
        "precision": precision,
        "parallel": parallel,
        "compiled": compiled,
        "save_every": save_every,
        "keep": keep,
    }
    given = {name: value for name, value in options.items() if value is not None}
    corpus = Corpus.open(folder)
    try:
        if resume:
            settings = resume_pretraining(out, corpus, given, config, set_ or ())
        else:
            settings = choose_pretraining(corpus, given, config, set_ or ())
    except RequestError as error:
        raise typer.BadParameter(str(error)) from None
    is_main = os.environ.get("RANK", "0") == "0"
    if dry_run:
        if is_main:
            _show_plan(settings, corpus, as_json)
        return
    result = _run(corpus, out, settings, resume, quiet=as_json or not is_main)
    if is_main:
        _conclude(result, folder, settings.stream.pairs, as_json)
    if result.signal is not None:
        raise typer.Exit(128 + result.signal)


def _run(corpus: "Corpus", out: Path, settings: "PretrainConfig", resume: bool, quiet: bool) -> "RunResult":
    from litebert.cli.progress import showing_progress
    from litebert.pretraining.job import pretrain

    with showing_progress("pretraining", 1000, quiet, fill=False) as show:

        def on_step(event: "ProgressEvent") -> None:
            show(round(1000 * event.progress), _describe(event))

        def on_message(message: str) -> None:
            if not quiet:
                typer.echo(f"litebert: {message}", err=True)

        return pretrain(corpus, out, settings, resume=resume, on_step=on_step, on_message=on_message)


def _describe(event: "ProgressEvent") -> str:
    """A line about the run: step, loss, what it can do, how fast it is."""
    recent, metrics = event.recent, event.metrics
    parts = [f"step {event.step:,}"]
    if recent.get("loss") is not None:
        parts.append(f"loss {recent['loss']:.3f}")
    if metrics:
        parts.append(f"words {metrics.get('stage_mlm_accuracy', metrics['mlm_accuracy']):.1%}")
        if "sop_accuracy" in metrics:
            parts.append(f"pairs {metrics.get('stage_sop_accuracy', metrics['sop_accuracy']):.1%}")
    if recent:
        parts.append(f"{recent['tokens_per_second']:,.0f} tokens/s")
        if recent["hardware_share"] is not None:
            parts.append(f"{recent['hardware_share']:.0%} of GEMM")
    return ", ".join(parts)


def _show_plan(settings: "PretrainConfig", corpus: "Corpus", as_json: bool) -> None:
    from litebert.planning.planner import plan_run
    from litebert.planning.tables import print_run_plan

    plan = plan_run(settings.model, settings.train, settings.stream.length, settings.replaces_at)
    if as_json:
        print_json({"config": settings.model_dump(mode="json"), "plan": plan})
    else:
        print_run_plan(plan, corpus.num_tokens())


def _conclude(result: "RunResult", corpus: Path, pairs: str, as_json: bool) -> None:
    """Say what came out, and how to go on."""
    from litebert.reports.pretraining import write_report

    page = write_report(result.folder)
    metrics, baselines = result.metrics, result.baselines
    if as_json:
        extent = {"step": result.step, "tokens": result.tokens, "seconds": result.seconds}
        outcome = {"folder": str(result.folder), "status": result.status, **extent, "metrics": metrics}
        print_json({**outcome, "baselines": baselines, "report": str(page)})
        return
    if result.status == "interrupted":
        command = shlex.join(["litebert", "pretrain", str(corpus), "-o", str(result.folder), "--resume"])
        typer.echo(f"Stopped at step {result.step:,}, and saved. Go on with:  {command}")
        return
    order = f", {metrics['sop_accuracy']:.1%} of the sentence pairs" if "sop_accuracy" in metrics else ""
    typer.echo(
        f"{result.model}: {metrics['mlm_accuracy']:.1%} of the masked words of held-out text are right{order}; "
        f"{result.step:,} steps, {result.tokens:,} tokens, {result.seconds / 60:.1f} minutes"
    )
    if baselines:
        typer.echo(
            f"By counting alone: the most frequent word {baselines['unigram']:.1%}, an n-gram guesser "
            f"{baselines['ngram']:.1%}{'' if pairs == 'none' else '; sentences by chance 50 %'}."
        )
    command = shlex.join(["litebert", "fill-mask", str(result.model), "a text with one [MASK] in it"])
    typer.echo(f"The report is {page}. Next:  {command}")


@app.command(epilog="Example:  litebert report my-run")
def report(
    folder: Annotated[
        Path, typer.Argument(help="A run of pretraining, distillation or fine-tuning, finished or not.", metavar="RUN")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page to write; RUN/report.html if not given.")
    ] = None,
    samples: Annotated[
        bool, typer.Option(help="Pretraining: show samples of held-out text, and what is filled in.")
    ] = True,
) -> None:
    """Write one self-contained HTML page about a run: curves, figures, samples, what went wrong, settings.

    A finished fine-tuning run has a fuller page already, which this does not overwrite.
    """
    from litebert.reports.pretraining import write_report

    typer.echo(f"{write_report(folder, out, samples)}")
