"""The ledger: what it records, what it goes on from, what it refuses, and what it takes back."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.corpus.corpus import HELD_OUT, TRAIN
from litebert.corpus.ledger import Ledger, Position
from litebert.corpus.shards import EncodedText, ShardEntry, ShardWriter
from litebert.errors import LitebertError, RequestError
from litebert.text.tokenizer import Tokenizer

CONFIG: dict[str, Any] = {"held_out": 0.01}
READ = Position(parts_read=3, documents_read=2, duplicates=1, characters=99, digest="ab")


def write_shard(folder: Path, split: str = TRAIN, number: int = 0) -> ShardEntry:
    writer = ShardWriter(folder / f"{split}-{number:05d}.shard", np.dtype("<u2"))
    one = np.array([2], np.uint32)
    writer.append(EncodedText(np.array([7, 8]), one, np.array([1], np.uint32)))
    return writer.finish()


def read_progress(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def begun(small_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """A folder with one shard that is recorded and one that is not."""
    folder = tmp_path / "corpus"
    with closing(Ledger(folder, small_tokenizer, CONFIG)) as ledger:
        ledger.record({TRAIN: write_shard(folder)}, READ)
        write_shard(folder, number=1)
        (folder / "train-00002.shard.partial").write_bytes(b"half")
    return folder


def test_a_new_folder_is_marked_at_once(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "c", small_tokenizer, CONFIG)):
        progress = read_progress(tmp_path / "c")
        assert progress["config"] == CONFIG
        assert progress["splits"] == {TRAIN: [], HELD_OUT: []}
        assert progress["read"]["parts_read"] == 0
        assert (tmp_path / "c" / "tokenizer").is_dir()


def test_what_is_recorded_is_gone_on_from(begun: Path, small_tokenizer: Tokenizer) -> None:
    with closing(Ledger(begun, small_tokenizer, CONFIG)) as ledger:
        assert ledger.content.read == READ
        assert [entry.name for entry in ledger.content.splits[TRAIN]] == ["train-00000.shard"]
        assert sorted(path.name for path in begun.glob("train-*")) == ["train-00000.shard"], "the others are made again"


def test_a_folder_that_recorded_nothing_begins_anew(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    for settings in ({"held_out": 0.5}, CONFIG):
        with closing(Ledger(tmp_path, small_tokenizer, settings)) as ledger:
            assert ledger.content.config == settings


def test_the_end_turns_it_into_the_manifest(begun: Path, small_tokenizer: Tokenizer) -> None:
    with closing(Ledger(begun, small_tokenizer, CONFIG)) as ledger:
        last = write_shard(begun, HELD_OUT)
        ledger.finish({HELD_OUT: last})
    manifest = json.loads((begun / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["kind"], manifest["format"]) == ("litebert corpus", 1)
    assert list(manifest["files"]) == ["train-00000.shard", "held_out-00000.shard"]
    assert manifest["files"][last.name] == {"bytes": last.bytes, "sha256": last.sha256}
    assert "read" not in manifest
    assert not (begun / "progress.json").exists()
    with pytest.raises(RequestError, match="already holds a corpus"):
        Ledger(begun, small_tokenizer, CONFIG)


def test_other_settings_are_refused(begun: Path, small_tokenizer: Tokenizer) -> None:
    before = read_progress(begun)
    with pytest.raises(RequestError, match="other settings"):
        Ledger(begun, small_tokenizer, {"held_out": 0.2})
    assert read_progress(begun) == before


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"kind": "litebert corpus"}', b'{"kind": "another"}', b"\xff"])
def test_a_damaged_file_is_refused_and_left(begun: Path, small_tokenizer: Tokenizer, content: bytes) -> None:
    (begun / "progress.json").write_bytes(content)
    with pytest.raises(LitebertError, match="choose another --out"):
        Ledger(begun, small_tokenizer, CONFIG)
    assert (begun / "progress.json").read_bytes() == content
    assert (begun / "train-00000.shard").exists()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_shard_that_is_not_what_was_recorded(begun: Path, small_tokenizer: Tokenizer, damage: str) -> None:
    shard = begun / "train-00000.shard"
    shard.unlink() if damage == "missing" else shard.write_bytes(b"x")
    with pytest.raises(LitebertError, match=r"train-00000\.shard is missing or damaged"):
        Ledger(begun, small_tokenizer, CONFIG)


def test_one_at_a_time(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    first = Ledger(tmp_path / "c", small_tokenizer, CONFIG)
    with pytest.raises(RequestError, match="another `litebert prepare` is writing"):
        Ledger(tmp_path / "c", small_tokenizer, CONFIG)
    first.close()
    Ledger(tmp_path / "c", small_tokenizer, CONFIG).close()


@pytest.mark.parametrize("was_there", [True, False])
def test_all_is_taken_back(small_tokenizer: Tokenizer, tmp_path: Path, was_there: bool) -> None:
    folder = tmp_path / "c"
    if was_there:
        folder.mkdir()
    with closing(Ledger(folder, small_tokenizer, CONFIG)) as ledger:
        ledger.record({TRAIN: write_shard(folder)}, READ)
        ledger.discard()
    assert folder.exists() is was_there
    assert not was_there or not any(folder.iterdir())
