"""Low rank: the word table becomes narrow, and a map takes its vectors to the width of the layers, as in ALBERT.

A LayerNorm centres a vector and divides it by its length. So the centred vectors of words, positions and token types
are projected to the directions in which they differ most, as numbers whose sum is zero: the smaller LayerNorm then does
to them what the larger one did. At full size nothing is lost; below it, what was lost is fitted by least squares.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import Head
from litebert.model.layers import Embeddings
from litebert.model.model import Model

__all__ = ["PREDICTS_WORDS", "factorize_words"]

PREDICTS_WORDS: tuple[Head, ...] = ("pretraining", "masked-lm")
"""Heads that use the word table once more, as their output matrix: they do not fit another one."""
_TEXT_SHARE = 0.5
"""How much the tokens of the text count when directions are chosen; the rest is the vocabulary, each word once.

Text alone forgets rare words, the vocabulary alone what stands in every text: [CLS], [SEP], the first positions."""
_RIDGE = 1e-3
"""Of the mean square of an input: how firmly the map keeps to what the directions alone would give."""


@torch.no_grad()
def factorize_words(model: Model, text: Sequence[Batch], size: int) -> Model:
    """A model whose embeddings have another size and give about the same. A head that predicts words is left out.

    `text` are rows of real text with their masks.
    """
    head: Head = "none" if model.head in PREDICTS_WORDS else model.head
    is_square = size == model.config.hidden_size
    shape = model.config.updated(family="albert", embedding_size=size, project_square_embeddings=is_square)
    smaller = Model(shape, head).eval()
    replaced = ("encoder.embeddings.",) if head == model.head else ("encoder.embeddings.", "heads.")
    kept = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(replaced)}
    smaller.load_state_dict(kept, strict=False)
    old, new = model.encoder.embeddings, smaller.encoder.embeddings

    summed, wanted = _embed(old, text)  # (tokens, old size), (tokens, hidden)
    words = _centre(old.words.weight.double())
    spread = _TEXT_SHARE * summed.T @ summed / len(summed) + (1 - _TEXT_SHARE) * words.T @ words / len(words)
    directions = torch.linalg.eigh(spread).eigenvectors.flip(1)[:, : size - 1]  # those of most spread first
    narrowing = directions @ _zero_sum_basis(size).T  # (old size, size)
    for name in ("words", "positions", "token_types"):
        getattr(new, name).weight.copy_(_centre(getattr(old, name).weight.double()) @ narrowing)
    new.norm.reset_parameters()

    # A LayerNorm gives vectors the length of the root of their size.
    widening = narrowing * (len(narrowing) / size) ** 0.5 * old.norm.weight.double()[:, None]  # (old size, size)
    bias = old.norm.bias.double()
    if isinstance(old.projection, nn.Linear):
        matrix = old.projection.weight.double()
        widening, bias = matrix @ widening, matrix @ bias + old.projection.bias.double()
    normed = F.layer_norm(summed @ narrowing, [size], eps=shape.layer_norm_eps)
    inputs = torch.cat([normed, normed.new_ones(len(normed), 1)], 1)
    among = inputs.T @ inputs
    among.diagonal().add_(_RIDGE * float(among.diagonal()[:-1].mean()))
    correction = torch.linalg.solve(among, inputs.T @ (wanted - normed @ widening.T - bias))
    assert isinstance(new.projection, nn.Linear)
    new.projection.weight.copy_(widening + correction[:-1].T)
    new.projection.bias.copy_(bias + correction[-1])
    return smaller


def _embed(embeddings: Embeddings, text: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """What enters the LayerNorm at each real token, centred, and what the embeddings give in the end."""
    entering: list[Tensor] = []
    hook = embeddings.norm.register_forward_pre_hook(lambda _, inputs: entering.append(inputs[0]))
    try:
        given = [embeddings(batch.input_ids, batch.token_type_ids, None) for batch in text]
    finally:
        hook.remove()
    masks = [torch.ones_like(it.input_ids) if it.attention_mask is None else it.attention_mask for it in text]
    real = [[states[mask != 0] for states, mask in zip(part, masks, strict=True)] for part in (entering, given)]
    return _centre(torch.cat(real[0]).double()), torch.cat(real[1]).double()


def _centre(vectors: Tensor) -> Tensor:
    return vectors - vectors.mean(-1, keepdim=True)


def _zero_sum_basis(size: int) -> Tensor:
    """Perpendicular vectors of length 1 whose numbers sum to zero: (size, size - 1)."""
    start = torch.eye(size, dtype=torch.float64)
    start[:, 0] = 1
    basis: Tensor = torch.linalg.qr(start).Q[:, 1:]
    return basis
