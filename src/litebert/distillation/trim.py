"""Trim: the vocabulary of a model loses the pieces that its text hardly needs, and the word table their rows.

In a small encoder the word table is the larger half, and most of its rows are read once in a hundred thousand tokens.
Words whose piece is gone are cut into smaller pieces, of which every letter of the text stays.
"""

import re
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from litebert.corpus.corpus import TRAIN, Corpus
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.text.sources import Document
from litebert.text.tokenizer import Tokenizer

__all__ = ["choose_pieces", "count_pieces", "trim_words"]

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # of which SentencePiece makes what it has no piece for


def count_pieces(text: Corpus | Iterable[Document], tokenizer: Tokenizer) -> NDArray[np.int64]:
    """How often each piece stands in a text."""
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    if isinstance(text, Corpus):
        for shard in text.shards[TRAIN]:
            counts += np.bincount(shard.tokens, minlength=counts.size)
        return counts
    for document in text:
        counts += np.bincount(tokenizer.encode_plain([document.text])[0], minlength=counts.size)
    return counts


def choose_pieces(counts: NDArray[np.int64], tokenizer: Tokenizer, size: int) -> list[int]:
    """The ids that stay, in order: special tokens, single letters of the text, and the pieces of the best ranks.

    A vocabulary begins with what its makers found most often, so a piece has two ranks, by the text and by its id, and
    the better one counts: the text may lack what the world talks about, and the world what the text does.
    """
    special, reserved = tokenizer.special_ids, tokenizer.reserved_ids
    marks = (tokenizer.continues, "▁")
    pieces = [_strip(tokenizer.piece(token), marks) for token in range(counts.size)]
    letters = {letter for piece, count in zip(pieces, counts.tolist(), strict=True) if count for letter in piece}
    kept = {token for token, piece in enumerate(pieces) if (piece in letters or not piece) and token not in reserved}
    kept |= {*special, *(token for token in reserved if _BYTE.fullmatch(tokenizer.piece(token)))}
    if size < len(kept):
        raise RequestError(f"--vocab-size must leave {len(kept):,} pieces at least: special ones and single letters")
    others = np.array([token for token in range(counts.size) if token not in kept and token not in reserved], np.int64)
    by_text = np.empty(others.size, np.int64)
    by_text[np.argsort(-counts[others], kind="stable")] = np.arange(others.size)
    order = others[np.argsort(np.minimum(by_text, np.arange(others.size)), kind="stable")]
    return sorted({*kept, *order[: size - len(kept)].tolist()})


def _strip(piece: str, marks: Iterable[str]) -> str:
    """A piece without what says whether it begins a word."""
    for mark in marks:
        piece = piece.removeprefix(mark)
    return piece


@torch.no_grad()
def trim_words(model: Model, kept: list[int]) -> Model:
    """The model with these rows of its word table alone; a head that predicts words predicts these."""
    shape = model.config.updated(vocab_size=len(kept), pad_token_id=kept.index(model.config.pad_token_id))
    smaller = Model(shape, model.head).eval()
    old, rows = model.config.vocab_size, torch.tensor(kept)
    tensors = {
        name: tensor[rows] if tensor.shape[0] == old and name.endswith(("words.weight", "masked_lm.bias")) else tensor
        for name, tensor in model.state_dict().items()
    }
    smaller.load_state_dict(tensors)
    return smaller
