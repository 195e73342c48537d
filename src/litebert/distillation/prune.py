"""Pruning: attention heads and feed-forward units that matter least are taken out, so that matrices really shrink.

A model reads some text, without labels. A unit matters as much as what it adds to the states of tokens: the size of its
activation times the norm of its outgoing column. A head matters as much as the norm of what it adds. Every layer loses
the same number, each of its own choice. What is left takes over what the others added, as far as it can be told from
it: by least squares, fitted to the same text.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.layers import FeedForward, SelfAttention, attention_bias
from litebert.model.model import Model
from litebert.model.sharing import layer_plan

__all__ = ["Moments", "choose_heads", "choose_units", "drop_inputs", "prune", "shape_pruned"]

_RIDGE = 0.1  # of the mean square of an input: how firmly weights keep to what they were


class Moments:
    """What is known of the inputs of a linear map, summed over the tokens of a text; a last input is always 1."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.sizes = torch.zeros(size)
        """Sums of |input|."""
        self.products = torch.zeros(size + 1, size + 1)
        """Sums of products of two inputs."""

    def add(self, inputs: Tensor) -> None:
        """Take in the inputs of some tokens: (tokens, size)."""
        self.count += len(inputs)
        self.sizes += inputs.abs().sum(0)
        with_one = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], 1)
        self.products.addmm_(with_one.T, with_one)


def shape_pruned(config: ModelConfig, keep: float = 1.0, keep_heads: float = 1.0) -> ModelConfig:
    """The shape that is left when a share of the feed-forward units and of the heads is kept; one of each at least.

    >>> shape = shape_pruned(ModelConfig(), 0.5, 0.25)
    >>> shape.intermediate_size, shape.num_heads, shape.head_size
    (1536, 3, 64)
    """
    for option, share in (("--keep", keep), ("--keep-heads", keep_heads)):
        if not 0 < share <= 1:
            raise RequestError(f"{option} must be a share above 0 and at most 1, not {share:g}")
    num_heads = max(1, round(keep_heads * config.num_heads))
    changes: dict[str, Any] = {"intermediate_size": max(1, round(keep * config.intermediate_size))}
    if num_heads < config.num_heads:
        changes |= {"num_heads": num_heads, "head_size": config.attention_size // config.num_heads}
    return config.updated(**changes)


@torch.no_grad()
def prune(model: Model, text: Sequence[Batch], keep: float = 1.0, keep_heads: float = 1.0) -> Model:
    """A smaller model of the same depth: what matters least for this text is taken out, the rest is fitted to it."""
    config = shape_pruned(model.config, keep, keep_heads)
    pruned = Model(config, model.head).eval()
    old, new = model.encoder.eval(), pruned.encoder
    blocks = ("encoder.attention.", "encoder.feed_forward.")
    others = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(blocks)}
    pruned.load_state_dict(others, strict=False)
    plan = layer_plan(model.config)
    last_use = {part: index for index, layer in enumerate(plan) for part in enumerate(layer)}
    known: dict[tuple[int, int], Moments] = {}
    states = [old.embeddings(batch.input_ids, batch.token_type_ids, None) for batch in text]
    for index, layer in enumerate(plan):
        for part in enumerate(layer):  # (0, attention block), (1, feed-forward block)
            block = (old.attention, old.feed_forward)[part[0]][part[1]]
            known.setdefault(part, Moments(_outgoing(block).in_features))
            states = [_run(block, batch, state, known[part]) for batch, state in zip(text, states, strict=True)]
            if last_use[part] == index:  # all that is to be known of it is known
                target = (new.attention, new.feed_forward)[part[0]][part[1]]
                _fill(target, block, known.pop(part))
    return pruned


def _outgoing(block: nn.Module) -> nn.Linear:
    """The map by which a block adds to the states."""
    linear = block.output if isinstance(block, SelfAttention) else block.down
    assert isinstance(linear, nn.Linear)
    return linear


