"""`train`: a job, a configuration and a folder become a run; the same for pretraining and for every task."""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

from litebert import __version__
from litebert.config import ModelConfig
from litebert.errors import LitebertError, RequestError
from litebert.model.cost import count_encoder_parameters
from litebert.model.lean import kernels
from litebert.model.model import Model
from litebert.runtime import describe_machine, probe_bfloat16
from litebert.training.config import Precision, RunConfig, num_micro_batches
from litebert.training.distributed import World, join_world
from litebert.training.job import Job, OnMessage, OnStep, RunResult
from litebert.training.logbook import Logbook
from litebert.training.loop import Trainer, find_checkpoint
from litebert.training.monitoring import watching_signals
from litebert.training.run_folder import RunFolder
from litebert.training.state import Checkpoint, CheckpointStore

__all__ = ["choose_precision", "measure_rate", "train"]

Config = TypeVar("Config", bound=RunConfig)
_ROWS, _SECONDS = 4096, 0.3  # of the products that measure the hardware
_LEAST_TRIES = 3


def _ignore(message: str) -> None:
    """Nobody listens."""


def train(
    job: Job[Config],
    config: Config,
    out: Path | str,
    *,
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = _ignore,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Train a job into a run folder; with `resume`, from its newest whole checkpoint on.

    Under torchrun every process calls this alike. After an elastic restart it goes on by itself. A time budget counts
    from this call on.
    """
    called = clock()
    folder = RunFolder(out)
    was_restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0  # by torchrun, after a process was lost
    resume = resume or was_restarted
    with join_world() as world, watching_signals() as interruption, _explaining_torch():
        if not world.is_main:
            on_message, on_step = _ignore, None
        config = _settle(config, world)
        with folder.locked(resume) if world.is_main else contextlib.nullcontext():
            store = CheckpointStore(folder.checkpoints, config.train.keep)
            is_lost = _begin_folder(folder, job, config, store, world, resume) if world.is_main else False
            (num_lost,) = world.add([float(is_lost)])
            damages: list[str] = []
            checkpoint = find_checkpoint(store, world, damages.append) if resume else None
            if resume and checkpoint is None and num_lost and not was_restarted:
                raise RequestError(
                    f"{store.folder} holds no whole checkpoint: leave --resume away, or choose another --out"
                )
            job.setup(world, config, checkpoint is None, on_message)
            kernels.use_compiled(config.train.compiled, config.lengths_vary)
            rate = world.size * measure_rate(config.model, config.train.precision, world.device)
            book, identity = Logbook(folder.path, world.is_main), config.identity() | job.data
            trainer = Trainer(job, config.train, identity, store, book, world, hardware_rate=rate, clock=clock)
            _begin_or_resume(trainer, checkpoint, damages, on_message)
            signal = trainer.run(interruption, on_step, called)
            trainer.release()
            state, metrics = trainer.state, trainer.state.metrics
            if signal is None and world.is_main:
                chosen = store.best() if job.keeps_best else store.all()[-1]
                tensors = Model.from_pretrained(chosen.model).state_dict()
                job.write_model(folder.model, job.finish(tensors), chosen.read_state())
                metrics = chosen.read_state().metrics
            return RunResult(
                folder=folder.path,
                status="finished" if signal is None else "interrupted",
                step=state.step,
                tokens=state.tokens,
                seconds=state.startup + state.seconds,
                metrics=metrics,
                baselines=folder.read_about().get("baselines", {}) if world.is_main else {},
                signal=signal,
            )


@contextlib.contextmanager
def _explaining_torch() -> Iterator[None]:
    """Say in a sentence what torch says at length: no memory is left, a process of the group is lost."""
    try:
        yield
    except RuntimeError as error:
        raise LitebertError(f"training broke off: {str(error).partition(chr(10))[0]}") from error


def _settle(config: Config, world: World) -> Config:
    """Refuse what cannot be shared out, and choose fp32 or bf16; the main process chooses for all."""
    for stage in range(len(config.train.stages)):
        num_micro_batches(config.train.batch_size_of(stage), world.size, config.train.micro_batch_size)
    chosen = choose_precision(config.train.precision, world.device) if world.is_main else "fp32"
    (is_half,) = world.add([float(chosen == "bf16")])
    train = config.train.model_copy(update={"precision": "bf16" if is_half else "fp32"})
    return config.model_copy(update={"train": train})


def _begin_folder(
    folder: RunFolder, job: Job[Any], config: RunConfig, store: CheckpointStore, world: World, resume: bool
) -> bool:
    """Say in run.json what the run is, unless it goes on; return whether a checkpoint should be there but is not.

    A run that was killed before it had saved anything simply begins again.
    """
    with folder.writing():
        is_known = folder.run_file.exists()
        if not resume or not is_known:
            machine = describe_machine() | {"device": str(world.device), "processes": world.size}
            folder.write_about(
                {
                    "format": 1,
                    "kind": f"litebert {job.kind}",
                    "litebert": __version__,
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                    "started": datetime.now(UTC).isoformat(timespec="seconds"),
                    "machine": machine,
                    "parameters": count_encoder_parameters(config.model),
                    **job.describe_run(),
                    "config": config.model_dump(mode="json"),
                }
            )
        store.clear_abandoned()
        return not is_known or any(store.folder.iterdir())


def _begin_or_resume(
    trainer: Trainer, checkpoint: Checkpoint | None, damages: list[str], on_message: OnMessage
) -> None:
    """Take the run to its first step, or to the one after the checkpoint, and note that in the logbook."""
    world, book = trainer.world, trainer.book
    processes = "1 process" if world.size == 1 else f"{world.size} processes"
    for damage in damages:
        on_message(f"passed over a damaged checkpoint: {damage}")
    if checkpoint is None:
        book.keep_until(-1)
        trainer.tell("began", processes)
        return
    trainer.load(checkpoint)
    book.keep_until(checkpoint.step)
    world.wait()
    for damage in damages:
        trainer.tell("damaged", damage)
    message = f"went on from step {checkpoint.step:,} with {processes}"
    trainer.tell("resumed", message)
    on_message(message)


def choose_precision(wanted: Precision, device: torch.device) -> Precision:
    """fp32 or bf16: what was asked for, else bf16 where the hardware really has it and it is faster.

    The CUDA path is not run by the project's own tests.
    """
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if probe_bfloat16() else "fp32"


def measure_rate(config: ModelConfig, precision: Precision, device: torch.device) -> float:
    """Floating-point operations per second of the largest product of a layer, alone: the limit for a step."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    inner, columns = config.hidden_size, config.intermediate_size
    states = torch.randn(_ROWS, inner, device=device, dtype=dtype)
    weights = torch.randn(columns, inner, device=device, dtype=dtype)
    best, end, tries = 0.0, time.perf_counter() + _SECONDS, 0
    while time.perf_counter() < end or tries < _LEAST_TRIES:  # the first is slow, and on a busy machine the only one
        tries += 1
        begun = time.perf_counter()
        for _ in range(3):
            states @ weights.T
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 3 * 2.0 * _ROWS * inner * columns / (time.perf_counter() - begun))
    return best
