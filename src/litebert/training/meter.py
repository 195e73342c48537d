"""What the last few steps were like: mean losses, tokens per second, and the share of the hardware's rate."""

from collections.abc import Sequence
from typing import Any

__all__ = ["Meter"]


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
