"""What the hardware gives: which precision pays on it, and the rate of its bare matrix products."""

import time

import torch

from litebert.config import ModelConfig
from litebert.runtime import probe_bfloat16
from litebert.training.config import Precision

__all__ = ["choose_precision", "measure_rate"]

_ROWS, _SECONDS = 4096, 0.3


def choose_precision(wanted: Precision, device: torch.device) -> Precision:
    """fp32 or bf16: what was asked for, else bf16 where the hardware really has it and it is faster.

    The CUDA path is not run by the project's own tests.
    """
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if probe_bfloat16() else "fp32"


def measure_rate(config: ModelConfig, precision: Precision, device: torch.device) -> float:
    """Floating-point operations per second of the largest product of a layer, alone: the limit for a step."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    inner, columns = config.hidden_size, config.intermediate_size
    states = torch.randn(_ROWS, inner, device=device, dtype=dtype)
    weights = torch.randn(columns, inner, device=device, dtype=dtype)
    best, end = 0.0, time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(3):
            states @ weights.T
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 3 * 2.0 * _ROWS * inner * columns / (time.perf_counter() - begun))
    return best
