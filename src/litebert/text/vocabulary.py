"""Train a vocabulary: SentencePiece's unigram model with ALBERT's special tokens, on text that was cleaned up."""

import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import sentencepiece
from pydantic import BaseModel, ConfigDict, Field, model_validator
from sentencepiece import sentencepiece_model_pb2 as protocol

from litebert.errors import LitebertError, RequestError
from litebert.folders import replace_folder
from litebert.text.cleanup import CleanUp, mend
from litebert.text.engine import SPECIAL_TOKENS
from litebert.text.sentences import split_sentences
from litebert.text.sources import Reader, SourceName, open_sources
from litebert.text.spiece import SpieceEngine, ends_in_number_comma
from litebert.text.tokenizer import Tokenizer

__all__ = ["GOOGLE_SYMBOLS", "VocabularyConfig", "train_tokenizer", "train_vocabulary"]

GOOGLE_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
"""The symbols that Google's vocabulary keeps apart from words."""

_NUM_THREADS = 8  # part of the result: sums are added up in another order with another number


class VocabularyConfig(BaseModel):
    """How to train a vocabulary. The defaults are Google's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    vocab_size: Annotated[int, Field(ge=16, le=2_000_000)] = 30_000
    coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 0.99995
    do_lower_case: bool = True
    keep_accents: bool = False
    form: Literal["nfkc", "nfkd"] = "nfkc"
    symbols: tuple[str, ...] = GOOGLE_SYMBOLS
    max_sentences: Annotated[int, Field(gt=100)] = 1_000_000

    @model_validator(mode="after")
    def _check(self) -> "VocabularyConfig":
        if self.form == "nfkd" and self.keep_accents:
            raise ValueError("nfkd takes letters and their accents apart: choose nfkc to keep accents")
        for symbol in self.symbols:
            if not symbol or "▁" in symbol or "\0" in symbol or any(map(str.isspace, symbol)) or mend(symbol) != symbol:
                raise ValueError(f"{symbol!r} cannot be a symbol: it is empty, holds a space or is no text")
            if symbol in (*SPECIAL_TOKENS, "<pad>", "<unk>"):
                raise ValueError(f"{symbol!r} cannot be a symbol: it is in every vocabulary already")
            if CleanUp(self.do_lower_case, self.keep_accents).clean(symbol) != symbol:
                raise ValueError(f"{symbol!r} cannot be a symbol: the clean-up changes it before it is looked for")
        return self


def train_tokenizer(
    sources: SourceName | Sequence[SourceName] | Reader,
    out: str | os.PathLike[str] = "tokenizer",
    *,
    vocab_size: int = 30_000,
    column: str | Sequence[str] = "text",
    skip_bad: bool = False,
    config: VocabularyConfig | None = None,
) -> Tokenizer:
    """Train a SentencePiece unigram tokenizer, as ALBERT's, on text of any language, and write its folder.

    `config` has all that can be said about it; without it, `vocab_size` is said and the rest is as usual.
    """
    folder = Path(out)
    reader = sources if isinstance(sources, Reader) else open_sources(sources, column, skip_bad, folder)
    _refuse_other_folders(folder)
    with replace_folder(folder) as staging:
        settings = config or VocabularyConfig(vocab_size=vocab_size)
        tokenizer = train_vocabulary((document.text for document in reader), settings)
        tokenizer.write_files(staging)
    return tokenizer


def _refuse_other_folders(out: Path) -> None:
    """A tokenizer has a folder of its own; that of a model would lose its manifest."""
    ours = {"tokenizer.json", "tokenizer_config.json", "spiece.model", "manifest.json"}
    others = {path.name for path in out.iterdir()} - ours if out.is_dir() else set()
    if others or not out.name:
        what = f"it holds {min(others)}" if others else "it has no name"
        raise RequestError(f"{out} is no folder for a tokenizer, because {what}: choose another --out")


def train_vocabulary(documents: Iterable[str], config: VocabularyConfig) -> Tokenizer:
    """Train on documents, or on `max_sentences` sentences drawn from them. The same text gives the same bytes."""
    clean_up = CleanUp(config.do_lower_case, config.keep_accents)
    counter = _Counter(_sentences(documents, clean_up))
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SetRandomGeneratorSeed(0)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(counter),
                model_writer=written,
                model_type="unigram",
                vocab_size=config.vocab_size,
                character_coverage=config.coverage,
                pad_id=0,
                unk_id=1,
                bos_id=-1,
                eos_id=-1,
                control_symbols=["[CLS]", "[SEP]", "[MASK]"],
                user_defined_symbols=list(dict.fromkeys(config.symbols)),
                input_sentence_size=config.max_sentences,
                shuffle_input_sentence=True,
                max_sentence_length=65536,
                num_threads=_NUM_THREADS,
                minloglevel=2,
                **_normalization(config, Path(folder)),
            )
        except (RuntimeError, ValueError) as error:
            if counter.error is not None:
                raise counter.error from None
            raise _explained(error, counter.count, config) from None
    return Tokenizer(SpieceEngine(_without_number_commas(written.getvalue()), clean_up))


def _without_number_commas(model: bytes) -> bytes:
    """Turn off pieces such as "1990,": Google's rule would take them apart again, and tokenizers has no such rule."""
    proto = protocol.ModelProto.FromString(model)  # type: ignore[attr-defined]
    for piece in proto.pieces:
        if ends_in_number_comma(piece.piece):
            piece.type = type(piece).UNUSED
    return bytes(proto.SerializeToString(deterministic=True))


def _sentences(documents: Iterable[str], clean_up: CleanUp) -> Iterator[str]:
    for document in documents:
        for sentence in split_sentences(document):
            clean = clean_up.clean(sentence).replace("\0", "")
            if clean:
                yield clean


class _Counter:
    """Counts what goes through it, and keeps an error of the reader, which the library turns into one of its own."""

    def __init__(self, items: Iterator[str]) -> None:
        self._items = items
        self.count = 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for item in self._items:
                self.count += 1
                yield item
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _normalization(config: VocabularyConfig, folder: Path) -> dict[str, Any]:
    """SentencePiece's own table: Google's (NFKC), or one that leaves Korean syllables apart as NFKD splits them."""
    if config.form == "nfkc":
        return {"normalization_rule_name": "nmt_nfkc"}
    removed = [*range(0x01, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, *range(0x80, 0x85), *range(0x86, 0xA0)]
    spaces = [0x200B, 0x200E, 0x200F, 0xFEFF, 0xFFFD]
    lines = [f"{code:X}\t" for code in removed] + [f"{code:X}\t20" for code in spaces]
    file = folder / "rules.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="ascii")
    return {"normalization_rule_tsv": str(file)}


def _explained(error: Exception, num_sentences: int, config: VocabularyConfig) -> LitebertError:
    reason = str(error)
    if num_sentences == 0 or "required_chars_.empty()" in reason:
        return RequestError("there is no text to train on: every document is empty")
    if "too high" in reason:
        most = "".join(filter(str.isdigit, reason.rpartition("<=")[2])) or "a smaller one"
        return RequestError(
            f"{num_sentences:,} sentences do not give {config.vocab_size:,} pieces: "
            f"choose --vocab-size {most} or less, or more text"
        )
    if "too small" in reason or "smaller than required" in reason or "vocab_size" in reason:
        return RequestError(
            f"{config.vocab_size:,} pieces are too few for the characters of this text: choose a larger --vocab-size "
            f"or a --coverage below {config.coverage}"
        )
    return LitebertError(f"SentencePiece could not train on this text ({reason.partition(chr(10))[0][:200]})")
