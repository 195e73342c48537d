"""The one reader of tables: a file, a stream or an object in memory in, records out.

It reads CSV, tab-separated values, JSON lines, JSON, Parquet, CoNLL and lines of text, files also compressed, and takes
a pandas DataFrame, a dataset of Hugging Face or a list of dictionaries as well. A record is its location ("line 3") and
its fields by the names of their columns. No more than one record of a file is in memory. What is wrong is said in one
sentence that names file and line: the first bad record ends the reading, or all of them are counted.
"""

import contextlib
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from litebert.errors import DataError, LitebertError, RequestError
from litebert.text.blocks import BLOCK, DECOMPRESS, DamagedError, cut_between_characters, split_lines
from litebert.text.cleanup import mend
from litebert.text.formats import (
    FORMATS,
    MAX_CELL_CHARS,
    NOT_UTF8,
    TOO_LONG,
    Bad,
    explain_mark,
    format_of,
    read_conll,
    read_json,
    read_rows,
    sniff,
)

__all__ = [
    "BadRecordError",
    "Fields",
    "KnownFlawError",
    "Record",
    "RecordReader",
    "RecordSource",
    "UnreadableFileError",
    "WholeFileError",
    "check_width",
    "match_keys",
    "quote",
    "take_list",
    "take_text",
]

Fields = Mapping[str, Any]
"""The values of a record, by the names of their columns."""

Record = tuple[str, Fields]
"""Where a record begins ("line 3", "record 3"), and its fields."""

RecordSource = Any
"""A path, a stream of bytes, a pandas DataFrame, a dataset of Hugging Face, or a list of dictionaries."""

MAX_RECORD_BYTES = 64 << 20
"""How long one record may be when nothing else is said."""

_SKIP = "or pass --skip-bad to leave such records out and count them"
_GO_ON = ", or pass --skip-bad to go on with what can be read"
_SNIFFED_BYTES = 1 << 16
_LONGEST_SNIFFED = 16 << 20

ItemT = TypeVar("ItemT")
ExampleT = TypeVar("ExampleT")


class BadRecordError(Exception):
    """A record that cannot be used; the message continues a sentence that begins with its location.

    `location` is given where that is not the beginning of the record.
    """

    def __init__(self, message: str = "", location: str = "") -> None:
        super().__init__(message)
        self.location = location


class KnownFlawError(BadRecordError):
    """A bad record that an official file is known to hold: it is counted, and never ends the reading."""


class WholeFileError(BadRecordError):
    """A bad record which shows that the others are not meant as they are read: it is never skipped."""


class UnreadableFileError(DataError):
    """A file of which nothing can be read, because it is damaged or in another encoding."""


