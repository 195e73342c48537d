"""Folders survive what happens to processes and disks."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from litebert.config import ModelConfig
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import (
    MANIFEST,
    lock_folder,
    new_folder,
    read_json,
    read_text,
    remove_abandoned,
    remove_folder,
    replace_folder,
    verify_manifest,
)
from litebert.model.model import Model
from tests.pretraining.runs import Nursery


def save_on_and_on(job: dict[str, Any]) -> None:
    """Save one model after the other, each in a folder of its own and all of them over "same"."""
    model = Model(ModelConfig(hidden_size=64, num_heads=2, intermediate_size=128, vocab_size=20000, num_layers=2))
    for number in itertools.count():
        model.save_pretrained(Path(job["folder"], f"model-{os.getpid()}-{number}"))
        Path(job["ready"]).touch()
        model.save_pretrained(Path(job["folder"], "same"))


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_save_is_whole_or_noticed(nursery: Nursery, tmp_path: Path) -> None:
    generator = random.Random(0)
    for number in range(4):
        ready = tmp_path / f"ready-{number}"
        job = {"call": "tests.test_folders:save_on_and_on", "folder": str(tmp_path), "ready": str(ready)}
        pids = nursery.start({**job, "log": str(tmp_path / "log")})
        while not ready.exists() or (number == 3 and not list(tmp_path.glob("model-*"))):
            time.sleep(0.01)
        assert nursery.kill_after(pids, generator.uniform(0.05, 0.5)) == [-signal.SIGKILL]
        for folder in tmp_path.glob("model-*"):
            Model.from_pretrained(folder)  # new folders appear whole
        if (tmp_path / "same").exists():
            with contextlib.suppress(FolderError):  # caught between two files of the move: said, not swallowed
                Model.from_pretrained(tmp_path / "same")
    assert list(tmp_path.glob("model-*"))
    Model.from_pretrained("albert-mini").save_pretrained(tmp_path / "same")
    Model.from_pretrained(tmp_path / "same")
    assert not list(tmp_path.glob(".same.*"))  # what the killed ones left is cleared away


def test_an_error_inside_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replace_folder(tmp_path / "x") as staging:
            (staging / "a.txt").write_text("a")
            raise KeyError("something else")

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_finds_every_change(tmp_path: Path) -> None:
    with replace_folder(tmp_path / "x") as staging:
        (staging / "a.txt").write_text("a")
        (staging / "b.txt").write_text("b")
    verify_manifest(tmp_path / "x")
    assert set(read_json(tmp_path / "x" / MANIFEST)["files"]) == {"a.txt", "b.txt"}
    (tmp_path / "x" / "a.txt").write_text("c")
    with pytest.raises(FolderError, match=r"a\.txt is not what"):
        verify_manifest(tmp_path / "x")
    (tmp_path / "x" / "a.txt").unlink()
    with pytest.raises(FolderError, match=r"a\.txt is missing"):
        verify_manifest(tmp_path / "x")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LitebertError, match=r"is a file|cannot save"):
            Model.from_pretrained("albert-mini").save_pretrained(path)


def test_files_that_are_too_large_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234567890")
    with pytest.raises(FolderError, match="larger than 5 bytes"):
        read_text(tmp_path / "x", max_bytes=5)
    assert read_text(tmp_path / "x", max_bytes=10) == "1234567890"
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(FolderError, match="UTF-8"):
        read_text(tmp_path / "x")


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with new_folder(tmp_path / "x") as staging:
        with replace_folder(staging / "inner") as inner:
            (inner / "a.txt").write_text("a")
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x" / "inner" / "a.txt").read_text() == "a"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o755
    with pytest.raises(FolderError, match="is already there"), new_folder(tmp_path / "x"):
        raise AssertionError("must not be entered")
    with pytest.raises(LitebertError, match=r"cannot save to .*y: No such file"), new_folder(tmp_path / "y") as staging:
        (staging / "missing" / "file").write_text("")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_is_removed_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "x" / "inner").mkdir(parents=True)
    (tmp_path / f".x.saving-{os.getpid()}-old" / "left").mkdir(parents=True)  # an earlier removal that was cut short
    remove_folder(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LitebertError, match=r"cannot remove .*x: No such file"):
        remove_folder(tmp_path / "x")


def test_what_dead_processes_left_is_cleared_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead, living = tmp_path / f".x.saving-{child.pid}-a", tmp_path / f".x.saving-{os.getpid()}-b"
    other = tmp_path / f".y.saving-{child.pid}-c"
    for path in (dead, living, other, tmp_path / ".saving"):
        path.mkdir()
    remove_abandoned(tmp_path, "x")
    assert sorted(tmp_path.iterdir()) == sorted([living, other, tmp_path / ".saving"])
    remove_abandoned(tmp_path)  # for one who knows that nobody else is there
    assert list(tmp_path.iterdir()) == [tmp_path / ".saving"]


def test_a_locked_folder_is_refused_until_its_owner_is_gone(tmp_path: Path) -> None:
    code = f"from litebert.folders import *; from pathlib import Path; lock_folder(Path({str(tmp_path)!r}), 'run')"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('locked', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    with pytest.raises(RequestError, match="another run is writing to"):
        lock_folder(tmp_path, "run")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    os.close(lock_folder(tmp_path, "run"))


def test_subfolders_are_saved_and_checked(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with replace_folder(tmp_path / "model") as staging:
            (staging / "inner").mkdir()
            (staging / "inner" / "file.json").write_text(content)
        verify_manifest(tmp_path / "model")
        assert (tmp_path / "model" / "inner" / "file.json").read_text() == content
    assert list(read_json(tmp_path / "model" / MANIFEST)["files"]) == ["inner/file.json"]
    (tmp_path / "model" / "inner" / "file.json").write_text("third")
    with pytest.raises(FolderError, match=r"file\.json is not what"):
        verify_manifest(tmp_path / "model")
