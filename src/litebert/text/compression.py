"""Compressed files: chunks of them in, blocks of what they hold out, in bounded memory however tightly packed."""

import zlib
from collections.abc import Callable, Iterator

from litebert.text.formats import DamagedError

__all__ = ["BLOCK", "DECOMPRESS", "gunzip", "unzstd"]

BLOCK = 1 << 18
"""How many bytes are given at a time, about."""


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
    import zstandard

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
