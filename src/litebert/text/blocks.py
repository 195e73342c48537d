"""Files as blocks of bytes: unpacked, cut between characters, and split into lines, all in bounded memory.

Whatever the blocks of a file are, the lines that come out are the same; what is not UTF-8 is found line by line.
"""

import zlib
from collections.abc import Callable, Iterator

from litebert.errors import LitebertError

__all__ = [
    "BLOCK",
    "COMPRESSIONS",
    "DECOMPRESS",
    "DamagedError",
    "count_lines",
    "cut_between_characters",
    "decode_lines",
    "has_surrogates",
    "split_lines",
]

BLOCK = 1 << 18
"""How many bytes are given at a time, about."""

COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
"""The suffixes of compressed files."""

_BOM = b"\xef\xbb\xbf"


def cut_between_characters(blocks: Iterator[bytes], at_start: bool = True) -> Iterator[bytes]:
    """Drop the byte order mark, and move the borders of blocks so that none goes through a character or a CR LF."""
    carried = b""
    for fresh in blocks:
        block = carried + fresh
        if at_start and len(block) < len(_BOM):
            carried = block
            continue
        end = _last_border(block)
        carried = block[end:]
        yield block[:end].removeprefix(_BOM) if at_start else block[:end]
        at_start = False
    yield carried.removeprefix(_BOM) if at_start else carried


def _last_border(block: bytes) -> int:
    if block.endswith(b"\r"):
        return len(block) - 1
    for back in range(1, min(4, len(block) + 1)):
        byte = block[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(block) - back if length > back else len(block)
        if byte < 0x80:
            break
    return len(block)


def split_lines(blocks: Iterator[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Give lines with their ends (LF, CR LF or CR), and None for one that is too long, as soon as that is known."""
    pending: list[bytes] = []
    size = 0
    for block in blocks:
        for piece in block.splitlines(keepends=True):
            if size <= max_bytes < size + len(piece):
                pending.clear()
                yield None
            size += len(piece)
            if size <= max_bytes:
                pending.append(piece)
            if piece.endswith((b"\n", b"\r")):
                if size <= max_bytes:
                    yield b"".join(pending)
                pending.clear()
                size = 0
    if pending:
        yield b"".join(pending)


def count_lines(blocks: Iterator[bytes]) -> int:
    """Count line ends (LF, CR LF or CR).

    >>> count_lines(iter([b"a\\nb\\r", b"\\nc\\rd"]))
    3
    """
    count, last = 0, b""
    for block in blocks:
        count += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
        count -= last == b"\r" and block.startswith(b"\n")
        last = block[-1:] or last
    return count


def decode_lines(block: bytes) -> list[str | None]:
    """Split a block at its line ends; None stands for a line that is not UTF-8."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        return list(block.decode().split("\n"))
    except UnicodeDecodeError:
        lines = block.decode("utf-8", "surrogateescape").split("\n")
        return [None if has_surrogates(line) else line for line in lines]


def has_surrogates(text: str) -> bool:
    """Whether a text holds halves of characters, as `surrogateescape` makes them of bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


class DamagedError(Exception):
    """The rest of a file cannot be read; the message continues a sentence that begins with its name."""


def gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the members of a gzip file, at most a block at a time however tightly it is packed."""
    data = next(chunks, b"")
    if data and not data.startswith(b"\x1f\x8b"[: len(data)]):
        raise DamagedError("is not a gzip file, though its name says so, and can be read no further")
    decoder, is_between = zlib.decompressobj(wbits=31), False
    while True:
        if is_between:
            data = data.lstrip(b"\0")  # some tools pad with zeros
        if not data:
            data = next(chunks, b"")
            if is_between and not data.strip(b"\0"):
                if not data:
                    return
                continue
        try:
            block = decoder.decompress(data, BLOCK)
        except zlib.error as error:
            raise DamagedError(f"is truncated or damaged ({error})") from None
        if block:
            yield block
        elif not data:
            raise DamagedError("is truncated or damaged")
        is_between = decoder.eof
        data = decoder.unused_data if is_between else decoder.unconsumed_tail
        decoder = zlib.decompressobj(wbits=31) if is_between else decoder


def unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the frames of a zstd file."""
    try:
        import zstandard
    except ModuleNotFoundError:
        raise LitebertError("a .zst file needs the zstandard library: pip install zstandard") from None
    decompressor = zstandard.ZstdDecompressor()
    decoder, is_complete = decompressor.decompressobj(), False
    gathered = bytearray()
    for chunk in chunks:
        # A kilobyte of zstd can hold some 32 MB; nothing else bounds what one call gives.
        for start in range(0, len(chunk), 1024):
            data = chunk[start : start + 1024]
            try:
                while data:
                    gathered += decoder.decompress(data)
                    is_complete = decoder.eof
                    data = decoder.unused_data if is_complete else b""
                    decoder = decompressor.decompressobj() if is_complete else decoder
            except zstandard.ZstdError as error:
                yield bytes(gathered)
                raise DamagedError(f"is truncated or damaged, or no zstd file ({error})") from None
            if len(gathered) >= BLOCK:
                yield bytes(gathered)
                gathered.clear()
    yield bytes(gathered)
    if not is_complete:
        raise DamagedError("is truncated or damaged")


DECOMPRESS: dict[str, Callable[[Iterator[bytes]], Iterator[bytes]]] = {
    "": lambda chunks: chunks,
    "gz": gunzip,
    "zst": unzstd,
}
"""How to read a file of each compression."""
