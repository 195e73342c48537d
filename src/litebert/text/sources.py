"""The sources of a corpus: files, folders, patterns, standard input, Hugging Face datasets, installed documentation.

`find_sources` turns names into sources in an order that does not change; a `Reader` gives their documents one after the
other in bounded memory. What is wrong with a source is said in one sentence that names the file and the line or record.
"""

import contextlib
import difflib
import glob
import logging
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.errors import LitebertError, RequestError
from litebert.text import documentation
from litebert.text.blocks import decode_lines
from litebert.text.cleanup import mend
from litebert.text.formats import FORMATS, NOT_UTF8, format_of
from litebert.text.records import BadRecordError, RecordReader, RecordSource, UnreadableFileError, quote

__all__ = [
    "Document",
    "ReadOptions",
    "Reader",
    "Source",
    "SourceDocuments",
    "SourceName",
    "find_sources",
    "guess_name",
    "open_sources",
    "split_text",
]

SourceName = str | os.PathLike[str]
"""A file, a folder, a pattern, `-`, `hf:NAME`, `builtin:documentation` or `builtin:python`."""

_DOCUMENTATION, _PYTHON = _BUILTIN = ("builtin:documentation", "builtin:python")
"""What lies on every machine: the documentation of Python and of all installed packages, or that of Python alone."""
_ARCHIVES = {".tar", ".tgz", ".zip", ".bz2", ".xz", ".7z", ".rar"}
_SUFFIXES = [suffix for suffix, format in FORMATS.items() if format != "conll"]
_READABLE = f"{', '.join(_SUFFIXES)}, each also with .gz or .zst"


@dataclass(frozen=True)
class ReadOptions:
    """How to read: the columns with text (all that are there are read), bad records, the bounds of memory."""

    columns: tuple[str, ...] = ("text",)
    skip_bad: bool = False
    max_record_bytes: int = 256 << 20
    max_document_chars: int = 1_000_000


@dataclass(frozen=True)
class Document:
    """A text, where it comes from, and which part it is of a document that was too long to be given whole."""

    text: str
    location: str
    part: int = 0


@dataclass(frozen=True)
class Source:
    """Something to read: `size` is what it takes on disk, None if that is unknown."""

    name: str
    kind: str
    size: int | None = None
    compression: str = ""


