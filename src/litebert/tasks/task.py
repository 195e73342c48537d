"""`Task` and its examples: what is asked of an encoder, whichever file it was written in.

The kind of a task (`litebert.tasks.kinds`) decides the head, the loss and the metrics; everything else is a value.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from litebert.errors import DataError

__all__ = [
    "Answer",
    "ChoiceExample",
    "Columns",
    "DataError",
    "Dataset",
    "Example",
    "Predictions",
    "QuestionExample",
    "Recipe",
    "TaggedExample",
    "Task",
    "TextExample",
    "hash_examples",
]


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text or a pair of texts, with one class, several classes or a score."""

    id: str
    text: str
    pair: str | None = None
    label: str | float | tuple[str, ...] | None = None
    """A name (classification), names (multi-label), a number (regression); None where the file has no labels."""
    location: str = ""
    """File and line, for messages."""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """A sentence in words, and a tag for each of them."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    location: str = ""


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
    location: str = ""


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
    location: str = ""


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
    kind: str
    """A name in `litebert.tasks.kinds.KINDS`."""
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
    def metric(self) -> str:
        """The metric that decides."""
        return self.metrics[0]


@dataclass(frozen=True)
class Dataset:
    """A task and its examples, by split: `train`, `dev`, `test`, and for MNLI `dev_mismatched`, `test_mismatched`."""

    task: Task
    splits: dict[str, Sequence[Example]] = field(default_factory=dict)
    num_skipped: int = 0
    """Bad records that were left out, where that was asked for."""


@dataclass(frozen=True)
class Predictions:
    """One answer for each example, what speaks for it, and for questions the odds that there is none.

    An answer is a plain value: a name, several names, a number, a tag for each word, a text or the index of an option.
    """

    answers: tuple[Any, ...]
    details: tuple[dict[str, Any], ...] = ()
    null_odds: tuple[float, ...] | None = None

    @property
    def raw_answers(self) -> tuple[Any, ...]:
        """Answers to questions before any threshold made some of them empty, where the details tell them."""
        best = [details.get("nbest") for details in self.details] or [None] * len(self.answers)
        return tuple(
            found[0].get("text", answer) if isinstance(found, list) and found and isinstance(found[0], dict) else answer
            for found, answer in zip(best, self.answers, strict=True)
        )


def hash_examples(examples: Sequence[Example]) -> str:
    """What identifies examples: their content, wherever they lie."""
    digest = hashlib.sha256()
    for example in examples:
        content = {name: getattr(example, name) for name in example.__slots__ if name != "location"}
        digest.update(repr(content).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
