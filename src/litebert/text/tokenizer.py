"""`Tokenizer`: text to ids and back, as the folder of a model says.

It reads Google's `spiece.model` (with sentencepiece), `tokenizer.json` and BERT's `vocab.txt` (with the tokenizers
library). Where a folder holds both of the former, `tokenizer.json` is what counts, and `spiece.model` is used, being
several times faster, if litebert wrote the two together.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from litebert.errors import FolderError, RequestError
from litebert.folders import hash_file, read_json, replace_folder
from litebert.hub import resolve
from litebert.text.engine import SPECIAL_TOKENS, Engine, Span, TokenizersEngine, wordpiece_engine
from litebert.text.spiece import SpieceEngine

__all__ = ["Encoded", "Tokenizer", "fit_pair"]

_HASHES = "litebert_hashes"
# What is kept of a folder's tokenizer_config.json; the rest tells transformers how to build what we do not have.
_SETTINGS = {
    *("do_lower_case", "keep_accents", "strip_accents", "tokenize_chinese_chars", "model_max_length"),
    *(f"{token[1:-1].lower()}_token" for token in SPECIAL_TOKENS),
}


@dataclass(frozen=True)
class Encoded:
    """Texts as ids, padded to the longest: arrays (texts, tokens) under the names of the model's arguments."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    token_type_ids: NDArray[np.int64]
    cut: frozenset[int] = frozenset()
    """Texts of which not everything fitted."""

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """What a model takes."""
        return {name: getattr(self, name) for name in ("input_ids", "attention_mask", "token_type_ids")}


