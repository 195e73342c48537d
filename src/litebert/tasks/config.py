"""`FinetuneConfig`: all that decides what a fine-tuning run does, in one record that is saved with it."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from litebert.config import Head
from litebert.tasks.scale import ScoreScale
from litebert.tasks.task import Task
from litebert.tasks.windows import WindowConfig
from litebert.training.config import RunConfig

__all__ = ["FinetuneConfig"]


class FinetuneConfig(RunConfig):
    """A model, a task, and how the one is trained for the other."""

    task: Task
    begin_from: str | None = None
    """The folder or hub model whose encoder to begin with; None for random weights."""
    frozen: bool = False
    """Leave embeddings and layers as they are, and train what stands on them alone."""
    max_length: Annotated[int, Field(ge=4, le=65536)] = 512
    """Tokens of a row."""
    windows: WindowConfig | None = None
    """Questions: how contexts are cut."""
    scale: ScoreScale | None = None
    """Scores: what they are like, so that they can be learnt as numbers about 0."""
    learns_answerability: bool = True
    """Questions that may have no answer: with a head of their own (the paper's), or with the plain one."""

    lengths_vary: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits_together(self) -> "FinetuneConfig":
        longest = max(self.max_length, self.windows.max_length if self.windows else 0)
        if longest > self.model.max_positions:
            raise ValueError(f"max_length {longest} is beyond the model's {self.model.max_positions} positions")
        if any(stage.depth is not None for stage in self.train.stages):
            raise ValueError("fine-tuning runs at the model's own depth: leave the depth of stages out")
        return self

    @property
    def head(self) -> Head:
        """What stands on the encoder."""
        if self.task.kind == "questions" and not self.learns_answerability:
            return "question-answering"
        return self.task.head
