"""`Predictor`: a fine-tuned model, or several of them, with what it takes to answer examples of its task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from litebert.errors import FolderError, RequestError
from litebert.folders import locate_model, read_json
from litebert.model.model import Model
from litebert.tasks.encoding import encode
from litebert.tasks.outputs import Answers, Outputs, average, choose_answers, predict
from litebert.tasks.saved import SavedTask, read_saved_task
from litebert.tasks.scoring import score_outputs
from litebert.tasks.task import Example, Task
from litebert.text.tokenizer import Tokenizer

__all__ = ["ENSEMBLE", "Member", "Predictor", "open_predictor"]

ENSEMBLE = "ensemble.json"


@dataclass(frozen=True)
class Member:
    """One fine-tuned model."""

    folder: Path
    model: Model
    tokenizer: Tokenizer
    saved: SavedTask

    @classmethod
    def open(cls, name: str) -> "Member":
        """Open a model folder that remembers its task, or the folder of a run."""
        folder = Path(locate_model(name))
        if not folder.is_dir():
            raise FolderError(f"{name} is not there: name a folder that `litebert finetune` wrote")
        saved = read_saved_task(folder)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(folder, Model.from_pretrained(folder).to(device), Tokenizer.from_pretrained(folder), saved)

    def ask(self, examples: Sequence[Example], on_progress: Callable[[int], None] = lambda done: None) -> Outputs:
        """What the model says about examples."""
        saved = self.saved
        encoded = encode(saved.task, examples, self.tokenizer, saved.max_length, saved.windows)
        return predict(self.model, saved.task, examples, encoded, saved.windows, on_progress)


@dataclass(frozen=True)
class Predictor:
    """One model or an ensemble; what its members say is averaged."""

    members: tuple[Member, ...]
    threshold: float | None = None
    """Questions: above these odds there is no answer."""

    @property
    def task(self) -> Task:
        """The task of all members."""
        return self.members[0].saved.task

    def ask(self, examples: Sequence[Example], on_progress: Callable[[int], None] = lambda done: None) -> Outputs:
        """What the members say about examples, averaged."""
        outputs = [member.ask(examples, on_progress) for member in self.members]
        return outputs[0] if len(outputs) == 1 else average(self.task, outputs)

    def answer(self, examples: Sequence[Example], on_progress: Callable[[int], None] = lambda done: None) -> Answers:
        """Answers to examples, with probabilities."""
        threshold = 0.0 if self.threshold is None else self.threshold  # even odds, where none was tuned
        return choose_answers(self.task, self.ask(examples, on_progress), threshold)

    def score(self, examples: Sequence[Example]) -> tuple[dict[str, float], Answers]:
        """Figures on examples with known answers, and the answers.

        Questions that may have none: with the threshold that was tuned before, or else the best one for these examples.
        """
        outputs = self.ask(examples)
        scores, threshold = score_outputs(self.task, examples, outputs, self.threshold)
        return scores, choose_answers(self.task, outputs, threshold)


def open_predictor(name: str) -> Predictor:
    """Open a fine-tuned model, a run, or an ensemble that `litebert ensemble` wrote."""
    folder = Path(name)
    if not (folder / ENSEMBLE).is_file():
        member = Member.open(name)
        return Predictor((member,), member.saved.threshold)
    content = read_json(folder / ENSEMBLE)
    names = content.get("members")
    if not isinstance(names, list) or not names:
        raise FolderError(f"{folder / ENSEMBLE} names no members: make the ensemble again")
    members = tuple(Member.open(str(folder / str(member))) for member in names)
    check_members(members)
    threshold = content.get("threshold")
    return Predictor(members, float(threshold) if isinstance(threshold, int | float) else None)


def check_members(members: Sequence[Member]) -> None:
    """Refuse models that were not trained for one and the same task, with one kind of head."""
    first = members[0].saved.task
    for member in members[1:]:
        other = member.saved.task
        if (other.name, other.kind, other.labels) != (first.name, first.kind, first.labels):
            raise RequestError(
                f"{member.folder} answers {other.name}, {members[0].folder} answers {first.name}: "
                "an ensemble needs models of one task with the same labels"
            )
        if member.model.head != members[0].model.head:
            raise RequestError(
                f"{member.folder} and {members[0].folder} have heads of different kinds: choose one kind"
            )
