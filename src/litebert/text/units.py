"""Sources cut into units: what one worker reads at a time, in the order of the sources.

A unit is some whole files, a slice of a large one, or documents that were read here because nobody else can read them
(standard input, Hugging Face datasets, large tables). Slices of JSON lines end after a line, those of text after a
blank line, so that each can be read alone. The slice of a plain file is only named, and its worker reads it; that of a
compressed file comes unpacked, because only the beginning of such a file leads to its middle.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO

from litebert.errors import LitebertError
from litebert.text.blocks import BLOCK, DamagedError, count_lines
from litebert.text.formats import explain_mark
from litebert.text.records import RecordReader, UnreadableFileError
from litebert.text.sources import Document, Reader, ReadOptions, Source, SourceDocuments

__all__ = ["Files", "Findings", "Given", "Slice", "Unit", "UnitDocuments", "Units", "seen_from"]

_MOST_FILES = 500  # in one unit
_MOST_DOCUMENTS = 5_000
_TABLE_UNITS = 4  # a table of up to so many units is read by one worker, a larger one here
_LONGEST_SEARCH = 4  # a text without a blank line for so many units is read here
_SLICED = ("jsonl", "text")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")  # there are others; they only make a slice longer
_KEPT = 1 << 12  # bytes that are looked at again when an end may lie on the border of two blocks


@dataclass(frozen=True)
class Findings:
    """What is known of a unit when it has been read."""

    num_bad: int = 0
    num_given: int = 0
    num_usable: int = 0
    lacks_column: bool = False
    """Whether a record has none of the columns that are wanted."""
    damage: str = ""
    """Why the file cannot be read any further, if so."""


@dataclass(frozen=True)
class Files:
    """Whole files."""

    sources: tuple[Source, ...]
    bytes_read: int
    """What lies behind on disk when this unit has been read; so in all units."""


@dataclass(frozen=True)
class Slice:
    """The bytes of a file from `start` to `stop` (None is its end), unpacked; they are at hand, or are read from it."""

    source: Source
    start: int
    stop: int | None
    bytes_read: int
    content: bytes | None = None
    damage: str = ""


@dataclass(frozen=True)
class Given:
    """Documents that have been read: each its text and which part of a document it is."""

    documents: list[tuple[str, int]]
    bytes_read: int
    findings: Findings = Findings()
    error: LitebertError | None = None
    """What ended the reading."""
    rest_of: Source | None = None
    """The source that ends here, if its first documents were in slices."""


Unit = Files | Slice | Given


def seen_from(unit: Unit, folder: str) -> Unit:
    """The same unit for somebody who works in another folder than the one that its names are relative to."""

    def join(source: Source) -> Source:
        return replace(source, name=os.path.join(folder, source.name))

    if isinstance(unit, Files):
        return replace(unit, sources=tuple(map(join, unit.sources)))
    return replace(unit, source=join(unit.source)) if isinstance(unit, Slice) else unit


# --- reading ------------------------------------------------------------------------------------------------------


class UnitDocuments:
    """The documents of one unit, as (text, part), and then the findings."""

    def __init__(self, unit: Unit, options: ReadOptions) -> None:
        self._unit, self._options = unit, options
        self.findings = Findings()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Read; what is wrong is said as if the whole source was read."""
        unit = self._unit
        if isinstance(unit, Given):
            yield from unit.documents
            if unit.error is not None:
                raise unit.error
            self.findings = unit.findings
        elif isinstance(unit, Files):
            reader = Reader(unit.sources, self._options)
            yield from ((document.text, document.part) for document in reader)
            self.findings = Findings(reader.num_bad)
        else:
            reading = _PartReading(unit.source, unit.start, self._options, _bytes_of(unit))
            yield from ((document.text, document.part) for document in reading)
            if reading.error is not None:
                _read_again(unit.source, unit.start, self._options, _bytes_of(unit))
                raise reading.error
            self.findings = reading.findings


