"""Preparation: sources in, a corpus of shards out; the same bytes from any number of workers, interrupted or not.

The sources are cut into units of about a megabyte. A worker reads a unit, splits, cleans and encodes its documents, and
gives their ids and a hash of each. This process takes the results in the order of the sources, drops documents whose
hash it has met, decides by the hash which are held out, and appends the ids to shards. Whenever a shard is complete,
the ledger says how many documents lie behind it: run again, workers only hash what lies before, and go on from there.
"""

import contextlib
import functools
import hashlib
import math
import os
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from litebert.corpus.corpus import HELD_OUT, TOKENIZER, TRAIN
from litebert.corpus.duplicates import Digests, DigestSet, digest_document
from litebert.corpus.ledger import Ledger, Position, Summary
from litebert.corpus.runners import open_runner
from litebert.corpus.shards import EncodedText, ShardEntry, ShardWriter, token_type
from litebert.errors import LitebertError, RequestError
from litebert.text.inspection import script_of
from litebert.text.sentences import split_sentences
from litebert.text.sources import Reader, ReadOptions
from litebert.text.tokenizer import Tokenizer
from litebert.text.units import Findings, Unit, UnitDocuments, Units, seen_from

__all__ = ["PrepareConfig", "Summary", "prepare"]

# A shard ends after a chunk of new documents; these two numbers are part of what decides about its bytes.
_CHUNK_CHARACTERS = 1_000_000  # or those of a shard, if it is smaller
_CHUNK_DOCUMENTS = 5_000
_MOST_CHARACTERS = 32  # times those of a chunk: what one worker may hold of a unit that unpacks to more than it seemed
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
            job = Job(files, reader.options, config.deduplicate, run.chunk_characters, os.getcwd())
            names = [os.path.abspath(source.name) for source in reader.sources if source.size is not None]
            units = Units(reader, run.chunk_characters, runner.can_read(names))
            # Without other processes it is known which documents are duplicates before they are encoded.
            is_alone = num_workers == 1 and scheduler is None
            encode = functools.partial(encode_unit, known=run.seen) if is_alone else encode_unit
            for result in runner.map_in_order(encode, job, run.tasks(units)):
                run.take(job, units, result)
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


