"""A head start: what a fresh encoder can be told instead of having to find out.

A shared encoder with random weights sits for thousands of steps on one finding, that some words are more frequent than
others, before its attention begins to look at neighbours, and hardly ever finds out what two segments have in common.
So some things are written into the weights instead: the frequencies (as the bias of the word head); positions as sine
waves, and heads that lean towards one side: their query is the key of a position beside it; and a head that looks for
the same word in the other segment, by which two texts can be compared from the first step on. Where it is asked for,
two more heads read one segment each: from random weights, order stays at chance for millions of tokens. Words may
have vectors that were counted (`litebert.pretraining.counts`). All are ordinary weights of an ordinary model; training
changes them like others.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.model.heads import MaskedLMHead
from litebert.model.layers import Embeddings, SelfAttention
from litebert.model.model import Model
from litebert.training.distributed import copy_into, gather

__all__ = ["give_head_start", "stack_layers", "write_matching_head", "write_segment_heads"]

_OFFSETS = {0: -1, 1: 1, 3: -2, 4: 2}
"""Towards which neighbour these heads lean; heads that are named nowhere stay random."""
_MATCHING = 2
"""The head that looks for the same word."""
_PEAK = 4.0
"""By how much the score of that neighbour stands out at first, where words are alike."""
_SAME_WORD, _OTHER_SEGMENT = 6.0, 6.0
"""By how much the score of the same word stands out at first, and that of any word of the other segment."""
_LEAST_HEADS = 4
"""Of a model in which two of them can read a segment each."""
_LEAST = 1e-9
"""What keeps a table of zeros from being divided by."""
_NEAR = 128
"""Positions in which texts of the usual length lie."""
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
    write_matching_head(model)


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
    for head, offset in _OFFSETS.items():
        if head >= block.num_heads:
            continue
        query, key = torch.zeros(size, inward.shape[1]), torch.zeros(size, inward.shape[1])
        for wave in range(used):
            sine, cosine = math.sin(waves[wave] * offset), math.cos(waves[wave] * offset)
            pair = slice(2 * wave, 2 * wave + 2)  # sine and cosine
            key[pair, pair] = torch.eye(2)
            query[pair, pair] = torch.tensor([[cosine, sine], [-sine, cosine]])
        rows = slice(head * size, (head + 1) * size)
        block.qkv.weight[:attention_size][rows] = scale * query @ inward.T
        block.qkv.weight[attention_size : 2 * attention_size][rows] = scale * key @ inward.T


@torch.no_grad()
def write_matching_head(model: Model) -> None:
    """Let one head of the first layer ask for words like its own, and turn its back on its own segment.

    Query and key are the same directions of the embedding: those in which words differ much and positions little. One
    more direction tells the segments apart, and there the query has the opposite sign. It works on fresh weights and on
    trained ones: masked words do not need this head, and training soon has it do something else.
    """
    embeddings, block = model.encoder.embeddings, model.encoder.attention[0]
    assert isinstance(block, SelfAttention)
    if block.num_heads <= _MATCHING or model.config.num_token_types < 2:
        return
    tables = _read_tables(embeddings)
    size = block.output.in_features // block.num_heads
    words, sides = tables.words - tables.words.mean(0), F.normalize(tables.apart, dim=0)
    chosen = _choose_directions(words, tables.positions, sides, min(size, words.shape[1]) - 1)
    alike = float((words @ chosen.T).square().sum(1).mean()) * tables.stretched
    same = math.sqrt(_SAME_WORD * math.sqrt(size) / max(alike, _LEAST)) * chosen
    across = float(tables.apart.square().sum()) * tables.stretched / 2
    other = math.sqrt(_OTHER_SEGMENT * math.sqrt(size) / max(across, _LEAST)) * sides[None]
    back, centre = tables.find_centre(tables.words.mean(0))
    weight, bias = _read(block.qkv.weight), _read(block.qkv.bias)
    for part, directions in enumerate((torch.cat([same, -other]), torch.cat([same, other]))):
        begin = part * block.output.in_features + _MATCHING * size
        rows = slice(begin, begin + len(directions))
        weight[rows], bias[rows] = directions @ back, -directions @ centre
    copy_into(block.qkv.weight, weight)
    copy_into(block.qkv.bias, bias)


def stack_layers(model: Model, trained: int, depth: int) -> None:
    """Let an encoder whose layers share nothing go on with more of them: each trained layer several times in a row.

    So it begins with what the same weights make of a text when they run more often, as shared ones would.
    """
    encoder = model.encoder
    for blocks in (encoder.attention, encoder.feed_forward):
        for layer in reversed(range(depth)):  # from the last one: what is copied has not been overwritten yet
            source, target = blocks[layer * trained // depth], blocks[layer]
            for weight, copied in zip(target.parameters(), source.parameters(), strict=True):
                copy_into(weight, gather(copied))


@torch.no_grad()
def write_segment_heads(model: Model, frequencies: Tensor) -> None:
    """Let the last two heads of the first layer read one segment each, so that every state knows what both are about.

    Which segment a token is of is one direction of the embedding, and all tokens ask for the same side of it. What the
    heads read are the directions in which words differ most, each with a variance of one, and they hand it on as it is.
    Random weights would hand on a small part of it, in which a difference between segments is lost.
    """
    embeddings, block = model.encoder.embeddings, model.encoder.attention[0]
    assert isinstance(block, SelfAttention)
    attention_size = block.output.in_features
    size = attention_size // block.num_heads
    if block.num_heads < _LEAST_HEADS or 2 * size > model.config.hidden_size or model.config.num_token_types < 2:
        return
    tables = _read_tables(embeddings)
    shares = frequencies.to(tables.words)
    mean = shares @ tables.words
    back, centre = tables.find_centre(mean)
    sides = F.normalize(tables.apart, dim=0)
    distance = float(tables.apart.norm()) * math.sqrt(tables.stretched)
    asked = math.sqrt(_OTHER_SEGMENT * math.sqrt(size) / max(distance, _LEAST))
    read = _main_directions(tables.words - mean, shares, size) / math.sqrt(tables.stretched)
    weight, bias, output = _read(block.qkv.weight), _read(block.qkv.bias), _read(block.output.weight)
    apart = torch.linalg.qr(torch.randn(len(output), 2 * len(read), dtype=output.dtype)).Q
    for number, sign in enumerate((-1.0, 1.0)):
        begin = (block.num_heads - 2 + number) * size
        for part in range(2):
            rows = slice(part * attention_size + begin, part * attention_size + begin + size)
            weight[rows], bias[rows] = 0.0, 0.0
        bias[begin] = sign * asked
        weight[attention_size + begin] = asked * sides @ back
        bias[attention_size + begin] = -asked * sides @ centre
        rows = slice(2 * attention_size + begin, 2 * attention_size + begin + len(read))
        weight[rows], bias[rows] = read @ back, -read @ centre
        output[:, begin : begin + len(read)] = apart[:, number * len(read) : (number + 1) * len(read)]
    copy_into(block.qkv.weight, weight)
    copy_into(block.qkv.bias, bias)
    copy_into(block.output.weight, output)


@dataclass(frozen=True)
class _Tables:
    """The tables of an embedding as LayerNorm sees them: every row without its mean."""

    words: Tensor
    positions: Tensor
    types: Tensor
    inward: Tensor
    shift: Tensor

    @property
    def apart(self) -> Tensor:
        """From the first segment to the second."""
        return self.types[1] - self.types[0]

    @property
    def stretched(self) -> float:
        """What LayerNorm does to squared lengths."""
        lengths = [float(table.square().sum(1).mean()) for table in (self.words, self.positions, self.types)]
        return self.words.shape[1] / max(sum(lengths), _LEAST)

    def find_centre(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The map from states back to embeddings, and where the mean of tokens lies whose words have such a mean."""
        back = torch.linalg.pinv(self.inward)
        mean = words + self.positions.mean(0) + self.types.mean(0)
        return back, back @ self.shift + math.sqrt(self.stretched) * mean


