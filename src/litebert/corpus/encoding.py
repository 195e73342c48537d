"""The work of one preparation worker: documents in, ids out. Nothing here knows of files, order or other workers."""

import functools
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from litebert.corpus.shards import EncodedText, token_type
from litebert.text.inspection import script_of
from litebert.text.sentences import split_sentences
from litebert.text.tokenizer import Tokenizer

__all__ = ["EncodedChunk", "TextChunk", "TokenizerFiles", "encode_chunk"]

_SCRIPT_SAMPLE = 200  # characters of each document that are looked at for their script


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer as it travels to workers: the files of its folder."""

    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, folder: Path) -> "TokenizerFiles":
        """Take the files of a folder."""
        return cls(tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()))


@dataclass(frozen=True)
class TextChunk:
    """Documents, and for each whether it is held out."""

    texts: list[str]
    held_out: list[bool]


@dataclass(frozen=True)
class EncodedChunk:
    """The documents of a chunk as ids, those for training and those held out apart, and what was counted on the way."""

    train: EncodedText
    held_out: EncodedText
    num_unknown: int
    scripts: Counter[str]


def encode_chunk(files: TokenizerFiles, chunk: TextChunk) -> EncodedChunk:
    """Split documents into sentences and encode these."""
    tokenizer = _open_tokenizer(files)
    scripts: Counter[str] = Counter()
    for text in chunk.texts:
        scripts.update(map(script_of, filter(str.isalpha, text[:_SCRIPT_SAMPLE])))
    parts = []
    for side in (False, True):
        texts = [text for text, held_out in zip(chunk.texts, chunk.held_out, strict=True) if held_out == side]
        parts.append(_encode(tokenizer, texts))
    num_unknown = sum(int((part.tokens == tokenizer.unknown_id).sum()) for part in parts)
    return EncodedChunk(parts[0], parts[1], num_unknown, scripts)


def _encode(tokenizer: Tokenizer, texts: list[str]) -> EncodedText:
    documents = [split_sentences(text) for text in texts]
    tokens, lengths = tokenizer.encode_plain([sentence for document in documents for sentence in document])
    document_of = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    some = lengths > 0  # a sentence of characters that the clean-up removes has no tokens
    counts = np.bincount(document_of[some], minlength=len(documents))
    return EncodedText(
        tokens.astype(token_type(tokenizer.vocab_size)),
        lengths[some].astype(np.uint32),
        counts[counts > 0].astype(np.uint32),
    )


@functools.lru_cache(maxsize=2)
def _open_tokenizer(files: TokenizerFiles) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.files:
            (Path(folder) / name).write_bytes(content)
        return Tokenizer.from_pretrained(Path(folder))
