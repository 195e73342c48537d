"""How much work something is, whatever else the machine does at the same time.

A limit in seconds fails on a busy machine. These functions count calls, or compare the processor time of a task with
that of a smaller one in the same process.
"""

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["assert_linear", "count_calls", "measure"]


def measure(work: Callable[[], object]) -> float:
    """The processor time of some work in seconds; without the garbage collector, which looks at all other objects."""
    gc.disable()
    try:
        begin = time.process_time()
        work()
        return time.process_time() - begin
    finally:
        gc.enable()


def assert_linear(work: Callable[[int], Callable[[], object]], size: int, factor: int = 8, attempts: int = 5) -> None:
    """Work of `factor` times the size must take about `factor` times as long.

    `work(size)` prepares the work and returns a function that does it. Quadratic work takes `factor` times as long per
    unit, and fails; up to a third of that is forgiven. A single good comparison is enough, because noise only adds.
    """
    small, large = work(size), work(size * factor)
    small()
    ratios = []
    for _ in range(attempts):
        unit = max(measure(small), 1e-3)  # what is shorter than that cannot be measured
        ratios.append(measure(large) / (unit * factor))
        if ratios[-1] < factor / 3:
            return
    raise AssertionError(f"{factor} times the size cost {[round(ratio, 1) for ratio in ratios]} times as much per unit")


def count_calls(work: Callable[[], object]) -> int:
    """How many functions some work calls, in Python and in C: the same number on every machine."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
