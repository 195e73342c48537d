"""The ledger of a preparation: which shards are complete, and how much of the sources lies behind them.

It is the file `progress.json` of the folder that is being made, written anew whenever a shard is complete, and it marks
the folder as ours: nothing is ever deleted from another one. In the end it becomes the manifest, and the folder a
corpus.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from litebert.corpus.corpus import PROGRESS, SPLITS, TOKENIZER, hash_tokenizer
from litebert.corpus.shards import ShardEntry
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import MANIFEST, PARTIAL, lock_folder, read_json, replace_folder, write_json
from litebert.text.tokenizer import Tokenizer

__all__ = ["Ledger", "Position", "Summary"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Summary(_Strict):
    """What preparation counted."""

    documents_read: int = 0
    duplicates: int = 0
    bad_records: int = 0
    characters: int = 0
    unknown_tokens: int = 0
    scripts: dict[str, int] = {}


class Position(_Strict):
    """How far the sources were read: so many documents and parts of documents, and a hash of all of them."""

    parts_read: int = 0
    documents_read: int = 0
    duplicates: int = 0
    characters: int = 0
    digest: str = ""


class _Content(_Strict):
    """What stands in the file."""

    kind: Literal["litebert corpus"] = "litebert corpus"
    config: dict[str, Any]
    tokenizer: dict[str, Any]
    counts: Summary = Summary()
    splits: dict[str, list[ShardEntry]] = {split: [] for split in SPLITS}
    read: Position = Position()


class Ledger:
    """The ledger of one folder, held by one process at a time."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, config: dict[str, Any]) -> None:
        """Begin a folder, or open one that was left unfinished with the same tokenizer and configuration."""
        self.folder = folder
        self._made_folder = not folder.exists()
        if folder.exists() and not folder.is_dir():
            raise RequestError(f"{folder} is a file: choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(folder, "`litebert prepare`")
        try:
            self._refuse_corpus()
            made_with = {"sha256": hash_tokenizer(tokenizer), "vocab_size": tokenizer.vocab_size}
            self.content = self._open(_Content(config=config, tokenizer=made_with))
            write_json(self.folder / PROGRESS, self.content.model_dump())
            if not self.content.read.parts_read or not (folder / TOKENIZER).is_dir():
                shutil.rmtree(folder / TOKENIZER, ignore_errors=True)
                with replace_folder(folder / TOKENIZER) as staging:
                    tokenizer.write_files(staging)
            self._remove_unfinished()
        except BaseException:
            self.close()
            raise

    def _refuse_corpus(self) -> None:
        if (self.folder / MANIFEST).exists():
            raise RequestError(f"{self.folder} already holds a corpus: choose another --out, or delete it first")

    def _open(self, fresh: _Content) -> _Content:
        """What an earlier run left, if it can be used; else a fresh beginning."""
        path = self.folder / PROGRESS
        if not path.exists():
            others = [item.name for item in self.folder.iterdir() if item.name != PROGRESS + PARTIAL]
            if others:
                raise RequestError(f"{self.folder} is not empty (it holds {min(others)}): choose another --out")
            return fresh
        try:
            found = _Content.model_validate(read_json(path, max_bytes=1_000_000_000))
        except (ValidationError, FolderError):
            raise LitebertError(f"{path} is damaged, or not ours: choose another --out") from None
        if not found.read.parts_read:
            return fresh
        if (found.config, found.tokenizer) != (fresh.config, fresh.tokenizer):
            raise RequestError(
                f"{self.folder} was begun with other settings or another tokenizer: repeat them, or change --out"
            )
        for entry in (entry for entries in found.splits.values() for entry in entries):
            shard = self.folder / entry.name
            if not shard.is_file() or shard.stat().st_size != entry.bytes:
                raise LitebertError(f"{shard} is missing or damaged: choose another --out and begin anew")
        return found

    def _remove_unfinished(self) -> None:
        known = {entry.name for entries in self.content.splits.values() for entry in entries}
        for path in [*self.folder.glob("*.shard"), *self.folder.glob(f"*{PARTIAL}")]:
            if path.name not in known:
                path.unlink()

    def record(self, entries: dict[str, ShardEntry], read: Position) -> None:
        """Write down complete shards, and where the sources stand."""
        self._add(entries)
        self.content.read = read
        write_json(self.folder / PROGRESS, self.content.model_dump())

    def _add(self, entries: dict[str, ShardEntry]) -> None:
        for split, entry in entries.items():
            self.content.splits[split].append(entry)

    def finish(self, entries: dict[str, ShardEntry]) -> None:
        """Add the last shards, and turn the ledger into the manifest."""
        self._add(entries)
        content = self.content.model_dump(exclude={"read"})
        shards = [entry for split in content["splits"].values() for entry in split]
        files = {entry["name"]: {"bytes": entry["bytes"], "sha256": entry["sha256"]} for entry in shards}
        write_json(self.folder / MANIFEST, {"format": 1, **content, "files": files})
        (self.folder / PROGRESS).unlink()

    def discard(self) -> None:
        """Take back all that was made."""
        self.content.splits = {split: [] for split in SPLITS}
        self._remove_unfinished()
        shutil.rmtree(self.folder / TOKENIZER, ignore_errors=True)
        (self.folder / PROGRESS).unlink()
        if self._made_folder:
            self.folder.rmdir()

    def close(self) -> None:
        """Let go of the folder."""
        with contextlib.suppress(OSError):
            os.close(self._lock)
