"""Is this step sane? A loss or gradient that is no number, or a loss far above the recent ones, spoils the weights.

Such a step is skipped; after some in a row the run goes back to its last good checkpoint, with a lower rate.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["BAD_STEPS", "LOWER_RATE", "MOST_ROLLBACKS", "Health"]

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

    def examine(self, loss: float, gradient_norm: float, fears_leaps: bool = True) -> str | None:
        """Take note of a step; if it must not be taken, say why.

        Without `fears_leaps` only what is no number is a fault: where most examples are easy, a hard one that comes
        now and then makes the loss leap, and it is the one to learn from.
        """
        reason = self._find_fault(loss, gradient_norm, fears_leaps)
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

    def _find_fault(self, loss: float, gradient_norm: float, fears_leaps: bool) -> str | None:
        if not math.isfinite(loss):
            return f"the loss was {loss}"
        if not math.isfinite(gradient_norm):
            return f"the gradient's norm was {gradient_norm}"
        if not fears_leaps:
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
