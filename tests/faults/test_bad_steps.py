"""A step that would spoil the weights is skipped; some in a row take the run back to where it was well."""

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from litebert.corpus.corpus import Corpus
from litebert.errors import LitebertError
from litebert.training.config import Stage
from litebert.training.job import ProgressEvent
from litebert.training.monitoring import MOST_ROLLBACKS
from litebert.training.optim import learning_rate
from litebert.training.state import CheckpointStore
from tests.pretraining.runs import (
    Nursery,
    assert_same_end,
    entries,
    events,
    last_state,
    losses,
    make_job,
    pretrain_here,
    tiny_run,
)


def words(out: Path, what: str) -> list[str]:
    """What was said about events of one kind."""
    return [entry["message"] for entry in entries(out, "event") if entry["what"] == what]


def tensors_at(out: Path, step: int) -> dict[str, torch.Tensor]:
    """Weights and optimiser of one checkpoint."""
    (found,) = [each for each in CheckpointStore(out / "checkpoints", 1).all() if each.step == step]
    return {**load_file(found.model / "model.safetensors"), **found.read_tensors()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("kind", "step", "said"),
    [
        ("nan loss", 6, "the loss was nan"),
        ("inf loss", 6, "the loss was inf"),
        ("nan gradient", 6, "the gradient's norm was nan"),
        ("spike", 55, "the loss jumped from"),
    ],
)
def test_a_bad_step_is_skipped(small_corpus: Corpus, tmp_path: Path, kind: str, step: int, said: str) -> None:
    out = tmp_path / "run"
    config = tiny_run(steps=step + 3, save_steps=step - 1, keep=6)

    def stop(event: ProgressEvent) -> None:
        if event.step == step - 1:
            os.kill(os.getpid(), signal.SIGTERM)  # which saves after the next step, the bad one

    assert pretrain_here(small_corpus, out, config, poison={str(step): kind}, on_step=stop).status == "interrupted"
    assert pretrain_here(small_corpus, out, config, poison={str(step): kind}, resume=True).status == "finished"
    assert [text for text in words(out, "skipped") if said in text and f"step {step:,} was skipped" in text]
    assert len(words(out, "skipped")) == 1
    assert same(tensors_at(out, step - 1), tensors_at(out, step))
    assert not same(tensors_at(out, step), tensors_at(out, step + 3))
    found = dict(losses(out))
    assert found[step] is None
    assert all(loss is not None for number, loss in found.items() if number != step)
    raw = (out / "metrics.jsonl").read_text()
    assert "NaN" not in raw
    assert "Infinity" not in raw


def test_three_bad_steps_take_the_run_back(small_corpus: Corpus, tmp_path: Path) -> None:
    config = tiny_run(keep=10)
    out = tmp_path / "run"
    poison = {"7": "nan loss", "8": "inf loss", "9": "nan gradient"}
    assert pretrain_here(small_corpus, out, config, poison=poison).status == "finished"
    assert len(words(out, "skipped")) == 3
    assert words(out, "rolled back") == [
        "3 bad steps in a row: back to the weights of step 5, with 0.5 of the learning rate"
    ]
    assert same(tensors_at(out, 5), tensors_at(out, 9))  # the checkpoint that was written at once
    assert last_state(out).step == 20  # the steps count on, and so do the data
    rates = {entry["step"]: entry["learning_rate"] for entry in entries(out, "step")}
    plain = {step: learning_rate((step - 1) / 20, config.train.optim, 1 / 20) for step in range(1, 21)}
    assert [rates[step] / plain[step] for step in (5, 6, 10, 15, 20)] == pytest.approx([1, 1, 0.5, 0.5, 0.5])
    assert last_state(out).health["rollbacks"] == 1


