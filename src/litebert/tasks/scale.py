"""`ScoreScale`: scores of any size are learnt as numbers about 0, and the finished head gives them back as they were.

An optimiser moves a weight by about the learning rate a step. A head that should say 2005, or 0.001, would not get
there, or could not tell them apart.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from litebert.tasks.task import Example, TextExample

__all__ = ["ScoreScale"]


class ScoreScale(BaseModel):
    """Mean and spread of the scores that a model learns.

    >>> scale = ScoreScale(mean=2000.0, spread=10.0)
    >>> scale.shrink(np.array([1990.0, 2005.0], np.float32)).tolist()
    [-1.0, 0.5]
    >>> scale.stretch(np.array([-1.0, 0.5], np.float32)).tolist()
    [1990.0, 2005.0]
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    spread: float

    @classmethod
    def of(cls, examples: Sequence[Example]) -> "ScoreScale":
        """Measure training examples; where all scores are alike, there is no spread to undo."""
        scores = np.array([example.label for example in examples if isinstance(example, TextExample)], np.float64)
        return cls(mean=float(scores.mean()), spread=float(scores.std()) or 1.0)

    def shrink(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores as they are learnt."""
        return ((scores.astype(np.float64) - self.mean) / self.spread).astype(np.float32)

    def stretch(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a model says while it learns, as scores."""
        return (scores.astype(np.float64) * self.spread + self.mean).astype(np.float32)

    def stretch_head(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The linear map of a head that says scores as they are."""
        return weight * self.spread, bias * self.spread + self.mean