def find_sources(names: Sequence[str], without: Path | None = None) -> list[Source]:
    """Find what names stand for: files, folders, patterns, `-`, `hf:NAME[:CONFIG][:SPLIT]`, `builtin:…`.

    Folders are searched for files, but not the one that is to be left out, where the result will go.
    """
    found: list[Source] = []
    for name in map(str, names):
        if name == "-":
            found.append(Source(name, "text"))
        elif name.startswith("hf:"):
            if not re.fullmatch(r"hf:[^:]+(:[^:]*){0,2}", name):
                raise RequestError(f"{name} is no dataset: write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
            found.append(Source(name, "dataset"))
        elif name.startswith("builtin:"):
            if name not in _BUILTIN:
                raise RequestError(f"{name} is not built in: such sources are {' and '.join(_BUILTIN)}")
            found.append(Source(name, "documentation"))
        elif os.path.isdir(name):
            found += _search_folder(name, without)
        elif os.path.lexists(name) or not glob.has_magic(name):
            found.append(_describe(name))
        else:
            matches = [match for match in sorted(glob.glob(name, recursive=True)) if os.path.exists(match)]
            # With ** a folder is found beside the files in it.
            files = [match for match in matches if not os.path.isdir(match)]
            if not matches:
                raise RequestError(f"nothing matches {name}: name files, folders or patterns")
            for match in files if "**" in name else matches:
                found += _search_folder(match, without) if os.path.isdir(match) else [_describe(match)]
    if not found:
        raise RequestError("there is nothing to read: name files, folders or patterns")
    return found


def _describe(name: str) -> Source:
    """Describe a file that was named: what is no archive and has no known suffix is text."""
    try:
        status = os.stat(name)
    except (OSError, ValueError) as error:
        raise RequestError(f"{name} cannot be read ({_reason(error)}){guess_name(name)}") from None
    if set(Path(name.lower()).suffixes[-2:]) & _ARCHIVES:
        raise RequestError(f"{name} is an archive: unpack it and name the files ({_READABLE})")
    kind, compression = format_of(name)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return Source(name, "text" if kind in (None, "conll") else kind, size, compression)


def guess_name(name: str) -> str:
    """End the sentence about a file that is not there: with the name that it may have, if one is near."""
    folder, base = os.path.split(name)
    with contextlib.suppress(OSError, ValueError):
        near = difflib.get_close_matches(base, sorted(os.listdir(folder or ".")), 1)
        if near:
            return f": did you mean {os.path.join(folder, near[0])}?"
    return ": check its name"


def _search_folder(folder: str, without: Path | None) -> list[Source]:
    """Find the files with known suffixes, by path; a folder is entered once, however often it is linked."""

    def refuse(error: OSError) -> None:
        raise RequestError(f"{error.filename} cannot be listed ({_reason(error)}): check its permissions")

    found: list[Source] = []
    seen: set[tuple[int, int]] = set()
    if without is not None and without.is_dir():
        status = without.stat()
        seen.add((status.st_dev, status.st_ino))
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        status = os.stat(parent)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(parent, name)
            if not name.startswith(".") and format_of(name)[0] not in (None, "conll") and os.path.isfile(path):
                found.append(_describe(path))
    if not found:
        raise RequestError(f"{folder} holds no file that can be read: the suffixes are {_READABLE}")
    return sorted(found, key=lambda source: Path(source.name).parts)


class Reader:
    """The documents of sources in order; empty ones are passed over."""

    def __init__(self, sources: Sequence[Source], options: ReadOptions | None = None) -> None:
        self.sources = list(sources)
        self.options = options or ReadOptions()
        if not self.options.columns:
            raise RequestError("there is no column to read: name at least one")
        if self.options.max_document_chars < 1 or self.options.max_record_bytes < 1:
            raise RequestError("documents and records need room: their largest size must be at least 1")
        self._bytes_before = self._bad_before = 0
        self._records: RecordReader | None = None

    @property
    def bytes_total(self) -> int | None:
        """What the sources take on disk; None if that is unknown."""
        sizes = [source.size for source in self.sources if source.size is not None]
        return sum(sizes) if len(sizes) == len(self.sources) else None

    @property
    def bytes_read(self) -> int:
        """How much of that has been read so far."""
        return self._bytes_before + (self._records.bytes_read if self._records else 0)

    @property
    def num_bad(self) -> int:
        """How many records have been left out so far."""
        return self._bad_before + (self._records.num_skipped if self._records else 0)

    def take_over(self, bytes_read: int, num_bad: int) -> None:
        """Say how far others have read these sources, and how many records they left out."""
        self._bytes_before, self._bad_before, self._records = bytes_read, num_bad, None

    def __iter__(self) -> Iterator[Document]:
        """Begin from the start."""
        self._bytes_before = self._bad_before = 0
        for source in self.sources:
            if source.kind == "documentation":
                for location, text in documentation.documents(python_alone=source.name == _PYTHON):
                    yield from _cut(f"{source.name}, {location}", 0, mend(text), self.options.max_document_chars)
                continue
            self._records = self._open(source)
            try:
                documents = SourceDocuments(source, self.options, self._records)
                yield from documents
                documents.check()
            except UnreadableFileError:
                if not self.options.skip_bad:
                    raise
                self._bad_before += 1
            self._bad_before += self._records.num_skipped
            self._bytes_before += self._records.bytes_read if source.size is None else source.size
            self._records = None

    def _open(self, source: Source) -> RecordReader:
        options = self.options
        table: RecordSource = source.name
        if source.kind == "dataset":
            table = _load_dataset(source.name)
        elif source.name == "-":
            if sys.stdin is None:
                raise LitebertError("standard input is closed: name a file")
            table = sys.stdin.buffer
        return RecordReader(
            table,
            name=source.name,
            format=source.kind if table is source.name else None,
            skip_bad=options.skip_bad,
            max_record_bytes=options.max_record_bytes,
            allow_nul=True,
        )


class SourceDocuments:
    """The documents of one source, or of a part of it, and what was found out about its columns."""

    def __init__(self, source: Source, options: ReadOptions, records: RecordReader) -> None:
        self._source, self._options, self._records = source, options, records
        self.num_usable = 0
        """Records of a table that have one of the columns."""
        self.missing: tuple[str, str] | None = None
        """Where the first record stands that has none of them, and what is wrong with it."""

    def __iter__(self) -> Iterator[Document]:
        source, records, limit = self._source, self._records, self._options.max_document_chars
        if records.format == "text" or (source.name == "-" and records.sniff() != "jsonl"):
            for location, part, text in records.guard(_read_documents(records, limit)):
                yield from _cut(f"{source.name}, {location}", part, text, limit)
            return
        columns = self._options.columns
        for location, fields in records.records(columns, some=True, bare=columns[0]):
            try:
                text = _text_of(fields, columns)
            except BadRecordError as error:
                records.refuse(location, str(error))
                if isinstance(error, _MissingColumnError):
                    self.missing = self.missing or (location, str(error))
                continue
            self.num_usable += 1
            yield from _cut(f"{source.name}, {location}", 0, text, limit)

    def check(self) -> None:
        """In the end, refuse a table of which no record has one of the columns: it is another one."""
        if self.missing and not self.num_usable:
            self._records.stop(*self.missing)


def _cut(location: str, part: int, text: str, limit: int) -> Iterator[Document]:
    """Give a document, or its parts if it is long; one without text is none."""
    if part == 0 and (not text or text.isspace()):
        return
    if len(text) <= limit:
        yield Document(text, location, part)
    else:
        for i, piece in enumerate(split_text(text, limit), part):
            yield Document(piece, location, i)


class _MissingColumnError(BadRecordError):
    """A record that has none of the columns."""


def _text_of(fields: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Take the text out of a record: of every column that is there a string or a list of paragraphs."""
    there = [fields[column] for column in columns if column in fields]
    if len(there) == 1 and isinstance(there[0], str):
        # Half of a pair, escaped in JSON, is no character: no later stage could write it down.
        return mend(there[0])
    if not there:
        others = ", ".join(map(quote, list(fields)[:30])) or "none"
        wanted = " or ".join(map(repr, columns))
        raise _MissingColumnError(f"has no column {wanted} (there are: {others}): name one that is there with --column")
    given = [value for value in there if value is not None] or there[:1]
    paragraphs: list[str] = []
    for value in given:
        if isinstance(value, list) and all(isinstance(paragraph, str) for paragraph in value):
            value = "\n\n".join(value)
        if not isinstance(value, str):
            names = {type(None): "nothing", dict: "an object", list: "a list of other things"}
            found = names.get(type(value), f"a value of type {type(value).__name__}")
            raise BadRecordError(f"holds {found} where text should be: mend it")
        if len(given) == 1 or value.strip():
            paragraphs.append(value)
    return mend("\n\n".join(paragraphs))


def _read_documents(records: RecordReader, limit: int) -> Iterator[tuple[str, int, str]]:
    """Give what stands between blank lines; of a long document every part as soon as it is full."""
    document: list[str] = []
    held = ""  # what a line began with, as long as that is white space and the line may turn out to be blank
    size = part = 0
    number = first = records.first_line
    is_blank, is_bad = True, False
    for block in records.blocks():
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
                    records.refuse(f"line {number}", NOT_UTF8)
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


def _load_dataset(name: str) -> Iterator[Any]:
    """Stream a Hugging Face dataset."""
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise LitebertError(f"{name} needs the datasets library: pip install 'litebert[datasets]'") from None
    _, dataset, config, split = [*name.split(":"), "", ""][:4]
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)  # every attempt to reach the hub would be a warning
    try:
        yield from datasets.load_dataset(dataset, config or None, split=split or "train", streaming=True)
    except (ConnectionError, TimeoutError):
        raise LitebertError(f"{name} cannot be read: the hub cannot be reached for it") from None
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).partition("\n")[0][:200]
        raise LitebertError(f"{name} cannot be read: check its name, configuration and split ({reason})") from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def open_sources(
    sources: SourceName | Sequence[SourceName],
    column: str | Sequence[str] = "text",
    skip_bad: bool = False,
    without: Path | None = None,
) -> Reader:
    """Open files, folders, patterns, `hf:NAME` or `builtin:documentation`, but not the folder for the result."""
    names = [os.fspath(sources)] if isinstance(sources, str | os.PathLike) else [os.fspath(one) for one in sources]
    columns = (column,) if isinstance(column, str) else tuple(column)
    return Reader(find_sources(names, without), ReadOptions(columns=columns, skip_bad=skip_bad))