def test_steps_that_are_not_in_a_row_take_nothing_back(small_corpus: Corpus, tmp_path: Path) -> None:
    poison = dict.fromkeys(map(str, (6, 7, 9, 10, 12, 13)), "nan loss")
    pretrain_here(small_corpus, tmp_path / "run", tiny_run(), poison=poison)
    assert len(words(tmp_path / "run", "skipped")) == 6
    assert not words(tmp_path / "run", "rolled back")


def test_a_hopeless_run_ends_with_a_sentence(small_corpus: Corpus, tmp_path: Path) -> None:
    poison = dict.fromkeys(map(str, range(4, 41)), "nan loss")
    with pytest.raises(LitebertError, match="begin again with a lower --lr") as caught:
        pretrain_here(small_corpus, tmp_path / "run", tiny_run(steps=40), poison=poison)
    assert "\n" not in str(caught.value)
    assert len(words(tmp_path / "run", "rolled back")) == MOST_ROLLBACKS
    assert words(tmp_path / "run", "rolled back")[-1].endswith("with 0.03125 of the learning rate")


def test_a_run_that_has_nothing_to_go_back_to_says_so(small_corpus: Corpus, tmp_path: Path) -> None:
    def damage(event: ProgressEvent) -> None:
        for checkpoint in CheckpointStore(tmp_path / "run" / "checkpoints", 1).all():
            (checkpoint.folder / "state" / "state.json").write_text("{}")

    poison = dict.fromkeys(("7", "8", "9"), "nan loss")
    with pytest.raises(LitebertError, match="has no whole checkpoint to go back to"):
        pretrain_here(small_corpus, tmp_path / "run", tiny_run(), poison=poison, on_step=damage)
    assert "damaged" in events(tmp_path / "run")


# At step 10 held-out text is scored, a line is due, and the run goes back, all at once.
POISON = dict.fromkeys(("8", "9", "10"), "nan loss")


@pytest.mark.parametrize("step", [11, pytest.param(13, marks=pytest.mark.soak)])
def test_a_run_that_went_back_and_was_killed_goes_on(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, step: int
) -> None:
    config = tiny_run(save_steps=6, log_steps=2)
    pretrain_here(small_corpus, tmp_path / "expected", config, poison=POISON)
    out = tmp_path / "killed"
    kill = {"rank": 0, "step": step, "mark": str(tmp_path / "mark")}
    job = make_job(small_corpus, out, config, poison=POISON, kill=kill)
    assert nursery.run(job) == [-9]
    nursery.finish({**job, "resume": True})
    assert_same_end(out, tmp_path / "expected")
    told = [
        [(entry["step"], entry["what"], entry["message"]) for entry in entries(folder, "event")]
        for folder in (out, tmp_path / "expected")
    ]
    assert [event for event in told[0] if event[1] != "resumed"] == told[1]


def test_a_new_stage_may_have_a_higher_loss(small_corpus: Corpus, tmp_path: Path) -> None:
    poison = dict.fromkeys(map(str, range(61, 71)), "spike")
    two = (Stage(until=60 / 70), Stage(mask_rate=0.2))
    pretrain_here(small_corpus, tmp_path / "two", tiny_run(steps=70, stages=two, save_steps=None), poison=poison)
    assert "skipped" not in events(tmp_path / "two")


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.soak)])
def test_two_processes_skip_together(nursery: Nursery, small_corpus: Corpus, tmp_path: Path, parallel: str) -> None:
    poison = {"3": "nan gradient", "7": "nan loss", "8": "nan gradient", "9": "inf loss"}
    config = tiny_run(parallel=parallel)
    pretrain_here(small_corpus, tmp_path / "one", config, poison=poison)
    out = tmp_path / "two"
    nursery.finish(make_job(small_corpus, out, config, poison=poison, poisoned_rank=1, processes=2))
    assert [step for step, loss in losses(out) if loss is None] == [3, 7, 8, 9]
    assert words(out, "rolled back") == words(tmp_path / "one", "rolled back") != []
    numbers = [[loss for _, loss in losses(folder) if loss is not None] for folder in (out, tmp_path / "one")]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
