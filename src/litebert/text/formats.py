"""The formats of a corpus: blocks of bytes in, records out, never more than one record in memory.

What is wrong with one record comes out as a `Bad` value in its place, so that it may be passed over and counted; what
makes the rest of a file unreadable is raised as `DamagedError`.
"""

import contextlib
import csv
import itertools
import json
import re
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from litebert.text.lines import cut_between_characters, decode_lines, has_surrogates, split_lines

__all__ = ["Bad", "DamagedError", "MissingColumn", "ReadOptions", "Record", "read_records", "split_text"]

# Where it stands ("line 17"), the part of a long document that it is, and a string, an object, or a `Bad`.
Record = tuple[str, int, Any]

_NOT_UTF8 = "is not UTF-8: convert the file (iconv -t UTF-8, with -f LATIN1, UTF-16 or whatever it is)"
_LARGEST_FIELD = 64 << 20
_DECODER = json.JSONDecoder(strict=False)
_JSON_SIGN = re.compile(r"[^ \t\n\r]|\Z")


@dataclass(frozen=True)
class ReadOptions:
    """How to read: the columns to look for (the first that is there counts), bad records, the bounds of memory."""

    columns: tuple[str, ...] = ("text",)
    skip_bad: bool = False
    max_record_bytes: int = 256 << 20
    max_document_chars: int = 1_000_000


@dataclass(frozen=True)
class Bad:
    """A record that cannot be used; the reason continues a sentence that begins with its place."""

    reason: str


class MissingColumn(Bad):
    """A record, or a whole table, that has none of the columns."""

    @classmethod
    def among(cls, names: Sequence[object], columns: Sequence[str]) -> "MissingColumn":
        """Say which columns there are instead."""
        there = ", ".join(map(repr, names[:30])) or "none"
        wanted = " or ".join(map(repr, columns))
        return cls(f"has no column {wanted} (there are: {there}): name one that is there with --column")


class DamagedError(Exception):
    """The rest of a file cannot be read; the words continue a sentence that begins with its name."""


def read_records(blocks: Iterator[bytes], kind: str, options: ReadOptions, file: IO[bytes] | None) -> Iterator[Record]:
    """Give the records of a file of a kind; Parquet is read from `file`, if there is one that is not compressed."""
    if kind == "parquet":
        return _read_parquet(blocks, options, file)
    blocks = cut_between_characters(blocks)
    if kind == "text":
        return _read_text(blocks, options.max_document_chars)
    if kind == "json":
        return _read_json(blocks, options.max_record_bytes)
    lines = split_lines(blocks, options.max_record_bytes)
    return _read_json_lines(lines) if kind == "jsonl" else _read_table(lines, kind == "csv", options)


