"""Preparation: sources in, a corpus of shards out; the same bytes from any number of workers, interrupted or not.

This process reads documents, drops duplicates, decides by a hash which are held out, and hands chunks of text to
workers; their ids come back in order and are appended to shards. Whenever a shard is complete, `progress.json` says how
many documents lie behind it: run again, preparation reads past those and goes on. The manifest comes last and makes the
folder a corpus.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from litebert.corpus.corpus import HELD_OUT, KIND, PROGRESS, SPLITS, TOKENIZER, TRAIN, tokenizer_hash
from litebert.corpus.duplicates import DigestSet, digest_document
from litebert.corpus.encoding import EncodedChunk, TextChunk, TokenizerFiles, encode_chunk
from litebert.corpus.runners import open_runner
from litebert.corpus.shards import PARTIAL, ShardEntry, ShardWriter, token_type
from litebert.errors import LitebertError, RequestError
from litebert.folders import MANIFEST, read_json, replace_folder
from litebert.text.sources import Document, Reader
from litebert.text.tokenizer import Tokenizer

__all__ = ["PrepareConfig", "Summary", "prepare"]

_CHUNK_CHARACTERS = 1_000_000  # or those of a shard, if it is smaller
_CHUNK_DOCUMENTS = 5_000


class PrepareConfig(BaseModel):
    """What decides about the bytes of a corpus, beside its sources and the tokenizer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    deduplicate: bool = True
    held_out: Annotated[float, Field(ge=0.0, le=0.5)] = 0.01
    shard_tokens: Annotated[int, Field(ge=1, le=1 << 31)] = 1 << 23


@dataclass
class Summary:
    """What preparation counted."""

    documents_read: int = 0
    duplicates: int = 0
    bad_records: int = 0
    characters: int = 0
    unknown_tokens: int = 0
    scripts: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {**vars(self), "scripts": dict(sorted(self.scripts.items()))}


