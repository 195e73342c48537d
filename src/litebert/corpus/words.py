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


@dataclass(frozen=True)
class PieceTable:
    """Facts about each id of a vocabulary."""

    starts_word: NDArray[np.bool_]
    stands_alone: NDArray[np.bool_]  # what follows it begins a word, too
    ordinary_ids: NDArray[np.int64]  # neither special nor unused: what may replace a masked token

    def find_starts(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which tokens of running text begin a word; the first does."""
        starts = self.starts_word[tokens]
        starts[1:] |= self.stands_alone[tokens[:-1]]
        starts[:1] = True
        return starts


def piece_table(tokenizer: Tokenizer) -> PieceTable:
    """Look at every piece once."""
    pieces = [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]
    continues = tokenizer.continues
    alone = np.array([bool(_UNSPACED.search(piece)) for piece in pieces])
    begins = [not piece.startswith(continues) if continues else piece.startswith("▁") for piece in pieces]
    ordinary = sorted(set(range(tokenizer.vocab_size)) - tokenizer.reserved_ids)
    return PieceTable(np.array(begins) | alone, alone, np.array(ordinary, np.int64))