def split_text(text: str, limit: int) -> Iterator[str]:
    """Cut a long text into parts that make it up again: after white space if there is some near, never in a cluster."""
    start = 0
    while len(text) - start > limit:
        end = start + limit
        tail = text[end - limit // 10 : end]
        if tail and not tail[-1].isspace():
            word = len(tail.rsplit(None, 1)[-1])
            border = end - word if word < len(tail) else end
            while border > end - len(tail) and unicodedata.category(text[border]).startswith("M"):
                border -= 1
            end = border if border > start and not unicodedata.category(text[border]).startswith("M") else end
        yield text[start:end]
        start = end
    yield text[start:]


def _read_text(blocks: Iterator[bytes], limit: int) -> Iterator[Record]:
    """Give what stands between blank lines; of a long document every part as soon as it is full."""
    document: list[str] = []
    held = ""  # what a line began with, as long as that is white space and the line may turn out to be blank
    size = part = 0
    number = first = 1
    is_blank, is_bad = True, False
    for block in blocks:
        for i, line in enumerate(decode_lines(block)):
            if i > 0:
                if is_blank and (document or is_bad):
                    if document:
                        yield f"line {first}", part, "".join(document)
                    document, size, part, is_bad = [], 0, 0, False
                number += 1
                held, is_blank = "\n" if document else "", True
            if line is None:
                if not is_bad:
                    yield f"line {number}", part, Bad(_NOT_UTF8)
                document, size, is_bad, is_blank = [], 0, True, False
            elif not line or line.isspace():
                held = (held + line)[-limit:]
            else:
                is_blank = False
                if not is_bad:
                    first = first if document else number
                    document += (held, line)
                    size += len(held) + len(line)
                held = ""
        if size > limit:
            *full, rest = split_text("".join(document), limit)
            for text in full:
                yield f"line {first}", part, text
                part += 1
            document, size = [rest], len(rest)
    if document:
        yield f"line {first}", part, "".join(document)


def _read_json_lines(lines: Iterator[bytes | None]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        value: Any
        if line is None:
            value = Bad("is longer than a record may be: split it")
        else:
            try:
                text = line.decode()
                if text.isspace():
                    continue
                value = _DECODER.decode(text)
            except UnicodeDecodeError:
                value = Bad(_NOT_UTF8)
            except (ValueError, RecursionError) as error:
                value = Bad(
                    f"is not valid JSON ({getattr(error, 'msg', None) or 'nested too deeply or too large'}): mend it"
                )
        yield f"line {number}", 0, value


def _read_json(blocks: Iterator[bytes], max_bytes: int) -> Iterator[Record]:
    """Read a list of values, one value over many lines, or a value a line: the beginning shows which it is."""
    beginning = next(blocks, b"")
    blocks = itertools.chain([beginning], blocks)
    line, newline, _ = beginning.lstrip().partition(b"\n")
    if not line.startswith(b"["):
        with contextlib.suppress(ValueError, RecursionError):
            if newline:
                _DECODER.decode(line.decode())
            return _read_json_lines(split_lines(blocks, max_bytes))
    return _read_json_values(blocks, max_bytes)


def _read_json_values(blocks: Iterator[bytes], max_bytes: int) -> Iterator[Record]:
    """Read the values of a list, or a single one, parsing again with twice as much text while a value is not whole."""
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
            yield f"record {number}", 0, Bad(_NOT_UTF8) if has_surrogates(text[start:end]) else value
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


def _read_table(lines: Iterator[bytes | None], is_csv: bool, options: ReadOptions) -> Iterator[Record]:
    """Read CSV with its quoting, or tab-separated values, where a quote is a character like any other."""
    too_long: list[bool] = []

    def texts() -> Iterator[str]:
        for line in lines:
            if line is None:
                too_long.append(True)
            yield "" if line is None else line.decode("utf-8", "surrogateescape")

    # The limit belongs to the whole process: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), min(options.max_record_bytes, _LARGEST_FIELD)))
    rows = csv.reader(texts()) if is_csv else (text.rstrip("\r\n").split("\t") for text in texts())
    index = None
    for number in itertools.count():
        value: Any = None
        try:
            row = next(rows, None)
            if row is None:
                return
            if too_long:
                too_long.clear()
                value = Bad("is longer than a record may be: split it")
            elif row in ([], [""]):
                continue
            elif index is None:
                index = next((row.index(column) for column in options.columns if column in row), None)
                if index is None:
                    yield "its first line", 0, MissingColumn.among(row, options.columns)
                    return
                continue
            elif len(row) <= index:
                value = Bad(f"has {len(row)} fields, and the text should be in field {index + 1}: mend it")
            else:
                value = Bad(_NOT_UTF8) if has_surrogates(row[index]) else row[index]
        except csv.Error as error:
            value = Bad(f"is not valid CSV ({error}): mend it")
        yield f"record {number}", 0, value


def _read_parquet(blocks: Iterator[bytes], options: ReadOptions, file: IO[bytes] | None) -> Iterator[Record]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    with tempfile.TemporaryFile() if file is None else contextlib.nullcontext(file) as seekable:
        if file is None:
            seekable.writelines(blocks)
        try:
            table = parquet.ParquetFile(seekable, buffer_size=1 << 20, pre_buffer=False)
            names = table.schema_arrow.names
            column = next((name for name in options.columns if name in names), None)
            if column is None:
                yield "its schema", 0, MissingColumn.among(names, options.columns)
                return
            number = 0
            for batch in table.iter_batches(256, columns=[column], use_threads=False):
                for cell in batch.column(0):
                    number += 1
                    try:
                        value = cell.as_py()
                    except UnicodeDecodeError:
                        value = Bad(_NOT_UTF8)
                    yield f"record {number}", 0, value
        except (OSError, ValueError, NotImplementedError) as error:
            reason = str(error).strip().partition("\n")[0][:200]
            raise DamagedError(f"is truncated or damaged, or no Parquet file ({reason})") from None
