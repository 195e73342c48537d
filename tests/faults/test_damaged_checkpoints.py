"""Checkpoints on bad days: killed while saving, no space left, failing disks, flipped bits."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from litebert.corpus.corpus import Corpus
from litebert.errors import FolderError, LitebertError
from litebert.training.state import Checkpoint, CheckpointStore
from tests.conftest import soak_count
from tests.faults.saving import assert_is_what_was_saved, leftovers, save, try_to_save
from tests.pretraining.runs import ENVIRONMENT, ROOT, Nursery, assert_same_end, pretrain_here, tiny_run

# --- killed while saving ----------------------------------------------------------------------------------------------


def kill_saves(nursery: Nursery, folder: Path, count: int, seed: int) -> tuple[int, int]:
    """Kill a process that does nothing but save; count the kills that left something half done, and the saves."""
    generator = random.Random(seed)
    out = folder / "checkpoints"
    store = CheckpointStore(out, keep=2)
    save(store, 1)
    interrupted = 0
    for _ in range(count):
        job = {"call": "tests.faults.saving:save_forever", "out": str(out), "log": str(folder / "log")}
        codes = nursery.kill_after(nursery.start(job), generator.uniform(0.02, 0.3))
        assert codes == [-signal.SIGKILL], (folder / "log").read_text()
        interrupted += bool(leftovers(out))
        for checkpoint in store.all():
            assert_is_what_was_saved(checkpoint)
        store.clear_abandoned()
        assert leftovers(out) == []
        newest = store.newest(on_damage=pytest.fail)
        assert newest is not None
    return interrupted, store.all()[-1].step


def test_a_save_that_is_killed_leaves_whole_checkpoints(nursery: Nursery, tmp_path: Path) -> None:
    _, saves = kill_saves(nursery, tmp_path, 8, seed=1)
    assert saves > 1


@pytest.mark.soak
def test_two_hundred_saves_are_killed(nursery: Nursery, tmp_path: Path) -> None:
    count = soak_count(200)
    interrupted, saves = kill_saves(nursery, tmp_path, count, seed=2)
    assert interrupted > count / 4
    print(
        f"killed while saving: {count}/{count} left whole checkpoints ({interrupted} amid a save, {saves} saves in all)"
    )


# --- no space left ----------------------------------------------------------------------------------------------------


def test_files_that_cannot_grow_leave_the_last_checkpoint(nursery: Nursery, tmp_path: Path) -> None:
    limits = [0, 100, 5000, 12_000, 30_000, 10**9]
    job = {"call": "tests.faults.saving:save_beyond_the_limit", "limits": limits, "said": str(tmp_path / "said")}
    nursery.finish({**job, "out": str(tmp_path / "checkpoints"), "log": str(tmp_path / "log")})
    *said, last = json.loads((tmp_path / "said").read_text())
    assert last == ""
    for sentence in said[:4]:
        assert sentence.startswith("cannot save to ")
        assert "File too large" in sentence
        assert "\n" not in sentence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def free_bytes(disk: Path) -> int:
    return shutil.disk_usage(disk).free


def fill_disk(disk: Path, count: int, seed: int) -> int:
    """Save with too little space, so many times; the disk may also be just large enough. Count the refusals."""
    generator = random.Random(seed)
    store = CheckpointStore(disk / "checkpoints", keep=2)
    save(store, 1)
    save(store, 2)
    needed = sum(path.stat().st_size for path in store.all()[-1].folder.rglob("*")) + 40_000
    refused, step = 0, 3
    while refused < count:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(max(0, free_bytes(disk) - generator.randrange(needed))))
        said = try_to_save(store, step)
        if said:
            assert said.startswith("cannot save to")
            assert "\n" not in said
        refused, step = refused + bool(said), step + (not said)
        assert leftovers(disk / "checkpoints") == []
        newest = store.newest(on_damage=pytest.fail)
        assert newest is not None
        assert newest.step == step - 1
        assert_is_what_was_saved(newest)
        ballast.unlink()
    save(store, step)
    return refused


def test_a_full_disk_leaves_the_last_checkpoint(small_disk: Path) -> None:
    fill_disk(small_disk, 3, seed=1)


@pytest.mark.soak
def test_a_disk_that_is_full_twenty_times(small_disk: Path) -> None:
    count = soak_count(20)
    refused = fill_disk(small_disk, count, seed=2)
    print(f"disk full while saving: {refused}/{count} left the last checkpoint whole, with one sentence")


def test_a_run_on_a_full_disk_ends_with_a_sentence_and_goes_on(
    small_corpus: Corpus, small_disk: Path, tmp_path: Path
) -> None:
    pretrain_here(small_corpus, tmp_path / "expected", tiny_run())
    out = small_disk / "run"
    with pytest.raises(LitebertError, match="No space left on device") as caught:
        pretrain_here(small_corpus, out, tiny_run())
    assert "\n" not in str(caught.value)
    assert not list((out / "checkpoints").glob(".*"))
    fill(small_disk / "ballast")
    with pytest.raises(LitebertError, match="No space left on device"):  # now there is no space for a line, either
        pretrain_here(small_corpus, out, tiny_run(), resume=True)
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    pretrain_here(small_corpus, out, tiny_run(), resume=True)
    assert_same_end(out, tmp_path / "expected")


def fill(path: Path) -> None:
    """Take all the space that there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


