"""What the readers of task data share: a file in, its records out, each with the line on which it begins.

A record that cannot be used raises `BadRecordError`; the `Sieve` of its file makes that one sentence with the place, or
counts it and goes on.
"""

import csv
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from litebert.tasks.task import DataError
from litebert.text.cleanup import mend
from litebert.text.compression import BLOCK, DECOMPRESS
from litebert.text.formats import Bad, DamagedError, ReadOptions, read_records
from litebert.text.lines import cut_between_characters, split_lines

__all__ = [
    "MAX_CELL_CHARS",
    "BadRecordError",
    "KnownFlawError",
    "Sieve",
    "WholeFileError",
    "check_width",
    "find_column",
    "load_json",
    "quote",
    "read_lines",
    "read_objects",
    "read_rows",
    "suffix_of",
    "take_list",
    "take_text",
]

MAX_CELL_CHARS = 8 << 20
"""How long one text may be: no encoder reads more, and a quote that is never closed is noticed sooner."""

_MAX_RECORD_BYTES = 64 << 20
_COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_NOT_UTF8 = "is not UTF-8: convert the file (iconv -t UTF-8, with -f LATIN1, UTF-16 or whatever it is)"
_SKIP = "or pass --skip-bad to leave such records out and count them"
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""How text begins that says which other encoding it has."""

RecordT = TypeVar("RecordT")
ExampleT = TypeVar("ExampleT")


class BadRecordError(Exception):
    """A record that cannot be used; the words continue a sentence that begins with its place."""


class KnownFlawError(BadRecordError):
    """A bad record that an official file is known to hold: it is counted, and never ends the reading."""


class WholeFileError(BadRecordError):
    """A bad record which shows that the others are not meant as they are read: it is never passed over."""


class Sieve:
    """Holds back the bad records of a file: the first one ends the reading, or all of them are counted."""

    def __init__(self, file: Path, skip_bad: bool = False) -> None:
        self.file, self.skip_bad = file, skip_bad
        self.num_skipped = 0

    def refuse(self, where: str, reason: str) -> None:
        """Count a bad record, or raise it."""
        if not self.skip_bad:
            self.stop(where, f"{reason}, {_SKIP}")
        self.num_skipped += 1

    def stop(self, where: str, reason: str) -> NoReturn:
        """Raise what makes the whole file unusable, whether or not bad records are to be left out."""
        raise DataError(f"{self.file}, {where}, {reason}")

    def sift(
        self, records: Iterable[tuple[str, RecordT]], make: Callable[[str, RecordT, str], ExampleT | None]
    ) -> list[ExampleT]:
        """Make an example of each record, from its number (of all there are, from 0), itself and its place.

        What becomes None is left out and not counted.
        """
        kept: list[ExampleT] = []
        num_left_out = 0
        for where, record in records:
            number = len(kept) + num_left_out + self.num_skipped
            try:
                example = make(str(number), record, f"{self.file}, {where}")
            except KnownFlawError:
                self.num_skipped += 1
                continue
            except WholeFileError as error:
                self.stop(where, str(error))
            except BadRecordError as error:
                self.refuse(where, str(error))
                continue
            if example is None:
                num_left_out += 1
            else:
                kept.append(example)
        return kept


def suffix_of(file: Path) -> str:
    """The suffix that tells the format, without that of the compression.

    >>> suffix_of(Path("reviews.TSV.gz"))
    '.tsv'
    """
    path = Path(file.name.lower())
    return path.with_suffix("").suffix if path.suffix in _COMPRESSIONS else path.suffix


def read_lines(sieve: Sieve) -> Iterator[bytes | None]:
    """Give the lines of a file, unpacked, without a byte order mark; None for one that is too long to be kept."""
    return split_lines(cut_between_characters(_refuse_marked(sieve)), _MAX_RECORD_BYTES)


def read_rows(sieve: Sieve, *, is_csv: bool, has_header: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Give the rows of a table that are sound as text; blank lines are passed over.

    CSV has its quotes, with line ends between them; in tab-separated values a quote is a character like any other.
    Nothing can be read without its header: if that is bad, it is never passed over.
    """
    lines = _Lines(read_lines(sieve))
    is_first = has_header
    for cells in _parse_csv(lines) if is_csv else _split_at_tabs(lines):
        where, fault = f"line {lines.first}", lines.fault
        if isinstance(cells, str):
            separator = _explain_separator(lines.record, sieve.file) if is_first else ""
            fault, cells = f"has no commas between its cells: {separator}" if separator else cells, []
        if fault:
            sieve.stop(where, fault) if is_first else sieve.refuse(where, fault)
        elif cells:
            is_first = False
            yield where, cells


class _Lines:
    """Lines as text, for one record after the other: they know their numbers and faults, and can be given again."""

    def __init__(self, lines: Iterator[bytes | None]) -> None:
        self._lines = lines
        self._again: deque[bytes | None] = deque()
        self._given: list[bytes | None] = []
        self._last = 0
        self.first = 1
        self.fault = ""

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self._last += 1
        self._given.append(line)
        if line is None:
            self.fault = f"is longer than {_MAX_RECORD_BYTES:,} bytes: split it"
            return "\n"
        if b"\0" in line:
            self.fault = "holds a NUL character, which no text has: mend it"
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.fault = _NOT_UTF8
            return line.decode("utf-8", "replace")

    @property
    def record(self) -> str:
        """The first line of this record, as well as it can be shown."""
        return (self._given[0] or b"").decode("utf-8", "replace") if self._given else ""

    def begin_record(self) -> None:
        self.first, self.fault = self._last + 1, ""
        self._given.clear()

    def keep_first_only(self) -> None:
        """Give all lines but the first of this record once more."""
        self._again.extendleft(reversed(self._given[1:]))
        self._last = self.first


