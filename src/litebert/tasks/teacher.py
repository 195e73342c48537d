"""Task distillation: what a fine-tuned model says about texts is what another one learns, with labels or without."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.hub import resolve
from litebert.model.hf.checkpoint import hash_weights
from litebert.model.model import Model
from litebert.tasks.kinds import kind_of
from litebert.tasks.outputs import TorchRunner, run_saved
from litebert.tasks.saved import SavedTask, read_saved_task
from litebert.tasks.task import Example, Task
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import OnMessage

__all__ = ["TaskTeacher"]


class TaskTeacher:
    """A model that was fine-tuned for a task, and that answers for the texts that another one learns from."""

    def __init__(self, name: str, task: Task) -> None:
        self.name, self.task = name, task
        self.folder = resolve(name)
        self.saved: SavedTask = read_saved_task(self.folder)
        known = self.saved.task
        if self.saved.linear is not None:
            raise RequestError(f"{name} was fitted, so it cannot teach: name a model that was fine-tuned")
        if (known.kind, known.is_pair) != (task.kind, task.is_pair):
            raise RequestError(f"{name} was fine-tuned for {_describe(known)}, not for {_describe(task)}: name another")
        if {*known.labels} != {*task.labels}:
            ours, theirs = (", ".join(labels[:5]) for labels in (task.labels, known.labels))
            raise RequestError(f"{name} knows the labels {theirs}, the examples have {ours}: they must be the same")

    @property
    def hash(self) -> str:
        """What identifies its weights."""
        return hash_weights(self.folder)

    def answer(self, examples: Sequence[Example], device: torch.device, on_message: OnMessage) -> NDArray[np.float32]:
        """What it says about each example, as labels to learn from; where people said something, the mean of both."""
        on_message(f"{self.name} answers {len(examples):,} examples")
        model, known = Model.from_pretrained(self.folder).to(device), self.saved.task
        kind = kind_of(known)
        features = kind.encode(known, examples, Tokenizer.from_pretrained(self.folder), self.saved.options)
        outputs = run_saved(TorchRunner(model), self.saved, examples, features)
        if known.labels and known.labels != self.task.labels:
            order = [known.labels.index(label) for label in self.task.labels]
            outputs = [output[order] for output in outputs]
        return kind.soft_labels(self.task, examples, outputs)


def _describe(task: Task) -> str:
    return f"{task.kind} of {'pairs' if task.is_pair else 'texts'}"
