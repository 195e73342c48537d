"""Ctrl-C and SIGTERM in a long run: finish the step, save, and leave; a second Ctrl-C leaves at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interruption", "watching_signals"]


class Interruption:
    """Which signal has asked to stop, if any."""

    signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Note the request; who asks twice with Ctrl-C wants out now."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watching_signals() -> Iterator[Interruption]:
    """Watch for requests to stop while the block runs; outside the main thread there are none."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before: dict[signal.Signals, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, interruption.ask)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
