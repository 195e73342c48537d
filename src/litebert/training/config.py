"""`TrainConfig`: everything that decides how a run trains, but for its data and its model.

A run is a row of stages. Where a stage says nothing, the model and the data keep their own depth, length and masks.
"""

import json
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.training.optim import OptimConfig

__all__ = [
    "Parallel",
    "Precision",
    "RunConfig",
    "Stage",
    "TrainConfig",
    "describe_differences",
    "num_micro_batches",
    "rename_old_settings",
]

Precision = Literal["auto", "fp32", "bf16"]
Parallel = Literal["ddp", "fsdp"]

_OLD_NAMES = {"rows_at_once": "micro_batch_size"}

# What may change when a run goes on: where and how it is computed, not what.
_NOT_IDENTITY = {
    "parallel",
    "micro_batch_size",
    "precision",
    "compiled",
    "recompute",
    "evaluations",
    "patience",
    "log_steps",
    "save_seconds",
    "save_steps",
    "keep",
}


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
    matching_head: Literal[True] | None = None
    """Pretraining: when the stage begins, the last head is made to look for the same word in the other segment."""


class TrainConfig(_Record):
    """How a run trains: for how long, in which stages, with which optimiser, and how it is kept safe."""

    steps: Annotated[int | None, Field(ge=1)] = None
    seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None
    """A run ends after `steps`, or after `seconds`. Only the former can be repeated bit by bit."""
    batch_size: Annotated[int, Field(ge=1, le=1_048_576)] = 32
    """Rows of a step, over all processes and all micro-batches that are accumulated."""
    micro_batch_size: Annotated[
        int | None, Field(ge=1, validation_alias=AliasChoices("micro_batch_size", "rows_at_once"))
    ] = None
    """The most rows that a process runs together; gradients of several micro-batches are added up."""
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
    """How often held-out data are evaluated in the course of the run, if a time budget leaves room for it."""
    patience: Annotated[int | None, Field(ge=1)] = None
    """End the run after so many evaluations in a row without a better metric."""
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

    @classmethod
    def parse(cls, settings: dict[str, Any]) -> Self:
        """Make a configuration of plain values, as JSON or TOML has them; raises pydantic's `ValidationError`."""
        return cls.model_validate_json(json.dumps(settings))

    def identity(self, defaults: bool = True) -> dict[str, Any]:
        """What makes a run what it is, as plain values; not where and how it is computed.

        Without `defaults` it stays the same when a later version has more settings.
        """
        identity = self.model_dump(mode="json", exclude_defaults=not defaults)
        identity["train"] = {name: value for name, value in identity["train"].items() if name not in _NOT_IDENTITY}
        return identity


def rename_old_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a `TrainConfig` by their names of today."""
    return {_OLD_NAMES.get(name, name): value for name, value in settings.items()}


def num_micro_batches(batch_size: int, num_processes: int, micro_batch_size: int | None) -> int:
    """In how many micro-batches a process runs its share of a batch.

    >>> [num_micro_batches(*sizes) for sizes in ((32, 1, 8), (32, 2, 8), (30, 1, 8), (32, 1, None))]
    [4, 2, 5, 1]
    """
    if batch_size % num_processes:
        raise RequestError(
            f"a batch of {batch_size} rows cannot be shared by {num_processes} processes: choose a multiple"
        )
    share = batch_size // num_processes
    most = min(micro_batch_size or share, share)
    return next(count for count in range(1, share + 1) if share % count == 0 and share // count <= most)


def describe_differences(stored: dict[str, Any], wanted: dict[str, Any], prefix: str = "") -> str:
    """Name the settings that differ between two identities of runs; one that is not set on either side does not."""
    names: list[str] = []
    for name in sorted({*stored, *wanted}):
        old, new = stored.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            names += filter(None, [describe_differences(old, new, f"{prefix}{name}.")])
        elif _is_hash(old) and _is_hash(new):
            if old != new:
                names.append(f"other {name}")
        elif old != new:
            names.append(f"{prefix}{name} {old} instead of {new}")
    return ", ".join(names)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