class _Stream:
    """Blocks of bytes as something to read from."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = (block for block in blocks if block)

    def read(self, _: int = -1) -> bytes:
        return next(self._blocks, b"")


def _bytes_of(unit: Slice) -> Iterator[bytes]:
    if unit.content is None:
        yield from _read_range(unit.source.name, unit.start, unit.stop)
    else:
        yield unit.content
        if unit.damage:
            raise DamagedError(unit.damage)


def _read_range(path: str, start: int, stop: int | None = None) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        left = 1 << 62 if stop is None else stop - start
        while left and (block := file.read(min(BLOCK, left))):
            left -= len(block)
            yield block


class _PartReading:
    """The documents of a source from a byte on, which is on a line that may be known."""

    def __init__(
        self, source: Source, start: int, options: ReadOptions, blocks: Iterator[bytes], first_line: int = 1
    ) -> None:
        self.records = RecordReader(
            _Stream(blocks),
            name=source.name,
            format=source.kind,
            skip_bad=options.skip_bad,
            max_record_bytes=options.max_record_bytes,
            allow_nul=True,
            part_start=start,
            first_line=first_line,
        )
        self.documents = SourceDocuments(source, options, self.records)
        self.error: LitebertError | None = None
        """What ended the reading."""
        self._damage = ""

    def __iter__(self) -> Iterator[Document]:
        try:
            yield from self.documents
        except DamagedError as error:
            self._damage = str(error)
        except LitebertError as error:
            self.error = error

    @property
    def findings(self) -> Findings:
        documents, records = self.documents, self.records
        lacks_column = documents.missing is not None
        return Findings(records.num_skipped, records.num_given, documents.num_usable, lacks_column, self._damage)


def _read_again(source: Source, start: int, options: ReadOptions, blocks: Iterator[bytes]) -> None:
    """Read a part in which something is wrong once more, now that the number of its first line matters."""
    reading = _PartReading(source, start, options, blocks, 1 + count_lines(_bytes_before(source, start)))
    for _ in reading:
        pass
    if reading.error is not None:
        raise reading.error
    reading.documents.check()


def _bytes_before(source: Source, stop: int) -> Iterator[bytes]:
    for block in RecordReader(source.name, format=source.kind).unpack():
        yield block[:stop]
        stop -= len(block)
        if stop <= 0:
            return


def _bytes_from(source: Source, start: int) -> Iterator[bytes]:
    if not source.compression:
        yield from _read_range(source.name, start)
        return
    for block in RecordReader(source.name, format=source.kind).unpack():
        yield block[start:]
        start = max(0, start - len(block))


# --- cutting ------------------------------------------------------------------------------------------------------


def _end_in(data: bytes | bytearray, begin: int, kind: str) -> int:
    """Where a slice may end from there on: behind a line, in text behind a blank one; 0 if nowhere."""
    if kind == "text":
        found = _BLANK_LINE.search(data, begin)
        return found.end() if found else 0
    end = data.find(b"\n", begin) + 1
    if not end:  # in old files, lines end with CR alone
        end = data.find(b"\r", begin, len(data) - 1) + 1
    return end


class Units:
    """The units of a reader's sources, of about `size` bytes or characters each.

    Workers that do not see the files are given bytes and documents alone. What was found in the units is settled in
    their order, because some faults are those of a file as a whole.
    """

    def __init__(self, reader: Reader, size: int, workers_see_files: bool = True) -> None:
        self._reader, self._size, self._workers_see_files = reader, size, workers_see_files
        self._num_bad = self._num_given = self._num_usable = 0
        self._without_column: Slice | None = None

    def __iter__(self) -> Iterator[Unit]:
        """Cut, going through as little as possible."""
        bytes_read = 0
        small: list[Source] = []
        small_bytes = 0
        for source in self._reader.sources:
            if self._is_small(source):
                if small and (small_bytes + (source.size or 0) > self._size or len(small) >= _MOST_FILES):
                    yield Files(tuple(small), bytes_read)
                    small, small_bytes = [], 0
                small.append(source)
                small_bytes += source.size or 0
                bytes_read += source.size or 0
                continue
            if small:
                yield Files(tuple(small), bytes_read)
                small, small_bytes = [], 0
            if source.size is not None and source.kind in _SLICED:
                yield from self._slice(source, bytes_read)
            else:
                yield from self._give(Reader([source], self._reader.options), bytes_read)
            bytes_read += source.size or 0
        if small:
            yield Files(tuple(small), bytes_read)

    def _is_small(self, source: Source) -> bool:
        """Whether a file is read as a whole by one worker."""
        if source.size is None or not self._workers_see_files:
            return False
        return source.size <= (self._size if source.kind in _SLICED else _TABLE_UNITS * self._size)

    def _slice(self, source: Source, bytes_before: int) -> Iterator[Unit]:
        """Cut a file where documents end."""
        records = RecordReader(source.name, format=source.kind)
        blocks = records.unpack()
        try:
            beginning = next(blocks, b"")
        except (DamagedError, OSError, LitebertError):
            beginning = b""
        if not beginning or explain_mark(beginning):  # who reads it says so
            yield from self._give(Reader([source], self._reader.options), bytes_before)
        elif source.compression or not self._workers_see_files:
            unpacked = itertools.chain([beginning], blocks)
            yield from records.guard(self._unpack(source, records, unpacked, bytes_before))
        else:
            blocks.close()
            yield from records.guard(self._seek(source, bytes_before))

    def _seek(self, source: Source, bytes_before: int) -> Iterator[Unit]:
        """Cut a plain file, of which only what lies around the ends of slices is read."""
        start = 0
        with open(source.name, "rb", buffering=0) as file:
            while (stop := self._find_end(source, file, start)) is not None:
                if stop < 0:
                    yield from self._give_rest(source, start, _bytes_from(source, start), bytes_before + start)
                    return
                yield Slice(source, start, stop, bytes_before + stop)
                start = stop
            yield Slice(source, start, None, bytes_before + file.seek(0, os.SEEK_END))

    def _find_end(self, source: Source, file: IO[bytes], start: int) -> int | None:
        """Where a slice that begins there may end; None if the file ends first, -1 if that would be far away."""
        at, kept = start + self._size, b""
        file.seek(at)
        while True:
            block = file.read(BLOCK // 4)
            if not block:
                return None
            if end := _end_in(kept + block, 0, source.kind):
                return at - len(kept) + end
            at += len(block)
            kept = (kept + block)[-_KEPT:]
            if source.kind == "text" and at - start > _LONGEST_SEARCH * self._size:
                return -1

    def _unpack(
        self, source: Source, records: RecordReader, blocks: Iterator[bytes], bytes_before: int
    ) -> Iterator[Unit]:
        """Cut a file that is unpacked, or read, here."""
        longest = self._reader.options.max_record_bytes + self._size + BLOCK
        start, pending, num_dropped, searched = 0, bytearray(), 0, self._size
        damage = ""
        while True:
            try:
                block = next(blocks, b"")
            except DamagedError as error:
                block, damage = b"", str(error)
            if not block:
                break
            pending += block
            while len(pending) > searched and (end := _end_in(pending, searched, source.kind)):
                stop = start + num_dropped + end
                yield Slice(source, start, stop, bytes_before + records.bytes_read, bytes(pending[:end]))
                del pending[:end]
                start, num_dropped, searched = stop, 0, self._size
            searched = max(searched, len(pending) - _KEPT)
            if source.kind == "text" and len(pending) > _LONGEST_SEARCH * self._size:
                rest = itertools.chain([bytes(pending)], blocks)
                yield from self._give_rest(source, start, rest, bytes_before, records)
                return
            if len(pending) > longest:  # one line that is too long, whatever follows
                num_dropped += len(pending) - longest
                del pending[longest:]
                searched = longest
        yield Slice(source, start, None, bytes_before + records.bytes_read, bytes(pending), damage)

    def _give_rest(
        self,
        source: Source,
        start: int,
        blocks: Iterator[bytes],
        bytes_before: int,
        unpacked: RecordReader | None = None,
    ) -> Iterator[Given]:
        """Read the rest of a text here."""
        options = self._reader.options
        reading = _PartReading(source, start, options, blocks)

        def read() -> Iterator[Document]:
            yield from reading
            if reading.error is not None:
                _read_again(source, start, options, _bytes_from(source, start))
                raise reading.error

        records = unpacked or reading.records
        yield from self._gather(read(), lambda: bytes_before + records.bytes_read)
        yield Given([], bytes_before + records.bytes_read, reading.findings, rest_of=source)

    def _give(self, reader: Reader, bytes_before: int) -> Iterator[Given]:
        """Read a source here."""
        yield from self._gather(reader, lambda: bytes_before + reader.bytes_read)
        yield Given([], bytes_before + reader.bytes_read, Findings(reader.num_bad))

    def _gather(self, read: Iterable[Document], bytes_read: Callable[[], int]) -> Iterator[Given]:
        """Put documents together to units, and what ends the reading into the last one."""
        documents: list[tuple[str, int]] = []
        size = 0
        try:
            for document in read:
                documents.append((document.text, document.part))
                size += len(document.text)
                if size >= self._size or len(documents) >= _MOST_DOCUMENTS:
                    yield Given(documents, bytes_read())
                    documents, size = [], 0
        except LitebertError as error:
            yield Given(documents, bytes_read(), error=error)
            return
        if documents:
            yield Given(documents, bytes_read())

    def settle(self, unit: Unit, findings: Findings) -> None:
        """Take in what was found in the next unit, and raise what that makes of its file."""
        self._num_bad += findings.num_bad
        self._num_given += findings.num_given
        self._num_usable += findings.num_usable
        if isinstance(unit, Slice) and findings.lacks_column:
            self._without_column = self._without_column or unit
        if isinstance(unit, Slice) and unit.stop is None:
            self._end_source(unit.source, findings.damage)
        elif isinstance(unit, Given) and unit.rest_of is not None:
            self._end_source(unit.rest_of, findings.damage)
        self._reader.take_over(unit.bytes_read, self._num_bad)

    def _end_source(self, source: Source, damage: str) -> None:
        """Say what is wrong with a file of which there were slices."""
        options = self._reader.options
        if damage:
            records = RecordReader(source.name, format=source.kind, skip_bad=options.skip_bad)
            records.num_given = self._num_given
            try:
                records.break_off(damage)
            except UnreadableFileError:
                if not options.skip_bad:
                    raise
            self._num_bad += 1
        if self._without_column and not self._num_usable:
            _read_again(source, self._without_column.start, options, _bytes_of(self._without_column))
        self._num_given = self._num_usable = 0
        self._without_column = None
