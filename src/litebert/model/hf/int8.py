"""Weights as whole numbers of eight bits: a quarter of the bytes of fp32, with an error of at most half a step.

Every row of a matrix (what makes one output, or the vector of one word) is stored as int8 with one fp32 scale: the
largest number of the row becomes 127 or -127. Biases and LayerNorms stay as they are. Rows are brought back to fp32
when they are read, so that a model computes as before, at the same speed.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.errors import RequestError

__all__ = ["SCALE", "dequantize", "quantize", "quantize_tensors"]

SCALE = ".scale"
"""What the name of a tensor of scales ends in; before it stands the name of the tensor whose rows it scales."""
_LARGEST = 127


def quantize(weight: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers (rows, columns) and the scale of each row (rows,); a row of zeros stays one.

    >>> whole, scales = quantize(np.array([[1.27, -0.5], [0.0, 0.0]]))
    >>> whole.tolist(), [round(scale, 4) for scale in scales.tolist()]
    ([[127, -50], [0, 0]], [0.01, 0.0])
    """
    weight = weight.astype(np.float32)
    scales = np.abs(weight).max(axis=1) / np.float32(_LARGEST)
    divisors = np.where(scales > 0, scales, np.float32(1))
    whole = np.clip(np.round(weight / divisors[:, None]), -_LARGEST, _LARGEST)
    return whole.astype(np.int8), scales


def dequantize(whole: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of whole numbers times their scales, in fp32."""
    return whole.astype(np.float32) * scales[:, None]


def quantize_tensors(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Every matrix as int8 with the scales of its rows beside it; all else as it is."""
    stored: dict[str, NDArray[Any]] = {}
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise RequestError(f"{name} holds numbers that are not finite: such a model cannot be stored as int8")
        if tensor.ndim == 2:
            stored[name], stored[name + SCALE] = quantize(tensor)
        else:
            stored[name] = tensor
    return stored