class RecordReader:
    """The records of one table.

    The suffix of a file tells its format, unless `format` does; one with neither is looked at. Without a `header`,
    columns are named "1", "2", and so on. Bad records are raised, or counted in `num_skipped` with `skip_bad`; where
    that is None, they cannot be skipped, and nobody is told so. A stream may be a part of a file, from the byte
    `part_start` and the line `first_line` on: whether damage leaves something to be read, its reader has to say.
    """

    def __init__(
        self,
        source: RecordSource,
        *,
        name: str = "",
        format: str | None = None,
        header: bool = True,
        skip_bad: bool | None = False,
        max_record_bytes: int | None = None,
        allow_nul: bool = False,
        part_start: int | None = None,
        first_line: int = 1,
    ) -> None:
        if format is not None and format not in FORMATS.values():
            known = ", ".join(dict.fromkeys(FORMATS.values()))
            raise RequestError(f"there is no format {format!r}: choose one of {known}")
        self.path: Path | None = None
        self.stream: IO[bytes] | None = None
        self.memory: Any = None
        self.format, self.compression = format, ""
        if isinstance(source, str | os.PathLike):
            self.path, default = Path(source), str(source)
            told, self.compression = format_of(source)
            self.format = format or told
        elif hasattr(source, "read"):
            self.stream, default = source, "the input"
        elif isinstance(source, Iterable):
            self.memory, default = source, f"the {type(source).__name__}"
            self.format = "memory"
        else:
            raise RequestError(f"a {type(source).__name__} is no table: give a path, a DataFrame or a list of records")
        self.name = name or default
        self.header, self.skip_bad, self.allow_nul = header, skip_bad, allow_nul
        self.max_record_bytes = max_record_bytes or MAX_RECORD_BYTES
        self.part_start, self.first_line = part_start, first_line
        self.columns: list[str] | None = None
        """The names of a table's columns, once they have been read."""
        self.num_skipped = self.num_given = self.bytes_read = 0
        self._put_back: Iterator[bytes] | None = None
        self._reading: Generator[bytes, None, None] | None = None

    # --- what is bad -----------------------------------------------------------------------------------------------

    def refuse(self, location: str, reason: str) -> None:
        """Count a bad record, or raise it."""
        if not self.skip_bad:
            self.stop(location, reason if self.skip_bad is None else f"{reason}, {_SKIP}")
        self.num_skipped += 1

    def stop(self, location: str, reason: str) -> NoReturn:
        """Raise what makes the whole file unusable, whether or not bad records are to be skipped."""
        raise DataError(f"{self.name}, {location}, {reason}")

    def convert(
        self, records: Iterable[tuple[str, ItemT]], make: Callable[[str, ItemT, str], ExampleT | None]
    ) -> list[ExampleT]:
        """Make an example of each record, from its number (of all there are, from 0), itself and its full location.

        What becomes None is left out and not counted.
        """
        kept: list[ExampleT] = []
        num_left_out = 0
        for location, record in records:
            number = len(kept) + num_left_out + self.num_skipped
            try:
                example = make(str(number), record, f"{self.name}, {location}")
            except KnownFlawError:
                self.num_skipped += 1
                continue
            except WholeFileError as error:
                self.stop(location, str(error))
            except BadRecordError as error:
                self.refuse(error.location or location, str(error))
                continue
            if example is None:
                num_left_out += 1
            else:
                kept.append(example)
        return kept

    # --- what is read ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(
        self, columns: Sequence[str] | None = None, *, some: bool = False, bare: str | None = None
    ) -> Iterator[Record]:
        """Give the records with the columns that are named, or with all.

        Each column has to be there; with `some`, one of them has to be. A column may be named by its number (from 1),
        and upper or lower case does not matter unless it has to. Objects of JSON keep their other keys, and lack what
        they lack. With `bare`, a JSON value that is no object is taken as an object that has it under this name.
        """
        return self.guard(self._records(columns, some, bare))

    def _records(self, columns: Sequence[str] | None, some: bool, bare: str | None) -> Iterator[Record]:
        if self.memory is not None:
            yield from self._read_memory(columns, some)
            return
        format, blocks = self._begin()
        if format == "parquet":
            yield from self._read_parquet(blocks, columns, some)
        elif format in ("csv", "tsv"):
            yield from self._read_table(blocks, columns, some)
        elif format == "conll":
            yield from self._sift(read_conll(blocks, self.max_record_bytes))
        elif format == "text":
            yield from ((location, {"text": line}) for location, line in self._read_lines(blocks) if line.strip())
        else:
            yield from self._read_objects(blocks, columns, bare)

    def rows(self, *, keep_blank: bool = False) -> Iterator[tuple[str, list[str]]]:
        """Give the cells of CSV or tab-separated values, the header among them, for files with layouts of their own.

        If the header is bad, it is never skipped. Blank lines are left out, or given as no cells.
        """
        return self.guard(self._read_rows(None, keep_blank))

    def lines(self) -> Iterator[tuple[str, str]]:
        """Give the lines of a text, blank ones too, without their ends."""
        return self.guard(self._read_lines(self.blocks()))

    def load_json(self, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
        """Read a file that is one JSON value; what is no JSON raises `BadRecordError` with the line in its message."""

        def refuse(constant: str) -> None:
            raise BadRecordError(f"holds {constant}, which is no JSON: mend it")

        try:
            data = next(self.guard(b"".join(cut_between_characters(blocks)) for blocks in [self.unpack()]))
            return json.loads(data.decode(), parse_constant=refuse, object_pairs_hook=pairs, strict=False)
        except UnicodeDecodeError:
            raise BadRecordError(explain_mark(data) or NOT_UTF8) from None
        except json.JSONDecodeError as error:
            raise BadRecordError(f"is not valid JSON (line {error.lineno}: {error.msg}): mend it") from None
        except (ValueError, RecursionError):
            raise BadRecordError("is not valid JSON (nested too deeply or too large): mend it") from None

    def list_columns(self) -> list[str]:
        """The names of the columns: those of a table, or the keys of the first record."""
        first = next(self.records(), None)
        return self.columns if self.columns is not None else [] if first is None else list(first[1])

    def blocks(self) -> Iterator[bytes]:
        """Give a file unpacked, in blocks that end between characters, without a byte order mark."""
        if self._put_back is not None:
            blocks, self._put_back = self._put_back, None
            return blocks
        self._reading = self.unpack()
        if self.part_start:
            return cut_between_characters(self._reading, at_start=False)
        return cut_between_characters(self._refuse_mark(self._reading))

    def guard(self, items: Iterator[ItemT]) -> Iterator[ItemT]:
        """Say what is wrong with a file; one that is damaged can be read in part, if any part of it can."""
        try:
            for item in items:
                self.num_given += 1
                yield item
        except DamagedError as error:
            if self.part_start is not None:
                raise
            self.break_off(str(error))
        except OSError as error:
            reason = error.strerror or error
            raise DataError(f"{self.name} cannot be read ({reason}): check its name and that it is readable") from None
        finally:  # also where somebody keeps the error, and with it all that was being read
            if self._reading is not None:
                self._reading.close()

    def break_off(self, damage: str) -> None:
        """Count a file that is damaged after the records that were given, or raise that."""
        if not self.num_given:
            raise UnreadableFileError(f"{self.name} {damage}: get the file again") from None
        if not self.skip_bad:
            advice = "get the file again" + (_GO_ON if self.skip_bad is not None else "")
            raise DataError(f"{self.name} {damage} after {self.num_given:,} records: {advice}") from None
        self.num_skipped += 1

    def sniff(self) -> str | None:
        """Say which format a file or stream is in, if it is plainly one; what was looked at is still to be read."""
        blocks = self.blocks()
        beginning, limit = b"", _SNIFFED_BYTES
        while len(beginning) < limit and (block := next(blocks, None)) is not None:
            beginning += block
            limit = _LONGEST_SNIFFED if beginning.startswith(b"{") and b"\n" not in beginning else _SNIFFED_BYTES
        self._put_back = itertools.chain([beginning], blocks)
        return sniff(beginning, len(beginning) < limit)

    def _begin(self) -> tuple[str, Iterator[bytes]]:
        self.format = self.format or self.sniff()
        if self.format is None:
            advice = "name it .csv, .tsv, .jsonl, .json, .parquet or .conll, or say its format with --format"
            raise RequestError(f"{self.name} has no suffix that tells its format: {advice}")
        return self.format, self.blocks()

    def unpack(self) -> Generator[bytes, None, None]:
        """Give the bytes of a file, unpacked and otherwise as they are."""
        with self._open() as file:
            # What is typed comes line by line: a stream is not asked for more than it has.
            read = getattr(file, "read1", file.read)
            chunks = iter(lambda: self._count(read(BLOCK // 4)), b"")
            yield from DECOMPRESS[self.compression](chunks)

    def _open(self) -> contextlib.AbstractContextManager[IO[bytes]]:
        if self.stream is not None:
            return contextlib.nullcontext(self.stream)
        try:
            return open(self.path or "", "rb", buffering=0)
        except ValueError as error:  # a NUL in its name
            raise OSError(str(error)) from None

    def _count(self, chunk: bytes) -> bytes:
        self.bytes_read += len(chunk)
        return chunk

    def _refuse_mark(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for number, block in enumerate(blocks):
            if number == 0 and (fault := explain_mark(block)):
                raise UnreadableFileError(f"{self.name}, line 1, {fault}")
            yield block

    # --- columns ---------------------------------------------------------------------------------------------------

    def find_column(self, names: Sequence[str], column: str, location: str) -> int:
        """Find where a column stands; one that is not there, or there twice, makes the whole table unusable."""
        position = self._locate(names, column, location)
        return self._miss_column(names, [column], location) if position is None else position

    def _locate(self, names: Sequence[str], column: str, location: str) -> int | None:
        if names.count(column) == 1:
            return names.index(column)
        if column in names:
            self.stop(location, f"has {names.count(column)} columns named {column!r}: rename all but one")
        if re.fullmatch("[0-9]{1,9}", column) and 1 <= int(column) <= len(names):
            return int(column) - 1
        near = [position for position, name in enumerate(names) if name.casefold() == column.casefold()]
        if len(near) == 1:
            return near[0]
        if near:
            which = " and ".join(quote(names[position]) for position in near)
            self.stop(location, f"has the columns {which}, and {column!r} may mean each: write it as it is there")
        return None

    def _miss_column(self, names: Sequence[str], columns: Sequence[str], location: str) -> NoReturn:
        wanted = " or ".join(map(repr, columns))
        is_table = self.format in ("csv", "tsv")
        if is_table and not self.header:
            numbers = f"columns are named 1 to {len(names)}"
            self.stop(location, f"has no column {wanted}: without a header, {numbers}, so name one of these")
        there = ", ".join(map(quote, names[:30])) or "none"
        advice = self._explain_separator(names[0]) if is_table and len(names) == 1 else ""
        if not advice:
            advice = "name one that is there"
            advice += ", or give the file a header (or say --no-header and number the columns)" if is_table else ""
        self.stop(location, f"has no column {wanted} (there are: {there}): {advice}")

    def _choose(
        self, names: Sequence[str], columns: Sequence[str] | None, some: bool, location: str
    ) -> list[tuple[str, int]]:
        """The columns to take, each with its position."""
        if columns is None:
            return [(name, position) for position, name in enumerate(names)]
        found = [(column, self._locate(names, column, location)) for column in columns]
        chosen = [(column, position) for column, position in found if position is not None]
        if len(chosen) < (1 if some else len(columns)):
            missing = [column for column, position in found if position is None]
            self._miss_column(names, missing if some else missing[:1], location)
        return chosen

    def _explain_separator(self, line: str) -> str:
        """Say what seems to stand between the names of a header instead of what should, and what to do about it."""
        is_csv = self.format == "csv"
        if is_csv and "\t" in line.strip():
            return "it seems to be separated by tabs, so name the file .tsv"
        if "," in line:
            return "" if is_csv else "it seems to be separated by commas, so name the file .csv"
        return "it seems to be separated by ';', so write commas, or tabs into a .tsv" if ";" in line else ""

    # --- formats ---------------------------------------------------------------------------------------------------

    def _read_table(self, blocks: Iterator[bytes], columns: Sequence[str] | None, some: bool) -> Iterator[Record]:
        rows = self._read_rows(blocks)
        first = next(rows, None)
        if first is None:
            return
        location, cells = first
        names = [name.strip() for name in cells] if self.header else [str(i) for i in range(1, len(cells) + 1)]
        self.columns = names
        chosen = self._choose(names, columns, some, location)
        for location, cells in rows if self.header else itertools.chain([first], rows):
            try:
                check_width(cells, len(names))
            except BadRecordError as error:
                self.refuse(location, str(error))
            else:
                yield location, {name: cells[position] for name, position in chosen}

    def _read_rows(self, blocks: Iterator[bytes] | None, keep_blank: bool = False) -> Iterator[tuple[str, list[str]]]:
        format, blocks = self._begin() if blocks is None else (self.format, blocks)
        is_first = self.header
        for location, cells, line in read_rows(blocks, format == "csv", self.max_record_bytes, self.allow_nul):
            if isinstance(cells, Bad) and is_first:
                separator = self._explain_separator(line) if format == "csv" else ""
                self.stop(location, f"has no commas between its cells: {separator}" if separator else cells.reason)
            elif isinstance(cells, Bad):
                self.refuse(location, cells.reason)
            elif cells or keep_blank:
                is_first = False
                yield location, cells

    def _read_objects(
        self, blocks: Iterator[bytes], columns: Sequence[str] | None, bare: str | None
    ) -> Iterator[Record]:
        for location, value in self._sift(
            read_json(blocks, self.max_record_bytes, self.format == "jsonl", self.first_line)
        ):
            if not isinstance(value, dict):
                if bare is None:
                    self.refuse(location, f"is {quote(value)}, no JSON object: write one as {{...}}")
                    continue
                value = {bare: value}
            try:
                yield location, match_keys(value, columns or ())
            except BadRecordError as error:
                self.refuse(location, str(error))

    def _sift(self, items: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for location, value in items:
            if isinstance(value, Bad):
                self.refuse(location, value.reason)
            else:
                yield location, value

    def _read_lines(self, blocks: Iterator[bytes]) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(split_lines(blocks, self.max_record_bytes), 1):
            try:
                text = None if line is None else line.decode()
            except UnicodeDecodeError:
                self.stop(f"line {number}", NOT_UTF8)
            if text is None:
                self.stop(f"line {number}", TOO_LONG.format(self.max_record_bytes))
            yield f"line {number}", text.rstrip("\r\n")

    def _read_parquet(self, blocks: Iterator[bytes], columns: Sequence[str] | None, some: bool) -> Iterator[Record]:
        try:
            from pyarrow import parquet  # type: ignore[import-untyped]
        except ImportError:
            raise LitebertError(f"{self.name} needs the pyarrow library: pip install 'litebert[parquet]'") from None

        is_seekable = self.path is not None and self.path.is_file() and not self.compression
        with self._open() if is_seekable else tempfile.TemporaryFile() as file:
            if not is_seekable:
                file.writelines(blocks)
            try:
                table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
                self.columns = names = table.schema_arrow.names
                chosen = self._choose(names, columns, some, "its schema")
                wanted = list(dict.fromkeys(names[position] for _, position in chosen))
                number = 0
                for batch in table.iter_batches(256, columns=wanted, use_threads=False):
                    self.bytes_read = file.tell() if is_seekable else self.bytes_read
                    read = {name: batch.column(names[position]) for name, position in chosen}
                    for row in range(batch.num_rows):
                        number += 1
                        try:
                            fields = {name: cells[row].as_py() for name, cells in read.items()}
                        except UnicodeDecodeError:
                            self.refuse(f"record {number}", NOT_UTF8)
                        else:
                            yield f"record {number}", fields
            except (OSError, ValueError, NotImplementedError) as error:
                reason = str(error).strip().partition("\n")[0][:200]
                raise DamagedError(f"is truncated or damaged, or no Parquet file ({reason})") from None

    def _read_memory(self, columns: Sequence[str] | None, some: bool) -> Iterator[Record]:
        table = self.memory
        names = getattr(table, "columns", None)
        names = getattr(table, "column_names", None) if names is None else names
        if names is not None:
            self.columns = [str(name) for name in names]
            chosen = self._choose(self.columns, columns, some, "its header")
            if hasattr(table, "itertuples"):  # a DataFrame
                for number, row in enumerate(table.itertuples(index=False, name=None), 1):
                    yield f"record {number}", {name: _plain(row[position]) for name, position in chosen}
                return
            own = {name: self.columns[position] for name, position in chosen}
            # Columns that nobody wants may hold images, which would be unpacked.
            table = table.select_columns(list(dict.fromkeys(own.values())))
            labels = {name: _label_names((table.features or {}).get(column)) for name, column in own.items()}
            for number, record in enumerate(table, 1):
                yield f"record {number}", {name: labels[name](_plain(record[column])) for name, column in own.items()}
            return
        for number, record in enumerate(table, 1):
            if not isinstance(record, Mapping):
                self.refuse(f"record {number}", f"is {quote(record)}, no dictionary: give one for each record")
                continue
            try:
                fields = {str(key): _plain(value) for key, value in record.items()}
                yield f"record {number}", match_keys(fields, columns or ())
            except BadRecordError as error:
                self.refuse(f"record {number}", str(error))


# --- parsing ------------------------------------------------------------------------------------------------------


# --- fields -------------------------------------------------------------------------------------------------------


def match_keys(fields: Fields, columns: Iterable[str]) -> Fields:
    """Give the fields also the names by which they are asked for, where only upper and lower case differ.

    >>> match_keys({"Text": "a"}, ["text", "label"])
    {'Text': 'a', 'text': 'a'}
    """
    missing = [column for column in columns if column not in fields]
    if not missing:
        return fields
    more = {}
    for column in missing:
        near = [key for key in fields if key.casefold() == column.casefold()]
        if len(near) > 1:
            which = " and ".join(map(quote, near))
            raise BadRecordError(f"has the keys {which}, and {column!r} may mean each: write it as it is there")
        if near:
            more[column] = fields[near[0]]
    return {**fields, **more} if more else fields


def check_width(cells: Sequence[str], width: int) -> None:
    """Refuse a row that has not as many cells as the header: nobody knows which one is missing."""
    if len(cells) != width:
        cells_there = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
        raise BadRecordError(f"has {cells_there} instead of {width}: mend it")


def take_text(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Take a value that has to be a text, of a column or key with that name."""
    if not isinstance(value, str):
        raise BadRecordError(f"holds {quote(value)} in {name!r}, where text should be: mend it")
    if len(value) > MAX_CELL_CHARS:
        raise BadRecordError(f"has more than {MAX_CELL_CHARS:,} characters in {name!r}: split it")
    if "\0" in value:
        raise BadRecordError(f"holds a NUL character in {name!r}, which no text has: mend it")
    if not may_be_empty and (not value or value.isspace()):
        raise BadRecordError(f"has no text in {name!r}: fill it in")
    return mend(value)


def take_list(value: object, key: str) -> list[Any]:
    """Take the list that an object of JSON has to have under a key."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise BadRecordError(f"has no list under {key!r}: write it as the official files do")
    return found


def quote(value: object) -> str:
    """Show a value in a message: what it is, and not all of it if it is long.

    >>> quote("a b"), quote(None), quote([1]), quote(0.5)
    ("'a b'", 'nothing', 'a list', '0.5')
    """
    if isinstance(value, str):
        return repr(mend(value) if len(value) <= 60 else mend(value[:57]) + "...")
    names = {type(None): "nothing", dict: "an object", list: "a list", bool: str(value).lower()}
    return names.get(type(value), str(value)[:60])


def _plain(value: Any) -> Any:
    """A value of a table in memory as JSON would have it: what is missing is None, and arrays are lists."""
    if isinstance(value, str | int) or value is None:
        return value
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    return value.tolist() if hasattr(value, "tolist") else value


def _label_names(feature: Any) -> Callable[[Any], Any]:
    """How to read a value of a dataset's column: labels that are kept as numbers, alone or in lists, have names."""
    if hasattr(feature, "int2str"):
        return lambda value: feature.int2str(value) if isinstance(value, int) and value >= 0 else None
    inner = getattr(feature, "feature", None)
    if inner is not None and hasattr(inner, "int2str"):
        return lambda value: value if value is None else inner.int2str(value)
    return lambda value: value
