"""A head start: what a fresh encoder can be told instead of having to find out.

A shared encoder with random weights sits for thousands of steps on one finding, that some words are more frequent than
others, before its attention begins to look at neighbours. Three things are written into the weights instead: the
frequencies (as the bias of the word head), positions as sine waves, and heads that lean towards one side: their query
is the key of a position beside it. Words may have vectors that were counted (`litebert.pretraining.counts`). They are
ordinary weights of an ordinary model; training changes them like others.
"""

import math

import torch
from torch import Tensor, nn

from litebert.model.heads import MaskedLMHead
from litebert.model.layers import SelfAttention
from litebert.model.model import Model

__all__ = ["give_head_start"]

_OFFSETS = (-1, 1, -2, 2)
"""Towards which neighbour the first heads lean; the other heads stay random."""
_PEAK = 4.0
"""By how much the score of that neighbour stands out at first, where words are alike."""
_FASTEST, _SLOWEST = 1.5, 0.0075
"""Radians per position of the fastest and the slowest wave."""


@torch.no_grad()
def give_head_start(model: Model, frequencies: Tensor, words: Tensor | None = None) -> None:
    """Write frequencies (of each id, summing to 1) and neighbours into the fresh weights of a pretraining model.

    `words` (ids, E) are vectors of length 1 for the word table, or 0 where nothing is known of a word.
    """
    config, embeddings = model.config, model.encoder.embeddings
    head = model.heads["masked_lm"]
    assert isinstance(head, MaskedLMHead)
    head.bias.copy_(frequencies.clamp(min=1e-9).log())
    if words is not None:
        table = embeddings.words.weight
        known, scale = words.any(1), float(table.norm(dim=1).mean())
        table[: len(words)][known] = words[known] * scale
    waves = torch.exp(torch.linspace(math.log(_FASTEST), math.log(_SLOWEST), config.embedding_size // 2))
    embeddings.positions.weight.copy_(_sine_table(config.max_positions, waves, embeddings.positions.weight))
    if isinstance(embeddings.projection, nn.Linear):
        if config.hidden_size < config.embedding_size:
            return  # the waves do not fit through
        nn.init.orthogonal_(embeddings.projection.weight)
        inward = embeddings.projection.weight  # (hidden, embedding)
    else:
        inward = torch.eye(config.hidden_size)
    for block in model.encoder.attention:
        assert isinstance(block, SelfAttention)
        _look_at_neighbours(block, inward, waves)


def _sine_table(num_positions: int, waves: Tensor, like: Tensor) -> Tensor:
    """Sine and cosine of every wave at every position, as strong as the random table was."""
    angles = torch.arange(num_positions)[:, None] * waves
    table = torch.zeros_like(like)
    table[:, : 2 * len(waves)] = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
    return table * (like.std() / table.std())


def _look_at_neighbours(block: SelfAttention, inward: Tensor, waves: Tensor) -> None:
    """Let the first heads ask for the position beside them: their query turns every wave on by some positions."""
    attention_size = block.output.in_features
    size = attention_size // block.num_heads
    used = min(size // 2, len(waves))  # the fastest waves tell neighbours apart
    scale = math.sqrt(_PEAK * math.sqrt(size) / used)
    for head, offset in enumerate(_OFFSETS[: block.num_heads]):
        query, key = torch.zeros(size, inward.shape[1]), torch.zeros(size, inward.shape[1])
        for wave in range(used):
            sine, cosine = math.sin(waves[wave] * offset), math.cos(waves[wave] * offset)
            pair = slice(2 * wave, 2 * wave + 2)  # sine and cosine
            key[pair, pair] = torch.eye(2)
            query[pair, pair] = torch.tensor([[cosine, sine], [-sine, cosine]])
        rows = slice(head * size, (head + 1) * size)
        block.qkv.weight[:attention_size][rows] = scale * query @ inward.T
        block.qkv.weight[attention_size : 2 * attention_size][rows] = scale * key @ inward.T
