"""What is watched while a run goes on: whether its steps are healthy, how fast it is, and whether it shall stop.

A loss or gradient that is no number, or a loss far above the recent ones, spoils the weights. Such a step is skipped;
after some in a row the run goes back to its last good checkpoint, with a lower learning rate.
"""

import math
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

__all__ = ["BAD_STEPS", "LOWER_RATE", "MOST_ROLLBACKS", "Health", "Interruption", "Meter", "watching_signals"]

BAD_STEPS = 3
"""Bad steps in a row after which a run goes back."""
LOWER_RATE = 0.5
"""What the rate is multiplied with when a run goes back."""
MOST_ROLLBACKS = 5
"""Going back more often does not help."""

_MEMORY = 0.98  # weight of the past in the running mean: some fifty steps
_SEEN = 50  # losses to see before one of them can be a spike
_DEVIATIONS, _RATIO = 8.0, 1.3  # a spike is beyond both: rare noise, and much in itself


@dataclass
class Health:
    """What is known of the recent losses. It belongs to the state of a run."""

    mean: float = 0.0
    variance: float = 0.0
    seen: int = 0
    bad_in_a_row: int = 0
    rollbacks: int = 0
    rate: float = 1.0
    """What remains of the learning rate after going back."""

    def examine(self, loss: float, gradient_norm: float, skip_loss_spikes: bool = True) -> str | None:
        """Take note of a step; if it must not be taken, say why.

        Without `skip_loss_spikes` only what is no number is a fault: where most examples are easy, a hard one that
        comes now and then makes the loss jump, and it is the one to learn from.
        """
        reason = self._find_fault(loss, gradient_norm, skip_loss_spikes)
        if reason is not None:
            self.bad_in_a_row += 1
            return reason
        self.bad_in_a_row = 0
        self.seen += 1
        weight = 1 - max(1 / self.seen, 1 - _MEMORY)  # a plain mean at first
        difference = loss - self.mean
        self.mean += (1 - weight) * difference
        self.variance = weight * (self.variance + (1 - weight) * difference**2)
        return None

    def _find_fault(self, loss: float, gradient_norm: float, skip_loss_spikes: bool) -> str | None:
        if not math.isfinite(loss):
            return f"the loss was {loss}"
        if not math.isfinite(gradient_norm):
            return f"the gradient's norm was {gradient_norm}"
        if not skip_loss_spikes:
            return None
        limit = max(self.mean + _DEVIATIONS * self.variance**0.5, _RATIO * self.mean)
        if self.seen >= _SEEN and loss > limit:
            return f"the loss jumped from {self.mean:.3f} to {loss:.3f}"
        return None

    def forget(self) -> None:
        """Begin to watch anew: another stage has other losses."""
        self.mean, self.variance, self.seen = 0.0, 0.0, 0

    def go_back(self) -> None:
        """Note that the run goes back to a checkpoint."""
        self.forget()
        self.bad_in_a_row = 0
        self.rollbacks += 1
        self.rate *= LOWER_RATE

    def as_json(self) -> dict[str, Any]:
        """The state as plain numbers."""
        return asdict(self)


class Meter:
    """Adds up steps until they are read. Its sums are plain numbers, so that they can be part of a run's state."""

    def __init__(self, losses: Sequence[str], hardware_rate: float) -> None:
        self._losses = tuple(losses)
        self._hardware_rate = hardware_rate
        self.sums: dict[str, float] = {}
        self.latest: dict[str, Any] = {}

    def add(self, losses: Sequence[float] | None, tokens: float, operations: float, seconds: float) -> None:
        """Add a step; one that was skipped has no losses."""
        values = {"tokens": tokens, "operations": operations, "seconds": seconds}
        if losses is not None:
            values |= {"steps": 1.0, **dict(zip(self._losses, losses, strict=True))}
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def read(self) -> dict[str, Any]:
        """Means and rates since the last reading, or None where no step was taken."""
        sums, self.sums = self.sums, {}
        steps, seconds = sums.get("steps", 0.0), max(sums.get("seconds", 0.0), 1e-9)
        means = {name: sums[name] / steps if steps else None for name in self._losses}
        rate = sums.get("operations", 0.0) / seconds
        self.latest = {
            "loss": sum(value for value in means.values() if value is not None) if steps else None,
            **means,
            "tokens_per_second": sums.get("tokens", 0.0) / seconds,
            "hardware_share": rate / self._hardware_rate if self._hardware_rate else None,
        }
        return self.latest


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
