"""Preparation: sources in, a corpus of shards out; the same bytes from any number of workers, interrupted or not.

This process reads documents, drops duplicates, decides by a hash which are held out, and hands chunks of text to
workers; their ids come back in order and are appended to shards. Whenever a shard is complete, the ledger says how many
documents lie behind it: run again, preparation reads past those and goes on.
"""

import contextlib
import functools
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from litebert.corpus.corpus import HELD_OUT, TOKENIZER, TRAIN
from litebert.corpus.duplicates import DigestSet, digest_document
from litebert.corpus.ledger import Ledger, Position, Summary
from litebert.corpus.runners import open_runner
from litebert.corpus.shards import EncodedText, ShardEntry, ShardWriter, token_type
from litebert.errors import LitebertError, RequestError
from litebert.text.inspection import script_of
from litebert.text.sentences import split_sentences
from litebert.text.sources import Document, Reader
from litebert.text.tokenizer import Tokenizer

__all__ = ["PrepareConfig", "Summary", "prepare"]

_CHUNK_CHARACTERS = 1_000_000  # or those of a shard, if it is smaller
_CHUNK_DOCUMENTS = 5_000
_SCRIPT_SAMPLE = 200  # characters of each document that are looked at for their script


class PrepareConfig(BaseModel):
    """What decides about the bytes of a corpus, beside its sources and the tokenizer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    deduplicate: bool = True
    held_out: Annotated[float, Field(ge=0.0, le=0.5)] = 0.01
    shard_tokens: Annotated[int, Field(ge=1000, le=1 << 31)] = 1 << 23


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
    with open_runner(num_workers, scheduler) as runner, contextlib.ExitStack() as stack:
        try:
            ledger = stack.enter_context(contextlib.closing(Ledger(folder, tokenizer, config.model_dump())))
        except OSError as error:
            raise LitebertError(
                f"cannot write to {folder} ({error.strerror or error}): choose another --out"
            ) from error
        try:
            run = stack.enter_context(contextlib.closing(_Run(ledger, config, tokenizer.vocab_size)))
            files = TokenizerFiles.read(folder / TOKENIZER)
            for encoded in runner.map_in_order(encode_chunk, files, run.chunks(reader)):
                run.append(encoded)
                if on_progress:
                    on_progress(run.summary)
            run.summary.bad_records = reader.num_bad
            run.finish()
        except OSError as error:
            raise LitebertError(
                f"cannot write to {folder} ({error.strerror or error}): what is complete stays there, and the same "
                "command goes on from it"
            ) from error
    return run.summary


# The work of one worker: documents in, ids out. It knows nothing of files, order or other workers.


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer as it travels to workers: the files of its folder."""

    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, folder: Path) -> "TokenizerFiles":
        """Take the files of a folder."""
        return cls(tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()))


@dataclass(frozen=True)
class TextChunk:
    """Documents, and for each whether it is held out."""

    texts: list[str]
    held_out: list[bool]


@dataclass(frozen=True)
class EncodedChunk:
    """The documents of a chunk as ids, those for training and those held out apart, and what was counted on the way."""

    train: EncodedText
    held_out: EncodedText
    num_unknown: int
    scripts: Counter[str]


def encode_chunk(files: TokenizerFiles, chunk: TextChunk) -> EncodedChunk:
    """Split documents into sentences and encode these."""
    tokenizer = _open_tokenizer(files)
    scripts: Counter[str] = Counter()
    for text in chunk.texts:
        scripts.update(map(script_of, filter(str.isalpha, text[:_SCRIPT_SAMPLE])))
    parts = []
    for side in (False, True):
        texts = [text for text, held_out in zip(chunk.texts, chunk.held_out, strict=True) if held_out == side]
        parts.append(_encode(tokenizer, texts))
    num_unknown = sum(int((part.tokens == tokenizer.unknown_id).sum()) for part in parts)
    return EncodedChunk(parts[0], parts[1], num_unknown, scripts)


def _encode(tokenizer: Tokenizer, texts: list[str]) -> EncodedText:
    documents = [split_sentences(text) for text in texts]
    tokens, lengths = tokenizer.encode_plain([sentence for document in documents for sentence in document])
    document_of = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    some = lengths > 0  # a sentence of characters that the clean-up removes has no tokens
    counts = np.bincount(document_of[some], minlength=len(documents))
    return EncodedText(
        tokens.astype(token_type(tokenizer.vocab_size)),
        lengths[some].astype(np.uint32),
        counts[counts > 0].astype(np.uint32),
    )


