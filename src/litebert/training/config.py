"""`TrainConfig`: everything that decides how a run trains, but for its data and its model.

A run is a row of stages. Where a stage says nothing, the model and the data keep their own depth, length and masks.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from litebert.config import ModelConfig
from litebert.training.optim import OptimConfig

__all__ = ["Parallel", "Precision", "RunConfig", "Stage", "TrainConfig"]

Precision = Literal["auto", "fp32", "bf16"]
Parallel = Literal["ddp", "fsdp"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Stage(_Record):
    """A part of a run, up to some share of it."""

    until: Annotated[float, Field(gt=0, le=1)] = 1.0
    depth: Annotated[int | None, Field(ge=1, le=2048)] = None
    """Passes through the layers; shared weights can run at any number of them."""
    length: Annotated[int | None, Field(ge=8, le=65536)] = None
    batch_size: Annotated[int | None, Field(ge=1, le=1_048_576)] = None
    mask_rate: Annotated[float | None, Field(gt=0, lt=1)] = None


class TrainConfig(_Record):
    """How a run trains: for how long, in which stages, with which optimiser, and how it is kept safe."""

    steps: Annotated[int | None, Field(ge=1)] = None
    seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None
    """A run ends after `steps`, or when it has trained for `seconds`. Only the former can be repeated bit by bit."""
    batch_size: Annotated[int, Field(ge=1, le=1_048_576)] = 32
    """Rows of a step, over all processes and all pieces that are accumulated."""
    rows_at_once: Annotated[int | None, Field(ge=1)] = None
    """Rows that a process runs together; a larger share of the batch is accumulated in pieces of that size."""
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)] = (Stage(),)
    optim: OptimConfig = OptimConfig()

    precision: Precision = "auto"
    parallel: Parallel = "ddp"
    compiled: bool = False
    """Compile the kernels: half a minute at the start, faster steps from then on."""
    recompute: bool = False
    """Keep only each layer's input for the backward pass: less memory, more time."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    evaluations: Annotated[int, Field(ge=1, le=10_000)] = 20
    """How often held-out text is scored in the course of the run."""
    patience: Annotated[int | None, Field(ge=1)] = None
    """End the run after so many evaluations in a row without a better score."""
    log_steps: Annotated[int, Field(ge=1)] = 10
    save_seconds: Annotated[float | None, Field(gt=0)] = 600.0
    save_steps: Annotated[int | None, Field(ge=1)] = None
    keep: Annotated[int, Field(ge=1)] = 2
    """Checkpoints that are kept: so many of the last ones, and the best."""

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("say for how long to train: either a number of steps or a time")
        ends = [stage.until for stage in self.stages]
        if ends != sorted(set(ends)) or ends[-1] != 1.0:
            raise ValueError("stages must end one after the other, the last of them at 1.0")
        return self

    def stage_at(self, progress: float) -> int:
        """The number of the stage at some share of the run.

        >>> config = TrainConfig(steps=10, stages=(Stage(until=0.5, depth=1), Stage()))
        >>> [config.stage_at(step / 10) for step in (0, 4, 5, 9, 10)]
        [0, 0, 1, 1, 1]
        """
        return next((i for i, stage in enumerate(self.stages) if progress < stage.until), len(self.stages) - 1)

    def batch_size_of(self, stage: int) -> int:
        """Rows of a step in a stage."""
        return self.stages[stage].batch_size or self.batch_size


class RunConfig(_Record):
    """What the configuration of every run has: a model, and how it is trained."""

    model: ModelConfig
    train: TrainConfig

    lengths_vary: ClassVar[bool] = False
    """Whether batches are of many lengths."""
