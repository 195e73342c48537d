"""Runs a run that a test describes in JSON, alone, under torchrun, or forked from a process that waits.

`python -m tests.faults.run_pretraining JOB.json` runs one. Without an argument it reads such jobs from stdin, line by
line, and forks a process for each rank of them: torch is imported once for all of them.

A job has `corpus`, `out`, `config` and `resume`; a configuration with a `teacher` is a distillation, any other one
pretraining. It can also have faults: `poison` (steps at which the loss is made bad), `kill` (a step at which a rank
kills itself), `pause` (seconds that every step takes longer), `record` (a folder to note the rows of every step in). Or
it has a `call`, `module:function`, which is called with it instead.
"""

import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.corpus.corpus import Corpus
from litebert.distillation import job as distillation_job
from litebert.distillation.config import DistillConfig
from litebert.distillation.job import Distillation
from litebert.errors import LitebertError
from litebert.pretraining import job as pretraining_job
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.job import Pretraining
from litebert.training import run as training_run
from litebert.training.job import ProgressEvent, RunResult
from litebert.training.loop import Trainer


def current_step() -> int:
    """The step that is being taken, as the loop counts."""
    frame = sys._getframe()
    while frame is not None:
        if isinstance(trainer := frame.f_locals.get("self"), Trainer):
            return trainer.state.step + 1
        frame = frame.f_back  # type: ignore[assignment]
    raise AssertionError("no loop is running")


def faulty(job: dict[str, Any], kind: type[Any] = Pretraining) -> type[Any]:
    """A kind of run as a job describes it, with its faults."""

    class Faulty(kind):  # type: ignore[misc]
        def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
            step = current_step()
            if job.get("record"):
                record(Path(job["record"]), step, self.world.rank, batch)
            if job.get("kill") and (self.world.rank, step) == (job["kill"]["rank"], job["kill"]["step"]):
                die_once(Path(job["kill"]["mark"]), job["kill"].get("delay", 0.0))
            parts: list[Tensor] = super().measure(model, batch, totals, stage)
            kind = job.get("poison", {}).get(str(step))
            if kind is not None and self.world.rank == job.get("poisoned_rank", self.world.rank):
                parts[0] = poison(parts[0], kind)
            return parts

    return Faulty


def poison(loss: Tensor, kind: str) -> Tensor:
    """A loss that no run may learn from."""
    if kind == "nan gradient":
        loss = loss * 1.0
        loss.register_hook(lambda gradient: gradient * float("nan"))
        return loss
    return loss * {"nan loss": float("nan"), "inf loss": float("inf"), "spike": 100.0}[kind]


def record(folder: Path, step: int, rank: int, batch: Batch) -> None:
    """Note which rows a rank sees at a step."""
    rows = [hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16] for row in batch.input_ids]
    with (folder / f"rank-{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "rows": rows}) + "\n")


def die_once(mark: Path, delay: float) -> None:
    """Kill this process, at once or a little later, unless the mark says that this has been done."""
    if mark.exists():
        return
    mark.touch()
    if delay:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def perform(job: dict[str, Any]) -> int:
    """Run a job; the exit code is 0 if it ended, 1 with a sentence, 2 if it crashed."""
    if "call" in job:
        module, _, name = job["call"].partition(":")
        try:
            getattr(importlib.import_module(module), name)(job)
        except SystemExit as end:
            return int(end.code or 0)
        except Exception:
            traceback.print_exc()
            return 2
        return 0

    def on_step(event: ProgressEvent) -> None:
        if job.get("steps_file"):
            partial = Path(job["steps_file"] + ".partial")
            partial.write_text(str(event.step))
            partial.replace(job["steps_file"])
        time.sleep(job.get("pause", 0.0))

    training_run.measure_rate = lambda *_: 1e9
    torch.set_num_threads(1)
    try:
        outcome = train(job, on_step)
    except LitebertError as error:
        print(f"sentence: {error}", flush=True)
        return 1
    except Exception:
        traceback.print_exc()
        return 2
    print(json.dumps({"status": outcome.status, "signal": outcome.signal, "step": outcome.step}), flush=True)
    return 0


def train(job: dict[str, Any], on_step: Callable[[ProgressEvent], None]) -> RunResult:
    """Pretrain or distil, as the configuration asks for."""
    corpus, out, resume = Corpus.open(job["corpus"], verify=False), Path(job["out"]), job.get("resume", False)
    if "teacher" in job["config"]:
        distillation_job.Distillation = faulty(job, Distillation)  # type: ignore[misc]
        student = DistillConfig.parse(job["config"])
        return distillation_job.distill(corpus, out, student, resume=resume, on_step=on_step)
    pretraining_job.Pretraining = faulty(job)  # type: ignore[misc]
    config = PretrainConfig.parse(job["config"])
    return pretraining_job.pretrain(corpus, out, config, resume=resume, on_step=on_step)


def fork(job: dict[str, Any], rank: int, port: int) -> int:
    """Perform a job in a new process, as one of its ranks."""
    child = os.fork()
    if child:
        return child
    code = 2
    try:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        size = job.get("processes", 1)
        if size > 1:
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
            os.environ.update({name: str(value) for name, value in names.items()})
            os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        code = perform(job)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def warm_up(corpus: Corpus) -> None:
    """Do once what every process would do at its first run: torch and the tokenizer load much when first used."""
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
    with tempfile.TemporaryDirectory() as folder:
        corpus.tokenizer.write_files(Path(folder))


def serve() -> None:
    """Fork what is asked for, line by line: answer with process ids, then with exit codes."""
    known: set[str] = set()
    for line in sys.stdin:
        job = json.loads(line)
        if "corpus" in job and job["corpus"] not in known:
            known.add(job["corpus"])
            warm_up(Corpus.open(job["corpus"]))
        if "call" in job:
            module = importlib.import_module(job["call"].partition(":")[0])
            getattr(module, "warm_up", lambda: None)()
        with socket.socket() as finder:
            finder.bind(("127.0.0.1", 0))
            port = finder.getsockname()[1]
        children = [fork(job, rank, port) for rank in range(job.get("processes", 1))]
        print(json.dumps(children), flush=True)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(perform(json.loads(Path(sys.argv[1]).read_text())))
    serve()
