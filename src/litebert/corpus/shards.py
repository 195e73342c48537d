"""Shards: what a prepared corpus looks like on disk, how it is written and how it is read.

A shard is one file: token ids, one after the other, then where each sentence ends (counted in tokens), then where each
document ends (counted in sentences). It is memory-mapped when read. The manifest of the folder holds counts and hashes.
"""

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from litebert.errors import FolderError
from litebert.folders import PARTIAL

__all__ = ["EncodedText", "Shard", "ShardEntry", "ShardWriter", "token_type"]

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class EncodedText:
    """Documents as ids: all tokens, how many each sentence has, and how many sentences each document has."""

    tokens: NDArray[Any]
    sentence_lengths: NDArray[np.uint32]
    document_lengths: NDArray[np.uint32]


class ShardEntry(BaseModel):
    """What the manifest says of a shard."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=r"^[a-z_]+-\d{5,}\.shard$")]
    tokens: Count
    sentences: Count
    documents: Count
    bytes: Count
    sha256: str


def token_type(vocab_size: int) -> np.dtype[Any]:
    """The smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class ShardWriter:
    """Writes one shard under a temporary name, and renames it when it is whole."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._path = path
        self._partial = path.with_name(path.name + PARTIAL)
        self._dtype = dtype
        self._file = self._partial.open("wb")
        self._hash = hashlib.sha256()
        self._sentences: list[NDArray[np.uint32]] = []
        self._documents: list[NDArray[np.uint32]] = []
        self.num_tokens = 0

    def append(self, text: EncodedText) -> None:
        """Add documents at the end."""
        self._write(text.tokens.astype(self._dtype, copy=False).tobytes())
        self._sentences.append(text.sentence_lengths)
        self._documents.append(text.document_lengths)
        self.num_tokens += text.tokens.size

    def _write(self, content: bytes) -> None:
        self._hash.update(content)
        self._file.write(content)

    def finish(self) -> ShardEntry:
        """Complete the file, see it to the disk, and give it its name."""
        self._write(bytes(-self.num_tokens * self._dtype.itemsize % 4))
        counts = []
        for lengths in (self._sentences, self._documents):
            ends = np.cumsum(np.concatenate([*lengths, np.zeros(0, np.uint32)]), dtype=np.uint32)
            self._write(ends.astype("<u4").tobytes())
            counts.append(ends.size)
        self._file.flush()
        os.fsync(self._file.fileno())
        num_bytes = self._file.tell()
        self._file.close()
        self._partial.replace(self._path)
        return ShardEntry(
            name=self._path.name,
            tokens=self.num_tokens,
            sentences=counts[0],
            documents=counts[1],
            bytes=num_bytes,
            sha256=self._hash.hexdigest(),
        )

    def abandon(self) -> None:
        """Close and delete what is not finished."""
        with contextlib.suppress(OSError):  # closing writes what is left, and the disk may be full
            self._file.close()
        self._partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class Shard:
    """A shard that is open: arrays that lie on disk until they are read."""

    name: str
    tokens: NDArray[Any]
    sentence_ends: NDArray[np.uint32]
    document_ends: NDArray[np.uint32]
    origin: tuple[Path, ShardEntry, np.dtype[Any]] | None = None

    def __reduce__(self) -> Any:
        """For pickling: another process maps the file itself."""
        if self.origin is None:
            return Shard, (self.name, self.tokens, self.sentence_ends, self.document_ends)
        return Shard.open, self.origin

    @classmethod
    def open(cls, path: Path, entry: ShardEntry, dtype: np.dtype[Any]) -> "Shard":
        """Map a shard into memory."""
        tokens_bytes = entry.tokens * dtype.itemsize
        begin = tokens_bytes + -tokens_bytes % 4
        if begin + 4 * (entry.sentences + entry.documents) != entry.bytes or path.stat().st_size != entry.bytes:
            raise FolderError(f"{path} has not the size that manifest.json says; prepare the corpus again")
        content = np.memmap(path, np.uint8, mode="r") if entry.bytes else np.zeros(0, np.uint8)
        ends = content[begin:].view("<u4")
        sentence_ends, document_ends = ends[: entry.sentences], ends[entry.sentences :]
        for array, last in ((sentence_ends, entry.tokens), (document_ends, entry.sentences)):
            if (array[-1] if array.size else 0) != last:
                raise FolderError(f"{path} is not what manifest.json says; prepare the corpus again")
        return cls(entry.name, content[:tokens_bytes].view(dtype), sentence_ends, document_ends, (path, entry, dtype))

    def document(self, number: int) -> list[NDArray[Any]]:
        """The sentences of one document."""
        first = int(self.document_ends[number - 1]) if number else 0
        last = int(self.document_ends[number])
        begin = int(self.sentence_ends[first - 1]) if first else 0
        ends = self.sentence_ends[first:last].astype(np.int64) - begin
        return np.split(self.tokens[begin : begin + int(ends[-1])], ends[:-1])