@functools.lru_cache(maxsize=2)
def _open_tokenizer(files: TokenizerFiles) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.files:
            (Path(folder) / name).write_bytes(content)
        return Tokenizer.from_pretrained(Path(folder))


class _Run:
    """One preparation, from its first document or from where an earlier one stopped."""

    def __init__(self, ledger: Ledger, config: PrepareConfig, vocab_size: int) -> None:
        self._ledger = ledger
        self._config = config
        self._dtype = token_type(vocab_size)
        self._writers: dict[str, ShardWriter] = {}
        self._handed_out: list[Position] = []
        self.summary = ledger.content.counts

    def chunks(self, reader: Reader) -> Iterator[TextChunk]:
        """Read documents, and give those that are new to be encoded, about a megabyte at a time."""
        seen, digests = DigestSet(), hashlib.blake2b(digest_size=16)
        texts: list[str] = []
        held_out: list[bool] = []
        size = 0
        aside = False
        resume, at = self._ledger.content.read, Position()
        for document in reader:
            digest = digest_document(document.text)
            digests.update(digest.to_bytes(8, "little"))
            aside = self._is_held_out(document, digest, aside)
            at.parts_read += 1
            at.documents_read += document.part == 0
            at.characters += len(document.text)
            if seen.add(digest) or not self._config.deduplicate:
                texts.append(document.text)
                held_out.append(aside)
                size += len(document.text)
            else:
                at.duplicates += 1
            if at.parts_read <= resume.parts_read:  # an earlier run was here
                if at.parts_read == resume.parts_read and digests.hexdigest() != resume.digest:
                    raise self._changed()
                texts, held_out, size = [], [], 0
            elif size >= min(_CHUNK_CHARACTERS, self._config.shard_tokens) or len(texts) >= _CHUNK_DOCUMENTS:
                self._handed_out.append(at.model_copy(update={"digest": digests.hexdigest()}))
                yield TextChunk(texts, held_out)
                texts, held_out, size = [], [], 0
        if at.parts_read < resume.parts_read:
            raise self._changed()
        self._handed_out.append(at.model_copy(update={"digest": digests.hexdigest()}))
        yield TextChunk(texts, held_out)

    def _changed(self) -> RequestError:
        folder = self._ledger.folder
        return RequestError(f"the sources have changed since {folder} was begun: choose another --out")

    def _is_held_out(self, document: Document, digest: int, was: bool) -> bool:
        """By a hash, so that copies lie on one side; parts of a long document go where its first part went."""
        return was if document.part else digest < self._config.held_out * 2.0**64

    def append(self, encoded: EncodedChunk) -> None:
        """Write the ids of the next chunk; when the shard is full, complete it and write that down."""
        read = self._handed_out.pop(0)
        for split, text in ((TRAIN, encoded.train), (HELD_OUT, encoded.held_out)):
            self._writer(split).append(text)
        summary = self.summary
        summary.unknown_tokens += encoded.num_unknown
        summary.scripts = dict(sorted((Counter(summary.scripts) + encoded.scripts).items()))
        summary.documents_read, summary.duplicates = read.documents_read, read.duplicates
        summary.characters = read.characters
        if self._writers[TRAIN].num_tokens >= self._config.shard_tokens:
            self._ledger.record(self._finish_shards(), read)

    def _writer(self, split: str) -> ShardWriter:
        if split not in self._writers:
            name = f"{split}-{len(self._ledger.content.splits[split]):05d}.shard"
            self._writers[split] = ShardWriter(self._ledger.folder / name, self._dtype)
        return self._writers[split]

    def _finish_shards(self) -> dict[str, ShardEntry]:
        entries = {split: writer.finish() for split, writer in self._writers.items()}
        self._writers = {}
        return entries

    def finish(self) -> None:
        """Complete the last shards, and the corpus."""
        entries = self._finish_shards()
        if not any(entry.tokens for entry in [*entries.values(), *self._ledger.content.splits[TRAIN]]):
            self._ledger.discard()
            raise RequestError("the sources hold no text: every document is empty")
        self._ledger.finish(entries)

    def close(self) -> None:
        """Drop what is not complete: it will be made again."""
        for writer in self._writers.values():
            writer.abandon()
        self._writers = {}
