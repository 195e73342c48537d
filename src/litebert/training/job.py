"""`Job`: what the training loop is given to train, and what it tells about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from litebert.batch import Batch
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.training.state import TrainingState

__all__ = ["Job", "News", "Outcome", "num_pieces"]

Cursor = list[int] | None


class Job(Protocol):
    """What is trained, and on what."""

    model: Model
    losses: tuple[str, ...]
    """Names of the parts of the loss."""
    fears_leaps: bool
    """Whether a loss far above the recent ones is a fault, as where all batches are about equally hard."""
    score: str
    """The held-out figure by which a checkpoint is better than another; more is better."""

    def steps(self, stage: int, cursor: Cursor) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's part of every step from a cursor on, as micro-batches, with the cursor after the step."""

    def count(self, batch: Batch) -> list[int]:
        """How many things are asked, for each part of the loss."""

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """Each part of the loss, summed over the batch and divided by what is asked in the whole step."""

    def evaluate(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Figures on held-out data, and samples of what the model says."""

    def operations(self, batch: Batch, stage: int) -> float:
        """Floating-point operations that a step on this batch takes."""

    def describe(self, stage: int) -> dict[str, Any]:
        """What a stage is like, for the logbook."""

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the run's model, from those of the checkpoint that was chosen for it."""

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder with these weights."""


@dataclass(frozen=True)
class News:
    """What a watcher is told after every step."""

    step: int
    progress: float
    seconds: float
    tokens: int
    meter: dict[str, Any]
    """Means and rates of the last few steps; empty before the first reading."""
    scores: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    status: Literal["finished", "interrupted"]
    state: TrainingState
    signal: int | None = None


def num_pieces(batch_size: int, num_ranks: int, rows_at_once: int | None) -> int:
    """In how many pieces a process runs its share of a batch.

    >>> num_pieces(32, 1, 8), num_pieces(32, 2, 8), num_pieces(30, 1, 8), num_pieces(32, 1, None)
    (4, 2, 5, 1)
    """
    if batch_size % num_ranks:
        raise RequestError(f"a batch of {batch_size} rows cannot be shared by {num_ranks} processes: choose a multiple")
    share = batch_size // num_ranks
    at_once = min(rows_at_once or share, share)
    return next(pieces for pieces in range(1, share + 1) if share % pieces == 0 and share // pieces <= at_once)
