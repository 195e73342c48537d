"""Engines turn text into ids; `Tokenizer` adds what they have in common.

Here are the contract and the engine that uses the tokenizers library. The other one is SentencePiece: `spiece.py`.
"""

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import read_text
from litebert.text.cleanup import mend

__all__ = ["SPECIAL_TOKENS", "Engine", "Span", "TokenizersEngine", "refusing", "template", "wordpiece_engine"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Span:
    """One piece of a text, and which characters of the original it stands for: `text[begin:end]`."""

    id: int
    piece: str
    begin: int
    end: int


class Engine(Protocol):
    """What `Tokenizer` asks of an engine. Nothing here adds [CLS] or [SEP]."""

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""

    @property
    def continues(self) -> str:
        """What a piece that continues a word begins with; empty if it is the starting piece that is marked, by ▁."""

    @property
    def reserved_ids(self) -> set[int]:
        """Ids that no text gives: control symbols and the like."""

    def piece(self, token_id: int) -> str:
        """The piece of an id of the vocabulary."""

    def id_of(self, piece: str) -> int | None:
        """The id of a piece."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts in which a special token that is written out, such as [MASK], counts as one."""

    def encode_plain(self, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of texts in which nothing is special, one text after the other, and how many each has."""

    def spans(self, text: str, plain: bool = False) -> list[Span]:
        """Ids of a text with their positions in it; if it is plain, nothing in it is special."""

    def decode(self, ids: list[int]) -> str:
        """Text of ids, without special tokens."""

    def backend(self) -> tokenizers.Tokenizer:
        """The same in the tokenizers library, for `tokenizer.json`."""

    def keep(self, ids: Sequence[int]) -> "Engine":
        """An engine that has these pieces alone, with their indices in the list as ids."""


class TokenizersEngine:
    """The tokenizers library, for any `tokenizer.json` and for BERT's WordPiece."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        model = backend.model
        self._continues = model.continuing_subword_prefix if isinstance(model, models.WordPiece) else ""

    @classmethod
    def from_json(cls, file: Path) -> "TokenizersEngine":
        """Read a `tokenizer.json`."""
        text = read_text(file)
        with refusing(f"{file} is damaged or no tokenizer"):
            engine = cls(tokenizers.Tokenizer.from_str(text))
            engine.encode(["a word", "字"])  # some faults show only in use
        return engine

    @functools.cached_property
    def vocab_size(self) -> int:
        return max(self._backend.get_vocab().values()) + 1  # ids may have holes

    @property
    def continues(self) -> str:
        return self._continues

    @functools.cached_property
    def reserved_ids(self) -> set[int]:
        added = self._backend.get_added_tokens_decoder()
        unused = re.compile(r"\[unused\d+\]|<unused\d+>")
        holes = set(range(self.vocab_size)) - set(self._backend.get_vocab().values())
        return holes | {
            i
            for piece, i in self._backend.get_vocab().items()
            if unused.fullmatch(piece) or (i in added and added[i].special)
        }

    def piece(self, token_id: int) -> str:
        return self._backend.id_to_token(token_id) or ""

    def id_of(self, piece: str) -> int | None:
        return self._backend.token_to_id(piece)

    def encode(self, texts: list[str]) -> list[list[int]]:
        with refusing("the tokenizer cannot encode this text", RequestError):
            return [row.ids for row in self._backend.encode_batch_fast(_mended(texts), add_special_tokens=False)]

    def encode_plain(self, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        with refusing("the tokenizer cannot encode this text", RequestError):
            rows = [row.ids for row in self._plain.encode_batch_fast(_mended(texts), add_special_tokens=False)]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter((token for row in rows for token in row), np.int32, int(counts.sum())), counts

    @functools.cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """A copy that takes a special token written out in text for what it is there: text."""
        plain = tokenizers.Tokenizer.from_str(self._backend.to_str())
        plain.encode_special_tokens = True
        return plain

    def spans(self, text: str, plain: bool = False) -> list[Span]:
        with refusing("the tokenizer cannot encode this text", RequestError):
            row = (self._plain if plain else self._backend).encode(mend(text), add_special_tokens=False)
        spans = []
        for token, piece, (begin, end) in zip(row.ids, row.tokens, row.offsets, strict=True):
            begin += len(text[begin:end]) - len(text[begin:end].lstrip())  # the space that ▁ stands for is no part
            spans.append(Span(token, piece, begin, end))
        return spans

    def decode(self, ids: list[int]) -> str:
        return self._backend.decode(ids)

    def backend(self) -> tokenizers.Tokenizer:
        return self._backend

    def keep(self, ids: Sequence[int]) -> "TokenizersEngine":
        stored = json.loads(self._backend.to_str())
        if (kind := stored["model"]["type"]) != "WordPiece":
            raise RequestError(f"pieces of a {kind} tokenizer cannot be taken out: WordPiece or spiece.model is needed")
        new_ids = {self.piece(old): new for new, old in enumerate(ids)}
        stored["model"]["vocab"] = new_ids
        added = [one for one in stored["added_tokens"] if one["content"] in new_ids]
        stored["added_tokens"] = [{**one, "id": new_ids[one["content"]]} for one in added]
        engine = TokenizersEngine(tokenizers.Tokenizer.from_str(json.dumps({**stored, "post_processor": None})))
        engine._backend.post_processor = template(new_ids.get("[CLS]"), new_ids.get("[SEP]"))
        return engine


def wordpiece_engine(file: Path, settings: dict[str, Any]) -> TokenizersEngine:
    """Make BERT's WordPiece tokenizer from its list of pieces, one a line, and transformers' settings for it."""
    # Not splitlines(): real vocabularies hold U+2028 and the like as pieces.
    pieces = read_text(file).removesuffix("\n").split("\n")
    ids = {piece.rstrip("\r"): i for i, piece in enumerate(pieces)}
    missing = [token for token in SPECIAL_TOKENS if token not in ids]
    if missing:
        raise FolderError(f"{file} is no BERT vocabulary: {missing[0]} is not in it")
    backend = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    accents = settings.get("strip_accents")
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=None if accents is None else bool(accents),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.post_processor = template(ids["[CLS]"], ids["[SEP]"])
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return TokenizersEngine(backend)


def template(cls_id: int | None, sep_id: int | None) -> processors.TemplateProcessing:
    """[CLS] text [SEP], or [CLS] text [SEP] text [SEP] with token types 0 and 1, for the tokenizers library."""
    if cls_id is None or sep_id is None:
        raise RequestError("the vocabulary has no [CLS] or no [SEP]")
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls_id), ("[SEP]", sep_id)],
    )


def _mended(texts: list[str]) -> list[str]:
    return [mend(text) for text in texts]


@contextlib.contextmanager
def refusing(what: str, kind: type[LitebertError] = FolderError) -> Iterator[None]:
    """Turn whatever a library throws, panics of Rust code too, into one sentence."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError, LitebertError):
        raise
    except BaseException as error:
        reason = str(error).partition("\n")[0][:200]
        raise kind(f"{what} ({reason})") from None
