"""The layers of an encoder with their backward pass written out.

Where a block is used twelve times, autograd makes twelve full-size weight gradients, adds them up, and keeps every
intermediate. Here the gradients accumulate in one buffer per shared matrix, the activation is computed again instead of
kept, and wide temporaries are freed at once: less memory and more speed, with the same numbers. `Encoder` takes this
path for training on a CPU in fp32 without dropout, and the plain modules everywhere else. Tests hold the two equal.

To learn how the model works, read `layers.py` instead. Inside this file, tokens of all sequences are rows of one
matrix: (batch·tokens, H).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from litebert.config import Activation
from litebert.model.cost import LONGEST_DENSE_ATTENTION
from litebert.model.layers import gather_positions
from litebert.model.lean.kernels import (
    EXPLICIT_ACTIVATIONS,
    activate,
    activation_gradient,
    add_norm,
    merge_heads,
    probabilities,
    scores_gradient,
    split_heads,
)
from litebert.model.sharing import LayerPlan

if TYPE_CHECKING:
    from litebert.model.encoder import Encoder

__all__ = ["can_run_lean", "run_lean"]


class Affine(NamedTuple):
    """Weight and bias of a linear map or a LayerNorm; also used for their gradients."""

    weight: Tensor
    bias: Tensor


class LayerWeights(NamedTuple):
    """All tensors of one layer, or their gradients."""

    qkv: Affine
    output: Affine
    attention_norm: Affine
    up: Affine
    down: Affine
    norm: Affine


@dataclass(frozen=True)
class Geometry:
    """What all layers of a call have in common."""

    batch: int
    num_heads: int
    eps: float
    activation: Activation


class Normed(NamedTuple):
    """What the gradient of residual + LayerNorm needs."""

    total: Tensor
    mean: Tensor
    inverse_deviation: Tensor


class Saved(NamedTuple):
    """What one layer keeps for its backward pass."""

    inputs: Tensor
    rows: Tensor | None  # the rows of `inputs` that make queries, None for all
    heads: "DenseAttention | BlockAttention"
    attended: Tensor
    attention_norm: Normed
    middle: Tensor
    raised: Tensor  # before bias and activation
    norm: Normed


def can_run_lean(encoder: "Encoder", hidden: Tensor) -> bool:
    """Say whether this call trains all blocks on a CPU in fp32 without dropout, and no hooks are registered."""
    config = encoder.config
    if not (torch.is_grad_enabled() and hidden.device.type == "cpu" and hidden.dtype == torch.float32):
        return False
    if encoder.training and (config.hidden_dropout or config.attention_dropout):
        return False
    if (
        config.activation not in EXPLICIT_ACTIVATIONS
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
    ):
        return False
    blocks = [*encoder.attention, *encoder.feed_forward]
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    has_hooks = any(getattr(module, name) for block in blocks for module in block.modules() for name in hooks)
    return not has_hooks and all(weight.requires_grad for block in blocks for weight in block.parameters())


def run_lean(encoder: "Encoder", hidden: Tensor, bias: Tensor | None, plan: LayerPlan, keep: Tensor | None) -> Tensor:
    """Run the layers of `plan`: (batch, tokens, hidden) → (batch, tokens or kept, hidden)."""
    batch, _, size = hidden.shape
    geometry = Geometry(batch, encoder.config.num_heads, encoder.config.layer_norm_eps, encoder.config.activation)
    # Only the blocks that this depth uses, as autograd would have it: the others get no gradient, not one of zero.
    num_attention, num_feed_forward = 1 + max(a for a, _ in plan), 1 + max(f for _, f in plan)
    blocks = [*encoder.attention[:num_attention], *encoder.feed_forward[:num_feed_forward]]
    weights = [tensor for block in blocks for tensor in _tensors(block)]
    call = LeanCall(geometry, plan, num_attention, bias, keep, encoder.recompute)
    output: Tensor = _LeanLayers.apply(call, hidden.reshape(-1, size), *weights)  # type: ignore[no-untyped-call]
    return output.view(batch, -1, size)


def _tensors(block: nn.Module) -> list[Tensor]:
    """The tensors of an attention or a feed-forward block in the order of `LayerWeights`."""
    names = ("qkv", "output", "norm") if hasattr(block, "qkv") else ("up", "down", "norm")
    return [tensor for name in names for tensor in (getattr(block, name).weight, getattr(block, name).bias)]


@dataclass(frozen=True)
class LeanCall:
    """What one call of the encoder needs beside weights and states."""

    geometry: Geometry
    plan: LayerPlan
    num_attention: int
    bias: Tensor | None
    keep: Tensor | None
    recompute: bool

    def layers(self, tensors: Sequence[Tensor]) -> list[LayerWeights]:
        """Group a flat list of tensors (weights or gradients) by the layers of the plan; shared layers share them."""
        pairs = [Affine(*tensors[i : i + 2]) for i in range(0, len(tensors), 2)]
        triples = [tuple(pairs[i : i + 3]) for i in range(0, len(pairs), 3)]
        return [LayerWeights(*triples[a], *triples[self.num_attention + f]) for a, f in self.plan]

    def kept_at(self, layer: int) -> Tensor | None:
        """Only the last layer leaves positions out."""
        return self.keep if layer == len(self.plan) - 1 else None


class _LeanLayers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: LeanCall, states: Tensor, *weights: Tensor) -> Tensor:
        ctx.call, ctx.layers = call, []
        states, bare = states.detach(), [weight.detach() for weight in weights]  # a compiler asks about gradients
        for index, layer in enumerate(call.layers(bare)):
            inputs = states
            states, saved = forward_layer(inputs, layer, call.geometry, call.bias, call.kept_at(index))
            ctx.layers.append(inputs if call.recompute else saved)
            del saved
        ctx.save_for_backward(*weights)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        call, weights = ctx.call, ctx.saved_tensors
        if len(ctx.layers) != len(call.plan):
            raise RuntimeError("the activations of this step are already used up: run the model again")
        gradients = [torch.zeros_like(weight) for weight in weights]
        grad = grad.contiguous()
        layers, totals = call.layers(weights), call.layers(gradients)
        for index in reversed(range(len(layers))):
            saved = ctx.layers.pop()
            if call.recompute:
                saved = forward_layer(saved, layers[index], call.geometry, call.bias, call.kept_at(index))[1]
            grad = backward_layer(grad, saved, layers[index], totals[index], call.geometry)
            del saved
        return (None, grad, *gradients)


def forward_layer(
    inputs: Tensor, weights: LayerWeights, geometry: Geometry, bias: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Saved]:
    """Run one layer on (batch·tokens, hidden); with `keep` (batch, k) the result has batch·k rows."""
    batch, num_heads, size = geometry.batch, geometry.num_heads, weights.output.weight.shape[1]
    qkv = weights.qkv
    if keep is None:
        rows, residual = None, inputs
        query, key, value = split_heads(inputs @ qkv.weight.T, qkv.bias, 3, batch, num_heads)
    else:
        tokens = inputs.shape[0] // batch
        rows = (keep + tokens * torch.arange(batch)[:, None]).flatten()
        residual = inputs[rows]
        (query,) = split_heads(residual @ qkv.weight[:size].T, qkv.bias[:size], 1, batch, num_heads)
        key, value = split_heads(inputs @ qkv.weight[size:].T, qkv.bias[size:], 2, batch, num_heads)
        if bias is not None and bias.shape[2] > 1:
            bias = gather_positions(bias[:, 0], keep)[:, None]
    kind = DenseAttention if key.shape[1] <= LONGEST_DENSE_ATTENTION else BlockAttention
    heads, attended = kind.attend(query, key, value, bias, batch)
    total, middle, *statistics = add_norm(
        attended @ weights.output.weight.T, weights.output.bias, residual, *weights.attention_norm, geometry.eps
    )
    attention_norm = Normed(total, *statistics)
    raised = middle @ weights.up.weight.T
    lowered = activate(raised, weights.up.bias, geometry.activation) @ weights.down.weight.T
    total, result, *statistics = add_norm(lowered, weights.down.bias, middle, *weights.norm, geometry.eps)
    return result, Saved(inputs, rows, heads, attended, attention_norm, middle, raised, Normed(total, *statistics))


def backward_layer(
    grad: Tensor, saved: Saved, weights: LayerWeights, totals: LayerWeights, geometry: Geometry
) -> Tensor:
    """Return the gradient of the layer's input and add those of its weights to `totals`."""
    grad = _norm_backward(grad, saved.norm, weights.norm, totals.norm)
    grad_raised, activated = activation_gradient(
        grad @ weights.down.weight, saved.raised, weights.up.bias, geometry.activation
    )
    _accumulate(totals.down, grad, activated)
    del activated
    _accumulate(totals.up, grad_raised, saved.middle)
    grad.addmm_(grad_raised, weights.up.weight)
    del grad_raised

    grad = _norm_backward(grad, saved.attention_norm, weights.attention_norm, totals.attention_norm)
    _accumulate(totals.output, grad, saved.attended)
    grads = saved.heads.backward(grad @ weights.output.weight, geometry.batch, apart=saved.rows is not None)
    if saved.rows is None:
        (grad_qkv,) = grads
        _accumulate(totals.qkv, grad_qkv, saved.inputs)
        return grad.addmm_(grad_qkv, weights.qkv.weight)
    size = weights.output.weight.shape[1]  # of all heads together
    grad_query, grad_key_value = grads
    query, key_value = _cut(weights.qkv, size)
    total_query, total_key_value = _cut(totals.qkv, size)
    _accumulate(total_query, grad_query, saved.inputs[saved.rows])
    _accumulate(total_key_value, grad_key_value, saved.inputs)
    grad.addmm_(grad_query, query.weight)
    return (grad_key_value @ key_value.weight).index_add_(0, saved.rows, grad)


