"""The element-wise work of a layer, each function one plain expression.

Between two matrix products a layer only adds, scales, normalises and squashes. Run eagerly, each step is a pass over
memory; compiled (`use_compiled(True)`, where a C++ compiler exists) each function below is a single pass. Both give
the same result up to rounding, so the expressions are also the documentation.
"""

import functools
import shutil
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.config import Activation

__all__ = [
    "EXPLICIT_ACTIVATIONS",
    "activate",
    "activation_gradient",
    "add_norm",
    "merge_heads",
    "probabilities",
    "scores_gradient",
    "split_heads",
    "use_compiled",
]

P = ParamSpec("P")
R = TypeVar("R")

EXPLICIT_ACTIVATIONS: dict[Activation, str] = {"gelu_new": "tanh", "gelu": "none"}
"""Activations whose derivative is written out here, with the name that torch gives to the approximation."""

_compiling = _sizes_vary = False


def use_compiled(wanted: bool, sizes_vary: bool = False) -> bool:
    """Compile the kernels from now on, or stop doing so; say whether they will be compiled.

    The first call of each kernel then takes a second or two; so does each new size, unless they are compiled for sizes
    that vary. Without a C++ compiler it stays off and says so.
    """
    global _compiling, _sizes_vary
    _sizes_vary = sizes_vary
    if wanted and shutil.which("g++") is None and shutil.which("clang++") is None:
        warnings.warn("no C++ compiler found: training runs uncompiled; install g++ to speed it up", stacklevel=2)
        wanted = False
    _compiling = wanted
    return wanted


def _kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` as it stands, or its compiled form while that is wanted and works."""

    @functools.cache
    def compiled(sizes_vary: bool) -> Callable[P, R]:
        return torch.compile(function, dynamic=True if sizes_vary else None)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if _compiling:
            try:
                return compiled(_sizes_vary)(*args, **kwargs)
            except Exception as error:  # compilers fail in many ways, and what is wrong with the call shows below
                use_compiled(False)
                reason = str(error).partition("\n")[0]
                warnings.warn(f"training goes on uncompiled: kernels cannot be compiled here ({reason})", stacklevel=2)
        return function(*args, **kwargs)

    return run


@_kernel
def split_heads(states: Tensor, bias: Tensor, num_parts: int, batch: int, num_heads: int) -> Tensor:
    """Add the bias, put heads first: (batch·tokens, parts·hidden) → (parts, batch·heads, tokens, size)."""
    split = (states + bias).view(batch, states.shape[0] // batch, num_parts, num_heads, -1)
    return split.permute(2, 0, 3, 1, 4).reshape(num_parts, batch * num_heads, split.shape[1], split.shape[4])


@_kernel
def merge_heads(states: Tensor, batch: int) -> Tensor:
    """Undo `split_heads`: (parts, batch·heads, tokens, size) → (batch·tokens, parts·hidden)."""
    parts, rows, tokens, size = states.shape
    split = states.view(parts, batch, rows // batch, tokens, size)
    return split.permute(1, 3, 0, 2, 4).reshape(batch * tokens, parts * (rows // batch) * size)


@_kernel
def probabilities(scores: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """softmax(scale · scores + bias): (batch·heads, queries, keys), with a bias (batch, 1, 1 or queries, keys)."""
    if bias is None:
        return torch.softmax(scores * scale, dim=-1)
    batch, _, _, keys = bias.shape
    by_head = scores.view(batch, -1, scores.shape[1], keys)
    return torch.softmax(by_head * scale + bias, dim=-1).view_as(scores)


@_kernel
def scores_gradient(grad: Tensor, probability: Tensor, scale: float) -> Tensor:
    """Gradient of the scores, from that of `probabilities`."""
    return (grad - (grad * probability).sum(dim=-1, keepdim=True)) * probability * scale


@_kernel
def add_norm(
    update: Tensor, bias: Tensor, residual: Tensor, weight: Tensor, norm_bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Residual and LayerNorm: the sum, its norm, and the means and inverse deviations that the gradient needs."""
    total = update + bias + residual
    normed, mean, inverse_deviation = torch.native_layer_norm(total, [total.shape[1]], weight, norm_bias, eps)
    return total, normed, mean, inverse_deviation


def activate(states: Tensor, bias: Tensor, activation: Activation) -> Tensor:
    """The activation of states + bias."""
    if _compiling and activation == "gelu_new":
        return _tanh_gelu(states, bias)
    return F.gelu(states + bias, approximate=EXPLICIT_ACTIVATIONS[activation])


def activation_gradient(grad: Tensor, states: Tensor, bias: Tensor, activation: Activation) -> tuple[Tensor, Tensor]:
    """Gradient at states + bias, and the activation there once more (cheaper to compute again than to keep)."""
    if _compiling and activation == "gelu_new":
        return _tanh_gelu_gradient(grad, states, bias)
    summed, approximate = states + bias, EXPLICIT_ACTIVATIONS[activation]
    gradient = torch.ops.aten.gelu_backward(grad.to(summed.dtype), summed, approximate=approximate)
    return gradient, F.gelu(summed, approximate=approximate)


# tanh-GELU is x·σ(2u) with u = √(2/π)·(x + 0.044715·x³), since ½(1 + tanh u) = σ(2u). A compiler vectorises σ
# better than tanh: 2.0 against 4.9 ms for 1024 × 3072 on two cores (benchmarks/layer_parts.py).
_TWICE_ROOT = 2 * (2 / torch.pi) ** 0.5
_CUBIC = 0.044715


@_kernel
def _tanh_gelu(states: Tensor, bias: Tensor) -> Tensor:
    x = states + bias
    return x * torch.sigmoid(x * (_TWICE_ROOT + _TWICE_ROOT * _CUBIC * x * x))


@_kernel
def _tanh_gelu_gradient(grad: Tensor, states: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    x = states + bias
    square = x * x
    gate = torch.sigmoid(x * (_TWICE_ROOT + _TWICE_ROOT * _CUBIC * square))
    slope = _TWICE_ROOT + 3 * _TWICE_ROOT * _CUBIC * square
    return grad * (gate + x * gate * (1 - gate) * slope), x * gate
