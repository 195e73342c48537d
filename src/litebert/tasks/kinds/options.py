"""Values that decide how a kind of task encodes examples and scales targets. They are saved with a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NUM_SPECIAL", "EncodeOptions", "Outputs", "TargetScale", "WindowConfig"]

Outputs = Mapping[str, NDArray[Any]]
"""What a model says about a batch, by the names of its outputs (`ModelOutput.arrays`)."""

NUM_SPECIAL = 3
"""Special tokens of a row with two texts: [CLS] and two [SEP]."""
_NBEST_BESIDE_WORDS = 100


class WindowConfig(BaseModel):
    """Questions: how contexts are cut into windows, and which answers are looked for in them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    max_length: Annotated[int, Field(ge=8, le=65536)] = 384
    """Tokens of a row, with the question and the special ones."""
    stride: Annotated[int, Field(ge=1)] = 128
    """Tokens from the beginning of a window to that of the next one."""
    max_query: Annotated[int, Field(ge=1)] = 64
    """Tokens of a question; what goes beyond is cut off."""
    max_answer: Annotated[int, Field(ge=1)] = 30
    """Tokens of an answer."""
    nbest: Annotated[int, Field(ge=1, le=1000)] = 20
    """Answers that are kept of each window, and of each question."""

    @model_validator(mode="after")
    def _leaves_room(self) -> "WindowConfig":
        if self.max_length <= self.max_query + NUM_SPECIAL:
            raise ValueError(
                f"max_length {self.max_length} leaves no room for the context beside a question of {self.max_query} "
                f"tokens: make it greater than {self.max_query + NUM_SPECIAL}, or max_query smaller"
            )
        return self


@dataclass(frozen=True)
class EncodeOptions:
    """How long rows may be, and for questions how contexts are cut."""

    max_length: int
    windows: WindowConfig | None = None

    def beside_words(self) -> "EncodeOptions":
        """With more answers kept of each window, where counted words choose among them."""
        if self.windows is None:
            return self
        most = max(self.windows.nbest, _NBEST_BESIDE_WORDS)
        return replace(self, windows=self.windows.model_copy(update={"nbest": most}))


class TargetScale(BaseModel):
    """Targets of any size are learnt as numbers about 0, and the finished model gives them back as they were.

    An optimiser moves a weight by about the learning rate a step. A head that should say 2005, or 0.001, would not get
    there, or could not tell them apart.

    >>> scale = TargetScale(mean=2000.0, spread=10.0)
    >>> scale.shrink(np.array([1990.0, 2005.0], np.float32)).tolist()
    [-1.0, 0.5]
    >>> scale.stretch(np.array([-1.0, 0.5], np.float32)).tolist()
    [1990.0, 2005.0]
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    spread: float

    @classmethod
    def around_mean(cls, targets: Sequence[float]) -> "TargetScale":
        """Mean 0 and deviation 1; where all targets are alike, there is no spread to undo."""
        values = np.array(targets, np.float64)
        return cls(mean=float(values.mean()), spread=float(values.std()) or 1.0)

    @classmethod
    def from_zero_to_one(cls, targets: Sequence[float]) -> "TargetScale":
        """The lowest target becomes 0 and the highest 1."""
        low, high = min(targets), max(targets)
        return cls(mean=low, spread=(high - low) or 1.0)

    def shrink(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """Targets as they are learnt."""
        return ((targets.astype(np.float64) - self.mean) / self.spread).astype(np.float32)

    def stretch(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a model says while it learns, as targets."""
        return (outputs.astype(np.float64) * self.spread + self.mean).astype(np.float32)

    def stretch_head(self, weight: "Tensor", bias: "Tensor") -> "tuple[Tensor, Tensor]":
        """The linear map of a head that says targets as they are."""
        return weight * self.spread, bias * self.spread + self.mean
