"""`Task` and its examples: what is asked of an encoder, whichever file it was written in.

There are six kinds of question. A kind decides the head, the loss and the metrics; everything else is a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from litebert.config import Head, ProblemType
from litebert.errors import DataError

__all__ = [
    "Answer",
    "ChoiceExample",
    "Columns",
    "DataError",
    "Dataset",
    "Example",
    "Kind",
    "QuestionExample",
    "Recipe",
    "TaggedExample",
    "Task",
    "TextExample",
]

Kind = Literal["classification", "multi-label", "regression", "tagging", "questions", "choice"]


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair of texts, with one class, several classes or a score."""

    id: str
    text: str
    pair: str | None = None
    label: str | float | tuple[str, ...] | None = None
    """A name (classification), names (multi-label), a number (regression); None where the file has no labels."""
    place: str = ""
    """File and line, for messages."""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """A sentence in words, and a tag for each of them."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of a context: `context[begin : begin + len(text)] == text`."""

    text: str
    begin: int


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context that holds the answer, or (SQuAD 2.0) does not."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    """All that people gave; empty if there is none in the context; None where the file has no answers."""
    place: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A passage, a question about it, and options of which one is right."""

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    answer: int | None = None
    group: str = ""
    """A part of the data that is also scored on its own, such as RACE's `middle` and `high`."""
    place: str = ""


Example = TextExample | TaggedExample | QuestionExample | ChoiceExample


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Columns(_Record):
    """Where a user's own table keeps what; names of columns, or of keys in JSON lines."""

    text: str = "text"
    pair: str | None = None
    label: str = "label"
    options: tuple[str, ...] = ()
    """Multiple choice: one column per option."""
    id: str | None = None
    separator: str = ","
    """Multi-label: what stands between the labels of a cell."""


class Recipe(_Record):
    """How a task is fine-tuned when nothing else is said."""

    lr: float = 5e-5
    batch_size: int = 32
    dropout: float = 0.0
    steps: int | None = None
    """None: `epochs` decides."""
    epochs: float = 3.0
    warmup_steps: int | None = None
    """None: a tenth of the steps."""
    max_length: int = 512


class Task(_Record):
    """A task: what is asked, how answers are scored, where a table keeps them. It is saved with a fine-tuned model."""

    name: str
    kind: Kind
    labels: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    """Names of classes or tags, in the order of the model's outputs."""
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    """What is reported; the first one decides which checkpoint is best."""
    is_pair: bool = False
    has_unanswerable: bool = False
    """Questions whose context may not hold the answer."""
    columns: Columns | None = None
    """For a user's own table; an official layout has none."""
    recipe: Recipe = Recipe()

    @property
    def score(self) -> str:
        """The metric that decides."""
        return self.metrics[0]

    @property
    def head(self) -> Head:
        """The head that answers this kind of question."""
        if self.kind == "questions":
            return "answerable-question-answering" if self.has_unanswerable else "question-answering"
        if self.kind == "tagging":
            return "token-classification"
        return "multiple-choice" if self.kind == "choice" else "sequence-classification"

    @property
    def problem_type(self) -> ProblemType | None:
        """What transformers calls a problem of texts."""
        match self.kind:
            case "classification":
                return "single_label_classification"
            case "multi-label":
                return "multi_label_classification"
            case "regression":
                return "regression"
            case _:
                return None


@dataclass(frozen=True)
class Dataset:
    """A task and its examples, by split: `train`, `dev`, `test`, and for MNLI `dev_mismatched`, `test_mismatched`."""

    task: Task
    splits: dict[str, Sequence[Example]] = field(default_factory=dict)
    num_skipped: int = 0
    """Bad records that were left out, where that was asked for."""
