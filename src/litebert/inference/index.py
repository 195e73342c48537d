"""`Index`: passages with their vectors in a folder, embedded once and searched exactly as often as one likes.

index = litebert.load().index(texts, "my-index")     # from any iterable, in bounded memory
index = litebert.Index.open("my-index")              # at once: everything is memory-mapped
index.search("a question", top=5)                    # what `litebert search` finds in the texts themselves
index.vectors                                        # (texts, numbers), of length 1, for faiss and others
"""

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import model_name, read_json, replace_folder, verify_manifest, write_json
from litebert.hub import packaged_encoders
from litebert.inference.load import Pipeline, Vectors, load, normalize
from litebert.inference.nearest import find_nearest
from litebert.inference.search import Found, Passage, check_questions, embed_passages
from litebert.inference.vectors import NpyWriter, hash_encoder

__all__ = ["Index", "IndexInfo", "Precision", "is_index"]

Precision = Literal["float16", "float32", "int8"]

_FORMAT = 1
_INFO = "search-index.json"
_VECTORS, _SCALES, _PASSAGES, _OFFSETS = "vectors.npy", "scales.npy", "passages.jsonl", "offsets.npy"


class IndexInfo(BaseModel):
    """What a folder says about the index in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int
    num_vectors: int
    size: int
    """How many numbers a vector has."""
    precision: Precision
    encoder: str
    encoder_folder: str
    encoder_sha256: str
    depth: int | None
    dimensions: int | None


def is_index(folder: str | Path) -> bool:
    """Whether a folder says that it is an index."""
    return (Path(folder) / _INFO).is_file()


class Index:
    """Passages that are searched by meaning. `load().index(texts, folder)` makes one, `Index.open(folder)` opens it."""

    def __init__(self, folder: Path, info: IndexInfo, encoder: Pipeline | None = None) -> None:
        """Map the files of a folder into memory; `open` is the way to call this."""
        self.folder, self.info = folder, info
        if encoder is not None:
            self._check_encoder(encoder)
            self.encoder = encoder
        count = info.num_vectors
        self.vectors = self._map(_VECTORS, info.precision, (count, info.size))
        """All vectors, of length 1, in the order of the passages: float16, float32, or int8 to be scaled."""
        self.scales = self._map(_SCALES, "float32", (count,)) if info.precision == "int8" else None
        """What the vectors of an int8 index have to be multiplied by."""
        self._offsets = self._map(_OFFSETS, "int64", (count + 1,))
        try:
            self._passages = np.memmap(folder / _PASSAGES, np.uint8, "r")
        except (OSError, ValueError):
            raise self._refuse(_PASSAGES) from None
        if self._offsets[0] != 0 or self._offsets[-1] != len(self._passages):
            raise self._refuse(_PASSAGES)

    @classmethod
    def open(cls, folder: str | Path, encoder: Pipeline | None = None, *, verify: bool = False) -> "Index":
        """Open an index at once; its own encoder is loaded with the first question, unless it is given.

        `verify` also compares the files with their SHA-256, which takes a second for a gigabyte or two.
        """
        folder = Path(folder)
        if not is_index(folder):
            raise FolderError(f"{folder} is no index: it has no {_INFO}; make one with `litebert index`")
        content = read_json(folder / _INFO)
        if content.get("format") != _FORMAT:
            raise FolderError(f"{folder} is an index of another version of litebert: make it again")
        try:
            info = IndexInfo(**content)
        except ValidationError:
            raise FolderError(f"{folder / _INFO} is damaged: make the index again") from None
        if verify:
            verify_manifest(folder, advice="make the index again")
        return cls(folder, info, encoder)

    @staticmethod
    def check_request(folder: str | Path | None, precision: str) -> None:
        """Refuse what could not be built, before any work is done."""
        if precision not in get_args(Precision):
            raise RequestError(f"there is no precision {precision!r}: choose one of {', '.join(get_args(Precision))}")
        if folder is not None and Path(folder).exists() and (Path(folder).is_file() or any(Path(folder).iterdir())):
            raise FolderError(f"{folder} is already there: remove it, or choose another folder")

    @classmethod
    def build(
        cls,
        encoder: Pipeline,
        texts: Iterable[str | Passage],
        folder: str | Path | None = None,
        *,
        precision: Precision = "float16",
        on_progress: Callable[[int], None] = lambda done: None,
        depth: int | None = None,
        dimensions: int | None = None,
    ) -> "Index":
        """Embed texts into a new folder, which appears when it is whole; if none is named, into a temporary one.

        A text that is no `Passage` has its number as its location. Memory does not grow with the number of texts.
        """
        cls.check_request(folder, precision)
        parent = Path(tempfile.mkdtemp(prefix="litebert-index-")) if folder is None else None
        folder = parent / "index" if parent is not None else Path(folder or "")
        model = encoder.members[0].folder
        try:
            with replace_folder(folder) as staging:
                size = dimensions or encoder.config.hidden_size
                how = {"depth": depth, "dimensions": dimensions}
                blocks = embed_passages(encoder, _as_passages(texts), on_progress, **how)
                info = IndexInfo(
                    format=_FORMAT,
                    num_vectors=_write_files(staging, blocks, size, precision),
                    size=size,
                    precision=precision,
                    encoder=model_name(model),
                    encoder_folder=str(model.absolute()),
                    encoder_sha256=hash_encoder(encoder),
                    **how,
                )
                write_json(staging / _INFO, info.model_dump())
            index = cls(folder, info, encoder)
        except BaseException:
            if parent is not None:
                shutil.rmtree(parent, ignore_errors=True)
            raise
        if parent is not None:
            weakref.finalize(index, shutil.rmtree, parent, ignore_errors=True)
        return index

    @cached_property
    def encoder(self) -> Pipeline:
        """What made the vectors, and makes those of questions."""
        name = self.info.encoder
        is_gone = not Path(self.info.encoder_folder).is_dir()
        try:
            encoder = load(name if is_gone and name in packaged_encoders() else self.info.encoder_folder)
        except FolderError as error:
            raise FolderError(
                f"{self.folder} was made with the encoder {name}, which is not where it was: name it ({error})"
            ) from None
        self._check_encoder(encoder)
        return encoder

    def __len__(self) -> int:
        return self.info.num_vectors

    def __repr__(self) -> str:
        info = self.info
        return f"<Index {str(self.folder)!r}: {len(self):,} vectors of {info.size} numbers by {info.encoder}>"

    def __getitem__(self, number: int) -> Passage:
        """One of the passages."""
        if not 0 <= number < len(self):
            raise IndexError(f"this index has the passages 0 to {len(self) - 1}, not {number}")
        begin, end = self._offsets[number : number + 2]
        try:
            return Passage(**json.loads(self._passages[begin:end].tobytes()))
        except (ValueError, TypeError):
            raise self._refuse(_PASSAGES) from None

    def search(self, questions: str | Sequence[str], top: int = 5) -> Any:
        """The passages that lie nearest to a question, the best first; a list for each of several questions."""
        asked = [questions] if isinstance(questions, str) else list(questions)
        check_questions(asked)
        found = self.nearest(self.encoder.embed(asked, depth=self.info.depth, dimensions=self.info.dimensions), top)
        return found[0] if isinstance(questions, str) else found

    def nearest(self, vectors: Vectors, top: int = 5) -> list[list[Found]]:
        """The passages that lie nearest to each vector, which this index's encoder made."""
        return [
            [Found(self[number], cosine) for number, cosine in best]
            for best in find_nearest(normalize(vectors), self.vectors, top, self.scales)
        ]

    def _check_encoder(self, encoder: Pipeline) -> None:
        if hash_encoder(encoder) != self.info.encoder_sha256:
            other = model_name(encoder.members[0].folder)
            raise RequestError(
                f"{self.folder} was made with the encoder {self.info.encoder}, and {other} has other weights: "
                "search with the one that made it, or make the index again"
            )

    def _map(self, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """A .npy file in memory, if it is all there."""
        path = self.folder / name
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, SyntaxError):
            raise self._refuse(name) from None
        is_whole = isinstance(array, np.memmap) and array.offset + array.nbytes == path.stat().st_size
        if not is_whole or array.dtype != np.dtype(dtype) or array.shape != shape:
            raise self._refuse(name)
        return array

    def _refuse(self, name: str) -> FolderError:
        return FolderError(f"{self.folder / name} is missing or damaged: make the index again")


