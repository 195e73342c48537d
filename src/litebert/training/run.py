"""A run and its folder: begun, gone on with, finished; the same for pretraining and for every task.

RUN/run.json       what the run is: configuration, data, machine
RUN/metrics.jsonl  what happened, line by line
RUN/checkpoints/   the last few states, and the best
RUN/model/         the encoder, once the run is finished
"""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from pydantic import ValidationError

from litebert import __version__
from litebert.config import explain
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import PARTIAL, lock_folder, read_json, write_json
from litebert.model.cost import count_encoder_parameters
from litebert.model.lean import kernels
from litebert.model.model import Model
from litebert.runtime import describe_machine
from litebert.training.config import RunConfig
from litebert.training.distributed import World, join_world
from litebert.training.hardware import choose_precision, measure_rate
from litebert.training.interruption import watching_signals
from litebert.training.job import Job, News, Outcome, num_pieces
from litebert.training.logbook import Logbook
from litebert.training.loop import Trainer, find_checkpoint
from litebert.training.state import Checkpoint, CheckpointStore

__all__ = ["RUN", "Undertaking", "carry_out", "identify", "parse_config", "read_run_config"]

RUN = "run.json"
Config = TypeVar("Config", bound=RunConfig)
Say = Callable[[str], None]

# What may change when a run goes on: where and how it is computed, not what.
_NOT_IDENTITY = {
    "parallel",
    "rows_at_once",
    "precision",
    "compiled",
    "recompute",
    "evaluations",
    "patience",
    "log_steps",
    "save_seconds",
    "save_steps",
    "keep",
}


@dataclass(frozen=True)
class Undertaking(Generic[Config]):
    """What is to be done: a configuration, and how to make a job of it."""

    kind: str
    """`pretraining` or `fine-tuning`, as run.json says it."""
    config: Config
    data: dict[str, Any]
    """What identifies the data, such as a hash; a run cannot go on with others."""
    make_job: Callable[[Config, World, bool, Say], Job]
    """Takes the configuration, the world, whether the weights are to be fresh, and whom to tell."""
    describe: Callable[[Config], dict[str, Any]]
    """What else run.json shall say, asked once when a run begins."""
    ends_with_best: bool = False
    """Whether the best weights are the run's model, or the last ones."""


