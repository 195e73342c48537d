"""SentencePiece as ALBERT uses it: Google's `spiece.model` read exactly, quick, with positions in the original text.

Text is cleaned up, then encoded by the sentencepiece library. One rule of Google's code comes on top: a piece that ends
in a digit and a comma is encoded again without the comma, so that numbers look alike wherever they stand.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import tokenizers
from numpy.typing import NDArray
from sentencepiece import sentencepiece_model_pb2 as protocol
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from litebert.errors import RequestError
from litebert.folders import read_bytes
from litebert.text.cleanup import CleanUp, mark_ranges
from litebert.text.engine import Span, refusing, template

__all__ = ["SpieceEngine", "ends_in_number_comma"]

_SPACE = "▁"
_MAX_BYTES = 64_000_000
# What str.split() takes for white space.
_WHITE_SPACE = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# A sigma that ends a word, as str.lower() finds it: letters count, and marks and apostrophes between them do not.
_LETTER = r"[\p{Lu}\p{Ll}\p{Lt}]"
_NO_LETTER = r"[\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'’‘.:·․‧՟״]*"
_LAST_SIGMA = rf"{_LETTER}{_NO_LETTER}\KΣ(?!{_NO_LETTER}{_LETTER})"


class SpieceEngine:
    """A SentencePiece model and the clean-up before it."""

    def __init__(self, model: bytes, clean_up: CleanUp, name: str = "the SentencePiece model") -> None:
        self.model = model
        self.clean_up = clean_up
        sentencepiece.SetMinLogLevel(2)
        with refusing(f"{name} is damaged or no SentencePiece model"):
            self.proto: Any = protocol.ModelProto.FromString(model)  # type: ignore[attr-defined]
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self._processor.encode("a word 字")
            self._pieces = [str(piece.piece) for piece in self.proto.pieces]
            kinds = type(self.proto).SentencePiece
            self.unused_ids = {i for i, piece in enumerate(self.proto.pieces) if piece.type == kinds.UNUSED}
            self._split_commas = self._find_number_commas()
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self.control_ids = [
            i for i, piece in enumerate(self.proto.pieces) if piece.type in (kinds.CONTROL, kinds.UNKNOWN)
        ]
        names = sorted((self._pieces[i] for i in self.control_ids), key=len, reverse=True)
        self._written_out = re.compile("(" + "|".join(map(re.escape, names)) + ")")

    def __reduce__(self) -> tuple[type["SpieceEngine"], tuple[bytes, CleanUp]]:
        """For pickling: processes get the file, not the library's objects."""
        return type(self), (self.model, self.clean_up)

    @classmethod
    def from_file(cls, file: Path, settings: dict[str, Any]) -> "SpieceEngine":
        """Read a `spiece.model`, with transformers' settings for it."""
        clean_up = CleanUp(bool(settings.get("do_lower_case", True)), bool(settings.get("keep_accents", False)))
        return cls(read_bytes(file, _MAX_BYTES), clean_up, str(file))

    def _find_number_commas(self) -> dict[int, list[tuple[int, str]]]:
        """What the pieces that end in a digit and a comma are replaced with: ids, and the characters of each."""
        replaced = {}
        for i, piece in enumerate(self._pieces):
            if ends_in_number_comma(piece) and i not in self.unused_ids:
                parts = [*self._encode_piece(piece, piece[:-1]), ","]
                ids = [self._processor.piece_to_id(part) for part in parts]
                if "".join(parts) != piece:  # in models that put no space before the first word
                    parts = [piece.removesuffix("".join(parts[1:])), *parts[1:]]
                replaced[i] = list(zip(ids, parts, strict=True))
        return replaced

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def continues(self) -> str:
        return ""

    @property
    def reserved_ids(self) -> set[int]:
        ordinary = (type(self.proto).SentencePiece.NORMAL, type(self.proto).SentencePiece.USER_DEFINED)
        return {i for i, piece in enumerate(self.proto.pieces) if piece.type not in ordinary}

    @property
    def number_commas(self) -> dict[int, list[int]]:
        """Pieces that end in a digit and a comma, and what stands for them."""
        return {token: [part for part, _ in parts] for token, parts in self._split_commas.items()}

    @property
    def composes(self) -> bool:
        """Whether the model's own table puts letters together (NFKC), as the parts of a Korean syllable."""
        return bool(self._processor.normalize("\u1100\u1161").endswith("가"))

    def keep(self, ids: Sequence[int]) -> "SpieceEngine":
        smaller = protocol.ModelProto.FromString(self.model)  # type: ignore[attr-defined]
        del smaller.pieces[:]
        smaller.pieces.extend(self.proto.pieces[token] for token in ids)
        smaller.trainer_spec.vocab_size = len(ids)
        for name in ("unk", "bos", "eos", "pad"):
            old = getattr(smaller.trainer_spec, f"{name}_id")
            setattr(smaller.trainer_spec, f"{name}_id", ids.index(old) if old in ids else -1)
        return SpieceEngine(bytes(smaller.SerializeToString(deterministic=True)), self.clean_up)

    def piece(self, token_id: int) -> str:
        return self._pieces[token_id]

    def id_of(self, piece: str) -> int | None:
        return self._ids.get(piece)

    def encode(self, texts: list[str]) -> list[list[int]]:
        # The pattern has one group, so that every second part is a special token.
        parts = [self._written_out.split(text) for text in texts]
        ids, counts = self.encode_plain([part for row in parts for part in row[::2]])
        pieces = iter(np.split(ids, np.cumsum(counts)[:-1]))
        rows: list[list[int]] = []
        for row in parts:
            rows.append(next(pieces).tolist())
            for special in row[1::2]:
                rows[-1] += [self._ids[special], *next(pieces).tolist()]
        return rows

    def encode_plain(self, texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        clean = [self.clean_up.clean(text) for text in texts]
        with refusing("the tokenizer cannot encode this text", RequestError):
            rows = self._processor.encode(clean, num_threads=1, return_type="numpy")
        counts = np.fromiter((row.size for row in rows), np.int64, len(rows))
        ids = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        if self._split_commas:
            found = np.flatnonzero(np.isin(ids, list(self._split_commas)))
            if found.size:
                return self._split_number_commas(ids, counts, found)
        return ids, counts

    def _split_number_commas(
        self, ids: NDArray[np.int32], counts: NDArray[np.int64], found: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        parts: list[Any] = []
        counts, row_ends, done = counts.copy(), np.cumsum(counts), 0
        for position in found.tolist():
            replacement = [part for part, _ in self._split_commas[int(ids[position])]]
            parts += [ids[done:position], np.asarray(replacement, np.int32)]
            counts[np.searchsorted(row_ends, position, side="right")] += len(replacement) - 1
            done = position + 1
        return np.concatenate([*parts, ids[done:]]), counts

    def _encode_piece(self, piece: str, text: str) -> list[str]:
        """The pieces of the text of a piece, or of a part of it; without the space that it did not begin with."""
        parts: list[str] = self._processor.encode(text.replace(_SPACE, ""), return_type=str)
        if not piece.startswith(_SPACE) and parts and parts[0].startswith(_SPACE):
            parts = ([parts[0][1:]] if len(parts[0]) > 1 else []) + parts[1:]
        return parts

    @property
    def unused_pieces(self) -> dict[int, list[int]]:
        """Pieces that the vocabulary has and never uses, and what stands for them."""
        return {
            token: [self._processor.piece_to_id(part) for part in self._encode_piece(piece, piece)]
            for token, piece in ((token, self._pieces[token]) for token in self.unused_ids)
        }

    def spans(self, text: str, plain: bool = False) -> list[Span]:
        spans: list[Span] = []
        done = 0
        for number, part in enumerate([text] if plain else self._written_out.split(text)):
            if number % 2:
                spans.append(Span(self._ids[part], part, done, done + len(part)))
            else:
                with refusing("the tokenizer cannot find its pieces in this text", RequestError):
                    spans += self._plain_spans(part, done)
            done += len(part)
        return spans

    def _plain_spans(self, text: str, shift: int) -> list[Span]:
        """Spans of a text without special tokens, which begins `shift` characters after the original."""
        clean, origins = self.clean_up.clean_with_origins(text)
        if not clean:
            return []
        # Where each character that SentencePiece sees begins in the clean text; one more for the end.
        normal, begins = self._processor.normalize(clean, with_offsets=True)
        spans: list[Span] = []
        at = 0
        for piece in self._processor.encode(clean, return_type=str):
            token = self._processor.piece_to_id(piece)
            for part_id, part in self._parts(token, piece):
                first = at + (part.startswith(_SPACE) and len(part) > 1)
                at += len(part)
                if part == _SPACE:  # stands for white space or for the beginning: no characters of its own
                    position = origins[begins[at]] if begins[at] < len(origins) else len(text)
                    spans.append(Span(part_id, part, position + shift, position + shift))
                    continue
                begin = begins[first]
                after = at
                while begins[after] <= begin < len(clean) - 1:  # one character that became several
                    after += 1
                last = max(begin, begins[after] - 1)
                spans.append(Span(part_id, part, origins[begin] + shift, origins[last] + 1 + shift))
        if at != len(normal):
            raise RequestError(
                "the SentencePiece model writes its pieces otherwise than the text: they have no positions"
            )
        return spans

    def _parts(self, token: int, piece: str) -> list[tuple[int, str]]:
        return self._split_commas.get(token, [(token, piece)])

    def decode(self, ids: list[int]) -> str:
        control = set(self.control_ids)
        with refusing("the tokenizer cannot decode these ids", RequestError):
            return str(self._processor.decode([token for token in ids if token not in control]))

    def backend(self) -> tokenizers.Tokenizer:
        with refusing("the SentencePiece model cannot be written as tokenizer.json", RequestError):
            return _convert(self)

    def write_model(self, folder: Path) -> None:
        """Write `spiece.model`, byte for byte what was read."""
        (folder / "spiece.model").write_bytes(self.model)


def ends_in_number_comma(piece: str) -> bool:
    """Whether Google's rule for numbers takes this piece apart.

    >>> ends_in_number_comma("▁1990,"), ends_in_number_comma(","), ends_in_number_comma("▁so,")
    (True, False, False)
    """
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _convert(engine: SpieceEngine) -> tokenizers.Tokenizer:
    """Write a SentencePiece model for the tokenizers library, and so for AutoTokenizer, with the same ids.

    Two things cannot be said exactly there: which of two segmentations with (nearly) equal scores wins, because
    sentencepiece adds up scores of a whole sentence in single precision; and the rule for numbers with commas: here
    such pieces always lose.
    """
    spec = engine.proto.trainer_spec
    if spec.model_type != spec.UNIGRAM or spec.byte_fallback:
        raise RequestError("only unigram models without bytes for unknown characters can be written as tokenizer.json")
    scores = [(piece.piece, piece.score) for piece in engine.proto.pieces]
    replaced = engine.number_commas | engine.unused_pieces
    for token in sorted(replaced, key=lambda token: len(engine.piece(token))):  # parts before what they make up
        # Just below what stands for it: always beaten, without moving the lowest score, on which that of <unk> rests.
        rest = sum(scores[part][1] for part in replaced[token])
        scores[token] = (scores[token][0], min(scores[token][1], rest) - 0.001)
    unknown = spec.unk_id
    backend = tokenizers.Tokenizer(models.Unigram(scores, unk_id=unknown, byte_fallback=False))
    backend.normalizer = normalizers.Sequence(_normalizers(engine))
    prepend = "always" if engine.proto.normalizer_spec.add_dummy_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend)
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=prepend)
    backend.post_processor = template(engine.id_of("[CLS]"), engine.id_of("[SEP]"))
    backend.add_special_tokens(
        [AddedToken(engine.piece(token), normalized=False, special=True) for token in engine.control_ids]
    )
    return backend


def _normalizers(engine: SpieceEngine) -> list[normalizers.Normalizer]:
    """Clean-up, then what the model's own table does, then single spaces."""
    steps = [normalizers.Replace(Regex(f"[{_WHITE_SPACE}]+"), " "), normalizers.Strip()]
    if not engine.clean_up.keep_accents:
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(f"[{mark_ranges()}]"), "")]
    if engine.clean_up.do_lower_case:
        steps += [normalizers.Replace(Regex(_LAST_SIGMA), "ς"), normalizers.Lowercase()]
    table = engine.proto.normalizer_spec.precompiled_charsmap
    if engine.composes:
        steps.append(normalizers.NFKC())  # Precompiled alone leaves Korean syllables in pieces, and loses some accents
    if table:
        steps.append(normalizers.Precompiled(table))
    return [*steps, normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