def _as_passages(texts: Iterable[str | Passage]) -> Iterator[Passage]:
    if isinstance(texts, str):
        raise RequestError("an index is made of many texts: give a list of them")
    for number, text in enumerate(texts):
        yield text if isinstance(text, Passage) else Passage(text, str(number))


def _as_line(passage: Passage) -> bytes:
    """JSON in which any text survives, also half of a pair of surrogates."""
    return json.dumps(asdict(passage), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _write_files(folder: Path, blocks: Iterable[tuple[list[Passage], Vectors]], size: int, precision: Precision) -> int:
    """Write passages and their vectors as they come; says how many there were."""
    with ExitStack() as stack:
        streams = {name: stack.enter_context((folder / name).open("wb")) for name in (_VECTORS, _OFFSETS, _PASSAGES)}
        arrays = {
            _VECTORS: NpyWriter(streams[_VECTORS], precision, (size,)),
            _OFFSETS: NpyWriter(streams[_OFFSETS], "<i8"),
        }
        if precision == "int8":
            arrays[_SCALES] = NpyWriter(stack.enter_context((folder / _SCALES).open("wb")), np.float32)
        arrays[_OFFSETS].append(np.zeros(1, np.int64))
        for passages, vectors in blocks:
            if not np.isfinite(vectors).all():
                raise LitebertError("the encoder gives vectors with numbers that are not finite: train it again")
            if precision == "int8":
                scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12) / 127
                arrays[_SCALES].append(scales)
                vectors = np.rint(vectors / scales[:, None])
            arrays[_VECTORS].append(vectors.astype(precision))
            lines = [_as_line(passage) for passage in passages]
            arrays[_OFFSETS].append(streams[_PASSAGES].tell() + np.cumsum([len(line) for line in lines]))
            streams[_PASSAGES].writelines(lines)
        for array in arrays.values():
            array.finish()
        return arrays[_VECTORS].num_rows