class Tokenizer:
    """Text in, ids out."""

    def __init__(self, engine: Engine, settings: dict[str, Any] | None = None) -> None:
        self._engine = engine
        self._settings = settings or {}
        self._ids = {token: self._special_id(token) for token in SPECIAL_TOKENS}

    def _special_id(self, token: str) -> int:
        """The id of a special token, which a folder may call otherwise (`<pad>` for `[PAD]`)."""
        bare = token[1:-1].lower()
        given = self._settings.get(f"{bare}_token")
        given = given.get("content") if isinstance(given, dict) else given
        for name in (given, token, f"<{bare}>"):
            found = self._engine.id_of(name) if isinstance(name, str) else None
            if found is not None:
                return found
        raise RequestError(f"the vocabulary has no {token}")

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> "Tokenizer":
        """Open the tokenizer of a folder or hub model, or a file: `spiece.model`, `tokenizer.json` or `vocab.txt`."""
        file = Path(name)
        if file.is_file():
            return cls._open(file, _read_settings(file.parent / "tokenizer_config.json"))
        folder = resolve(name, revision, "tokenizer")
        settings = _read_settings(folder / "tokenizer_config.json")
        if (folder / "spiece.model").exists() and _written_together(folder, settings):
            return cls._open(folder / "spiece.model", settings)
        for file in (folder / "tokenizer.json", folder / "spiece.model", folder / "vocab.txt"):
            if file.exists():
                return cls._open(file, settings)
        raise FolderError(f"{folder} has no tokenizer: tokenizer.json, spiece.model or vocab.txt is missing")

    @classmethod
    def _open(cls, file: Path, settings: dict[str, Any]) -> "Tokenizer":
        settings = {key: value for key, value in settings.items() if key in _SETTINGS}
        try:
            if file.suffix == ".model":
                return cls(SpieceEngine.from_file(file, settings), settings)
            if file.suffix == ".json":
                return cls(TokenizersEngine.from_json(file), settings)
            settings = {"do_lower_case": True, **settings}
            return cls(wordpiece_engine(file, settings), settings)
        except RequestError as error:
            raise FolderError(f"{file} is no tokenizer of an ALBERT or BERT: {error}") from None

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return self._engine.vocab_size

    @property
    def pad_id(self) -> int:
        """Id of the padding."""
        return self._ids["[PAD]"]

    @property
    def unknown_id(self) -> int:
        """Id of what the vocabulary has no piece for."""
        return self._ids["[UNK]"]

    @property
    def cls_id(self) -> int:
        """Id of [CLS], with which every sequence begins."""
        return self._ids["[CLS]"]

    @property
    def sep_id(self) -> int:
        """Id of [SEP], with which every segment ends."""
        return self._ids["[SEP]"]

    @property
    def mask_id(self) -> int:
        """Id of the mask."""
        return self._ids["[MASK]"]

    @property
    def mask_token(self) -> str:
        """How the mask is written in text."""
        return self.piece(self.mask_id)

    @property
    def special_ids(self) -> list[int]:
        """Ids of the five special tokens: padding, unknown, [CLS], [SEP], mask."""
        return list(self._ids.values())

    @property
    def reserved_ids(self) -> set[int]:
        """Ids that stand for no text: special tokens, and whatever else the vocabulary keeps aside."""
        return self._engine.reserved_ids | set(self.special_ids)

    @property
    def continues(self) -> str:
        """What a piece that continues a word begins with (`##`); empty if ▁ marks pieces that begin one."""
        return self._engine.continues

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size:,} pieces, {type(self._engine).__name__})"

    def piece(self, token_id: int) -> str:
        """The piece that an id stands for; empty if none does."""
        return self._engine.piece(token_id) if 0 <= token_id < self.vocab_size else ""

    def id_of(self, piece: str) -> int | None:
        """The id of a piece, if there is one."""
        return self._engine.id_of(piece)

    def encode(self, texts: list[str], pairs: list[str] | None = None, max_length: int = 512) -> Encoded:
        """Encode texts or pairs with [CLS] and [SEP], cut to `max_length`: of a pair, the longer text first."""
        if any(isinstance(given, str) for given in cast("tuple[object, ...]", (texts, pairs))):
            raise RequestError("texts come in a list: write encode([text])")
        if pairs is not None and len(pairs) != len(texts):
            raise RequestError(f"{len(texts)} texts and {len(pairs)} second texts do not make pairs")
        if max_length < 4:
            raise RequestError(f"max_length {max_length} leaves no room for text beside [CLS] and [SEP]")
        firsts = self._engine.encode(texts)
        seconds = None if pairs is None else self._engine.encode(pairs)
        rows, splits, cut = [], [], set[int]()
        for i, first in enumerate(firsts):
            if seconds is None:
                row = [self.cls_id, *first[: max_length - 2], self.sep_id]
                splits.append(len(row))
                is_cut = len(first) > max_length - 2
            else:
                keep_first, keep_second = fit_pair(len(first), len(seconds[i]), max_length - 3)
                row = [self.cls_id, *first[:keep_first], self.sep_id, *seconds[i][:keep_second], self.sep_id]
                splits.append(keep_first + 2)
                is_cut = keep_first + keep_second < len(first) + len(seconds[i])
            cut |= {i} if is_cut else set()
            rows.append(row)
        shape = (len(rows), max(map(len, rows), default=0))
        encoded = Encoded(
            np.full(shape, self.pad_id), np.zeros(shape, np.int64), np.zeros(shape, np.int64), frozenset(cut)
        )
        for i, row in enumerate(rows):
            encoded.input_ids[i, : len(row)] = row
            encoded.attention_mask[i, : len(row)] = 1
            encoded.token_type_ids[i, splits[i] : len(row)] = 1
        return encoded

    def encode_plain(self, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Encode a corpus: ids of all texts, one after the other, and how many each has. Nothing in it is special."""
        return self._engine.encode_plain(texts)

    def spans(self, text: str, plain: bool = False) -> list[Span]:
        """The pieces of a text, with the characters of the original that each stands for.

        A special token that is written out, such as [MASK], counts as one unless the text is plain.
        """
        return self._engine.spans(text, plain)

    def decode(self, ids: list[int]) -> str:
        """Ids back to text, without special tokens."""
        wrong = [token for token in ids if not 0 <= token < self.vocab_size]
        if wrong:
            raise RequestError(f"the vocabulary has no id {wrong[0]}; ids are 0 to {self.vocab_size - 1}")
        return self._engine.decode(ids)

    def keep(self, ids: Sequence[int]) -> "Tokenizer":
        """A tokenizer that has these pieces alone, with their indices in the list as ids.

        What a missing piece stood for is cut into smaller ones.
        """
        missing = set(self.special_ids) - set(ids)
        if missing:
            raise RequestError(f"{self.piece(min(missing))} cannot be left out: models need it")
        return Tokenizer(self._engine.keep(ids), self._settings)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save a folder that AutoTokenizer opens, whole or not at all."""
        with replace_folder(Path(folder)) as staging:
            self.write_files(staging)

    def write_files(self, folder: Path, max_length: int = 512) -> None:
        """Write files with which AutoTokenizer gives the same ids: JSON, settings, `spiece.model` if there is one."""
        engine = self._engine
        file = folder / "tokenizer.json"
        file.write_text(engine.backend().to_str(pretty=True), encoding="utf-8")
        names = {f"{token[1:-1].lower()}_token": self.piece(self._ids[token]) for token in SPECIAL_TOKENS}
        settings = {
            "tokenizer_class": "BertTokenizer" if self.continues else "PreTrainedTokenizerFast",
            "model_max_length": max_length,
            **self._settings,
            **names,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        }
        if isinstance(engine, SpieceEngine):
            engine.write_model(folder)
            settings |= vars(engine.clean_up)
            settings[_HASHES] = {name: hash_file(folder / name) for name in ("tokenizer.json", "spiece.model")}
        text = json.dumps(settings, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def fit_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts to keep: the longer one gives way until both are equally long.

    >>> fit_pair(10, 3, 8), fit_pair(3, 10, 8), fit_pair(10, 9, 7), fit_pair(2, 3, 8)
    ((5, 3), (3, 5), (4, 3), (2, 3))
    """
    if first + second <= room:
        return first, second
    if first > second:
        return fit_pair(second, first, room)[::-1]
    shorter = min(first, room // 2)
    return shorter, room - shorter


def _written_together(folder: Path, settings: dict[str, Any]) -> bool:
    """Whether litebert wrote `spiece.model` and `tokenizer.json`, and nobody has changed one of them."""
    hashes = settings.get(_HASHES)
    if not isinstance(hashes, dict) or set(hashes) != {"tokenizer.json", "spiece.model"}:
        return False
    return all((folder / name).is_file() and hash_file(folder / name) == value for name, value in hashes.items())


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    settings = read_json(path)
    if "auto_map" in settings:
        raise FolderError(f"{path} asks to run code that lies in the folder (auto_map); litebert never does that")
    return settings
