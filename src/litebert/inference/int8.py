"""Whether this machine multiplies whole numbers of 8 bits right, and with which kind of weights.

Old CPUs add two products in 16 bits, which overflow where states are unsigned and weights are signed; with weights
that are unsigned too, onnxruntime takes other instructions, and the products are exact everywhere. Some virtual
machines claim instructions (AMX) that kill the process, so where these are claimed a child process tries first.
"""

import functools

import numpy as np

from litebert.inference.onnx_graph import Int8, build_product
from litebert.inference.sessions import open_session
from litebert.runtime import AMX, advertises, run_in_child

__all__ = ["choose_int8", "try_products"]

_SIGNED, _UNSIGNED, _NEITHER = "signed", "unsigned", "neither"
_SIZE = 64


def choose_int8(maps: frozenset[str]) -> Int8 | None:
    """How these maps run as int8 on this machine; None where they cannot, or where there are none."""
    if not maps:
        return None
    kind = _probe()
    return None if kind == _NEITHER else Int8(maps, is_unsigned=kind == _UNSIGNED)


@functools.cache
def _probe() -> str:
    if not advertises(*AMX):
        return try_products()
    found = run_in_child("from litebert.inference.int8 import try_products; print(try_products())")
    return (found or _NEITHER).strip()


def try_products() -> str:
    """Which weights give the right product of the largest numbers: signed, unsigned or neither."""
    weight = np.full((_SIZE, _SIZE), 127.0, np.float32)
    states = np.full((3, _SIZE), 127.0, np.float32)
    for kind in (_SIGNED, _UNSIGNED):
        content = build_product(weight, is_unsigned=kind == _UNSIGNED)
        (product,) = open_session(content).run(None, {"states": states})
        if np.array_equal(product, states @ weight.T):
            return kind
    return _NEITHER