def _cut(pair: Affine, size: int) -> tuple[Affine, Affine]:
    return Affine(pair.weight[:size], pair.bias[:size]), Affine(pair.weight[size:], pair.bias[size:])


def _accumulate(total: Affine, grad: Tensor, inputs: Tensor) -> None:
    """Add the gradients of one use of a linear map, inside the matrix product."""
    total.weight.addmm_(grad.T, inputs)
    total.bias.addmv_(grad.T, grad.new_ones(grad.shape[0]))  # a column sum, at the speed of BLAS


def _norm_backward(grad: Tensor, saved: Normed, norm: Affine, total: Affine) -> Tensor:
    grad_inputs, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
        grad, saved.total, [grad.shape[1]], saved.mean, saved.inverse_deviation, norm.weight, norm.bias, [True] * 3
    )
    total.weight.add_(grad_weight)
    total.bias.add_(grad_bias)
    return grad_inputs  # type: ignore[no-any-return]


class DenseAttention(NamedTuple):
    """Attention with its probabilities kept: fastest for short sequences."""

    query: Tensor  # (batch·heads, queries, size)
    key: Tensor
    value: Tensor
    probability: Tensor  # (batch·heads, queries, keys)

    @classmethod
    def attend(
        cls, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, batch: int
    ) -> "tuple[DenseAttention, Tensor]":
        """Return what the gradient needs, and the attended states as (batch·queries, hidden)."""
        probability = probabilities(torch.bmm(query, key.mT), bias, query.shape[2] ** -0.5)
        attended = merge_heads(torch.bmm(probability, value)[None], batch)
        return cls(query, key, value, probability), attended

    def backward(self, grad: Tensor, batch: int, apart: bool) -> list[Tensor]:
        """Gradients of query, key and value as one (rows, 3·hidden), or the query's `apart` if it has its own rows."""
        query, key, value, probability = self
        (grad,) = split_heads(grad, grad.new_zeros(()), 1, batch, query.shape[0] // batch)
        grad_scores = scores_gradient(torch.bmm(grad, value.mT), probability, query.shape[2] ** -0.5)
        grad_all = grad.new_empty(2 if apart else 3, *key.shape)
        grad_query = torch.empty_like(query) if apart else grad_all[0]
        torch.bmm(grad_scores, key, out=grad_query)
        torch.bmm(grad_scores.mT, query, out=grad_all[-2])
        torch.bmm(probability.mT, grad, out=grad_all[-1])
        merged = merge_heads(grad_all, batch)
        return [merge_heads(grad_query[None], batch), merged] if apart else [merged]


class BlockAttention(NamedTuple):
    """Attention by SDPA, which never holds the whole matrix: for long sequences."""

    inputs: tuple[Tensor, Tensor, Tensor]  # (batch, heads, tokens, size) each
    output: Tensor

    @classmethod
    def attend(
        cls, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, batch: int
    ) -> "tuple[BlockAttention, Tensor]":
        """Run SDPA in a small graph of its own, for `backward`."""
        with torch.enable_grad():
            query, key, value = (
                part.view(batch, -1, *part.shape[1:]).detach().requires_grad_() for part in (query, key, value)
            )
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return cls((query, key, value), output), merge_heads(output.detach().flatten(0, 1)[None], batch)

    def backward(self, grad: Tensor, batch: int, apart: bool) -> list[Tensor]:
        """As `DenseAttention.backward`."""
        (grad,) = split_heads(grad, grad.new_zeros(()), 1, batch, self.output.shape[1])
        grads = torch.autograd.grad(self.output, self.inputs, grad.view_as(self.output))
        parts = [part.flatten(0, 1) for part in grads]
        if apart:
            return [merge_heads(parts[0][None], batch), merge_heads(torch.stack(parts[1:]), batch)]
        return [merge_heads(torch.stack(parts), batch)]
