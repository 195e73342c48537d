"""The checkpoints of a run: which are kept, which is the newest, and whose they are."""

from pathlib import Path

import pytest

from litebert.corpus.corpus import Corpus
from litebert.errors import FolderError, RequestError
from litebert.training.config import Stage
from litebert.training.state import Checkpoint, CheckpointStore
from tests.faults.saving import assert_is_what_was_saved, save, state_of, tensors_of
from tests.pretraining.runs import pretrain_here, tiny_run


def steps(store: CheckpointStore) -> list[int]:
    return [checkpoint.step for checkpoint in store.all()]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([None] * 6, [5, 6]),
        ([0.1, 0.2, 0.9, 0.3, 0.4, 0.5], [3, 5, 6]),
        ([0.1, 0.2, 0.3, 0.4, 0.9, 0.5], [5, 6]),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [1, 5, 6]),
        ([None, None, 0.0, None, None, None], [3, 5, 6]),
    ],
)
def test_the_last_few_and_the_best_are_kept(tmp_path: Path, scores: list[float | None], kept: list[int]) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    for step, score in enumerate(scores, 1):
        save(store, step, score)
        assert steps(store)[-1] == step
    assert steps(store) == kept
    for checkpoint in store.all():
        assert_is_what_was_saved(checkpoint)


def test_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "nothing", keep=1)
    assert store.all() == []
    assert store.newest(on_damage=pytest.fail) is None
    store.clear_abandoned()
    assert store.all() == []


def test_what_has_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=5)
    save(store, 3)
    for name in (".step-00000009.saving-1-x", "step-9", "step-00000004.old", "notes", "xstep-00000007"):
        (tmp_path / name).mkdir()
    assert steps(store) == [3]
    store.clear_abandoned()
    assert not (tmp_path / ".step-00000009.saving-1-x").exists()
    assert (tmp_path / "notes").exists()


def test_steps_beyond_eight_digits_stay_in_order(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=5)
    for step in (99_999_999, 100_000_000):
        save(store, step)
    assert steps(store) == [99_999_999, 100_000_000]


def test_saving_a_step_twice_keeps_what_is_whole_and_mends_what_is_not(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=5)
    first = save(store, 3)
    written = (first.folder / "state" / "optimizer.safetensors").stat().st_mtime_ns
    save(store, 3)
    assert (first.folder / "state" / "optimizer.safetensors").stat().st_mtime_ns == written
    (first.folder / "model" / "config.json").write_text("{}")
    assert_is_what_was_saved(save(store, 3))


def test_an_error_while_the_model_is_written_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        raise KeyError("something else")

    store = CheckpointStore(tmp_path, keep=5)
    with pytest.raises(KeyError):
        store.save(state_of(1), tensors_of(1), fail)
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    checkpoint = save(CheckpointStore(tmp_path, keep=1), 1)
    path = checkpoint.folder / "state" / "state.json"
    path.write_text(path.read_text().replace('"tokens"', '"words"'))
    with pytest.raises(FolderError, match=r"state\.json was not written by this version of litebert"):
        checkpoint.read_state()
    with pytest.raises(FolderError, match="is damaged"):
        Checkpoint(folder=tmp_path / "gone", step=1).read_tensors()


def test_a_checkpoint_of_another_run_is_refused_by_name(small_corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    pretrain_here(small_corpus, out, tiny_run(steps=2))
    others = [
        (tiny_run(steps=3), "train.steps 2 instead of 3"),
        (tiny_run(steps=2, seed=1), "train.seed 0 instead of 1"),
        (tiny_run(steps=2, optim={"lr": 0.5}), "train.optim.lr 0.01 instead of 0.5"),
        (tiny_run({"num_layers": 3}, steps=2), "model.num_layers 4 instead of 3"),
        (tiny_run(stream={"mask_rate": 0.2}, steps=2), "stream.mask_rate 0.15 instead of 0.2"),
        (tiny_run(steps=2, stages=(Stage(until=0.5), Stage())), "train.stages"),
        (tiny_run(steps=2, head_start=True), "head_start False instead of True"),
    ]
    for config, said in others:
        with pytest.raises(RequestError) as caught:
            pretrain_here(small_corpus, out, config, resume=True)
        assert f"is of a run with {said}" in str(caught.value)
        assert "," not in str(caught.value).partition(": repeat its settings")[0].partition("train.stages")[0]
    # How it is computed, logged and kept may change.
    changed = tiny_run(steps=2, micro_batch_size=2, log_steps=7, keep=5, evaluations=9, recompute=True, save_steps=1)
    assert pretrain_here(small_corpus, out, changed, resume=True).status == "finished"