def prepare(
    reader: Reader,
    tokenizer: Tokenizer,
    folder: str | Path,
    config: PrepareConfig | None = None,
    num_workers: int = 1,
    scheduler: str | None = None,
    on_progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Prepare a corpus in a folder, or go on with one that was interrupted."""
    folder, config = Path(folder), config or PrepareConfig()
    try:
        run = _Run.begin(folder, tokenizer, config)
        with open_runner(num_workers, scheduler) as runner, contextlib.closing(run):
            files = TokenizerFiles.read(folder / TOKENIZER)
            for encoded in runner.map_in_order(encode_chunk, files, run.chunks(reader)):
                run.append(encoded)
                if on_progress:
                    on_progress(run.summary)
            run.summary.bad_records = reader.num_bad
            run.finish()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LitebertError(
            f"cannot write to {folder} ({reason}): what is complete stays there, and the same command goes on from it"
        ) from error
    return run.summary


@dataclass
class _Checkpoint:
    """How far reading had come when a chunk was handed out."""

    documents_read: int
    duplicates: int
    characters: int
    digest: str


class _Run:
    """One preparation, from its first document or from where an earlier one stopped."""

    def __init__(self, folder: Path, config: PrepareConfig, identity: dict[str, Any], vocab_size: int) -> None:
        self._folder = folder
        self._config = config
        self._identity = identity
        self._dtype = token_type(vocab_size)
        self._entries: dict[str, list[ShardEntry]] = {split: [] for split in SPLITS}
        self._writers: dict[str, ShardWriter] = {}
        self._handed_out: list[_Checkpoint] = []
        self._resume_at = _Checkpoint(0, 0, 0, "")
        self.summary = Summary()

    @classmethod
    def begin(cls, folder: Path, tokenizer: Tokenizer, config: PrepareConfig) -> "_Run":
        """Make the folder, or open one that is not finished."""
        if (folder / MANIFEST).exists():
            raise RequestError(f"{folder} already holds a corpus: choose another --out, or delete it first")
        if folder.exists() and not folder.is_dir():
            raise RequestError(f"{folder} is a file: choose another --out")
        begun = (folder / PROGRESS).exists()
        if folder.is_dir() and not begun and any(path.name != TOKENIZER for path in folder.iterdir()):
            raise RequestError(f"{folder} is not empty and no corpus: choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
        if not (begun and (folder / TOKENIZER).is_dir()):
            shutil.rmtree(folder / TOKENIZER, ignore_errors=True)
            with replace_folder(folder / TOKENIZER) as staging:
                tokenizer.write_files(staging)
        sha256 = tokenizer_hash(folder / TOKENIZER)
        identity = {
            "config": config.model_dump(),
            "tokenizer": {"sha256": sha256, "vocab_size": tokenizer.vocab_size},
        }
        run = cls(folder, config, identity, tokenizer.vocab_size)
        if begun:
            run._resume(tokenizer)
        else:
            run._save_progress(run._resume_at)
        return run

    def _resume(self, tokenizer: Tokenizer) -> None:
        said = read_json(self._folder / PROGRESS, max_bytes=1_000_000_000)
        with replace_folder(self._folder / ".tokenizer-now") as staging:
            tokenizer.write_files(staging)
        now = tokenizer_hash(self._folder / ".tokenizer-now")
        shutil.rmtree(self._folder / ".tokenizer-now")
        try:
            if said["config"] != self._identity["config"] or said["tokenizer"]["sha256"] != now:
                raise RequestError(
                    f"{self._folder} was begun with other settings or another tokenizer: repeat them, or delete it"
                )
            self._resume_at = _Checkpoint(**said["read"])
            self._entries = {split: [ShardEntry(**entry) for entry in said["splits"][split]] for split in SPLITS}
            counted = dict(said["counts"])
            self.summary = Summary(**{**counted, "scripts": Counter(counted["scripts"])})
        except (KeyError, TypeError):
            raise LitebertError(f"{self._folder / PROGRESS} is damaged: delete {self._folder} and begin anew") from None
        known = {entry.name for entries in self._entries.values() for entry in entries}
        for path in self._folder.glob("*.shard*"):
            if path.name not in known:
                path.unlink()

    def chunks(self, reader: Reader) -> Iterator[TextChunk]:
        """Read documents, and give those that are new to be encoded, about a megabyte at a time."""
        seen, digests = DigestSet(), hashlib.blake2b(digest_size=16)
        texts: list[str] = []
        held_out: list[bool] = []
        size = num_read = num_duplicates = num_characters = 0
        aside = False
        resume = self._resume_at
        for document in reader:
            num_read += 1
            digest = digest_document(document.text)
            digests.update(digest.to_bytes(8, "little"))
            aside = self._is_held_out(document, digest, aside)
            num_characters += len(document.text)
            if seen.add(digest) or not self._config.deduplicate:
                texts.append(document.text)
                held_out.append(aside)
                size += len(document.text)
            else:
                num_duplicates += 1
            if num_read <= resume.documents_read:
                if num_read == resume.documents_read and digests.hexdigest() != resume.digest:
                    raise RequestError(f"the sources have changed since {self._folder} was begun: delete it first")
                texts, held_out, size = [], [], 0
            elif size >= min(_CHUNK_CHARACTERS, self._config.shard_tokens) or len(texts) >= _CHUNK_DOCUMENTS:
                self._handed_out.append(_Checkpoint(num_read, num_duplicates, num_characters, digests.hexdigest()))
                yield TextChunk(texts, held_out)
                texts, held_out, size = [], [], 0
        if num_read < resume.documents_read:
            raise RequestError(f"the sources have changed since {self._folder} was begun: delete it first")
        self._handed_out.append(_Checkpoint(num_read, num_duplicates, num_characters, digests.hexdigest()))
        yield TextChunk(texts, held_out)

    def _is_held_out(self, document: Document, digest: int, was: bool) -> bool:
        """By a hash, so that copies lie on one side; parts of a long document go where its first part went."""
        return was if document.part else digest < self._config.held_out * 2.0**64

    def append(self, encoded: EncodedChunk) -> None:
        """Write the ids of the next chunk; when the shard is full, complete it and save the progress."""
        read = self._handed_out.pop(0)
        for split, text in ((TRAIN, encoded.train), (HELD_OUT, encoded.held_out)):
            self._writer(split).append(text)
        self.summary.unknown_tokens += encoded.num_unknown
        self.summary.scripts += encoded.scripts
        self.summary.documents_read = read.documents_read
        self.summary.duplicates = read.duplicates
        self.summary.characters = read.characters
        if self._writers[TRAIN].num_tokens >= self._config.shard_tokens:
            self._finish_shards()
            self._save_progress(read)

    def _writer(self, split: str) -> ShardWriter:
        if split not in self._writers:
            name = f"{split}-{len(self._entries[split]):05d}.shard"
            self._writers[split] = ShardWriter(self._folder / name, self._dtype)
        return self._writers[split]

    def _finish_shards(self) -> None:
        for split, writer in self._writers.items():
            self._entries[split].append(writer.finish())
        self._writers = {}

    def close(self) -> None:
        """Drop what is not complete: it will be made again."""
        for writer in self._writers.values():
            writer.abandon()
        self._writers = {}

    def _state(self) -> dict[str, Any]:
        splits = {split: [entry.as_json() for entry in entries] for split, entries in self._entries.items()}
        return {**self._identity, "counts": self.summary.as_json(), "splits": splits}

    def _save_progress(self, read: _Checkpoint) -> None:
        _write_json(self._folder / PROGRESS, {**self._state(), "read": vars(read)})

    def finish(self) -> None:
        """Complete the last shards, and write the manifest."""
        self._finish_shards()
        if not any(entry.tokens for entries in self._entries.values() for entry in entries):
            shutil.rmtree(self._folder)
            raise RequestError("the sources hold no text: every document is empty")
        entries = [entry for entries in self._entries.values() for entry in entries]
        files = {entry.name: {"bytes": entry.bytes, "sha256": entry.sha256} for entry in entries}
        _write_json(self._folder / MANIFEST, {"format": 1, "kind": KIND, **self._state(), "files": files})
        (self._folder / PROGRESS).unlink()


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + PARTIAL)
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
