"""`Kind`: all that a kind of task must say about itself.

A kind turns records into examples, examples into features, what the model says into answers, and answers into metrics
and a report. Everything else (reading files, training, inference, baselines, commands, pages) asks the kind and knows
none by name. A new kind is one module with a subclass, and one line in `litebert.tasks.kinds`.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.batch import Batch
from litebert.config import NO_EMBEDDING, Head, ProblemType
from litebert.errors import RequestError
from litebert.tasks.features import Features
from litebert.tasks.kinds.description import Answered, Description
from litebert.tasks.kinds.options import EncodeOptions, Outputs, TargetScale
from litebert.tasks.task import Columns, DataError, Example, Predictions, Task
from litebert.tasks.tf_idf import TfIdf, choose_weight
from litebert.text.records import BadRecordError, match_keys, quote, take_text
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["AnswerType", "Cells", "FilePrediction", "Kind", "read_name", "read_number", "take_cell"]

AnswerType = Literal["label", "labels", "number", "tags", "span", "option"]
"""What an answer looks like; baselines are chosen by it."""

Cells = Mapping[str, Any]
"""The cells of a record, by the names of their columns."""

ROUNDED = 5  # digits of probabilities in files


@dataclass(frozen=True)
class FilePrediction:
    """One prediction as a file has it: what stands there, and where."""

    location: str
    value: Any


class Kind(ABC):
    """A kind of task. Methods take the task, because its labels and columns are values of the task, not of the kind."""

    name: ClassVar[str]
    """As `--kind` takes it."""
    purpose: ClassVar[str]
    """What a model of this kind gives, in a few plain words."""
    answer_type: ClassVar[AnswerType]
    metrics: ClassVar[tuple[str, ...]]
    """What is reported if nothing else is said; the first decides."""
    meanings: ClassVar[Mapping[str, str]] = {}
    """What metrics say that mean something else with other kinds."""
    constant: ClassVar[str] = "the most frequent answer alone"
    """What the best answer is that looks at no text, in words."""
    is_pair: ClassVar[bool] = False
    """Whether examples always have two texts."""
    splits_rows: ClassVar[bool] = False
    """Whether a long example becomes several items."""
    problem_type: ClassVar[ProblemType | None] = None
    """What transformers calls it, for heads on texts."""
    file_format: ClassVar[Literal["conll", "squad"] | None] = None
    """A format of files that this kind has beside tables, or instead of them."""
    writes_indices: ClassVar[bool] = False
    """Whether answers are indices, also where a table has them as text."""
    target: ClassVar[str] = "label"
    """What an answer is called in messages."""

    # --- the model -------------------------------------------------------------------------------------------------

    @abstractmethod
    def head(self, task: Task, plain: bool = False) -> Head:
        """The head that answers; `plain` asks for the one that transformers knows, where there are two."""

    def model_settings(self, task: Task, max_length: int) -> dict[str, Any]:
        """What the configuration of a model for this task has: names of its outputs, and what transformers calls it."""
        return {"labels": task.labels, "problem_type": self.problem_type, **NO_EMBEDDING}

    def options(self, max_length: int) -> EncodeOptions:
        """How texts are encoded if rows may have so many tokens."""
        return EncodeOptions(max_length)

    def target_scale(self, examples: Sequence[Example]) -> TargetScale | None:
        """How targets are scaled for training; None if they are learnt as they are."""
        return None

    def losses(self, head: Head) -> tuple[str, ...]:
        """Names of the parts of the loss."""
        return ("loss",)

    def default_metrics(self, labels: Sequence[str]) -> tuple[str, ...]:
        """What is reported of a user's own data; the first decides."""
        return self.metrics

    # --- examples --------------------------------------------------------------------------------------------------

    def wanted_columns(self, columns: Columns, with_labels: bool) -> tuple[str, ...]:
        """The columns that a table has to have."""
        optional = (columns.pair, columns.id, columns.label if with_labels else None)
        return tuple(dict.fromkeys(name for name in (columns.text, *optional) if name is not None))

    def pick_columns(self, named: Columns, there: Collection[str]) -> Columns:
        """The columns to take of those that are there: the named ones, or else those that everybody would call so."""
        text = pick(there, named.text, "text")
        pair = None if named.pair is None else pick(there, named.pair, "pair")
        label = pick(there, named.label, "label")
        return named.model_copy(update={"text": text, "pair": pair, "label": label, "id": _pick_id(named, there)})

    def check_columns(self, columns: Columns) -> None:  # noqa: B027  # most kinds take any
        """Refuse columns that cannot be read."""

    @abstractmethod
    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> Example:
        """Make an example of a record; what cannot be used raises `BadRecordError`."""

    @abstractmethod
    def parse_line(self, task: Task, id_: str, line: str, location: str) -> Example:
        """Make an example without an answer of a line of text, its parts between tabs."""

    def from_texts(self, task: Task, id_: str, texts: tuple[str, ...]) -> Example:
        """Make an example without an answer of one text or several, as a Python call gives them."""
        location = f"input {id_}"
        if not all(isinstance(text, str) for text in texts):
            raise BadRecordError("is no text: give a text, a pair of texts, or a dictionary")
        return self.parse_line(task, id_, "\t".join(text.replace("\t", " ") for text in texts), location)

    def parse_object(self, task: Task, id_: str, record: Cells, columns: Columns, location: str) -> Example:
        """Make an example without an answer of an object with the columns that a task is known to have."""
        picked = self.pick_columns(columns, record)
        record = match_keys(record, (picked.text, picked.pair or ""))
        name = id_ if picked.id is None else read_id(record, picked.id)
        return self.parse(name, record, picked, False, location)

    @abstractmethod
    def gold(self, example: Example) -> Any:
        """What an example says is right, in the form of an answer; None if it does not say."""

    def label_names(self, example: Example) -> tuple[str, ...]:
        """The labels that an example has."""
        return ()

    def answer_labels(self, answer: Any) -> tuple[str, ...]:
        """The labels that an answer names."""
        return ()

    @abstractmethod
    def text_key(self, example: Example) -> object:
        """What a model reads before it is asked: examples with the same stay together when some are held out."""

    def stratum(self, example: Example) -> object:
        """Of each stratum the same share is held out."""
        return None

    @abstractmethod
    def inputs(self, example: Example) -> Any:
        """An example as baselines take it: a text or a pair, words, question and context, passage with options."""

    def baseline_target(self, example: Example) -> Any:
        """What is right, as baselines take it."""
        return self.gold(example)

    def read_baseline(self, answer: Any) -> Any:
        """The answer that a baseline gave, as metrics take it."""
        return answer

    def check_learnable(self, name: str, examples: Sequence[Example]) -> None:
        """Refuse training examples from which nothing can be learnt."""
        check_variety(name, {label for example in examples for label in self.label_names(example)}, self.target)

    # --- from examples to what the model says ----------------------------------------------------------------------

    @abstractmethod
    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """Encode examples. Nothing in their texts is special; what is too long is cut, or goes on in another row."""

    @abstractmethod
    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Each part of the loss, summed over the batch and divided by what is asked in the whole step.

        `weights` say what each label counts, for kinds that have labels.
        """

    @abstractmethod
    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """What is kept of the output of a batch, item by item."""

    def join(
        self, task: Task, examples: Sequence[Example], features: Features, found: list[Any], options: EncodeOptions
    ) -> list[Any]:
        """What the model says about each example, from what it says about the items."""
        return found

    def average(self, task: Task, members: Sequence[Any]) -> Any:
        """What several models say about one example, taken together: the mean of their probabilities, as logits."""
        shares = np.mean([probabilities(logits) for logits in members], axis=0)
        return np.log(np.clip(shares, 1e-12, 1 - 1e-12)).astype(np.float32)

    def soft_labels(self, task: Task, examples: Sequence[Example], outputs: Sequence[Any]) -> NDArray[np.float32]:
        """What a fine-tuned model says about examples as labels for another; where labels are known, the mean of both.

        `outputs` have the order of the task's labels.
        """
        raise RequestError(f"a teacher's answers can be learnt for classes and scores of texts, not for {self.name}")

    # --- words that are counted beside the model -------------------------------------------------------------------

    def score_words(self, tf_idf: TfIdf, example: Example) -> NDArray[np.float32]:
        """What counted words say about an example: a logit for each label."""
        return tf_idf.score([self.inputs(example)])[0]

    def add_words(self, output: Any, said: NDArray[np.float32], weight: float = 1.0) -> Any:
        """What the model says about an example, with what words say."""
        return output + weight * said

    def weigh_words(
        self, task: Task, examples: Sequence[Example], outputs: Sequence[Any], said: Sequence[NDArray[np.float32]]
    ) -> float:
        """How much words should weigh, by examples with labels that neither has learnt from."""
        numbers = {label: number for number, label in enumerate(task.labels)}
        targets = np.zeros((len(examples), len(numbers)))
        for row, example in zip(targets, examples, strict=True):
            row[[numbers[label] for label in self.label_names(example)]] = 1
        exclusive = self.answer_type == "label"
        return choose_weight(np.reshape(outputs, targets.shape), np.reshape(said, targets.shape), targets, exclusive)

    # --- from what the model says to answers -----------------------------------------------------------------------

    def decode(self, task: Task, outputs: Sequence[Any], threshold: float | None = None) -> Predictions:
        """The answers, with what speaks for them."""
        pairs = [self.decode_one(task, output) for output in outputs]
        return Predictions(tuple(answer for answer, _ in pairs), tuple(details for _, details in pairs))

    @abstractmethod
    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The answer to one example, and what speaks for it."""

    def choose_threshold(self, task: Task, examples: Sequence[Example], outputs: Sequence[Any]) -> float | None:
        """The threshold that suits these examples best, for kinds that have one."""
        return None

    @abstractmethod
    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> Any:
        """An answer as a Python user gets it."""

    # --- metrics ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """All metrics of the kind."""

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """The constant answer that is most often right in training; of equal ones, the task's first label."""
        answer = most_frequent([self.known_gold(example) for example in examples], task.labels)
        return lambda example: answer

    def known_gold(self, example: Example) -> Any:
        """What is right; an example that does not say is refused."""
        gold = self.gold(example)
        if gold is None:
            raise RequestError(
                f"{example.location or 'example ' + repr(example.id)} has no label to compare with: "
                "use a split that has labels"
            )
        return gold

    # --- files -----------------------------------------------------------------------------------------------------

    prediction_keys: ClassVar[tuple[str, ...]] = ("label", "answer", "score")
    """Columns of others' files that may hold the prediction, after those that are called so."""

    @abstractmethod
    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """Answers from a file of predictions; with `any_label`, labels that the task does not know are taken too."""

    def show_cell(self, task: Task, answer: Any) -> str | None:
        """An answer as a cell of a table; None for JSON."""
        return None

    # --- a report --------------------------------------------------------------------------------------------------

    @abstractmethod
    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Where the model is right and where it errs, as sections of a page."""


def pick(there: Collection[str], *names: str) -> str:
    """The first of the names that is there; the first of all if none is."""
    return next((name for name in names if name in there), names[0])


def _pick_id(named: Columns, there: Collection[str]) -> str | None:
    return None if named.id is None else next((name for name in (named.id, "id") if name in there), None)


def take_cell(cells: Cells, name: str) -> Any:
    """A cell that has to be there."""
    try:
        return cells[name]
    except KeyError:
        there = ", ".join(map(quote, list(cells)[:30])) or "none"
        raise BadRecordError(f"has no key {name!r} (there are: {there}): add it") from None


def read_id(cells: Cells, column: str) -> str:
    """The id of a record."""
    value = take_cell(cells, column)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else take_text(value, column)


def read_name(value: Any, column: str) -> str:
    """Read the name of a class; numbers and truth values of JSON are names as well."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and math.isfinite(value)):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRecordError(f"has no label in {column!r}: fill it in")
    if not isinstance(value, str):
        raise BadRecordError(f"has {quote(value)} in {column!r}, where a label should be: mend it")
    return take_text(value, column).strip()


