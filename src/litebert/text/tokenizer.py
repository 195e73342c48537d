"""`Tokenizer`: text to ids and back, as the folder of a model says.

It reads `tokenizer.json` (what transformers and litebert write) and BERT's `vocab.txt`, with the tokenizers library.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import read_json, read_text
from litebert.hub import resolve

__all__ = ["Encoded", "Tokenizer"]

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Encoded:
    """Texts as ids, padded to the longest: arrays (texts, tokens) under the names of the model's arguments."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    token_type_ids: NDArray[np.int64]


class Tokenizer:
    """Text in, ids out."""

    def __init__(self, backend: tokenizers.Tokenizer, settings: dict[str, Any] | None = None) -> None:
        self._backend = backend
        self._settings = settings or {}
        self._ids = {token: self._special_id(token) for token in _SPECIAL}

    def _special_id(self, token: str) -> int:
        """The id of a special token, which a folder may call otherwise (`<pad>` for `[PAD]`)."""
        bare = token[1:-1].lower()
        given = self._settings.get(f"{bare}_token")
        given = given.get("content") if isinstance(given, dict) else given
        for name in (given, token, f"<{bare}>"):
            found = self._backend.token_to_id(name) if isinstance(name, str) else None
            if found is not None:
                return found
        raise RequestError(f"the vocabulary has no {token}")

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> "Tokenizer":
        """Open the tokenizer of a folder or of a hub model."""
        folder = resolve(name, revision)
        settings = _read_settings(folder / "tokenizer_config.json")
        if (folder / "tokenizer.json").exists():
            file = folder / "tokenizer.json"
            text = read_text(file)
            with _refusing(f"{file} is damaged or no tokenizer"):
                tokenizer = cls(tokenizers.Tokenizer.from_str(text), settings)
                tokenizer.encode(["a word", "字"])  # some faults show only in use
            return tokenizer
        if (folder / "vocab.txt").exists():
            return cls.from_vocabulary(folder / "vocab.txt", settings)
        raise FolderError(f"{folder} has no tokenizer: tokenizer.json or vocab.txt is missing")

    @classmethod
    def from_vocabulary(cls, file: Path, settings: dict[str, Any] | None = None) -> "Tokenizer":
        """Make BERT's WordPiece tokenizer from its list of pieces, one a line, and transformers' settings for it."""
        settings = {"do_lower_case": True, **(settings or {}), "tokenizer_class": "BertTokenizer"}
        # Not splitlines(): real vocabularies hold U+2028 and the like as pieces.
        pieces = read_text(file).removesuffix("\n").split("\n")
        ids = {piece.rstrip("\r"): i for i, piece in enumerate(pieces)}
        missing = [token for token in _SPECIAL if token not in ids]
        if missing:
            raise FolderError(f"{file} is no BERT vocabulary: {missing[0]} is not in it")
        backend = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
        accents = settings.get("strip_accents")
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=bool(settings["do_lower_case"]),
            strip_accents=None if accents is None else bool(accents),
            handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )
        backend.add_special_tokens(list(_SPECIAL))
        return cls(backend, settings)

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return self._backend.get_vocab_size()

    @property
    def pad_id(self) -> int:
        """Id of the padding."""
        return self._ids["[PAD]"]

    @property
    def mask_id(self) -> int:
        """Id of the mask."""
        return self._ids["[MASK]"]

    @property
    def mask_token(self) -> str:
        """How the mask is written in text."""
        return self.piece(self.mask_id)

    def piece(self, token_id: int) -> str:
        """The piece that an id stands for."""
        return self._backend.id_to_token(token_id) or ""

    def encode(self, texts: list[str], pairs: list[str] | None = None, max_length: int = 512) -> Encoded:
        """Encode texts, or pairs of texts, with [CLS] and [SEP], cut to `max_length`."""
        if pairs is not None and len(pairs) != len(texts):
            raise RequestError(f"{len(texts)} texts and {len(pairs)} second texts do not make pairs")
        if max_length < 4:
            raise RequestError(f"max_length {max_length} leaves no room for text beside [CLS] and [SEP]")
        inputs: list[Any] = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        with _refusing("the tokenizer cannot encode this text", RequestError):
            self._backend.enable_truncation(max_length)
            self._backend.no_padding()
            rows = self._backend.encode_batch(inputs)
        width = max((len(row.ids) for row in rows), default=0)
        shape = (len(rows), width)
        encoded = Encoded(np.full(shape, self.pad_id), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        for i, row in enumerate(rows):
            count = len(row.ids)
            encoded.input_ids[i, :count] = row.ids
            encoded.attention_mask[i, :count] = 1
            encoded.token_type_ids[i, :count] = row.type_ids
        return encoded

    def decode(self, ids: list[int]) -> str:
        """Ids back to text, without special tokens."""
        return self._backend.decode(ids)

    def write_files(self, folder: Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, so that AutoTokenizer gives the same ids."""
        self._backend.no_truncation()
        (folder / "tokenizer.json").write_text(self._backend.to_str(pretty=True), encoding="utf-8")
        names = {f"{token[1:-1].lower()}_token": self.piece(self._ids[token]) for token in _SPECIAL}
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **self._settings,
            **names,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        }
        text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    settings = read_json(path)
    if "auto_map" in settings:
        raise FolderError(f"{path} asks to run code that lies in the folder (auto_map); litebert never does that")
    return settings


@contextlib.contextmanager
def _refusing(what: str, kind: type[LitebertError] = FolderError) -> Iterator[None]:
    """Turn whatever the tokenizers library throws, panics of its Rust code too, into one sentence."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        reason = str(error).partition("\n")[0][:200]
        raise kind(f"{what} ({reason})") from None
