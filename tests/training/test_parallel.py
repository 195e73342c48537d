"""One process or two, whole batches or micro-batches: the same rows in the same order, the same losses."""

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import BatchStream
from litebert.model.model import Model
from litebert.pretraining.config import PretrainConfig
from litebert.training.config import Stage
from tests.pretraining.runs import Nursery, entries, events, last_state, losses, make_job, pretrain_here, tiny_run

CLOSE = 1e-5


def assert_close(out: Path, expected: Path) -> None:
    """Every loss of a run must be that of the other, up to rounding."""
    found, wanted = losses(out), losses(expected)
    assert [step for step, _ in found] == [step for step, _ in wanted]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], rel=CLOSE)
    for name in ("mlm_loss", "sop_loss", "gradient_norm"):
        numbers = [[entry[name] for entry in entries(folder, "step")] for folder in (out, expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=20 * CLOSE if name == "gradient_norm" else CLOSE)
    assert (last_state(out).cursor, last_state(out).tokens) == (
        last_state(expected).cursor,
        last_state(expected).tokens,
    )


def run(nursery: Nursery, corpus: Corpus, out: Path, config: PretrainConfig, **job: Any) -> Path:
    """Run to the end; the folder."""
    nursery.finish(make_job(corpus, out, config, **job))
    return out


LONG = pytest.mark.soak
CASES = [
    ("all", "adamw", "ddp"),
    ("all", "lamb", "fsdp"),
    ("none", "adamw", "fsdp"),
    pytest.param("all", "lamb", "ddp", marks=LONG),
    pytest.param("all", "adamw", "fsdp", marks=LONG),
    pytest.param("none", "lamb", "ddp", marks=LONG),
    pytest.param("none", "lamb", "fsdp", marks=LONG),
]


@pytest.mark.parametrize(("sharing", "optimizer", "parallel"), CASES)
def test_two_processes_train_as_one(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, sharing: str, optimizer: str, parallel: str
) -> None:
    config = tiny_run({"sharing": sharing}, optim={"optimizer": optimizer}, save_steps=None, parallel=parallel)
    pretrain_here(small_corpus, tmp_path / "one", config)
    run(nursery, small_corpus, tmp_path / "two", config, processes=2)
    assert_close(tmp_path / "two", tmp_path / "one")
    moved = losses(tmp_path / "one")
    assert min(loss for _, loss in moved) < moved[0][1] - 0.1  # there was something to learn


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=LONG)])
def test_two_processes_accumulate_pieces_at_growing_depth(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, parallel: str
) -> None:
    """Blocks that a stage does not reach have no gradient, which DDP must be told."""
    stages = (Stage(until=0.5, depth=2, length=16), Stage(batch_size=16))
    settings: dict[str, Any] = {"stages": stages, "model": {"sharing": "none"}, "save_steps": None, "steps": 12}
    pretrain_here(small_corpus, tmp_path / "one", tiny_run(**settings))
    out = tmp_path / "two"
    run(nursery, small_corpus, out, tiny_run(parallel=parallel, micro_batch_size=2, **settings), processes=2)
    assert_close(out, tmp_path / "one")


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_write_one_head_that_compares(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, parallel: str
) -> None:
    stages = (Stage(until=0.9), Stage(matching_head=True))
    shape = {"hidden_size": 64, "num_heads": 4}
    # Weights that hardly move: directions that are nearly as good as one another change places by a last digit.
    settings: dict[str, Any] = {"optim": {"lr": 1e-12}, "save_steps": None, "steps": 10, "parallel": parallel}
    config = tiny_run(shape, head_start=True, stages=stages, **settings)
    pretrain_here(small_corpus, tmp_path / "one", config)
    run(nursery, small_corpus, tmp_path / "two", config, processes=2)
    expected, found = (matching_scores(tmp_path / name) for name in ("one", "two"))
    assert float((found - expected).norm() / expected.norm()) < 1e-3


def matching_scores(run: Path) -> Tensor:
    """What the head that looks for the same word makes of two hidden states: (H, H)."""
    qkv = Model.from_pretrained(run / "model").encoder.attention[0].qkv.weight.detach()
    query, key, _ = (part[2 * 16 : 3 * 16] for part in qkv.chunk(3))
    return query.T @ key


def test_pieces_add_up_to_the_whole_batch(small_corpus: Corpus, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch_size": 32, "save_steps": None}
    pretrain_here(small_corpus, tmp_path / "whole", tiny_run(**settings))
    pretrain_here(small_corpus, tmp_path / "pieces", tiny_run(micro_batch_size=8, **settings))
    assert_close(tmp_path / "pieces", tmp_path / "whole")


@pytest.mark.parametrize("first", [1, 2])
def test_shards_and_whole_weights_take_turns(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, first: int
) -> None:
    """A checkpoint of an FSDP run opens in a single process, and the other way round."""
    config = tiny_run(parallel="fsdp", steps=12)
    expected, out, mark = tmp_path / "one", tmp_path / "turns", tmp_path / "mark"
    pretrain_here(small_corpus, expected, config)
    kill = {"rank": 0, "step": 8, "mark": str(mark)}
    codes = nursery.run(make_job(small_corpus, out, config, processes=first, kill=kill))
    assert codes[0] == -9
    run(nursery, small_corpus, out, config, processes=3 - first, resume=True)
    assert_close(out, expected)
    assert "resumed" in events(out)


def read_rows(folder: Path, processes: int) -> dict[int, list[str]]:
    """The rows of every step that all ranks have seen, rank by rank."""
    ranks = []
    for rank in range(processes):
        lines = (folder / f"rank-{rank}.jsonl").read_text().splitlines()
        ranks.append({entry["step"]: entry["rows"] for entry in map(json.loads, lines)})
    steps = [step for step in ranks[0] if all(step in rank for rank in ranks)]
    return {step: [row for rank in ranks for row in rank[step]] for step in steps}


def test_one_then_two_then_one_process_see_the_same_rows(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path
) -> None:
    config = tiny_run()
    for name in ("whole", "1", "2", "3"):
        (tmp_path / name).mkdir()
    expected = run(nursery, small_corpus, tmp_path / "one", config, record=str(tmp_path / "whole"))
    out = tmp_path / "turns"
    kills = [{"rank": 0, "step": 8}, {"rank": 1, "step": 14}, None]
    for number, (processes, kill) in enumerate(zip((1, 2, 1), kills, strict=True), 1):
        job = make_job(small_corpus, out, config, processes=processes, resume=number > 1)
        job |= {"record": str(tmp_path / str(number)), "kill": kill and {**kill, "mark": str(tmp_path / f"m{number}")}}
        codes = nursery.run(job)
        assert codes[0 if kill is None else kill["rank"]] == (0 if kill is None else -9)
    assert_close(out, expected)

    rows = read_rows(tmp_path / "whole", 1)
    batches = islice(BatchStream(small_corpus, config.stream).batches(8), 20)
    hashes = [
        [hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16] for row in batch.input_ids] for batch, _ in batches
    ]
    assert list(rows.values()) == hashes
    assert len({row for step in hashes for row in step}) == 160  # none comes twice
    parts = {number: read_rows(tmp_path / str(number), processes) for number, processes in ((1, 1), (2, 2), (3, 1))}
    assert [sorted(part) for part in parts.values()] == [
        [*range(1, 9)],
        [*range(6, 15)],
        [*range(11, 21)],
    ]  # from the last checkpoint on
    for part in parts.values():
        assert all(rows[step] == part[step] for step in part)
