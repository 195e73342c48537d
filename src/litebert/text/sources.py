"""The sources of a corpus: files, folders, patterns, standard input, Hugging Face datasets, installed documentation.

`find_sources` turns names into sources in an order that does not change; a `Reader` gives their documents one after the
other in bounded memory. What is wrong with a source is said in one sentence that names the file and the line or record.
"""

import contextlib
import difflib
import glob
import itertools
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from litebert.errors import LitebertError, RequestError
from litebert.text import documentation
from litebert.text.cleanup import mend
from litebert.text.compression import BLOCK, DECOMPRESS
from litebert.text.formats import Bad, DamagedError, MissingColumn, ReadOptions, Record, read_records, split_text

__all__ = ["Document", "ReadOptions", "Reader", "Source", "find_sources"]

_KINDS = {
    **dict.fromkeys((".txt", ".text", ".md", ".raw", ".tokens"), "text"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{suffix: suffix[1:] for suffix in (".json", ".csv", ".tsv", ".parquet")},
}
_COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_ARCHIVES = {".tar", ".tgz", ".zip", ".bz2", ".xz", ".7z", ".rar"}
_READABLE = f"{', '.join(_KINDS)}, each also with .gz or .zst"
_LONGEST_GUESS = 16 << 20
_SKIP = "or pass --skip-bad to leave such records out and count them"


@dataclass(frozen=True)
class Document:
    """A text, where it comes from, and which part it is of a document that was too long to be given whole."""

    text: str
    place: str
    part: int = 0


@dataclass(frozen=True)
class Source:
    """Something to read: `size` is what it takes on disk, None if that is unknown."""

    name: str
    kind: str
    size: int | None = None
    compression: str = ""


def find_sources(names: Sequence[str], without: Path | None = None) -> list[Source]:
    """Find what names stand for: files, folders, patterns, `-`, `hf:NAME[:CONFIG][:SPLIT]`, `builtin:documentation`.

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
            if name != "builtin:documentation":
                raise RequestError(f"{name} is not built in: the only such source is builtin:documentation")
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


def _format_of(name: str) -> tuple[str | None, str]:
    """The kind and the compression that a file's name tells; no kind if the suffix is not known."""
    path = Path(name.lower())
    compression = _COMPRESSIONS.get(path.suffix, "")
    return _KINDS.get(path.with_suffix("").suffix if compression else path.suffix), compression


def _describe(name: str) -> Source:
    """Describe a file that was named: what is no archive and has no known suffix is text."""
    try:
        status = os.stat(name)
    except (OSError, ValueError) as error:
        raise RequestError(f"{name} cannot be read ({_reason(error)}){_guess(name)}") from None
    if set(Path(name.lower()).suffixes[-2:]) & _ARCHIVES:
        raise RequestError(f"{name} is an archive: unpack it and name the files ({_READABLE})")
    kind, compression = _format_of(name)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return Source(name, kind or "text", size, compression)


def _guess(name: str) -> str:
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
            if not name.startswith(".") and _format_of(name)[0] and os.path.isfile(path):
                found.append(_describe(path))
    if not found:
        raise RequestError(f"{folder} holds no file that can be read: the suffixes are {_READABLE}")
    return sorted(found, key=lambda source: Path(source.name).parts)


class Reader:
    """The documents of sources in order; empty ones are passed over."""

    def __init__(self, sources: Sequence[Source], options: ReadOptions | None = None) -> None:
        self._sources = list(sources)
        self._options = options or ReadOptions()
        if not self._options.columns:
            raise RequestError("there is no column to read: name at least one")
        if self._options.max_document_chars < 1 or self._options.max_record_bytes < 1:
            raise RequestError("documents and records need room: their largest size must be at least 1")
        self.num_bad = 0
        self._bytes_before = self._bytes_here = 0

    @property
    def bytes_total(self) -> int | None:
        """What the sources take on disk; None if that is unknown."""
        sizes = [source.size for source in self._sources if source.size is not None]
        return sum(sizes) if len(sizes) == len(self._sources) else None

    @property
    def bytes_read(self) -> int:
        """How much of that has been read so far."""
        return self._bytes_before + self._bytes_here

    def __iter__(self) -> Iterator[Document]:
        """Begin from the start."""
        self.num_bad = self._bytes_before = self._bytes_here = 0
        for source in self._sources:
            yield from self._read(source)
            self._bytes_before += self._bytes_here if source.size is None else source.size
            self._bytes_here = 0

    def _read(self, source: Source) -> Iterator[Document]:
        options, limit = self._options, self._options.max_document_chars
        num_usable = 0
        missing: tuple[str, Bad] | None = None
        try:
            for where, part, value in self._records(source):
                text = _text_of(value, options.columns)
                if isinstance(text, Bad):
                    if not options.skip_bad:
                        raise LitebertError(f"{source.name}, {where}, {text.reason}, {_SKIP}")
                    self.num_bad += 1
                    missing = (where, text) if isinstance(text, MissingColumn) else missing
                    continue
                num_usable += 1
                if part == 0 and (not text or text.isspace()):
                    continue
                place = f"{source.name}, {where}"
                if len(text) <= limit:
                    yield Document(text, place, part)
                else:
                    for i, piece in enumerate(split_text(text, limit), part):
                        yield Document(piece, place, i)
        except DamagedError as error:
            if not options.skip_bad:
                advice = "get the file again, or pass --skip-bad to go on with what can be read"
                raise LitebertError(f"{source.name} {error} after {num_usable:,} records; {advice}") from None
            self.num_bad += 1
        except OSError as error:
            raise LitebertError(
                f"{source.name} cannot be read ({_reason(error)}): check that it is there and readable"
            ) from None
        if missing and not num_usable:
            raise LitebertError(f"{source.name}, {missing[0]}, {missing[1].reason}")

    def _records(self, source: Source) -> Iterator[Record]:
        if source.kind == "documentation":
            for place, text in documentation.documents():
                yield place, 0, text
        elif source.kind == "dataset":
            yield from _read_dataset(source.name)
        else:
            with _open(source) as file:
                blocks = DECOMPRESS[source.compression](self._chunks(file))
                kind = source.kind
                if source.name == "-":
                    kind, blocks = _guess_kind(blocks)
                is_seekable = kind == "parquet" and not source.compression and source.size is not None
                for record in read_records(blocks, kind, self._options, file if is_seekable else None):
                    if is_seekable:
                        self._bytes_here = file.tell()
                    yield record

    def _chunks(self, file: IO[bytes]) -> Iterator[bytes]:
        while chunk := file.read(BLOCK // 4):
            self._bytes_here += len(chunk)
            yield chunk


def _guess_kind(blocks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Standard input has no suffix: if its first line is a JSON object, so are the others."""
    beginning = next(blocks, b"")
    while beginning.lstrip().startswith(b"{") and b"\n" not in beginning and len(beginning) < _LONGEST_GUESS:
        block = next(blocks, b"")
        if not block:
            break
        beginning += block
    try:
        is_object = isinstance(json.loads(beginning.lstrip().partition(b"\n")[0]), dict)
    except (ValueError, RecursionError):
        is_object = False
    return "jsonl" if is_object else "text", itertools.chain([beginning], blocks)


def _open(source: Source) -> contextlib.AbstractContextManager[IO[bytes]]:
    if source.name == "-":
        if sys.stdin is None:
            raise LitebertError("standard input is closed: name a file")
        return contextlib.nullcontext(sys.stdin.buffer)
    return open(source.name, "rb", buffering=0)


def _text_of(value: Any, columns: Sequence[str]) -> str | Bad:
    """Take the text out of a record: a string, a list of paragraphs, or an object that has one of them in a column."""
    if isinstance(value, dict):
        column = next((name for name in columns if name in value), None)
        if column is None:
            return MissingColumn.among(list(value), columns)
        value = value[column]
    if isinstance(value, list) and all(isinstance(paragraph, str) for paragraph in value):
        value = "\n\n".join(value)
    if isinstance(value, str):
        # Half of a pair, escaped in JSON, is no character: no later stage could write it down.
        return mend(value)
    if isinstance(value, Bad):
        return value
    names = {type(None): "nothing", dict: "an object", list: "a list of other things"}
    found = names.get(type(value), f"a value of type {type(value).__name__}")
    return Bad(f"holds {found} where text should be: mend it")


def _read_dataset(name: str) -> Iterator[Record]:
    """Stream a Hugging Face dataset."""
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise LitebertError(f"{name} needs the datasets library: pip install 'litebert[datasets]'") from None
    _, dataset, config, split = [*name.split(":"), "", ""][:4]
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.ERROR)  # every attempt to reach the hub would be a warning
    try:
        rows = datasets.load_dataset(dataset, config or None, split=split or "train", streaming=True)
        for number, row in enumerate(rows, 1):
            yield f"record {number}", 0, row
    except (ConnectionError, TimeoutError):
        raise LitebertError(f"{name} cannot be read: the hub cannot be reached for it") from None
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).partition("\n")[0][:200]
        raise LitebertError(f"{name} cannot be read: check its name, configuration and split ({reason})") from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