# The work of one worker: a unit in, ids out. It knows nothing of order or of other workers.


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer as it travels to workers: the files of its folder."""

    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, folder: Path) -> "TokenizerFiles":
        """Take the files of a folder."""
        return cls(tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()))


@dataclass(frozen=True)
class Job:
    """What all units have in common: how they are read and encoded, and what their file names are relative to."""

    tokenizer: TokenizerFiles
    options: ReadOptions
    deduplicate: bool
    chunk_characters: int
    folder: str


@dataclass(frozen=True)
class Task:
    """A unit, and whether its ids are wanted or only the hashes of its documents."""

    unit: Unit
    wants_ids: bool = True


@dataclass(frozen=True)
class Ids:
    """Documents as ids: all tokens, the length of each sentence, and for each document what belongs to it."""

    tokens: NDArray[Any]
    sentence_lengths: NDArray[np.uint32]
    num_sentences: NDArray[np.uint32]
    num_tokens: NDArray[np.uint32]
    num_unknown: NDArray[np.uint32]
    scripts: tuple[str, ...]
    script_counts: NDArray[np.uint8]
    """A row for each document, a column for each script."""


@dataclass(frozen=True)
class EncodedUnit:
    """The documents of a unit: their hashes, whether each begins a document, their lengths, and their ids."""

    digests: Digests
    is_first: NDArray[np.bool_]
    characters: NDArray[np.uint32]
    ids: Ids | None
    findings: Findings


def encode_unit(job: Job, task: Task, known: DigestSet | None = None) -> EncodedUnit | None:
    """Read, split and encode the documents of a unit; None for one that is too large, or with which something is wrong.

    Whoever gave it out sees to those. Documents that repeat another one of the unit, or are known, have no ids.
    """
    reading = UnitDocuments(seen_from(task.unit, job.folder), job.options)
    documents: list[tuple[str, int]] = []
    size = 0
    try:
        for text, part in reading:
            documents.append((text, part))
            size += len(text)
            if size > _MOST_CHARACTERS * job.chunk_characters + job.options.max_document_chars:
                return None
    except LitebertError:
        return None
    return _encode_documents(job, documents, task.wants_ids, known, reading.findings)


def encode_in_pieces(job: Job, unit: Unit, known: DigestSet) -> Iterator[EncodedUnit]:
    """The same for a unit of any size, which is given in pieces; what is wrong with it is raised."""
    reading = UnitDocuments(unit, job.options)
    documents: list[tuple[str, int]] = []
    size = 0
    for text, part in reading:
        documents.append((text, part))
        size += len(text)
        if size >= job.chunk_characters:
            yield _encode_documents(job, documents, known=known)
            documents, size = [], 0
    yield _encode_documents(job, documents, known=known, findings=reading.findings)


def _encode_documents(
    job: Job,
    documents: list[tuple[str, int]],
    wants_ids: bool = True,
    known: DigestSet | None = None,
    findings: Findings | None = None,
) -> EncodedUnit:
    digests = np.array([digest_document(text) for text, _ in documents], np.uint64)
    ids = None
    if wants_ids:
        wanted = np.ones(digests.size, np.bool_)
        if job.deduplicate:
            wanted = DigestSet().add_all(digests)
            if known is not None:
                wanted &= ~known.find(digests)
        texts = [text if is_wanted else "" for (text, _), is_wanted in zip(documents, wanted.tolist(), strict=True)]
        ids = _encode(_open_tokenizer(job.tokenizer), texts)
    return EncodedUnit(
        digests,
        np.array([part == 0 for _, part in documents], np.bool_),
        np.array([len(text) for text, _ in documents], np.uint32),
        ids,
        findings or Findings(),
    )


def _encode(tokenizer: Tokenizer, texts: list[str]) -> Ids:
    """Split documents into sentences and encode these."""
    documents = [split_sentences(text) for text in texts]
    tokens, lengths = tokenizer.encode_plain([sentence for document in documents for sentence in document])
    document_of = np.repeat(np.arange(len(documents)), np.array([len(document) for document in documents], np.int64))
    some = lengths > 0  # a sentence of characters that the clean-up removes has no tokens
    document_of, lengths = document_of[some], lengths[some]
    unknown = np.repeat(document_of, lengths)[tokens == tokenizer.unknown_id]
    scripts, script_counts = _count_scripts(texts)
    return Ids(
        tokens.astype(token_type(tokenizer.vocab_size)),
        lengths.astype(np.uint32),
        np.bincount(document_of, minlength=len(texts)).astype(np.uint32),
        np.bincount(document_of, lengths, len(texts)).astype(np.uint32),
        np.bincount(unknown, minlength=len(texts)).astype(np.uint32),
        scripts,
        script_counts,
    )


def _count_scripts(texts: list[str]) -> tuple[tuple[str, ...], NDArray[np.uint8]]:
    """Count the letters of each script at the beginning of each text."""
    counts = [Counter(map(script_of, filter(str.isalpha, text[:_SCRIPT_SAMPLE]))) for text in texts]
    scripts = sorted(set().union(*counts))
    table = [[count[script] for script in scripts] for count in counts]
    return tuple(scripts), np.array(table, np.uint8).reshape(len(texts), len(scripts))


@functools.lru_cache(maxsize=2)
def _open_tokenizer(files: TokenizerFiles) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.files:
            (Path(folder) / name).write_bytes(content)
        return Tokenizer.from_pretrained(Path(folder))


# What is done in one process, in order.


def _select(values: NDArray[Any], counts: NDArray[np.uint32], is_wanted: NDArray[np.bool_]) -> NDArray[Any]:
    """The values of the documents that are wanted, of which each has so many; most are, so whole runs are taken.

    >>> _select(np.arange(6), np.array([1, 2, 3]), np.array([True, False, True]))
    array([0, 3, 4, 5])
    """
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    borders = ends[np.flatnonzero(np.diff(is_wanted, prepend=False, append=False))].tolist()
    runs = [values[begin:end] for begin, end in zip(borders[::2], borders[1::2], strict=True)]
    return runs[0] if len(runs) == 1 else np.concatenate([values[:0], *runs])


class _Run:
    """One preparation, from its first document or from where an earlier one stopped."""

    def __init__(self, ledger: Ledger, config: PrepareConfig, vocab_size: int) -> None:
        self._ledger = ledger
        self._config = config
        self._dtype = token_type(vocab_size)
        self._writers: dict[str, ShardWriter] = {}
        self._under_way: deque[Unit] = deque()
        self._at = Position()
        self._digest = hashlib.blake2b(digest_size=16)
        self._is_held_out = False  # the last document, of which more parts may come
        self._chunk_size = self._chunk_documents = 0
        self.chunk_characters = min(_CHUNK_CHARACTERS, config.shard_tokens)
        self.seen = DigestSet()
        self.summary = ledger.content.counts

    @property
    def _num_to_pass(self) -> int:
        """How many documents of those that come next an earlier run has dealt with."""
        return max(0, self._ledger.content.read.parts_read - self._at.parts_read)

    def tasks(self, units: Iterable[Unit]) -> Iterator[Task]:
        """Give out the units; ids are not wanted of those that an earlier run has dealt with."""
        for unit in units:
            self._under_way.append(unit)
            yield Task(unit, wants_ids=not self._num_to_pass)

    def take(self, job: Job, units: Units, encoded: EncodedUnit | None) -> None:
        """Take the result of the next unit.

        It is made here if the unit was too large or has a fault, and if an earlier run ended within what was hashed.
        """
        unit = self._under_way.popleft()
        findings = Findings()
        if encoded is None or (encoded.ids is None and self._num_to_pass < encoded.digests.size):
            pieces = encode_in_pieces(job, unit, self.seen)
        else:
            pieces = iter([encoded])
        for piece in pieces:
            self._merge(piece)
            findings = piece.findings
        units.settle(unit, findings)

    def _merge(self, encoded: EncodedUnit) -> None:
        """Go through documents, and write the new ones that no earlier run has written."""
        size = encoded.digests.size
        is_kept = self.seen.add_all(encoded.digests) if self._config.deduplicate else np.ones(size, np.bool_)
        is_held_out = self._choose_held_out(encoded)
        # How many characters and documents lie before each one, of those that are kept.
        characters = np.concatenate([[0], np.cumsum(encoded.characters * is_kept, dtype=np.int64)])
        documents = np.concatenate([[0], np.cumsum(is_kept)])
        begin = min(size, self._num_to_pass)
        if begin:
            self._count(encoded, is_kept, slice(0, begin))
            if not self._num_to_pass and self._digest.hexdigest() != self._ledger.content.read.digest:
                raise self._changed()
        while begin < size:
            # A chunk ends with the document that makes it full.
            full_size = characters[begin] + self.chunk_characters - self._chunk_size
            full_count = documents[begin] + _CHUNK_DOCUMENTS - self._chunk_documents
            end = int(min(np.searchsorted(characters, full_size), np.searchsorted(documents, full_count)))
            is_full, end = end <= size, min(end, size)
            self._count(encoded, is_kept, slice(begin, end))
            self._append(encoded, is_kept, is_held_out, slice(begin, end))
            self._chunk_size += int(characters[end] - characters[begin])
            self._chunk_documents += int(documents[end] - documents[begin])
            if is_full:
                self._end_chunk()
            begin = end

    def _choose_held_out(self, encoded: EncodedUnit) -> NDArray[np.bool_]:
        """By a hash, so that copies lie on one side; parts of a long document go where its first part went."""
        is_first = np.concatenate([[True], encoded.is_first])
        is_held_out = encoded.digests < np.uint64(math.ceil(self._config.held_out * 2.0**64))
        of_first = np.maximum.accumulate(np.where(is_first, np.arange(is_first.size), 0))
        chosen = np.concatenate([[self._is_held_out], is_held_out])[of_first]
        self._is_held_out = bool(chosen[-1])
        return chosen[1:]

    def _count(self, encoded: EncodedUnit, is_kept: NDArray[np.bool_], some: slice) -> None:
        """Move on by some documents."""
        self._digest.update(encoded.digests[some].astype("<u8").tobytes())
        at = self._at
        at.parts_read += some.stop - some.start
        at.documents_read += int(encoded.is_first[some].sum())
        at.characters += int(encoded.characters[some].sum(dtype=np.int64))
        at.duplicates += int((~is_kept[some]).sum())

    def _append(
        self, encoded: EncodedUnit, is_kept: NDArray[np.bool_], is_held_out: NDArray[np.bool_], some: slice
    ) -> None:
        """Write the ids of some documents."""
        ids = encoded.ids
        assert ids is not None
        num_tokens, num_sentences = ids.num_tokens[some], ids.num_sentences[some]
        first_token, first_sentence = (
            int(counts[: some.start].sum()) for counts in (ids.num_tokens, ids.num_sentences)
        )
        tokens = ids.tokens[first_token : first_token + int(num_tokens.sum())]
        lengths = ids.sentence_lengths[first_sentence : first_sentence + int(num_sentences.sum())]
        for split, is_here in ((TRAIN, ~is_held_out[some]), (HELD_OUT, is_held_out[some])):
            is_written = is_kept[some] & is_here & (num_sentences > 0)
            part = EncodedText(
                _select(tokens, num_tokens, is_written),
                _select(lengths, num_sentences, is_written),
                num_sentences[is_written],
            )
            self._writer(split).append(part)
        summary = self.summary
        summary.unknown_tokens += int(ids.num_unknown[some][is_kept[some]].sum())
        counts = ids.script_counts[some][is_kept[some]].sum(axis=0, dtype=np.int64).tolist()
        scripts = Counter(summary.scripts) + Counter(dict(zip(ids.scripts, counts, strict=True)))
        summary.scripts = dict(sorted(scripts.items()))
        self._note_position()

    def _note_position(self) -> None:
        summary, at = self.summary, self._at
        summary.documents_read, summary.duplicates, summary.characters = at.documents_read, at.duplicates, at.characters

    def _end_chunk(self) -> None:
        """Complete the shard if it is full, and write that down."""
        self._chunk_size = self._chunk_documents = 0
        if self._writer(TRAIN).num_tokens >= self._config.shard_tokens:
            entries = self._finish_shards()
            self._ledger.record(entries, self._at.model_copy(update={"digest": self._digest.hexdigest()}))

    def _changed(self) -> RequestError:
        folder = self._ledger.folder
        return RequestError(f"the sources have changed since {folder} was begun: choose another --out")

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
        """Complete the last chunk, the last shards, and the corpus."""
        if self._num_to_pass:
            raise self._changed()
        self._note_position()
        for split in (TRAIN, HELD_OUT):  # also if nothing came after the last shard
            self._writer(split)
        self._end_chunk()
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
