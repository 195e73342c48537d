"""Look at a tokenizer on a sample of text: how many pieces a word takes, what it does not know, what it never uses."""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from litebert.text.sentences import split_sentences
from litebert.text.tokenizer import Tokenizer

__all__ = ["Inspection", "inspect_tokenizer", "script_of"]


@dataclass(frozen=True)
class Inspection:
    """What a tokenizer does to a sample."""

    vocab_size: int
    num_documents: int
    num_words: int
    num_tokens: int
    fertility: float  # pieces of a word, on average
    characters_per_token: float
    unknown_rate: float  # share of tokens that are unknown
    unknown_characters: list[tuple[str, int]]  # the commonest, with their counts
    coverage: float  # share of characters that do not lie in an unknown piece
    vocabulary_used: float  # share of the pieces that occur in the sample
    longest_pieces: list[str]
    scripts: dict[str, float]  # share of the letters in each script

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def inspect_tokenizer(tokenizer: Tokenizer, documents: Iterable[str]) -> Inspection:
    """Encode a sample, and count."""
    used = np.zeros(tokenizer.vocab_size, np.int64)
    unknown: Counter[str] = Counter()
    scripts: Counter[str] = Counter()
    num_documents = num_words = num_characters = num_hidden = 0
    for document in documents:
        num_documents += 1
        num_words += len(document.split())
        sentences = split_sentences(document)
        ids, counts = tokenizer.encode_plain(sentences)
        used += np.bincount(ids, minlength=tokenizer.vocab_size)
        num_characters += sum(map(len, sentences))
        scripts.update(script_of(character) for character in document[:2000] if character.isalpha())
        ends = np.cumsum(counts)
        for position in np.unique(np.searchsorted(ends, np.flatnonzero(ids == tokenizer.unknown_id), side="right")):
            sentence = sentences[position]
            for span in tokenizer.spans(sentence, plain=True):
                if span.id == tokenizer.unknown_id:
                    unknown.update(sentence[span.begin : span.end])
                    num_hidden += span.end - span.begin
    num_tokens, letters = int(used.sum()), scripts.total()
    pieces = sorted((tokenizer.piece(i) for i in range(tokenizer.vocab_size)), key=lambda piece: (-len(piece), piece))
    return Inspection(
        vocab_size=tokenizer.vocab_size,
        num_documents=num_documents,
        num_words=num_words,
        num_tokens=num_tokens,
        fertility=num_tokens / max(1, num_words),
        characters_per_token=num_characters / max(1, num_tokens),
        unknown_rate=float(used[tokenizer.unknown_id]) / max(1, num_tokens),
        unknown_characters=unknown.most_common(20),
        coverage=1 - num_hidden / max(1, num_characters),
        vocabulary_used=float((used > 0).mean()),
        longest_pieces=pieces[:10],
        scripts={name: count / letters for name, count in scripts.most_common(8)},
    )


@functools.lru_cache(maxsize=65536)
def script_of(character: str) -> str:
    """The script of a letter, as its Unicode name begins.

    >>> [script_of(letter) for letter in "aя가中か"]
    ['LATIN', 'CYRILLIC', 'HANGUL', 'CJK', 'HIRAGANA']
    """
    return unicodedata.name(character, "UNKNOWN").partition(" ")[0]
