"""The formats of tables: blocks of bytes in, values out, never more than one record in memory.

What is wrong with one record comes out as a `Bad` value instead of it, so that it may be skipped and counted; what
makes the rest of a file unreadable is raised as `DamagedError`.
"""

import contextlib
import csv
import io
import itertools
import json
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.text.blocks import COMPRESSIONS, DamagedError, has_surrogates, split_lines

__all__ = [
    "FORMATS",
    "MAX_CELL_CHARS",
    "NOT_UTF8",
    "TOO_LONG",
    "Bad",
    "explain_mark",
    "format_of",
    "parse_json",
    "read_conll",
    "read_json",
    "read_rows",
    "sniff",
]

FORMATS = {
    **dict.fromkeys((".txt", ".text", ".md", ".raw", ".tokens"), "text"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".parquet": "parquet",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".conll", ".conll2003", ".iob", ".iob2", ".bio"), "conll"),
}
"""Which format each suffix tells."""

MAX_CELL_CHARS = 8 << 20
"""How long one cell may be: no encoder reads more, and a quote that is never closed is noticed sooner."""

NOT_UTF8 = "is not UTF-8: convert the file (iconv -t UTF-8, with -f LATIN1, UTF-16 or whatever it is)"
TOO_LONG = "is longer than {:,} bytes: split it"
_NUL = "holds a NUL character, which no text has: mend it"
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""How text begins that says which other encoding it has."""

_DECODER = json.JSONDecoder(strict=False)
_JSON_SIGN = re.compile(r"[^ \t\n\r]|\Z")
_JSON_TABLE = re.compile(r"\s*(\[\s*\{|\{\s*\")")
_BETWEEN_CELLS = re.compile(r"[ \t]+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_SNIFFED_LINES = 100


@dataclass(frozen=True)
class Bad:
    """A record that cannot be used; the reason continues a sentence that begins with its location."""

    reason: str


def format_of(path: str | os.PathLike[str]) -> tuple[str | None, str]:
    """The format and the compression that a file's name tells; no format if the suffix is not known.

    >>> format_of("reviews.TSV.gz"), format_of("reviews")
    (('tsv', 'gz'), (None, ''))
    """
    name = Path(os.fspath(path).lower())
    compression = COMPRESSIONS.get(name.suffix, "")
    return FORMATS.get(name.with_suffix("").suffix if compression else name.suffix), compression


def explain_mark(data: bytes) -> str:
    """Say which encoding a file has whose mark says that it is not UTF-8."""
    name = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    return f"is not UTF-8 but {name}: convert the file (iconv -f {name} -t UTF-8)" if name else ""


def sniff(beginning: bytes, is_whole: bool) -> str | None:
    """Say in which format a file is that begins so, if it is plainly one.

    >>> sniff(b"good\\t1\\nbad\\t0\\n", True), sniff(b"a text, and\\nanother", True)
    ('tsv', None)
    """
    if beginning.startswith(b"PAR1"):
        return "parquet"
    text = beginning.decode("utf-8", "replace")
    lines = _LINE_END.split(text)
    lines = [line for line in (lines if is_whole else lines[:-1] or lines)[:_SNIFFED_LINES] if line.strip()]
    if not lines or "\0" in text:
        return None
    if _JSON_TABLE.match(text):
        return "jsonl" if isinstance(parse_json(lines[0]), dict) else "json"
    num_tabs = {line.count("\t") for line in lines}
    if len(num_tabs) == 1 and num_tabs != {0}:
        return "tsv"
    widths = []
    try:
        for row in itertools.islice(csv.reader(io.StringIO(text, newline=""), strict=True), _SNIFFED_LINES):
            widths.append(len(row))
    except csv.Error:  # a quoted cell may break off where the beginning ends
        widths = [] if is_whole else widths
    widths = [width for width in (widths if is_whole else widths[:-1]) if width]
    return "csv" if len(widths) > 1 and len(set(widths)) == 1 and widths[0] > 1 else None


# --- tables -------------------------------------------------------------------------------------------------------


def read_rows(
    blocks: Iterator[bytes], is_csv: bool, max_bytes: int, allow_nul: bool
) -> Iterator[tuple[str, list[str] | Bad, str]]:
    """Give the cells of each row, with its location before and its first line after them; a blank line has no cells.

    CSV has its quotes, with line ends between them; in tab-separated values a quote is a character like any other.
    """
    lines = _Lines(split_lines(blocks, max_bytes), max_bytes, allow_nul)
    for cells in _parse_csv(lines) if is_csv else _split_at_tabs(lines):
        value = Bad(lines.fault) if lines.fault and not isinstance(cells, Bad) else cells
        yield f"line {lines.first}", value, lines.record if isinstance(value, Bad) else ""


class _Lines:
    """Lines as text, for one record after the other: they know their numbers and faults, and can be given again."""

    def __init__(self, lines: Iterator[bytes | None], max_bytes: int, allow_nul: bool) -> None:
        self._lines, self._max_bytes, self._allow_nul = lines, max_bytes, allow_nul
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
            self.fault = TOO_LONG.format(self._max_bytes)
            return "\n"
        if not self._allow_nul and b"\0" in line:
            self.fault = _NUL
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.fault = NOT_UTF8
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


def _parse_csv(lines: _Lines) -> Iterator[list[str] | Bad]:
    """Give rows, and instead of a broken one what is wrong with it; only its first line is lost."""
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
            yield Bad(_explain_csv(str(error)))
            lines.keep_first_only()
            rows = csv.reader(lines, strict=True)


def _explain_csv(error: str) -> str:
    if error == "unexpected end of data":
        return "opens a quote that is never closed: close it, and write a quote inside a quoted cell twice"
    if "expected after" in error:
        return "has a quoted cell that goes on after its quote: write a quote inside a quoted cell twice"
    if "field limit" in error:
        return f"has a cell of more than {MAX_CELL_CHARS:,} characters: split it, or close the quote that it opens"
    return f"is not valid CSV ({error}): mend it"


# --- sentences of lines -------------------------------------------------------------------------------------------


def read_conll(blocks: Iterator[bytes], max_bytes: int) -> Iterator[tuple[str, dict[str, list[str]] | Bad]]:
    """Give sentences of lines, each column as a list by its number; a bad line spoils its sentence."""
    rows: list[list[str]] = []
    first = width = 0
    is_bad = False
    for number, line in enumerate(itertools.chain(split_lines(blocks, max_bytes), [b"\n"]), 1):
        cells, fault = _split_at_blanks(line)
        if not fault and (not cells or cells[0] == "-DOCSTART-"):
            if rows and not is_bad:
                yield f"line {first}", {str(i): list(column) for i, column in enumerate(zip(*rows, strict=True), 1)}
            rows, is_bad = [], False
            continue
        width = width or len(cells)
        if not fault and len(cells) != width:
            fault = f"has {len(cells)} columns where earlier lines have {width}: mend it"
        if fault and not is_bad:
            yield f"line {number}", Bad(fault)
            is_bad = True
        first = first if rows else number
        rows.append(cells)


def _split_at_blanks(line: bytes | None) -> tuple[list[str], str]:
    """Split a line at blanks and tabs (other white space may be a word), or say what is wrong with it."""
    if line is None:
        return [], "is longer than a line may be: split it"
    if b"\0" in line:
        return [], _NUL
    try:
        text = line.decode().strip(" \t\r\n")
    except UnicodeDecodeError:
        return [], NOT_UTF8
    return _BETWEEN_CELLS.split(text) if text else [], ""


# --- JSON ---------------------------------------------------------------------------------------------------------


def read_json(
    blocks: Iterator[bytes], max_bytes: int, is_lines: bool, first_line: int = 1
) -> Iterator[tuple[str, Any]]:
    """Read a value a line, or a list of values, or one value over many lines: the beginning shows which it is."""
    beginning = next(blocks, b"")
    blocks = itertools.chain([beginning], blocks)
    line, newline, _ = beginning.lstrip().partition(b"\n")
    if not is_lines and not line.startswith(b"["):
        with contextlib.suppress(UnicodeDecodeError):
            is_lines = not newline or not isinstance(parse_json(line.decode()), Bad)
    return _read_json_lines(blocks, max_bytes, first_line) if is_lines else _read_json_values(blocks, max_bytes)


def _read_json_lines(blocks: Iterator[bytes], max_bytes: int, first_line: int) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(split_lines(blocks, max_bytes), first_line):
        value: Any
        if line is None:
            value = Bad(TOO_LONG.format(max_bytes))
        else:
            try:
                text = line.decode()
                if text.isspace():
                    continue
                value = parse_json(text)
            except UnicodeDecodeError:
                value = Bad(NOT_UTF8)
        yield f"line {number}", value


def parse_json(text: str) -> Any:
    """Parse one line of JSON lines."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or "nested too deeply or too large"
        return Bad(f"is not valid JSON ({reason}): mend it")


