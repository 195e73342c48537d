"""What a run is given and what it gives: a `Job` to train, progress events on the way, a result at the end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from torch import Tensor, nn

from litebert.batch import Batch
from litebert.model.model import Model
from litebert.training.config import RunConfig
from litebert.training.distributed import World
from litebert.training.run_folder import RunFolder
from litebert.training.state import TrainingState

__all__ = ["Cursor", "Interrupted", "Job", "OnMessage", "OnStep", "ProgressEvent", "RunResult"]

Cursor = list[int] | None
OnMessage = Callable[[str], None]
Config = TypeVar("Config", bound=RunConfig, contravariant=True)


class Job(Protocol[Config]):
    """What is trained, and on what. `train` first asks what it is, then sets it up, then trains it."""

    kind: str
    """`pretraining` or `fine-tuning`, as run.json says it."""
    data: dict[str, Any]
    """What identifies the data, such as a hash; a run cannot go on with other data."""
    metric: str
    """The held-out metric by which a checkpoint is better than another; more is better."""
    keeps_best: bool
    """Whether the best weights become the run's model, or the last ones."""
    skip_loss_spikes: bool
    """Whether a loss far above the recent ones is a fault, as where all batches are about equally hard."""

    spares_weights: bool
    """Whether some steps need only a part of the weights, so that others have no gradient."""

    step_seed: int
    """Set for each step: the same on all processes, for what they must draw alike."""

    model: Model
    """Known after `setup`, as is all that follows."""
    losses: tuple[str, ...]
    """Names of the parts of the loss."""

    def describe_run(self) -> dict[str, Any]:
        """What else run.json shall say, such as sizes of the data and `baselines`; asked when a run begins."""

    def setup(self, world: World, config: Config, fresh: bool, on_message: OnMessage) -> None:
        """Build model and features for this process; unless `fresh`, the weights come from a checkpoint later."""

    def steps(self, stage: int, cursor: Cursor) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's share of every step from a cursor on, as micro-batches, with the cursor after the step."""

    def enter(self, stage: int) -> None:
        """Do to the model what a stage begins with, in every process alike; the first stage is not entered."""

    def count(self, batch: Batch) -> list[int]:
        """How many targets a batch has, for each part of the loss."""

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """Each part of the loss, summed over the batch and divided by the targets of the whole step."""

    def evaluate(self, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Metrics on held-out data, and samples of what the model says."""

    def operations(self, batch: Batch, stage: int) -> float:
        """Floating-point operations that a step on this batch takes."""

    def describe_stage(self, stage: int) -> dict[str, Any]:
        """What a stage is like, for the logbook."""

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the run's model, from those of the checkpoint that was chosen for it."""

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder with these weights."""


@dataclass(frozen=True)
class ProgressEvent:
    """What a callback is told after every step."""

    step: int
    progress: float
    """The share of the run that is done."""
    seconds: float
    tokens: int
    recent: dict[str, Any]
    """Mean losses and speeds of the last few steps; empty before the first reading."""
    metrics: dict[str, float]
    """What the last evaluation measured."""


OnStep = Callable[[ProgressEvent], None]


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and what came of it."""

    folder: Path
    status: Literal["finished", "interrupted"]
    step: int
    tokens: int
    seconds: float
    """From the call on, start included; of a run that was resumed, its parts together."""
    metrics: dict[str, float] = field(default_factory=dict)
    """On held-out data: those of the final model, or of the last evaluation if the run was interrupted."""
    baselines: dict[str, Any] = field(default_factory=dict)
    """What simple means get on the same data."""
    splits: dict[str, dict[str, float]] = field(default_factory=dict)
    """Fine-tuning: the metrics of the final model on every split whose labels are known."""
    report: Path | None = None
    """The page about the run, if one was written."""
    signal: int | None = None
    """The signal that interrupted the run."""

    @property
    def model(self) -> Path:
        """The folder of the final model; it is there once the run is finished."""
        return RunFolder(self.folder).model

    def __repr__(self) -> str:
        shown = [f"{name} {value:.4g}" for name, value in self.metrics.items()]
        parts = [f"{self.status} at step {self.step:,}", f"{self.tokens:,} tokens", f"{self.seconds:.0f} s", *shown]
        return f"<{type(self).__name__} {str(self.folder)!r}: {', '.join(parts)}>"


class Interrupted(KeyboardInterrupt):
    """A signal (Ctrl-C) asked a run to stop; it was saved first. `result` says how far it came."""

    def __init__(self, result: Any, where: str) -> None:
        super().__init__(f"{where} was stopped, and saved: the same call with resume=True goes on")
        self.result = result
