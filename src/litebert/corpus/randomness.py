"""Random numbers without a state: each is a hash of what it is for.

Epoch, example and position go in, a number comes out: so batches can be made in any order, on any number of ranks, and
a run that resumes needs no generator's state. The mixing is that of SplitMix64 (Steele, Lea and Flood, 2014).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["draw", "key", "uniform"]

Bits = NDArray[np.uint64]
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def key(*parts: int | str) -> int:
    """One number from several, for use as a key.

    >>> key(1, 2) == key(1, 2), key(1, 2) == key(2, 1), key("train-00001") == key("train-00002")
    (True, False, False)
    """
    value = 0
    for part in parts:
        content = part.encode() if isinstance(part, str) else (part & _MASK).to_bytes(8, "little")
        value = _mix_int((value + _GOLDEN + len(content)) & _MASK)
        for begin in range(0, len(content), 8):
            value = _mix_int((value + _GOLDEN) & _MASK ^ int.from_bytes(content[begin : begin + 8], "little"))
    return value


def draw(keys: ArrayLike, counters: ArrayLike) -> Bits:
    """64 random bits for each pair of a key and a counter."""
    bits = np.asarray(keys, np.uint64) + np.asarray(counters, np.uint64) * np.uint64(_GOLDEN) + np.uint64(_GOLDEN)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def uniform(bits: Bits) -> NDArray[np.float64]:
    """Bits as numbers from 0 to 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix_int(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