def _read_tables(embeddings: Embeddings) -> _Tables:
    parts = (embeddings.words, embeddings.positions, embeddings.token_types)
    words, positions, types = (table - table.mean(1, keepdim=True) for table in (_read(part.weight) for part in parts))
    return _Tables(words, positions[:_NEAR], types[:2], *_way_inward(embeddings))


def _main_directions(words: Tensor, shares: Tensor, count: int) -> Tensor:
    """Directions (count, E) in which words (around 0, with their shares) differ most, scaled to a variance of one."""
    variances, directions = torch.linalg.eigh((words * shares[:, None]).T @ words)
    chosen: Tensor = directions[:, -count:] / variances[-count:].clamp(min=_LEAST).sqrt()
    return chosen.T


def _read(tensor: Tensor) -> Tensor:
    """A copy of the whole of a tensor, with digits to spare; all processes must ask together."""
    return gather(tensor).double().clone()


def _choose_directions(words: Tensor, positions: Tensor, sides: Tensor, count: int) -> Tensor:
    """Directions (count, E) at right angles, in which words differ much and positions little; `sides` is none."""

    def spread(table: Tensor) -> Tensor:
        centred = table - table.mean(0)
        centred = centred - torch.outer(centred @ sides, sides)
        return centred.T @ centred / len(table)

    wanted, unwanted = spread(words), spread(positions)
    unwanted += float(wanted.trace() + unwanted.trace()) * torch.outer(sides, sides)
    both = wanted + unwanted
    both += _LEAST * max(float(both.trace()), _LEAST) * torch.eye(len(both), dtype=both.dtype)
    inverse = torch.linalg.inv(torch.linalg.cholesky(both))
    best = torch.linalg.eigh(inverse @ wanted @ inverse.T).eigenvectors[:, -count:]
    directions: Tensor = torch.linalg.qr(inverse.T @ best).Q.T
    return directions


def _way_inward(embeddings: Embeddings) -> tuple[Tensor, Tensor]:
    """The linear map (H, E) and the shift (H,) from what LayerNorm makes of an embedding, its weights aside."""
    scale, shift = _read(embeddings.norm.weight), _read(embeddings.norm.bias)
    if not isinstance(embeddings.projection, nn.Linear):
        return torch.diag(scale), shift
    projection, bias = _read(embeddings.projection.weight), _read(embeddings.projection.bias)
    return projection * scale, projection @ shift + bias