# --- a failing disk ---------------------------------------------------------------------------------------------------

FIU = [Path(folder) / "fiu" / name for folder in ("/usr/lib", "/usr/local/lib") for name in ("fiu_run_preload.so",)]


def save_under_fiu(folder: Path, count: int) -> dict[str, int]:
    """Save so many checkpoints while 1 % of the writes fail with EIO."""
    preload = next((path for path in FIU if path.exists()), None)
    if preload is None:
        pytest.skip("needs libfiu (fiu-utils) to make writes fail")
    libraries = f"{preload} {preload.with_name('fiu_posix_preload.so')}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.saving", str(folder), str(count), "0.01"],
        cwd=ROOT,
        env={**ENVIRONMENT, "LD_PRELOAD": libraries},
        capture_output=True,
        text=True,
        timeout=600 + count,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


@pytest.mark.soak
def test_five_hundred_saves_on_a_failing_disk(tmp_path: Path) -> None:
    count = soak_count(500)
    counts = save_under_fiu(tmp_path / "checkpoints", count)
    assert counts["failed"] > count / 25
    print(f"writes that fail at 1 %: {counts} of {count} saves; no damaged checkpoint was accepted")


# --- flipped bits -----------------------------------------------------------------------------------------------------


def flip(path: Path, generator: random.Random) -> bytes:
    """Flip one bit of a file; what it was before."""
    before = path.read_bytes()
    content = bytearray(before)
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)
    return before


def flip_many(folder: Path, count: int, seed: int) -> dict[str, list[int]]:
    """Flip bits in the newer of two checkpoints, file by file; by file, how many were found and how many harmless."""
    generator = random.Random(seed)
    store = CheckpointStore(folder, keep=2)
    older, newer = save(store, 1), save(store, 2)
    files = sorted(path for path in newer.folder.rglob("*") if path.is_file())
    assert {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"} <= {p.name for p in files}
    counts: dict[str, list[int]] = {}
    for number in range(count):
        path = files[number % len(files)]
        before = flip(path, generator)
        damages: list[str] = []
        newest = store.newest(damages.append)
        found = newest == older
        counts.setdefault(str(path.relative_to(newer.folder)), [0, 0])[0 if found else 1] += 1
        if found:
            (words,) = damages
            assert str(path.parent) in words
            assert path.name in words or path.name == "manifest.json"
            assert "\n" not in words
            (folder / f"damaged-{newer.folder.name}").rename(newer.folder)  # set aside, not deleted
        else:
            assert path.name == "manifest.json", path
            assert newest == newer
            assert_is_what_was_saved(newer)
        path.write_bytes(before)
    assert store.newest(on_damage=pytest.fail) == newer
    return counts


def test_flipped_bits_are_found_and_the_file_is_named(tmp_path: Path) -> None:
    flip_many(tmp_path, 35, seed=1)


@pytest.mark.soak
def test_a_thousand_flipped_bits(tmp_path: Path) -> None:
    count = soak_count(1000)
    counts = flip_many(tmp_path, count, seed=2)
    found, harmless = (sum(pair[place] for pair in counts.values()) for place in (0, 1))
    print(
        f"flipped bits: {found}/{count} found and named, {harmless} harmless (all in manifests), 0 accepted; {counts}"
    )


@pytest.mark.parametrize("name", ["state/manifest.json", "model/manifest.json", "state/state.json", "model"])
def test_a_checkpoint_without_a_part_is_none(tmp_path: Path, name: str) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    older, newer = save(store, 1), save(store, 2)
    path = newer.folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    damages: list[str] = []
    assert store.newest(damages.append) == older
    assert name in damages[0]
    with pytest.raises(FolderError):
        newer.verify()


def test_a_run_passes_over_a_damaged_checkpoint(small_corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = tiny_run(keep=1)
    pretrain_here(small_corpus, out, config)
    shutil.copytree(out, tmp_path / "expected")
    again = tmp_path / "again"
    pretrain_here(small_corpus, again, config.model_copy(update={"train": config.train.model_copy(update={"keep": 9})}))
    checkpoints = CheckpointStore(again / "checkpoints", 9).all()
    for checkpoint in checkpoints[2:]:
        flip(checkpoint.folder / "state" / "optimizer.safetensors", random.Random(checkpoint.step))
    said: list[str] = []
    pretrain_here(small_corpus, again, config, resume=True, on_message=said.append)
    assert [words for words in said if "damaged" in words and "optimizer.safetensors" in words]
    assert "went on from step 5 with 1 process" in said
    assert_same_end(again, tmp_path / "expected")


def test_what_was_saved_last_is_kept_beside_a_damaged_future(tmp_path: Path) -> None:
    """A run that went back beyond a damaged checkpoint must not prune what it saves on its way there."""
    store = CheckpointStore(tmp_path, keep=1)
    save(store, 5)
    future = Checkpoint(folder=tmp_path / "step-00000010", step=10)
    shutil.copytree(tmp_path / "step-00000005", future.folder)
    os.truncate(future.folder / "state" / "optimizer.safetensors", 100)
    save(store, 7)
    assert [checkpoint.step for checkpoint in store.all()] == [7]
    assert_is_what_was_saved(store.all()[0])
