"""Weights as whole numbers of eight bits: a quarter of the bytes of fp32, with an error of at most half a step.

Every row of a matrix (what makes one output, or the vector of one word) is stored as int8 with one fp32 scale: the
largest number of the row becomes 127 or -127. Biases and LayerNorms stay as they are. Rows are brought back to fp32
when they are read, so that a model computes as before, at the same speed.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from litebert.errors import RequestError

__all__ = ["SCALE", "dequantize", "quantize", "quantize_tensors"]

SCALE = ".scale"
"""What the name of a tensor of scales ends in; before it stands the name of the tensor whose rows it scales."""
_LARGEST = 127


def quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers (rows, columns) and the scale of each row (rows,); a row of zeros stays one.

    >>> whole, scales = quantize(torch.tensor([[1.27, -0.5], [0.0, 0.0]]))
    >>> whole.tolist(), [round(scale, 4) for scale in scales.tolist()]
    ([[127, -50], [0, 0]], [0.01, 0.0])
    """
    weight = weight.float()
    scales = weight.abs().amax(dim=1) / _LARGEST
    divisors = torch.where(scales > 0, scales, torch.ones_like(scales))
    return (weight / divisors[:, None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8), scales


def dequantize(whole: Tensor, scales: Tensor) -> Tensor:
    """Rows of whole numbers times their scales, in fp32."""
    return whole.float() * scales[:, None]


def quantize_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix as int8 with the scales of its rows beside it; all else as it is."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise RequestError(f"{name} holds numbers that are not finite: such a model cannot be stored as int8")
        if tensor.dim() == 2:
            stored[name], stored[name + SCALE] = quantize(tensor)
        else:
            stored[name] = tensor
    return stored
