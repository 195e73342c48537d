"""Checkpoints whose content is a function of their step, so that a test knows what must be in them."""

import ctypes
import errno
import json
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from litebert.errors import LitebertError
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, to_arrays
from litebert.training.state import Checkpoint, CheckpointStore, TrainingState
from tests.conftest import small_config

CONFIG = small_config()


def tensors_of(step: int) -> dict[str, Tensor]:
    """The optimiser of a step."""
    generator = torch.Generator().manual_seed(step)
    return {"a/mean": torch.randn(40, 30, generator=generator), "b/step": torch.tensor(float(step))}


def weights_of(step: int) -> dict[str, Tensor]:
    """The weights of a step."""
    torch.manual_seed(step)
    return Model(CONFIG, "pretraining").state_dict()


def state_of(step: int, score: float | None = None) -> TrainingState:
    """The state at a step."""
    return TrainingState(config={"seed": 1}, step=step, cursor=[0, 0, step], score=score)


def save(store: CheckpointStore, step: int, score: float | None = None) -> Checkpoint:
    """Save the checkpoint of a step."""
    weights = weights_of(step)
    return store.save(
        state_of(step, score),
        tensors_of(step),
        lambda folder: write_folder(folder, CONFIG, "pretraining", to_arrays(weights)),
    )


def try_to_save(store: CheckpointStore, step: int) -> str:
    """Save the checkpoint of a step; if it cannot be, the sentence that says so. Other errors are none."""
    try:
        save(store, step)
    except LitebertError as error:
        return str(error)
    return ""


def assert_is_what_was_saved(checkpoint: Checkpoint) -> None:
    """A checkpoint must verify and hold exactly what belongs to its step."""
    checkpoint.verify()
    assert checkpoint.read_state().cursor == [0, 0, checkpoint.step]
    for found, wanted in (
        (checkpoint.read_tensors(), tensors_of(checkpoint.step)),
        (Model.from_pretrained(checkpoint.model).state_dict(), weights_of(checkpoint.step)),
    ):
        assert sorted(found) == sorted(wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def leftovers(folder: Path) -> list[str]:
    """Names of what is not a checkpoint."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("step-"))


def save_forever(job: dict[str, Any]) -> None:
    """Save one checkpoint after the other, from the last one on, until somebody kills this process."""
    store = CheckpointStore(Path(job["out"]), keep=2)
    step = store.all()[-1].step if store.all() else 0
    while True:
        step += 1
        save(store, step)


def save_beyond_the_limit(job: dict[str, Any]) -> None:
    """Save under a limit for the size of files, which is how a full disk feels; write down what was said."""
    store = CheckpointStore(Path(job["out"]), keep=2)
    save(store, 1)
    said = []
    for limit in job["limits"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        said.append(try_to_save(store, 2))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if not said[-1]:
            shutil.rmtree(Path(job["out"]) / "step-00000002")
        assert [checkpoint.step for checkpoint in store.all()] == [1]
        assert_is_what_was_saved(store.all()[0])
        assert leftovers(Path(job["out"])) == []
    Path(job["said"]).write_text(json.dumps(said))


def save_on_a_failing_disk(folder: Path, count: int, probability: float) -> dict[str, int]:
    """Save under libfiu, which must be preloaded, with writes that fail with EIO now and then; count what happened."""
    fiu = ctypes.CDLL("libfiu.so.0")
    fiu.fiu_enable_random.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_float]
    points = [b"posix/io/rw/write", b"posix/io/rw/pwrite", b"posix/io/rw/writev", b"posix/io/sync/fsync"]
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    counts = {"saved": 0, "failed": 0}
    for step in range(2, count + 2):
        for point in points:
            fiu.fiu_enable_random(point, 1, errno.EIO, 0, probability)
        said = try_to_save(store, step)
        for point in points:
            fiu.fiu_disable(point)
        counts["failed" if said else "saved"] += 1
        assert "\n" not in said
        damages: list[str] = []
        newest = store.newest(damages.append)
        assert newest is not None, damages
        assert_is_what_was_saved(newest)
        assert newest.step == step or said
        counts["damaged"] = counts.get("damaged", 0) + len(damages)
    return counts


if __name__ == "__main__":
    print(json.dumps(save_on_a_failing_disk(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