def _run(block: nn.Module, batch: Batch, states: Tensor, known: Moments) -> Tensor:
    """The states after a block; what its outgoing map is given at real tokens is noted."""
    mask = batch.attention_mask
    real = torch.ones_like(batch.input_ids, dtype=torch.bool) if mask is None else mask != 0

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        known.add(inputs[0][real])

    hook = _outgoing(block).register_forward_pre_hook(note)
    try:
        more = (attention_bias(mask, None, states.dtype),) if isinstance(block, SelfAttention) else ()
        return block(states, *more)  # type: ignore[no-any-return]
    finally:
        hook.remove()


def choose_units(block: FeedForward, known: Moments, count: int) -> Tensor:
    """The units that add most, in their order: mean |activation| times the norm of the outgoing column."""
    importance = known.sizes / known.count * block.down.weight.norm(dim=0)
    return _largest(importance, count)


def choose_heads(block: SelfAttention, known: Moments, count: int) -> Tensor:
    """The heads that add most, in their order: root mean square over tokens of the norm of what a head adds."""
    size = block.output.in_features // block.num_heads
    products = known.products[:-1, :-1]
    squares = []
    for head in range(block.num_heads):
        part = slice(head * size, (head + 1) * size)
        added = block.output.weight[:, part]  # (hidden, size)
        squares.append((added @ products[part, part] * added).sum())
    return _largest(torch.stack(squares), count)


def _largest(importance: Tensor, count: int) -> Tensor:
    chosen: Tensor = importance.topk(count).indices.sort().values
    return chosen


def drop_inputs(linear: nn.Linear, kept: Tensor, known: Moments) -> tuple[Tensor, Tensor]:
    """Weight and bias of the map that is left with some of its inputs, and that gives about what the whole one gives.

    What the dropped inputs gave is fitted by those that are kept (ridge regression: weights move no further than the
    text demands). Where the dropped ones gave nothing, the others stay as they are.
    """
    size = linear.in_features
    is_kept = torch.zeros(size, dtype=torch.bool)
    is_kept[kept] = True
    dropped = torch.arange(size)[~is_kept]
    stays = torch.cat([kept, torch.tensor([size])])  # with the bias, which is the weight of the input that is always 1
    products = known.products.double()
    among, across = products[stays][:, stays], products[stays][:, dropped]
    among.diagonal().add_(_RIDGE * float(among.diagonal()[:-1].mean()))
    solution = torch.linalg.solve(among, across @ linear.weight[:, dropped].double().T)  # (kept + 1, outputs)
    weight = linear.weight[:, kept] + solution[:-1].T.float()
    return weight, linear.bias + solution[-1].float()


def _fill(target: nn.Module, block: nn.Module, known: Moments) -> None:
    """Give a smaller block what it keeps of a larger one."""
    target.norm.load_state_dict(block.norm.state_dict())  # type: ignore[union-attr]
    outgoing, smaller = _outgoing(block), _outgoing(target)
    if isinstance(block, SelfAttention):
        assert isinstance(target, SelfAttention)
        size = block.output.in_features // block.num_heads
        heads = choose_heads(block, known, target.num_heads)
        kept = (heads[:, None] * size + torch.arange(size)).flatten()
        rows = torch.cat([kept + third * block.output.in_features for third in range(3)])
        incoming, target_incoming = block.qkv, target.qkv
    else:
        assert isinstance(block, FeedForward)
        assert isinstance(target, FeedForward)
        rows = kept = choose_units(block, known, target.down.in_features)
        incoming, target_incoming = block.up, target.up
    target_incoming.weight.copy_(incoming.weight[rows])
    target_incoming.bias.copy_(incoming.bias[rows])
    if len(kept) == outgoing.in_features:
        smaller.load_state_dict(outgoing.state_dict())
        return
    weight, bias = drop_inputs(outgoing, kept, known)
    smaller.weight.copy_(weight)
    smaller.bias.copy_(bias)