def _split_at_tabs(lines: _Lines) -> Iterator[list[str]]:
    lines.begin_record()
    for line in lines:
        line = line.rstrip("\r\n")
        yield line.split("\t") if line else []
        lines.begin_record()


def _parse_csv(lines: _Lines) -> Iterator[list[str] | str]:
    """Give rows, and in place of a broken one what is wrong with it; only its first line is lost."""
    # The limit belongs to the whole process: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARS))
    rows = csv.reader(lines, strict=True)
    while True:
        lines.begin_record()
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield _explain(str(error))
            lines.keep_first_only()
            rows = csv.reader(lines, strict=True)


def _explain(error: str) -> str:
    if error == "unexpected end of data":
        return "opens a quote that is never closed: close it, and write a quote inside a quoted cell twice"
    if "expected after" in error:
        return "has a quoted cell that goes on after its quote: write a quote inside a quoted cell twice"
    if "field limit" in error:
        return f"has a cell of more than {MAX_CELL_CHARS:,} characters: split it, or close the quote that it opens"
    return f"is not valid CSV ({error}): mend it"


def read_objects(sieve: Sieve) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the objects of a file of JSON lines, or of a list of objects if its name ends in `.json`."""
    kind = "json" if suffix_of(sieve.file) == ".json" else "jsonl"
    options = ReadOptions(max_record_bytes=_MAX_RECORD_BYTES)
    try:
        for where, _, value in read_records(_refuse_marked(sieve), kind, options, None):
            if isinstance(value, Bad):
                sieve.refuse(where, value.reason)
            elif not isinstance(value, dict):
                sieve.refuse(where, f"is {quote(value)}, no JSON object: write one as {{...}}")
            else:
                yield where, value
    except DamagedError as error:
        if not sieve.skip_bad:
            raise DataError(f"{sieve.file} {error}: mend it") from None
        sieve.num_skipped += 1


def load_json(sieve: Sieve) -> Any:
    """Read a file that is one JSON value; what is no JSON raises `BadRecordError`, with the line in its words."""

    def refuse(constant: str) -> None:
        raise BadRecordError(f"holds {constant}, which is no JSON: mend it")

    data = b"".join(cut_between_characters(_read_blocks(sieve)))
    try:
        return json.loads(data.decode(), parse_constant=refuse, strict=False)
    except UnicodeDecodeError:
        raise BadRecordError(_explain_mark(data) or _NOT_UTF8) from None
    except json.JSONDecodeError as error:
        raise BadRecordError(f"is not valid JSON (line {error.lineno}: {error.msg}): mend it") from None
    except (ValueError, RecursionError):
        raise BadRecordError("is not valid JSON (nested too deeply or too large): mend it") from None


def _refuse_marked(sieve: Sieve) -> Iterator[bytes]:
    """Give the blocks of a file, unless its mark says that none of its lines can be read as UTF-8."""
    for number, block in enumerate(_read_blocks(sieve)):
        if number == 0 and (fault := _explain_mark(block)):
            sieve.stop("line 1", fault)
        yield block


def _explain_mark(data: bytes) -> str:
    name = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    return f"is not UTF-8 but {name}: convert the file (iconv -f {name} -t UTF-8)" if name else ""


def _read_blocks(sieve: Sieve) -> Iterator[bytes]:
    """Give a file unpacked; one that is damaged can be read in part, if any part of it can."""
    is_begun = False
    compression = _COMPRESSIONS.get(sieve.file.suffix.lower(), "")
    try:
        with open(sieve.file, "rb", buffering=0) as file:
            for block in DECOMPRESS[compression](iter(lambda: file.read(BLOCK), b"")):
                is_begun = is_begun or bool(block)
                yield block
    except DamagedError as error:
        if not sieve.skip_bad or not is_begun:
            advice = "get the file again" + (", or pass --skip-bad to go on with what can be read" if is_begun else "")
            raise DataError(f"{sieve.file} {error}: {advice}") from None
        sieve.num_skipped += 1
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{sieve.file} cannot be read ({reason}): check its name and that it is readable") from None


def find_column(header: Sequence[str], name: str, file: Path, where: str) -> int:
    """Find where a column stands; one that is not there, or there twice, makes the whole table unusable."""
    if header.count(name) == 1:
        return header.index(name)
    if name in header:
        raise DataError(f"{file}, {where}, has {header.count(name)} columns named {name!r}: rename all but one")
    there = ", ".join(map(quote, header[:30]))
    separator = _explain_separator(header[0], file) if len(header) == 1 else ""
    advice = separator or "name one that is there, or give the file a header"
    raise DataError(f"{file}, {where}, has no column {name!r} (there are: {there}): {advice}")


def _explain_separator(line: str, file: Path) -> str:
    """Say what seems to stand between the names of a header instead of what should, and what to do about it."""
    is_csv = suffix_of(file) == ".csv"
    if is_csv and "\t" in line.strip():
        return "it seems to be separated by tabs, so name the file .tsv"
    if "," in line:
        return "" if is_csv else "it seems to be separated by commas, so name the file .csv"
    return "it seems to be separated by ';', so write commas, or tabs into a .tsv" if ";" in line else ""


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