def read_number(value: object, *, may_be_infinite: bool = False) -> float | None:
    """Read a number that a table holds as such or as text; None if it is none, or not finite (unless it may be).

    >>> read_number("-2.5"), read_number(3), read_number("nan"), read_number("1_000"), read_number(True)
    (-2.5, 3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number | str):
        return None
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if may_be_infinite or math.isfinite(number) else None


def check_allowed(names: Sequence[str], labels: Collection[str] | None) -> None:
    """Refuse labels that the task does not have."""
    for name in names:
        if labels is not None and name not in labels:
            known = ", ".join(map(quote, list(labels)[:30]))
            raise BadRecordError(f"has the label {quote(name)}, which is none of {known}: mend it")


def check_variety(name: str, found: Collection[Any], what: str, advice: str = "examples of another class") -> None:
    """Refuse training examples that have no target, or all the same."""
    if not found:
        raise DataError(f"the training examples of {name} have no {what}s: name the column that holds them")
    if len(found) == 1:
        raise DataError(f"only the {what} {quote(*found)} occurs in the training examples of {name}: add {advice}")


def most_frequent(values: Sequence[Any], labels: Sequence[str]) -> Any:
    """The value that comes most often; of equally frequent ones the first of the labels."""
    if not values:
        raise RequestError("there is no training example to take the most frequent answer from")
    order = {name: number for number, name in enumerate(labels)}
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], order.get(value, len(order)), str(value)))


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Softmax over the last axis, in double precision."""
    values = logits.astype(np.float64)
    values = np.exp(values - values.max(-1, keepdims=True, initial=-math.inf))
    return np.asarray(values / values.sum(-1, keepdims=True))


