"""Which pieces begin a word, and which ids stand for ordinary pieces: what masking has to know of a vocabulary.

A word begins at a piece with ▁ (or, in WordPiece, at one without ##). In scripts that are written without spaces, such
as Chinese, Japanese and Thai, each piece counts as a word.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.text.tokenizer import Tokenizer

__all__ = ["PieceTable", "piece_table"]

# Thai and Lao, Tibetan, Myanmar, Khmer, kana, CJK ideographs with their punctuation, full-width forms.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\uff01-\uff9f"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)
_UNUSED = re.compile(r"\[unused\d+\]|<unused\d+>")


@dataclass(frozen=True)
class PieceTable:
    """Facts about each id of a vocabulary."""

    starts_word: NDArray[np.bool_]
    stands_alone: NDArray[np.bool_]  # what follows it begins a word, too
    ordinary_ids: NDArray[np.int64]  # neither special nor unused: what may replace a masked token


def piece_table(tokenizer: Tokenizer) -> PieceTable:
    """Look at every piece once."""
    pieces = [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]
    continues = tokenizer.continues
    alone = np.array([bool(_UNSPACED.search(piece)) for piece in pieces])
    begins = [not piece.startswith(continues) if continues else piece.startswith("▁") for piece in pieces]
    special = set(tokenizer.special_ids)
    ordinary = [i for i, piece in enumerate(pieces) if piece and i not in special and not _UNUSED.fullmatch(piece)]
    return PieceTable(np.array(begins) | alone, alone, np.array(ordinary, np.int64))
