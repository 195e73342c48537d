"""Runs that are killed, told to stop, or lose a process end as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from litebert.corpus.corpus import Corpus
from litebert.distillation.config import DistillConfig
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import RunConfig, Stage
from litebert.training.state import CheckpointStore
from tests.conftest import soak_count
from tests.distillation.runs import BERT, make_teacher, tiny_distillation
from tests.pretraining.runs import (
    ENVIRONMENT,
    ROOT,
    Nursery,
    assert_same_end,
    events,
    last_state,
    make_job,
    tiny_run,
)

GROWING = (Stage(until=0.4, depth=2, length=16, batch_size=16), Stage(until=0.7, mask_rate=0.3), Stage(depth=6))
RUNS = {
    "lamb": tiny_run(),
    "dropout, growing": tiny_run(
        {"hidden_dropout": 0.1, "attention_dropout": 0.1}, optim={"optimizer": "adamw"}, stages=GROWING, log_steps=3
    ),
    "pieces": tiny_run(micro_batch_size=3, stream={"pairs": "none"}, recompute=True, save_steps=3),
}


def has_begun(out: Path) -> bool:
    return bool(CheckpointStore(out / "checkpoints", 1).all())


def run_and_kill(nursery: Nursery, job: dict[str, Any], seconds: float, generator: random.Random) -> int:
    """Kill a run at random points of its time, and go on with it, until it ends; say how often it was killed."""
    kills = 0
    while True:
        pids = nursery.start({**job, "resume": has_begun(Path(job["out"]))})
        # At last it must get through: the later the attempt, the later the blow.
        codes = nursery.kill_after(pids, generator.uniform(0, seconds * (0.9 + 0.1 * kills)))
        if codes == [0]:
            return kills
        assert codes == [-signal.SIGKILL], Path(job["log"]).read_text()
        kills += 1


def kill_many(nursery: Nursery, corpus: Corpus, folder: Path, config: RunConfig, count: int, seed: int) -> int:
    """Kill so many runs at random points, compare each with one that was left alone, and count the kills."""
    expected = folder / "expected"
    pids = nursery.start(make_job(corpus, expected, config))
    begun = time.monotonic()
    assert nursery.wait(pids, 600) == [0]  # compiled kernels take their time
    seconds = time.monotonic() - begun
    generator = random.Random(seed)
    done = kills = 0
    while done < count:
        out = folder / f"killed-{kills}-{generator.random()}"
        killed = run_and_kill(nursery, make_job(corpus, out, config), seconds, generator)
        assert_same_end(out, expected)
        kills += killed
        done += killed > 0  # a run that was quicker than its killer shows nothing
    return kills


@pytest.mark.parametrize(("name", "count"), [("lamb", 1), ("dropout, growing", 2)])
def test_a_killed_run_goes_on_bit_by_bit(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, name: str, count: int
) -> None:
    kill_many(nursery, small_corpus, tmp_path, RUNS[name], count, seed=len(name))


@pytest.mark.soak
@pytest.mark.parametrize(("name", "count"), [("lamb", 20), ("dropout, growing", 20), ("pieces", 10)])
def test_fifty_killed_runs_go_on_bit_by_bit(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, name: str, count: int
) -> None:
    count = soak_count(count)
    kills = kill_many(nursery, small_corpus, tmp_path, RUNS[name], count, seed=100)
    print(f"killed at random points ({name}): {count}/{count} identical, {kills} kills")


@pytest.mark.soak
def test_killed_runs_with_compiled_kernels_go_on_bit_by_bit(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path
) -> None:
    count = soak_count(5)
    kills = kill_many(nursery, small_corpus, tmp_path, tiny_run(compiled=True, stages=GROWING), count, seed=3)
    print(f"killed at random points (compiled kernels): {count}/{count} identical, {kills} kills")


@pytest.fixture
def student(small_tokenizer: Tokenizer, tmp_path: Path) -> DistillConfig:
    """A distillation in stages; a step draws dropout and a depth."""
    teacher = make_teacher(tmp_path / "teacher", small_tokenizer, num_layers=3, **BERT)
    stages = (Stage(until=0.4, depth=1, length=16, batch_size=16), Stage(until=0.7), Stage(length=48, batch_size=6))
    return tiny_distillation(teacher, {"hidden_dropout": 0.1}, stages=stages, steps=12, save_steps=4, log_steps=3)


def test_a_killed_distillation_goes_on_bit_by_bit(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, student: DistillConfig
) -> None:
    nursery.finish(make_job(small_corpus, tmp_path / "expected", student))
    for step, saved in ((3, 0), (12, 8)):
        out = tmp_path / f"killed-{step}"
        kill = {"rank": 0, "step": step, "mark": str(out.with_suffix(".mark"))}
        job = make_job(small_corpus, out, student, kill=kill)
        assert nursery.run(job) == [-signal.SIGKILL], Path(job["log"]).read_text()
        assert last_state(out).step == saved
        nursery.finish({**job, "resume": True})
        assert_same_end(out, tmp_path / "expected")


@pytest.mark.soak
def test_twenty_killed_distillations_go_on_bit_by_bit(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, student: DistillConfig
) -> None:
    count = soak_count(20)
    kills = kill_many(nursery, small_corpus, tmp_path, student, count, seed=11)
    print(f"killed at random points (distillation): {count}/{count} identical, {kills} kills")


def test_two_processes_distil_as_one(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, student: DistillConfig
) -> None:
    out = tmp_path / "two"
    kill = {"rank": 1, "step": 9, "mark": str(out.with_suffix(".mark"))}
    for name, faults in (("expected", {}), ("two", {"kill": kill})):
        job = make_job(small_corpus, tmp_path / name, student, processes=2, **faults)
        if faults:
            assert nursery.run(job)[1] == -signal.SIGKILL
        nursery.finish({**job, "resume": bool(faults)})
    assert_same_end(out, tmp_path / "expected")


def read_step(path: Path) -> int:
    """The last step that a run has told its watcher about."""
    return int(path.read_text()) if path.exists() else 0


def wait_for_step(path: Path, step: int) -> None:
    """Wait until a run has come as far as this step."""
    end = time.monotonic() + 600
    while read_step(path) < step:
        assert time.monotonic() < end, "the run does not come to this step"
        time.sleep(0.01)


def stop_one(
    nursery: Nursery, corpus: Corpus, folder: Path, number: int, step: int, delay: float, expected: Path
) -> float:
    """Ask a run to stop at a step, go on from there, and compare; say how long the stop took."""
    config = tiny_run(save_steps=None, log_steps=3)
    out = folder / f"stopped-{number}-{step}-{delay}"
    steps = folder / f"{out.name}.steps"
    job = make_job(corpus, out, config, steps_file=str(steps), pause=0.05)
    pids = nursery.start(job)
    wait_for_step(steps, step)
    time.sleep(delay)
    begun = time.monotonic()
    os.kill(pids[0], number)
    reached = read_step(steps)
    assert nursery.wait(pids) == [0], Path(job["log"]).read_text()
    seconds = time.monotonic() - begun
    outcome = json.loads(Path(job["log"]).read_text().splitlines()[-1])
    assert (outcome["status"], outcome["signal"]) == ("interrupted", number)
    assert outcome["step"] <= reached + 2  # the step that was under way, or the one after it
    (checkpoint,) = [each for each in CheckpointStore(out / "checkpoints", 1).all() if each.step == outcome["step"]]
    checkpoint.verify()
    assert "interrupted" in events(out)
    nursery.finish({**job, "resume": True})
    assert_same_end(out, expected)
    return seconds


@pytest.fixture
def undisturbed(nursery: Nursery, small_corpus: Corpus, tmp_path: Path) -> Path:
    """The run that others must end like."""
    out = tmp_path / "expected"
    nursery.finish(make_job(small_corpus, out, tiny_run(save_steps=None, log_steps=3)))
    return out


def test_a_run_that_is_asked_to_stop_saves_and_goes_on(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, undisturbed: Path
) -> None:
    for number, step in ((signal.SIGTERM, 4), (signal.SIGINT, 9)):
        stop_one(nursery, small_corpus, tmp_path, number, step, 0.0, undisturbed)


@pytest.mark.soak
def test_twenty_runs_that_are_asked_to_stop(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, undisturbed: Path
) -> None:
    generator = random.Random(5)
    longest = 0.0
    count = soak_count(20)
    for number in ([signal.SIGTERM, signal.SIGINT] * 10)[:count]:
        step, delay = generator.randrange(1, 15), generator.uniform(0, 0.03)
        longest = max(longest, stop_one(nursery, small_corpus, tmp_path, number, step, delay, undisturbed))
    print(f"asked to stop: {count}/{count} saved and went on identically, longest stop {longest:.2f} s")


def test_a_second_ctrl_c_leaves_at_once(nursery: Nursery, small_corpus: Corpus, tmp_path: Path) -> None:
    job = make_job(small_corpus, tmp_path / "run", tiny_run(), steps_file=str(tmp_path / "steps"), pause=36000)
    pids = nursery.start(job)
    wait_for_step(tmp_path / "steps", 1)
    codes = nursery.insist(pids, signal.SIGINT)  # without it, the run pauses for ten hours before it ends
    assert codes != [0]
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


def test_two_processes_stop_when_one_is_asked(nursery: Nursery, small_corpus: Corpus, tmp_path: Path) -> None:
    job = make_job(small_corpus, tmp_path / "run", TWO, steps_file=str(tmp_path / "steps"), pause=0.05, processes=2)
    pids = nursery.start(job)
    wait_for_step(tmp_path / "steps", 4)
    os.kill(pids[1], signal.SIGTERM)
    assert nursery.wait(pids) == [0, 0], Path(job["log"]).read_text()
    outcomes = [json.loads(line) for line in Path(job["log"]).read_text().splitlines() if line.startswith("{")]
    assert len(outcomes) == 2
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0]["status"], outcomes[0]["signal"]) == ("interrupted", signal.SIGTERM)
    assert last_state(tmp_path / "run").step == outcomes[0]["step"] < 20


def run_under_torchrun(job: dict[str, Any], folder: Path) -> str:
    """Start two processes as a user would; what they said."""
    described = folder / f"{Path(job['out']).name}.json"
    described.write_text(json.dumps(job))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [
        "--max-restarts",
        "3",
        "--monitor-interval",
        "0.1",
        "-m",
        "tests.faults.run_pretraining",
        str(described),
    ]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def lose_a_rank(corpus: Corpus, folder: Path, expected: Path, rank: int, step: int, delay: float) -> None:
    """Kill one of two ranks under torchrun, and compare the end with that of a run that lost none."""
    out = folder / f"lost-{rank}-{step}-{delay}"
    kill = {"rank": rank, "step": step, "delay": delay, "mark": str(out.with_suffix(".mark"))}
    run_under_torchrun(make_job(corpus, out, TWO, kill=kill), folder)
    assert out.with_suffix(".mark").exists()
    if delay == 0:
        assert "resumed" in events(out)
    assert_same_end(out, expected)


TWO = tiny_run({"hidden_dropout": 0.1}, log_steps=3)


@pytest.mark.soak
def test_a_lost_rank_is_replaced(nursery: Nursery, small_corpus: Corpus, tmp_path: Path) -> None:
    nursery.finish(make_job(small_corpus, tmp_path / "expected", TWO, processes=2))
    lose_a_rank(small_corpus, tmp_path, tmp_path / "expected", rank=1, step=13, delay=0.0)


@pytest.mark.soak
def test_ten_lost_ranks_are_replaced(nursery: Nursery, small_corpus: Corpus, tmp_path: Path) -> None:
    nursery.finish(make_job(small_corpus, tmp_path / "expected", TWO, processes=2))
    generator = random.Random(7)
    count = soak_count(10)
    for number in range(count):
        delay = 0.0 if number % 2 else generator.uniform(0, 0.3)
        step = generator.randrange(1, 21)
        lose_a_rank(small_corpus, tmp_path, tmp_path / "expected", number % 2, step, delay)
    print(f"a rank lost under torchrun: {count}/{count} went on and ended identically")