def by_name(labels: Sequence[str], shares: NDArray[np.float64]) -> dict[str, float]:
    """Probabilities by label, rounded as files have them."""
    return {name: round(share, ROUNDED) for name, share in zip(labels, shares.tolist(), strict=True)}


def expect(given: FilePrediction, type_: type, what: str) -> Any:
    """The value of a prediction, if it has the right type."""
    if not isinstance(given.value, type_):
        raise DataError(f"{given.location} predicts {str(given.value)[:80]!r}, where {what} must stand")
    return given.value


def expect_number(given: FilePrediction) -> float:
    """A prediction that is a finite number."""
    try:
        number = math.nan if isinstance(given.value, bool) else float(given.value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{given.location} predicts {str(given.value)[:80]!r}, which is not a finite number")
    return number


def expect_names(given: FilePrediction, separator: str | None) -> list[str]:
    """Names from a JSON list, or from a cell."""
    if isinstance(given.value, str):
        names = (name.strip() for name in given.value.split(separator))
        return [name for name in names if name]
    expect(given, list, "a list of names")
    return [str(expect(FilePrediction(given.location, name), str, "a list of names")) for name in given.value]


def find_label(task: Task, given: FilePrediction, text: str, known: Mapping[str, str], any_label: bool) -> str:
    """The label that a text of a prediction means."""
    name = known.get(text, known.get(text.strip()))
    if name is None and any_label and text.strip():
        return text.strip()
    if name is None:
        raise DataError(
            f"{given.location} predicts {text[:80]!r}, which is no label of the task: it has {show_labels(task)}"
        )
    return name


def show_labels(task: Task) -> str:
    """The first labels of a task, for messages."""
    return ", ".join(list(task.labels)[:10]) + (", …" if len(task.labels) > 10 else "")


def join_names(names: Sequence[str], separator: str) -> str:
    """Several names as one cell; one that holds the separator is refused."""
    mixed = next((name for name in names if separator in name), None)
    if mixed is not None:
        raise RequestError(f"a table cannot hold the label {mixed!r}, as {separator!r} parts labels: write .jsonl")
    return separator.join(names)