def carry_out(
    undertaking: Undertaking[Config],
    out: Path,
    *,
    resume: bool = False,
    on_step: Callable[[News], None] | None = None,
    on_message: Say = lambda words: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Train into a run folder; with `resume`, from its newest whole checkpoint on.

    Under torchrun every process calls this alike. After an elastic restart it goes on by itself.
    """
    resume = resume or _was_restarted()
    with join_world() as world, watching_signals() as interruption:
        say = on_message if world.is_main else lambda words: None
        config = _settle(undertaking.config, world)
        with _writing_to(out):
            lock = _open_folder(out, resume) if world.is_main else None
        try:
            store = CheckpointStore(out / "checkpoints", config.train.keep)
            is_lost = False
            if world.is_main:
                with _writing_to(out):
                    is_known = (out / RUN).exists()
                    if not resume or not is_known:
                        _write_run(out, undertaking, config, world)
                    store.clear_abandoned()
                    # A run that was killed before it had saved anything simply begins again.
                    is_lost = not is_known or (store.folder.is_dir() and any(store.folder.iterdir()))
            (lost,) = world.add([float(is_lost)])
            damages: list[str] = []
            checkpoint = find_checkpoint(store, world, damages.append) if resume else None
            if checkpoint is None and resume and lost and not _was_restarted():
                raise RequestError(
                    f"{store.folder} holds no whole checkpoint: leave --resume away, or choose another --out"
                )
            job = undertaking.make_job(config, world, checkpoint is None, say)
            identity = identify(config) | undertaking.data
            trainer = _make_trainer(job, config, identity, store, Logbook(out, world.is_main), world, clock)
            _begin(trainer, checkpoint, damages, say)
            outcome = trainer.run(interruption, on_step if world.is_main else None)
            trainer.book.close()
            if outcome.status == "finished" and world.is_main:
                chosen = store.best() if undertaking.ends_with_best else store.all()[-1]
                tensors = Model.from_pretrained(chosen.model).state_dict()
                job.write_model(out / "model", job.finish(tensors), chosen.read_state())
            return outcome
        except RuntimeError as error:  # torch's own words: no memory left, a process of the group lost
            raise LitebertError(f"training broke off: {str(error).partition(chr(10))[0]}") from error
        finally:
            if lock is not None:
                os.close(lock)


def identify(config: RunConfig) -> dict[str, Any]:
    """What makes a run what it is, as plain values; not where and how it is computed."""
    identity = config.model_dump(mode="json")
    identity["train"] = {name: value for name, value in identity["train"].items() if name not in _NOT_IDENTITY}
    return identity


def parse_config(kind: type[Config], settings: dict[str, Any]) -> Config:
    """A configuration from plain values, such as a JSON or TOML file gives; raises pydantic's `ValidationError`."""
    return kind.model_validate_json(json.dumps(settings))


def read_run_config(folder: Path, kind: type[Config]) -> Config:
    """The configuration that a run was begun with."""
    if not (folder / RUN).is_file():
        raise FolderError(f"{folder} holds no run: it has no {RUN}; leave --resume away to begin one")
    content = read_json(folder / RUN)
    try:
        return parse_config(kind, content.get("config", {}))
    except ValidationError as error:
        raise FolderError(f"{folder / RUN} is not of this version of litebert ({explain(error)})") from None


@contextlib.contextmanager
def _writing_to(out: Path) -> Iterator[None]:
    """Say in a sentence that a folder cannot be written to."""
    try:
        yield
    except OSError as error:
        raise LitebertError(f"cannot write to {out} ({error.strerror or error}): choose another --out") from error


def _open_folder(out: Path, resume: bool) -> int:
    """Take hold of the folder, and refuse one that holds something else."""
    out.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(out, "run")
    try:
        begun = CheckpointStore(out / "checkpoints", 1).all()
        if begun and not resume:
            raise RequestError(
                f"{out} already holds a run at step {begun[-1].step:,}: go on with --resume, or choose another --out"
            )
        if not (out / RUN).exists() and any(path.name != RUN + PARTIAL for path in out.iterdir()):
            raise RequestError(f"{out} is not empty and holds no run: choose another --out")
    except BaseException:
        os.close(lock)
        raise
    return lock


def _write_run(out: Path, undertaking: Undertaking[Config], config: Config, world: World) -> None:
    """Say what this run is; a run that goes on keeps what was said."""
    write_json(
        out / RUN,
        {
            "format": 1,
            "kind": f"litebert {undertaking.kind}",
            "litebert": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine() | {"device": str(world.device), "processes": world.size},
            "parameters": count_encoder_parameters(config.model),
            **undertaking.describe(config),
            "config": config.model_dump(mode="json"),
        },
    )


def _settle(config: Config, world: World) -> Config:
    """Refuse what cannot be shared out, and choose fp32 or bf16; the main process chooses for all."""
    for stage in range(len(config.train.stages)):
        num_pieces(config.train.batch_size_of(stage), world.size, config.train.rows_at_once)
    chosen = choose_precision(config.train.precision, world.device) if world.is_main else "fp32"
    (is_half,) = world.add([float(chosen == "bf16")])
    train = config.train.model_copy(update={"precision": "bf16" if is_half else "fp32"})
    return config.model_copy(update={"train": train})


def _make_trainer(
    job: Job,
    config: RunConfig,
    identity: dict[str, Any],
    store: CheckpointStore,
    book: Logbook,
    world: World,
    clock: Callable[[], float],
) -> Trainer:
    kernels.use_compiled(config.train.compiled, config.lengths_vary)
    rate = world.size * measure_rate(config.model, config.train.precision, world.device)
    return Trainer(job, config.train, identity, store, book, world, hardware_rate=rate, clock=clock)


def _begin(trainer: Trainer, checkpoint: Checkpoint | None, damages: list[str], say: Say) -> None:
    """Go on from a checkpoint, or begin; also where a run was killed before it had saved anything."""
    processes = "1 process" if trainer.world.size == 1 else f"{trainer.world.size} processes"
    for words in damages:
        say(f"passed over a damaged checkpoint: {words}")
    if checkpoint is None:
        trainer.book.keep_until(-1)
        trainer.tell("began", processes)
        return
    trainer.load(checkpoint)
    trainer.book.keep_until(checkpoint.step)
    trainer.world.wait()
    for words in damages:
        trainer.tell("damaged", words)
    words = f"went on from step {checkpoint.step:,} with {processes}"
    trainer.tell("resumed", words)
    say(words)


def _was_restarted() -> bool:
    """Whether torchrun started this process again after one was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
