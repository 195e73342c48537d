"""Bytes of text cut where it may be cut: blocks between characters, and blocks into lines.

Whatever the blocks of a file are, the lines that come out are the same; what is not UTF-8 is found line by line.
"""

from collections.abc import Iterator

__all__ = ["cut_between_characters", "decode_lines", "has_surrogates", "split_lines"]

_BOM = b"\xef\xbb\xbf"


def cut_between_characters(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Drop the byte order mark, and move the borders of blocks so that none goes through a character or a CR LF."""
    carried, at_start = b"", True
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
    """Give lines with their ends (LF, CR LF or CR), and None for one that is too long, of which nothing is kept."""
    pending: list[bytes] = []
    size = 0
    for block in blocks:
        for piece in block.splitlines(keepends=True):
            size += len(piece)
            pending.append(piece)
            if size > max_bytes:
                pending.clear()
            if piece.endswith((b"\n", b"\r")):
                yield None if size > max_bytes else b"".join(pending)
                pending.clear()
                size = 0
    if size:
        yield None if size > max_bytes else b"".join(pending)


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
