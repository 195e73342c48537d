"""Vectors in files: a .npy file that grows row by row, and texts without end embedded into one.

The work is done in windows. After each one a note beside the unfinished file says how far it is and what it is made of,
so that the same work goes on there after a kill, and ends with the same bytes.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from litebert.errors import FolderError, RequestError
from litebert.folders import PARTIAL, hash_file, lock_folder, read_json, write_json
from litebert.inference.load import WINDOW, Pipeline

__all__ = ["NpyWriter", "embed_file", "hash_encoder"]

_FORMAT = 1
_ENCODER_FILES = ("*.safetensors", "*.bin", "*.model", "tokenizer.json", "vocab.txt", "config.json")


class NpyWriter:
    """A .npy file that grows; `finish` writes into its header how many rows it has."""

    def __init__(self, stream: IO[bytes], dtype: DTypeLike, row_shape: tuple[int, ...] = (), num_rows: int = 0) -> None:
        """Begin a file, or go on after some rows of one; what stands behind them is dropped."""
        self.num_rows = num_rows
        self._stream, self._dtype, self._row_shape = stream, np.dtype(dtype), row_shape
        stream.write(make_header(self._dtype, (num_rows, *row_shape)))
        stream.truncate(stream.tell() + num_rows * self._dtype.itemsize * int(np.prod(row_shape)))
        stream.seek(0, os.SEEK_END)

    def append(self, rows: NDArray[Any]) -> None:
        """Write some more rows."""
        self._stream.write(np.ascontiguousarray(rows, self._dtype).data)
        self.num_rows += len(rows)

    def sync(self) -> None:
        """Wait until what was written is on disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Say in the header how many rows there are."""
        self._stream.seek(0)
        self._stream.write(make_header(self._dtype, (self.num_rows, *self._row_shape)))
        self.sync()


def make_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What a .npy file begins with. NumPy leaves room in it for any number of rows, so its length never changes."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    stream = BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def hash_encoder(encoder: Pipeline) -> str:
    """SHA-256 of what an encoder makes vectors with: its weights, its tokenizer, its settings and how it is run."""
    folder, engine = encoder.members[0].folder, encoder.members[0].engine
    files = sorted({file for pattern in _ENCODER_FILES for file in folder.glob(pattern)})
    hashes = [*map(hash_file, files), *engine.settings]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def embed_file(
    encoder: Pipeline,
    texts: Iterable[str],
    out: Path,
    origin: dict[str, Any] | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
    on_message: Callable[[str], None] = lambda message: None,
    **how: Any,
) -> tuple[int, int]:
    """Embed texts into a .npy file in memory that does not grow; says how many vectors of how many numbers it has.

    `origin` says where the texts come from: an unfinished file whose note says the same is finished. Without it, all
    begins anew. `how` is what `Pipeline.embed` takes.
    """
    width = how.get("dimensions") or encoder.config.hidden_size
    request = {"format": _FORMAT, "window": WINDOW, "encoder": hash_encoder(encoder), **how, "origin": origin}
    partial = out.with_name(out.name + PARTIAL)
    note = partial.with_name(partial.name + ".json")
    encoder.check_vectors(**how)  # before there is a file
    partial.touch()
    lock = lock_folder(partial, "litebert embed")
    try:
        num_before = _find_progress(partial, note, request, width, on_message)
        with partial.open("r+b") as stream:
            writer = NpyWriter(stream, np.float32, (width,), num_before)
            rest = islice(texts, num_before, None)
            for vectors in encoder.embed_stream(rest, on_progress=lambda done: on_progress(num_before + done), **how):
                writer.append(vectors)
                writer.sync()
                write_json(note, {**request, "num_vectors": writer.num_rows})
            if not writer.num_rows:
                partial.unlink()
                raise RequestError("there is nothing to embed: the file holds no text")
            writer.finish()
        partial.replace(out)
        note.unlink(missing_ok=True)
    finally:
        os.close(lock)
    return writer.num_rows, width


def _find_progress(
    partial: Path, note: Path, request: dict[str, Any], width: int, on_message: Callable[[str], None]
) -> int:
    """How many vectors of an unfinished file can stay."""
    if not note.is_file():
        return 0
    try:
        told = read_json(note)
    except FolderError:
        told = {}
    count = told.pop("num_vectors", None)
    if request["origin"] is None:
        on_message(f"what {partial} was made of cannot be read again from where it stopped: starting over")
    elif told != request or not isinstance(count, int):
        on_message(f"{partial} was made of other texts, weights or options: starting over")
    elif partial.stat().st_size < len(make_header(np.dtype(np.float32), (count, width))) + 4 * width * count:
        on_message(f"{partial} is shorter than it was: starting over")
    else:
        on_message(f"going on after {count:,} vectors that are in {partial}")
        return count
    note.unlink()
    return 0