def _read_json_values(blocks: Iterator[bytes], max_bytes: int) -> Iterator[tuple[str, Any]]:
    """Read the values of a list, or a single one, parsing again with twice as much text while one is not whole."""
    text, at, number = "", 0, 0
    in_list = ended = False
    while True:
        at = _JSON_SIGN.search(text, at).start()  # type: ignore[union-attr]  # it finds the end at least
        sign = text[at : at + 1]
        if sign == "[" and not in_list and number == 0:
            in_list, at = True, at + 1
            continue
        if (sign == "]" and in_list) or (not sign and ended and not in_list):
            return
        if sign not in ("", ",") and in_list and number > 0:
            raise DamagedError("is not valid JSON (a comma is missing)")
        start = end = at
        if sign == "," and number > 0:
            start = end = _JSON_SIGN.search(text, at + 1).start()  # type: ignore[union-attr]
        value, fault = None, "it breaks off"
        try:
            if start < len(text):
                value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            fault = error.msg
            if not fault.startswith("Unterminated") and error.pos <= len(text) - 16:
                raise DamagedError(f"is not valid JSON ({fault})") from None
        except (ValueError, RecursionError):
            raise DamagedError("is not valid JSON (nested too deeply or too large)") from None
        # A number at the very end of the text may go on in the next block.
        if end > start and (end < len(text) or ended):
            number += 1
            yield f"record {number}", Bad(NOT_UTF8) if has_surrogates(text[start:end]) else value
            at = end
            continue
        if ended or len(text) - at > max_bytes:
            raise DamagedError(f"is not valid JSON ({fault})" if ended else "has a record longer than one may be")
        text, at = text[at:], 0
        wanted = 2 * len(text)
        while not ended and len(text) <= wanted:
            block = next(blocks, None)
            ended = block is None
            text += (block or b"").decode("utf-8", "surrogateescape")
