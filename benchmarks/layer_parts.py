"""The two choices inside a layer that were made by measurement: attention by length, and the form of tanh-GELU.

Forward and backward of each variant, interleaved in one process. `litebert/model/cost.py` (LONGEST_DENSE_ATTENTION) and
`litebert/model/lean/kernels.py` stand on this; docs/LOG.md quotes it.

    python benchmarks/layer_parts.py
"""

import statistics
import time
from collections.abc import Callable

from litebert.runtime import prepare_process

prepare_process()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from harness import machine  # noqa: E402
from litebert.model.lean import kernels  # noqa: E402
from litebert.model.lean.stack import BlockAttention, DenseAttention  # noqa: E402

ROUNDS = 11


def median_milliseconds(variants: dict[str, Callable[[], object]]) -> dict[str, float]:
    """In turns, after two rounds to warm up."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(2 + ROUNDS):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: 1000 * statistics.median(values[2:]) for name, values in times.items()}


def attention(batch: int, tokens: int, hidden: int) -> dict[str, float]:
    """Both kinds of attention on the same heads, forward and backward."""
    shape = (batch * hidden // 64, tokens, 64)
    query, key, value = (torch.randn(shape) for _ in range(3))
    grad = torch.randn(batch * tokens, hidden)
    variants: dict[str, Callable[[], object]] = {}
    for name, kind in (("dense", DenseAttention), ("SDPA", BlockAttention)):
        variants[f"{name}, forward"] = lambda kind=kind: kind.attend(query, key, value, None, batch)
        variants[f"{name}, both"] = lambda kind=kind: kind.attend(query, key, value, None, batch)[0].backward(
            grad, batch, apart=False
        )
    return median_milliseconds(variants)


def activation(rows: int, width: int) -> dict[str, float]:
    """tanh-GELU of states + bias: the library's, the same compiled, and its σ form compiled."""
    states, bias, grad = torch.randn(rows, width), torch.randn(width), torch.randn(rows, width)

    def library(states: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(states + bias, approximate="tanh")

    compiled = torch.compile(library)
    return median_milliseconds(
        {
            "library": lambda: library(states, bias),
            "library, compiled": lambda: compiled(states, bias),
            "σ form, compiled": lambda: kernels.activate(states, bias, "gelu_new"),
            "σ form, compiled, gradient": lambda: kernels.activation_gradient(grad, states, bias, "gelu_new"),
        }
    )


def main() -> None:
    kernels.use_compiled(True)
    with torch.no_grad():
        for batch, tokens, hidden in ((8, 128, 768), (4, 256, 768), (4, 512, 768), (32, 128, 256), (8, 512, 256)):
            print(f"attention, {batch} × {tokens}, H = {hidden}, ms:", _line(attention(batch, tokens, hidden)))
        for rows, width in ((1024, 3072), (4096, 1024)):
            print(f"activation, {rows} × {width}, ms:", _line(activation(rows, width)))
    print(machine())


def _line(times: dict[str, float]) -> str:
    return "; ".join(f"{name} {value:.1f}" for name, value in times.items())


if __name__ == "__main__":
    main()
