"""The layers of an encoder with their backward pass written out.

Where a block is used twelve times, autograd makes twelve full-size weight gradients, adds them up, and keeps every
intermediate. Here the gradients accumulate in one buffer per shared matrix, the activation is computed again instead of
kept, and wide temporaries are freed at once: less memory and more speed, with the same numbers. `Encoder` takes this
path for training on a CPU without dropout, and the plain modules everywhere else. Tests hold the two equal.

Under autocast the products with weights run in bf16, and what is kept for their gradients is kept in bf16; residuals,
norms, activations and attention stay in fp32.

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

_PRODUCTS = (torch.float32, torch.bfloat16)  # in which products of states and weights are written out


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

    inputs: Tensor  # this one, `attended`, `middle` and `raised` as the products have them: in fp32 or bf16
    rows: Tensor | None  # the rows of `inputs` that make queries, None for all
    heads: "DenseAttention | BlockAttention"
    attended: Tensor
    attention_norm: Normed
    middle: Tensor
    raised: Tensor  # before bias and activation
    norm: Normed


def can_run_lean(encoder: "Encoder", hidden: Tensor) -> bool:
    """Say whether this call trains all blocks on a CPU without dropout, and no hooks are registered."""
    config = encoder.config
    if not torch.is_grad_enabled() or hidden.device.type != "cpu" or hidden.dtype not in _PRODUCTS:
        return False
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") not in _PRODUCTS:
        return False
    if encoder.training and (config.hidden_dropout or config.attention_dropout):
        return False
    if config.activation not in EXPLICIT_ACTIVATIONS or torch.compiler.is_compiling():
        return False
    blocks = [*encoder.attention, *encoder.feed_forward]
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    has_hooks = any(getattr(module, name) for block in blocks for module in block.modules() for name in hooks)
    weights = [weight for block in blocks for weight in block.parameters()]
    return not has_hooks and all(weight.requires_grad and weight.dtype == torch.float32 for weight in weights)


def run_lean(
    encoder: "Encoder", hidden: Tensor, bias: Tensor | None, plan: LayerPlan, keep: Tensor | None = None
) -> list[Tensor]:
    """Run the layers of `plan`: (batch, tokens, hidden) → the states after each, the last ones of kept tokens alone."""
    batch, _, size = hidden.shape
    geometry = Geometry(batch, encoder.config.num_heads, encoder.config.layer_norm_eps, encoder.config.activation)
    # Only the blocks that this depth uses, as autograd would have it: the others get no gradient, not one of zero.
    num_attention, num_feed_forward = 1 + max(a for a, _ in plan), 1 + max(f for _, f in plan)
    blocks = [*encoder.attention[:num_attention], *encoder.feed_forward[:num_feed_forward]]
    weights = [tensor for block in blocks for tensor in _tensors(block)]
    products = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
    bias = None if bias is None else bias.float()
    call = LeanCall(geometry, plan, num_attention, bias, keep, encoder.recompute, products)
    with torch.autocast("cpu", enabled=False):  # what runs in which precision is written out here
        states = hidden.reshape(-1, size).float()
        outputs: tuple[Tensor, ...] = _LeanLayers.apply(call, states, *weights)  # type: ignore[no-untyped-call]
    return [output.view(batch, -1, size) for output in outputs]


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
    products: torch.dtype
    """Of the products of states and weights."""

    def cast(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The weights without their history, matrices as the products take them."""
        bare = (weight.detach() for weight in weights)  # a compiler asks about gradients
        return [weight.to(self.products) if weight.dim() == 2 else weight for weight in bare]

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
    def forward(ctx: Any, call: LeanCall, states: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.call, ctx.layers, outputs = call, [], []
        ctx.set_materialize_grads(False)  # nobody asks about the states of most layers
        states = states.detach()
        for index, layer in enumerate(call.layers(call.cast(weights))):
            inputs = states
            states, saved = forward_layer(inputs, layer, call.geometry, call.bias, call.kept_at(index))
            ctx.layers.append(inputs if call.recompute else saved)
            outputs.append(states)
            del saved
        ctx.save_for_backward(*weights)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        call, weights = ctx.call, ctx.saved_tensors
        if len(ctx.layers) != len(call.plan):
            raise RuntimeError("the activations of this step are already used up: run the model again")
        gradients = [torch.zeros_like(weight) for weight in weights]
        grad: Tensor | None = None  # at the states after the layer that is next
        layers, totals = call.layers(call.cast(weights)), call.layers(gradients)
        for index in reversed(range(len(layers))):
            saved, asked = ctx.layers.pop(), grads[index]
            if grad is None or asked is None:
                grad = asked.contiguous() if grad is None and asked is not None else grad
            else:
                grad = grad + asked
            if grad is None:  # nobody asks about what this layer says
                continue
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
    qkv, dtype = weights.qkv, weights.qkv.weight.dtype
    residual, inputs = inputs, inputs.to(dtype)
    if keep is None:
        rows = None
        query, key, value = split_heads(inputs @ qkv.weight.T, qkv.bias, 3, batch, num_heads)
    else:
        tokens = inputs.shape[0] // batch
        rows = (keep + tokens * torch.arange(batch)[:, None]).flatten()
        residual = residual[rows]
        (query,) = split_heads(inputs[rows] @ qkv.weight[:size].T, qkv.bias[:size], 1, batch, num_heads)
        key, value = split_heads(inputs @ qkv.weight[size:].T, qkv.bias[size:], 2, batch, num_heads)
        if bias is not None and bias.shape[2] > 1:
            bias = gather_positions(bias[:, 0], keep)[:, None]
    kind = DenseAttention if key.shape[1] <= LONGEST_DENSE_ATTENTION else BlockAttention
    heads, attended = kind.attend(query, key, value, bias, batch)
    attended = attended.to(dtype)
    total, residual, *statistics = add_norm(
        attended @ weights.output.weight.T, weights.output.bias, residual, *weights.attention_norm, geometry.eps
    )
    attention_norm, middle = Normed(total, *statistics), residual.to(dtype)
    raised = middle @ weights.up.weight.T
    activated = activate(raised, weights.up.bias, geometry.activation).to(dtype)
    lowered = activated @ weights.down.weight.T
    total, result, *statistics = add_norm(lowered, weights.down.bias, residual, *weights.norm, geometry.eps)
    return result, Saved(inputs, rows, heads, attended, attention_norm, middle, raised, Normed(total, *statistics))


def backward_layer(
    grad: Tensor, saved: Saved, weights: LayerWeights, totals: LayerWeights, geometry: Geometry
) -> Tensor:
    """Return the gradient of the layer's input and add those of its weights to `totals`."""
    dtype = weights.qkv.weight.dtype
    grad = _norm_backward(grad, saved.norm, weights.norm, totals.norm)
    grad_raised, activated = activation_gradient(
        grad.to(dtype) @ weights.down.weight, saved.raised, weights.up.bias, geometry.activation
    )
    _accumulate(totals.down, grad, activated.to(dtype))
    del activated
    _accumulate(totals.up, grad_raised, saved.middle)
    _add_product(grad, grad_raised, weights.up.weight)
    del grad_raised

    grad = _norm_backward(grad, saved.attention_norm, weights.attention_norm, totals.attention_norm)
    _accumulate(totals.output, grad, saved.attended)
    grad_attended = (grad.to(dtype) @ weights.output.weight).float()
    grads = saved.heads.backward(grad_attended, geometry.batch, apart=saved.rows is not None)
    if saved.rows is None:
        (grad_qkv,) = grads
        _accumulate(totals.qkv, grad_qkv, saved.inputs)
        return _add_product(grad, grad_qkv, weights.qkv.weight)
    size = weights.output.weight.shape[1]  # of all heads together
    grad_query, grad_key_value = grads
    query, key_value = _cut(weights.qkv, size)
    total_query, total_key_value = _cut(totals.qkv, size)
    _accumulate(total_query, grad_query, saved.inputs[saved.rows])
    _accumulate(total_key_value, grad_key_value, saved.inputs)
    _add_product(grad, grad_query, query.weight)
    return (grad_key_value.to(dtype) @ key_value.weight).float().index_add_(0, saved.rows, grad)


def _cut(pair: Affine, size: int) -> tuple[Affine, Affine]:
    return Affine(pair.weight[:size], pair.bias[:size]), Affine(pair.weight[size:], pair.bias[size:])


def _accumulate(total: Affine, grad: Tensor, inputs: Tensor) -> None:
    """Add the gradients of one use of a linear map."""
    _add_product(total.weight, grad.T, inputs)
    total.bias.addmv_(grad.T, grad.new_ones(grad.shape[0]))  # a column sum, at the speed of BLAS


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add a product in the precision of its right side; in fp32 the adding is a part of the product."""
    if right.dtype == total.dtype:
        return total.addmm_(left, right)
    return total.add_(left.to(right.dtype) @ right)


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
