"""Functions that tests hand to workers, which import them from here."""

import os
import signal
import time
from pathlib import Path


def add(shared: int, item: int) -> int:
    return shared + item


def add_slowly_when_even(shared: int, item: int) -> int:
    """Even items take longer, so that the odd ones are done first."""
    if item % 2 == 0:
        time.sleep(0.05)
    return shared + item


def fail_at_seven(shared: type[Exception], item: int) -> int:
    if item == 7:
        raise shared("seven")
    return item


def die_once(shared: Path, item: int) -> int:
    """Kill the process at item 3, the first time."""
    if item == 3 and not (shared / "died").exists():
        (shared / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die_at_three(shared: Path, item: int) -> int:
    if item == 3:
        with (shared / "deaths").open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def hold_much(shared: int, item: bytes) -> bytes:
    """As much as comes in goes out: more than a pipe holds."""
    return item[:shared]


def tell_process(shared: int, item: int) -> tuple[int, str | None]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")
