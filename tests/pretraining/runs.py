"""Small pretraining runs for tests: what they are, how to start them, and what they left behind."""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import load_file
from torch import Tensor

from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import StreamConfig
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.job import pretrain
from litebert.training.config import RunConfig, TrainConfig
from litebert.training.job import RunResult
from litebert.training.optim import OptimConfig
from litebert.training.state import CheckpointStore, TrainingState
from tests.conftest import small_config

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    "HF_HUB_OFFLINE": "1",
}


def tiny_run(
    model: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
    optim: dict[str, Any] | None = None,
    head_start: bool = False,
    **train: Any,
) -> PretrainConfig:
    """Twenty steps of eight rows, saved every five; a second of work."""
    settings: dict[str, Any] = {
        "steps": 20,
        "batch_size": 8,
        "log_steps": 1,
        "evaluations": 2,
        "save_seconds": None,
        "save_steps": 5,
        "precision": "fp32",
        "optim": OptimConfig(**{"lr": 0.01, "warmup": 0.1, **(optim or {})}),
    }
    if train.get("seconds"):
        del settings["steps"]
    return PretrainConfig(
        model=small_config(**{"vocab_size": 400, **(model or {})}),
        stream=StreamConfig(**{"length": 32, **(stream or {})}),
        train=TrainConfig(**{**settings, **train}),
        head_start=head_start,
        held_out_rows=32,
    )


def make_job(corpus: Corpus, out: Path, config: RunConfig, **faults: Any) -> dict[str, Any]:
    """A job as `tests.faults.run_pretraining` reads it."""
    described = {"corpus": str(corpus.folder), "out": str(out), "config": config.model_dump(mode="json")}
    return {**described, "log": str(out.with_name(f"{out.name}.log")), **faults}


class Nursery:
    """A process that has imported everything and forks a run whenever it is asked, so that starting one is quick."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.run_pretraining"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
        )

    def start(self, job: dict[str, Any]) -> list[int]:
        """Start the processes of a job."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        pids = self._read(600)
        assert pids is not None, "the nursery does not answer"
        return pids

    def wait(self, pids: list[int], timeout: float = 600) -> list[int]:
        """Their exit codes; those of killed ones are negative. Who takes too long is killed."""
        codes = self._read(timeout)
        if codes is None:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            codes = self._read(60)
            raise AssertionError(f"took longer than {timeout} s: {codes}")
        return codes

    def kill_after(self, pids: list[int], seconds: float, number: int = signal.SIGKILL) -> list[int]:
        """Send a signal to all of them after a time, unless they are done before it; their exit codes."""
        codes = self._read(seconds)
        if codes is not None:
            return codes
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return self.wait(pids)

    def insist(self, pids: list[int], number: int) -> list[int]:
        """Send a signal to all of them again and again until they end; their exit codes."""
        for _ in range(300):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if (codes := self._read(1)) is not None:
                return codes
        return self.wait(pids, 0)

    def run(self, job: dict[str, Any]) -> list[int]:
        """Run a job to its end."""
        return self.wait(self.start(job))

    def finish(self, job: dict[str, Any]) -> None:
        """Run a job that must end well."""
        codes = self.run(job)
        assert not any(codes), f"{codes}: {Path(job['log']).read_text()}"

    def close(self) -> None:
        """Send it home."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(300)

    def _read(self, timeout: float) -> list[int] | None:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            return None
        answer: list[int] = json.loads(self.process.stdout.readline())
        return answer


@functools.cache
def shared_nursery() -> Nursery:
    """The one of this process."""
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


def entries(out: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of one kind in a run's logbook."""
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == kind]


def events(out: Path) -> list[str]:
    """What happened, in a word each."""
    return [entry["what"] for entry in entries(out, "event")]


def losses(out: Path) -> list[tuple[int, float]]:
    """The losses in the logbook, step by step."""
    return [(entry["step"], entry["loss"]) for entry in entries(out, "step")]


def repeatable(out: Path) -> list[dict[str, Any]]:
    """The logbook but for times and events: what must be the same whenever a run is repeated."""
    clocks = ("seconds", "tokens_per_second", "hardware_share")
    return [
        {name: value for name, value in entry.items() if name not in clocks}
        for kind in ("step", "evaluation", "samples")
        for entry in entries(out, kind)
    ]


def last_state(out: Path) -> TrainingState:
    """Where a run stands, but for its time."""
    state = CheckpointStore(out / "checkpoints", 1).all()[-1].read_state()
    state.seconds = state.startup = state.reserve = state.evaluating = 0.0
    state.window = {name: value for name, value in state.window.items() if name != "seconds"}
    return state


def last_tensors(out: Path) -> dict[str, Tensor]:
    """Weights and optimiser of a run's last checkpoint."""
    checkpoint = CheckpointStore(out / "checkpoints", 1).all()[-1]
    weights = load_file(checkpoint.model / "model.safetensors")
    return {**weights, **{f"optimizer {name}": tensor for name, tensor in checkpoint.read_tensors().items()}}


def assert_same_end(out: Path, expected: Path) -> None:
    """Two runs must have ended alike, bit by bit, and have logged the same numbers on the way."""
    assert last_state(out) == last_state(expected)
    found, wanted = last_tensors(out), last_tensors(expected)
    assert list(found) == list(wanted)
    different = [name for name in wanted if not torch.equal(found[name], wanted[name])]
    assert not different, f"{len(different)} of {len(wanted)} tensors differ, first {different[0]}"
    if (expected / "model").exists():
        final = (load_file(folder / "model" / "model.safetensors") for folder in (out, expected))
        for one, other in zip(*(tensors.values() for tensors in final), strict=True):
            assert torch.equal(one, other)
    assert repeatable(out) == repeatable(expected)


def pretrain_here(
    corpus: Corpus, out: Path, config: PretrainConfig, *, resume: bool = False, **faults: Any
) -> RunResult:
    """Run in this process; faults as in `tests.faults.run_pretraining`, and a clock or watchers if they are given."""
    from tests.faults.run_pretraining import faulty

    own = {name: faults.pop(name) for name in ("clock", "on_step", "on_message") if name in faults}
    with (
        mock.patch("litebert.pretraining.job.Pretraining", faulty(faults)),
        mock.patch("litebert.training.run.measure_rate", return_value=1e9),
    ):
        return pretrain(corpus, out, config, resume=resume, **own)
