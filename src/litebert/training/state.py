"""Checkpoints: a model folder and the state of its training, written whole, checked before they are believed.

`checkpoints/step-00000120` holds `model` (a folder like any other, which transformers opens) and `state` (optimiser,
heads that only training needs, position in the data, health). Both have manifests with SHA-256, both appear by one
rename. Randomness is a function of seed, step and rank, so that no generator has to be kept.
"""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from litebert.errors import FolderError, LitebertError
from litebert.folders import new_folder, read_json, remove_abandoned, remove_folder, replace_folder, verify_manifest
from litebert.training.run_folder import rename_old_metrics

__all__ = ["Checkpoint", "CheckpointStore", "TrainingState"]

_NAME = "step-{:08d}"
_PATTERN = re.compile(r"step-(\d{8,})")
_ASIDE = "damaged-"
_STATE, _TENSORS = "state.json", "optimizer.safetensors"


class TrainingState(BaseModel):
    """Where a run stands. Together with the weights and the optimiser's tensors it is all that going on needs."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int = 1
    config: dict[str, Any]
    """The whole configuration of the run, data included; going on with another one would be another run."""
    step: int = 0
    seconds: float = 0.0
    """Time of training, evaluations and checkpoints included."""
    startup: float = 0.0
    """Time from the call to the first step."""
    reserve: float = 0.0
    """Time that the end will take, as far as it can be foreseen: the last evaluation, saving, the final model."""
    evaluating: float = 0.0
    """Time that evaluations took so far; a part of `seconds`."""
    tokens: int = 0
    stage: int = 0
    cursor: list[int] | None = None
    """Where the data of the stage go on; None for their beginning."""
    health: dict[str, Any] = {}
    window: dict[str, float] = {}
    """Sums over the steps since the last line of the logbook."""
    evaluated: float = 0.0
    """The share of the run at which held-out data were last evaluated."""
    metrics: dict[str, float] = {}
    """What came of it."""
    metric: float | None = None
    """The one of them by which the best checkpoint is known; None where these weights were not evaluated."""
    best: float | None = None
    """The best value of that metric so far."""
    unimproved: int = 0
    """Evaluations in a row that brought no better one."""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        content = {{"scores": "metrics", "score": "metric"}.get(name, name): value for name, value in content.items()}
        for name in ("metrics", "window"):
            if isinstance(content.get(name), dict):
                content[name] = rename_old_metrics(content[name])
        return content


class Checkpoint(BaseModel):
    """A complete checkpoint on disk."""

    model_config = ConfigDict(frozen=True)

    folder: Path
    step: int

    @property
    def model(self) -> Path:
        """Its model folder."""
        return self.folder / "model"

    def verify(self) -> None:
        """Compare every file with its hash."""
        advice = "go on from an older checkpoint"
        for part in (self.model, self.folder / "state"):
            if not (part / "manifest.json").is_file():
                raise FolderError(f"{part / 'manifest.json'} is missing: {advice}")
            verify_manifest(part, advice=advice)

    def read_state(self) -> TrainingState:
        """Read where the run stands."""
        path = self.folder / "state" / _STATE
        try:
            return TrainingState.model_validate(read_json(path))
        except ValidationError:
            raise FolderError(f"{path} was not written by this version of litebert: begin a new run") from None

    def read_tensors(self) -> dict[str, Tensor]:
        """Read the optimiser's tensors, named `parameter/slot`, and those that only training needs, by their names."""
        path = self.folder / "state" / _TENSORS
        try:
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise FolderError(f"{path} is damaged ({error})") from None


class CheckpointStore:
    """The checkpoints of one run: the last few, and the best."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def clear_abandoned(self) -> None:
        """Remove what a killed process left half written. Only for the one process that holds the run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(self.folder)

    def all(self) -> list[Checkpoint]:
        """Complete checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        matches = [(path, _PATTERN.fullmatch(path.name)) for path in self.folder.iterdir()]
        return sorted(
            (Checkpoint(folder=path, step=int(match[1])) for path, match in matches if match),
            key=lambda checkpoint: checkpoint.step,
        )

    def best(self) -> Checkpoint:
        """The checkpoint with the best metric; the last one if none was evaluated."""
        return _best(self.all())

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step, whether it is there or not."""
        return Checkpoint(folder=self.folder / _NAME.format(step), step=step)

    def newest(self, on_damage: Callable[[str], None]) -> Checkpoint | None:
        """The newest checkpoint whose files are what they were.

        Those that cannot be read or believed are named and set aside under another name, never deleted. Only for the
        one process that holds the run.
        """
        for checkpoint in reversed(self.all()):
            try:
                checkpoint.verify()
                checkpoint.read_state()
                return checkpoint
            except FolderError as error:
                aside = checkpoint.folder.with_name(_ASIDE + checkpoint.folder.name)
                with contextlib.suppress(OSError):
                    checkpoint.folder.rename(aside)
                on_damage(f"{error} (now {aside.name})")
        return None

    def save(
        self, state: TrainingState, tensors: dict[str, Tensor], write_model: Callable[[Path], object]
    ) -> Checkpoint:
        """Write a checkpoint, then remove those that are no longer worth keeping."""
        checkpoint = self.at(state.step)
        if checkpoint.folder.exists():
            if self._is_whole(checkpoint):  # the run was interrupted before its next step
                return checkpoint
            remove_folder(checkpoint.folder)
        with new_folder(checkpoint.folder) as staging:
            write_model(staging / "model")
            with replace_folder(staging / "state") as inner:
                try:
                    save_file(tensors, inner / _TENSORS)
                except SafetensorError as error:  # a full disk comes as this, not as OSError
                    raise LitebertError(f"cannot save to {checkpoint.folder}: {error}") from None
                (inner / _STATE).write_text(state.model_dump_json(indent=2) + "\n", encoding="utf-8")
        self._prune(checkpoint)
        return checkpoint

    def _is_whole(self, checkpoint: Checkpoint) -> bool:
        try:
            checkpoint.verify()
        except FolderError:
            return False
        return True

    def _prune(self, last: Checkpoint) -> None:
        """Keep the last few checkpoints, and the best. Those beyond the last were damaged, and the run went back."""
        found = [checkpoint for checkpoint in self.all() if checkpoint.step <= last.step]
        kept = [*found[-self.keep :], _best(found)]
        for checkpoint in self.all():
            if checkpoint not in kept:
                remove_folder(checkpoint.folder)


def _best(found: list[Checkpoint]) -> Checkpoint:
    """The first checkpoint with the best metric; the last of all if none was evaluated."""
    metrics = [_metric(checkpoint) for checkpoint in found]
    known = [metric for metric in metrics if metric is not None]
    return found[metrics.index(max(known)) if known else -1]


def _metric(checkpoint: Checkpoint) -> float | None:
    try:
        return checkpoint.read_state().metric
    except FolderError:
        return None
