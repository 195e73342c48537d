"""What a fine-tuned folder remembers of its task, so that it answers as it learnt. Without torch."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from litebert.errors import FolderError
from litebert.folders import read_text
from litebert.tasks.kinds.options import EncodeOptions, TargetScale, WindowConfig
from litebert.tasks.linear import LINEAR_FILE, LinearHead
from litebert.tasks.task import Task
from litebert.tasks.tf_idf import TF_IDF_FILE, TfIdf
from litebert.training.run_folder import RunFolder

__all__ = ["TASK_FILE", "SavedTask", "read_saved_task"]

TASK_FILE = "task.json"


class SavedTask(BaseModel):
    """What a fine-tuned folder remembers, in `task.json` beside the weights: the task, and how texts were encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    task: Task
    max_length: int
    windows: WindowConfig | None = None
    threshold: float | None = None
    """Questions: above these odds there is no answer; tuned on the development set."""
    scale: TargetScale | None = None
    """How outputs become targets, where the head does not say them as they are."""
    dev: str | None = None
    """A hash of the development examples, by which the weights were chosen."""
    has_tf_idf: bool | None = None
    """Whether words are counted beside the encoder: `tf_idf` then comes from a file of its own."""
    tf_idf: InstanceOf[TfIdf] | None = Field(default=None, exclude=True)
    has_linear: bool | None = None
    """Whether a linear model on the encoder's vectors answers: `linear` then comes from a file of its own."""
    linear: InstanceOf[LinearHead] | None = Field(default=None, exclude=True)

    @property
    def options(self) -> EncodeOptions:
        """How texts are encoded."""
        options = EncodeOptions(self.max_length, self.windows)
        return options if self.tf_idf is None else options.beside_words()

    def as_files(self) -> dict[str, str | bytes]:
        """The files to put into a model folder."""
        files: dict[str, str | bytes] = {TASK_FILE: self.model_dump_json(indent=2, exclude_none=True) + "\n"}
        parts = {TF_IDF_FILE: self.tf_idf, LINEAR_FILE: self.linear}
        return files | {name: part.to_bytes() for name, part in parts.items() if part is not None}


def read_saved_task(folder: Path) -> SavedTask:
    """What a model folder remembers."""
    path, run = folder / TASK_FILE, RunFolder(folder)
    if not path.is_file() and run.seeds_file.is_file():
        first = next(iter(run.seeds()), run.seed(0)).path
        raise FolderError(f"{folder} holds several seeds: name one, such as {first}, or run `litebert ensemble`")
    if not path.is_file() and run.exists:
        raise FolderError(f"{folder} is not finished: go on with the command that began it, and --resume")
    if not path.is_file():
        raise FolderError(f"{folder} was not fine-tuned by litebert: it has no {TASK_FILE}; run `litebert finetune`")
    try:
        saved = SavedTask.model_validate_json(read_text(path))
    except ValidationError:
        raise FolderError(f"{path} was not written by this version of litebert: fine-tune again") from None
    num_labels = max(1, len(saved.task.labels))
    if saved.has_tf_idf:
        tf_idf = TfIdf.read(folder / TF_IDF_FILE)
        if len(tf_idf.bias) != num_labels or tf_idf.is_pair != saved.task.is_pair:
            raise FolderError(f"{folder / TF_IDF_FILE} belongs to another task than {path}: fine-tune again")
        saved = saved.model_copy(update={"tf_idf": tf_idf})
    if saved.has_linear:
        linear = LinearHead.read(folder / LINEAR_FILE)
        if len(linear.bias) != num_labels:
            raise FolderError(f"{folder / LINEAR_FILE} belongs to another task than {path}: fit again")
        saved = saved.model_copy(update={"linear": linear})
    return saved
