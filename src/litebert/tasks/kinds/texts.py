"""Texts and pairs of texts: one class, several classes, or a number.

The three kinds read the same examples and share a head; they differ in their labels, their loss and their metrics.
"""

import math
import re
import statistics
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from litebert.batch import Batch
from litebert.config import Head, ProblemType
from litebert.errors import RequestError
from litebert.quantities import is_finite
from litebert.tasks.features import Features, Ids, assemble, encode_texts
from litebert.tasks.kinds.description import (
    MOST_WORDS,
    Answered,
    Description,
    confidence,
    count_confused,
    count_found,
    describe_calibration,
    describe_mistakes,
    is_wrong,
    join_lines,
    make_section,
    quote_text,
    show_share,
)
from litebert.tasks.kinds.kind import (
    AnswerType,
    Cells,
    FilePrediction,
    Kind,
    by_name,
    check_variety,
    expect,
    expect_names,
    expect_number,
    find_label,
    join_names,
    probabilities,
    read_name,
    read_number,
    show_labels,
    take_cell,
)
from litebert.tasks.kinds.options import EncodeOptions, Outputs, TargetScale
from litebert.tasks.sections import (
    BREAK,
    Cell,
    ConfusionMatrix,
    Histogram,
    Notice,
    Part,
    Scatter,
    Section,
    Span,
    format_metric,
)
from litebert.tasks.task import Columns, DataError, Example, Predictions, Task, TextExample
from litebert.text.records import BadRecordError, quote, take_text
from litebert.text.tokenizer import Tokenizer, fit_pair

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["Classification", "Label", "Labels", "MultiLabel", "Regression", "TextKind", "measure_numbers"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_MOST_LABELS = 20  # of a confusion matrix
_LEAST_SPREAD = 0.05  # of predictions, as a share of that of the given values


@dataclass(frozen=True)
class Label:
    """The class of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]
    truncated: bool = False
    """Whether only the beginning of the text was read."""


@dataclass(frozen=True)
class Labels:
    """The classes of a text that may have several."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    truncated: bool = False


class TextKind(Kind):
    """What the three kinds have in common."""

    def head(self, task: Task, plain: bool = False) -> Head:
        """A linear map on the pooled state."""
        return "sequence-classification"

    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> TextExample:
        """A text, its pair and its label."""
        text = take_text(take_cell(cells, columns.text), columns.text)
        pair = None if columns.pair is None else take_text(take_cell(cells, columns.pair), columns.pair)
        label = self.parse_label(take_cell(cells, columns.label), columns) if with_labels else None
        return TextExample(id_, text, pair, label, location)

    @abstractmethod
    def parse_label(self, value: Any, columns: Columns) -> Any:
        """What a cell says is right."""

    def parse_line(self, task: Task, id_: str, line: str, location: str) -> TextExample:
        """A line is the text; of a pair, a tab stands between the two."""
        if not task.is_pair:
            return TextExample(id_, line, location=location)
        parts = line.split("\t")
        if len(parts) != 2:
            form = "a text, a tab and the second text"
            raise BadRecordError(f"has {len(parts)} parts: {task.name} takes {form}, or a JSON object")
        return TextExample(id_, parts[0], parts[1], location=location)

    def from_texts(self, task: Task, id_: str, texts: tuple[str, ...]) -> TextExample:
        """One text, or two of a pair."""
        wanted = 2 if task.is_pair else 1
        if not all(isinstance(text, str) for text in texts):
            raise BadRecordError("is no text: give a text, a pair of texts, or a dictionary")
        if len(texts) != wanted:
            raise BadRecordError(
                f"has {len(texts)} texts: {task.name} takes {'two texts' if wanted == 2 else 'one text'}"
            )
        return TextExample(id_, texts[0], texts[1] if wanted == 2 else None)

    def gold(self, example: Example) -> Any:
        """The label."""
        assert isinstance(example, TextExample)
        return example.label

    def text_key(self, example: Example) -> object:
        """Both texts."""
        assert isinstance(example, TextExample)
        return example.text, example.pair

    def inputs(self, example: Example) -> Any:
        """The text or the pair."""
        assert isinstance(example, TextExample)
        return example.text if example.pair is None else (example.text, example.pair)

    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """`[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`; of a pair, the longer one is cut first."""
        texts = [example for example in examples if isinstance(example, TextExample)]
        most = None if task.is_pair else options.max_length  # how much of a pair is kept depends on both lengths
        firsts = encode_texts(tokenizer, [example.text for example in texts], most)
        seconds = encode_texts(tokenizer, [example.pair or "" for example in texts]) if task.is_pair else []
        pairs: list[tuple[Ids, Ids | None]] = []
        cut = set()
        for number, first in enumerate(firsts):
            if not task.is_pair:
                pairs.append((first[: options.max_length - 2], None))
                is_cut = len(first) > options.max_length - 2
            else:
                second = seconds[number]
                keep_first, keep_second = fit_pair(len(first), len(second), options.max_length - 3)
                pairs.append((first[:keep_first], second[:keep_second]))
                is_cut = keep_first < len(first) or keep_second < len(second)
            cut |= {number} if is_cut else set()
        tokens, ends, splits = assemble(tokenizer, pairs)
        has_labels = all(example.label is not None for example in texts)
        return Features(
            tokens,
            ends,
            splits,
            np.arange(len(texts)),
            can_pack=True,
            labels=self.label_array(task, texts) if has_labels else None,
            cut=frozenset(cut),
        )

    @abstractmethod
    def label_array(self, task: Task, examples: Sequence[TextExample]) -> NDArray[Any]:
        """Labels as numbers."""

    def soft_labels(self, task: Task, examples: Sequence[Example], outputs: Sequence[Any]) -> NDArray[np.float32]:
        """Probabilities or numbers, as the loss takes them."""
        said = np.array([self.read_soft(output) for output in outputs], np.float32)
        known = [number for number, example in enumerate(examples) if self.gold(example) is not None]
        if known:
            golds = self.label_array(
                task, [one for one in examples if isinstance(one, TextExample) and one.label is not None]
            )
            if said.ndim > golds.ndim:  # classes by number
                golds = np.eye(said.shape[1], dtype=np.float32)[golds]
            said[known] = (said[known] + golds) / 2
        return said

    @abstractmethod
    def read_soft(self, output: Any) -> Any:
        """What the model says about a text, in the form of its label: shares of the classes, or a number."""

    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """The logits of each text."""
        return list(outputs["logits"])


def _item_logits(output: "ModelOutput", batch: Batch) -> "Tensor":
    """(items, outputs), also where several items share a row."""
    assert output.logits is not None
    return output.logits if batch.sequence_starts is None else output.logits[batch.sequence_starts >= 0]


class Classification(TextKind):
    """One class for a text or a pair."""

    name = "classification"
    purpose = "one label for a text or a pair"
    answer_type: ClassVar[AnswerType] = "label"
    metrics = ("accuracy", "macro_f1")
    problem_type: ClassVar[ProblemType | None] = "single_label_classification"

    def default_metrics(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Of two classes, also Matthews."""
        return (*self.metrics, "matthews") if len(labels) == 2 else self.metrics

    def parse_label(self, value: Any, columns: Columns) -> str:
        """The name of a class."""
        return read_name(value, columns.label)

    def label_names(self, example: Example) -> tuple[str, ...]:
        """The one label."""
        assert isinstance(example, TextExample)
        return (example.label,) if isinstance(example.label, str) else ()

    def answer_labels(self, answer: Any) -> tuple[str, ...]:
        """The one label."""
        return (str(answer),)

    def stratum(self, example: Example) -> object:
        """The class."""
        return self.gold(example)

    def label_array(self, task: Task, examples: Sequence[TextExample]) -> NDArray[Any]:
        """The index of each class."""
        index = {name: number for number, name in enumerate(task.labels)}
        return np.array([index[str(example.label)] for example in examples], np.int64)

    def read_soft(self, output: Any) -> Any:
        """The share of each class."""
        return probabilities(output)

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Cross-entropy."""
        from litebert.training.objectives import class_loss

        assert batch.labels is not None
        return [class_loss(_item_logits(output, batch), batch.labels, totals[0], weights)]

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The likeliest class."""
        shares = probabilities(output)
        return task.labels[int(shares.argmax())], {"probabilities": by_name(task.labels, shares)}

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> Label:
        """The class with its probability."""
        shares = details["probabilities"]
        return Label(answer, shares[answer], dict(shares), bool(details.get("truncated")))

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """Accuracy, macro-F1, Matthews; of two classes also the F1 of the last."""
        from sklearn.metrics import f1_score, matthews_corrcoef  # type: ignore[import-untyped]  # a second to import

        answers = list(predictions.answers)
        metrics = {
            "accuracy": share_equal(golds, answers),
            "macro_f1": float(f1_score(golds, answers, average="macro", zero_division=0)),
            # Where either side is always the same, the formula is 0/0, and 0 by convention.
            "matthews": float(matthews_corrcoef(golds, answers)) if _vary(golds, answers) else 0.0,
        }
        if len(task.labels) == 2:
            is_gold, is_answer = ([name == task.labels[-1] for name in names] for names in (golds, answers))
            metrics["f1"] = float(f1_score(is_gold, is_answer, zero_division=0))
        return metrics

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """Names of classes; two classes may also be given by index, if all are and no class is called by a number."""
        texts = [_label_text(one) for one in given]
        by_index = bool(texts) and all(map(str.isdecimal, texts)) and not any(map(_NUMBER.fullmatch, task.labels))
        if by_index and (any_label or len(task.labels) > 2):  # there is no one order of three that all agree on
            message = f"an index, where the labels are {show_labels(task)}: write names"
            raise DataError(f"{given[0].location} predicts {texts[0]!r}, {message}")
        known = {str(number) if by_index else name: name for number, name in enumerate(task.labels)}
        return [find_label(task, one, text, known, any_label) for one, text in zip(given, texts, strict=True)]

    def show_cell(self, task: Task, answer: Any) -> str | None:
        """The name."""
        return str(answer)

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Confusions, calibration, mistakes."""
        return _describe_classes(task, answered, metrics)


def _label_text(given: FilePrediction) -> str:
    if isinstance(given.value, int) and not isinstance(given.value, bool):
        return str(given.value)
    return str(expect(given, str, "the name of a label"))


class MultiLabel(TextKind):
    """Any number of classes for a text or a pair."""

    name = "multi-label"
    purpose = "any number of labels for a text or a pair"
    answer_type: ClassVar[AnswerType] = "labels"
    meanings: ClassVar[Mapping[str, str]] = {"accuracy": "share of texts of which all labels are right"}
    metrics = ("micro_f1", "macro_f1")
    problem_type: ClassVar[ProblemType | None] = "multi_label_classification"

    def check_columns(self, columns: Columns) -> None:
        """Several labels of a cell need something between them."""
        if not columns.separator:
            raise RequestError("the labels of a cell need a separator: give one, such as ','")

    def parse_label(self, value: Any, columns: Columns) -> tuple[str, ...]:
        """Names from a list, or from a cell with separators."""
        if isinstance(value, str):
            value = [name for name in value.split(columns.separator) if name.strip()]
        elif not isinstance(value, list | tuple | np.ndarray):
            value = [value]
        return tuple(dict.fromkeys(read_name(name, columns.label) for name in value))

    def label_names(self, example: Example) -> tuple[str, ...]:
        """All labels of the text."""
        assert isinstance(example, TextExample)
        return example.label if isinstance(example.label, tuple) else ()

    def answer_labels(self, answer: Any) -> tuple[str, ...]:
        """All labels of the answer."""
        return tuple(answer)

    def check_learnable(self, name: str, examples: Sequence[Example]) -> None:
        """One label is enough, if some texts do not have it."""
        found = {label for example in examples for label in self.label_names(example)}
        if len(found) != 1 or all(self.label_names(example) for example in examples):
            check_variety(name, found, self.target)

    def label_array(self, task: Task, examples: Sequence[TextExample]) -> NDArray[Any]:
        """A row of yes and no for each text."""
        index = {name: number for number, name in enumerate(task.labels)}
        table = np.zeros((len(examples), len(task.labels)), np.float32)
        for row, example in enumerate(examples):
            assert isinstance(example.label, tuple)
            table[row, [index[name] for name in example.label]] = 1
        return table

    def read_soft(self, output: Any) -> Any:
        """How likely each class is."""
        return _yes(output)

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Binary cross-entropy of each class."""
        from litebert.training.objectives import yes_no_loss

        assert batch.labels is not None
        return [yes_no_loss(_item_logits(output, batch), batch.labels, totals[0])]

    def average(self, task: Task, members: Sequence[Any]) -> Any:
        """The mean of the probabilities, as logits."""
        shares = np.clip(np.mean([_yes(logits) for logits in members], axis=0), 1e-12, 1 - 1e-12)
        return (np.log(shares) - np.log1p(-shares)).astype(np.float32)

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """Every class that is likelier than not."""
        shares = _yes(output)
        answer = tuple(name for name, share in zip(task.labels, shares, strict=True) if share > 0.5)
        return answer, {"probabilities": by_name(task.labels, shares)}

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> Labels:
        """The classes, and the probability of each."""
        return Labels(tuple(answer), dict(details["probabilities"]), bool(details.get("truncated")))

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """F1 of all labels together, and the mean F1 of each."""
        answers = predictions.answers
        wanted = Counter(name for names in golds for name in set(names))
        given = Counter(name for names in answers for name in set(names))
        same = Counter(name for gold, answer in zip(golds, answers, strict=True) for name in {*gold} & {*answer})
        each = [2 * same[name] / (wanted[name] + given[name]) for name in sorted(wanted | given)]
        return {
            "micro_f1": 2 * same.total() / max(1, wanted.total() + given.total()),
            "macro_f1": math.fsum(each) / max(1, len(each)),
            "accuracy": share_equal([set(gold) for gold in golds], [set(answer) for answer in answers]),
        }

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """The most frequent set of labels."""
        sets = Counter(tuple(sorted(self.known_gold(example))) for example in examples)
        answer = min(sets, key=lambda names: (-sets[names], str(names)))
        return lambda example: answer

    def read_baseline(self, answer: Any) -> Any:
        """A tuple of names."""
        return tuple(answer)

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """Names from a list, or from a cell with the task's separator."""
        known = {name: name for name in task.labels}
        order = {name: number for number, name in enumerate(task.labels)}
        answers = []
        for one in given:
            names = expect_names(one, separator_of(task))
            found = {find_label(task, one, text, known, any_label) for text in names}
            answers.append(tuple(sorted(found, key=lambda name: (order.get(name, len(order)), name))))
        return answers

    def show_cell(self, task: Task, answer: Any) -> str | None:
        """Names as the task's own tables have them."""
        return join_names(answer, separator_of(task))

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Precision and recall of each label, mistakes."""
        return _describe_label_sets(task, answered, metrics)


def _yes(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(logits.astype(np.float64) / 2)))


def separator_of(task: Task) -> str:
    """What stands between several labels in one cell of a table."""
    return task.columns.separator if task.columns is not None else ","


class Regression(TextKind):
    """A number for a text or a pair."""

    name = "regression"
    purpose = "a score for a text or a pair"
    answer_type: ClassVar[AnswerType] = "number"
    metrics = ("pearson", "spearman")
    constant = "the mean score alone"
    problem_type: ClassVar[ProblemType | None] = "regression"
    target = "score"
    prediction_keys = ("score", "label", "answer")

    def model_settings(self, task: Task, max_length: int) -> dict[str, Any]:
        """One output."""
        return {**super().model_settings(task, max_length), "labels": ("score",)}

    def target_scale(self, examples: Sequence[Example]) -> TargetScale | None:
        """Mean 0, deviation 1."""
        return TargetScale.around_mean([self.gold(example) for example in examples])

    def parse_label(self, value: Any, columns: Columns) -> float:
        """A finite number."""
        score = read_number(value)
        if score is None:
            raise BadRecordError(f"has {quote(value)} in {columns.label!r}, which is no finite number: mend it")
        return score

    def check_learnable(self, name: str, examples: Sequence[Example]) -> None:
        """Two different numbers at least."""
        check_variety(name, {self.gold(example) for example in examples}, self.target, "others")

    def label_array(self, task: Task, examples: Sequence[TextExample]) -> NDArray[Any]:
        """The numbers."""
        return np.array([example.label for example in examples], np.float32)

    def read_soft(self, output: Any) -> Any:
        """The number."""
        return float(output[0])

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Squared error."""
        from litebert.training.objectives import score_loss

        assert batch.labels is not None
        return [score_loss(_item_logits(output, batch), batch.labels, totals[0])]

    def average(self, task: Task, members: Sequence[Any]) -> Any:
        """The mean."""
        return np.asarray(np.mean(members, axis=0), np.float32)

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The number."""
        return float(output[0]), {}

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> float:
        """The number."""
        return float(answer)

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """Correlations and errors."""
        return measure_numbers(golds, predictions.answers)

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """The mean."""
        golds = [self.known_gold(example) for example in examples]
        if not golds:
            raise RequestError("there is no training example to take the most frequent answer from")
        mean = math.fsum(golds) / len(golds)
        return lambda example: mean

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """Finite numbers."""
        return [expect_number(one) for one in given]

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Predicted against given numbers, mistakes."""
        return _describe_numbers(task, answered, metrics)


def measure_numbers(golds: Sequence[float], answers: Sequence[float]) -> dict[str, float]:
    """Correlations with the given numbers, and how far off the answers are."""
    from scipy import stats  # type: ignore[import-untyped]

    wanted, given = np.asarray(golds, np.float64), np.asarray(answers, np.float64)
    if not np.isfinite(given).all():
        index = int(np.flatnonzero(~np.isfinite(given))[0])
        raise RequestError(f"answer {index + 1} is {given[index]}: only finite numbers can be scored")
    return {
        "pearson": _correlate(stats.pearsonr, wanted, given),
        "spearman": _correlate(stats.spearmanr, wanted, given),
        "mse": float(np.mean((wanted - given) ** 2)),
        "mae": float(np.mean(np.abs(wanted - given))),
    }


def _correlate(correlation: Callable[..., Any], wanted: Any, given: Any) -> float:
    if not _vary(wanted.tolist(), given.tolist()):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers that are all but the same, and of p-values of a few
        value = float(correlation(wanted, given).statistic)
    return value if math.isfinite(value) else 0.0


def share_equal(golds: Sequence[Any], answers: Collection[Any]) -> float:
    """The share of answers that are right."""
    return sum(bool(gold == answer) for gold, answer in zip(golds, answers, strict=True)) / len(golds)


def _vary(*columns: Sequence[Hashable]) -> bool:
    return all(len(set(column)) > 1 for column in columns)


def _describe_classes(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    counts = Counter((str(one.gold), str(one.answer)) for one in answered)
    labels = list(dict.fromkeys([*task.labels, *(name for pair in counts for name in pair)]))
    sections: Description = []
    if len(labels) <= _MOST_LABELS:
        note = "Rows: what is right. Columns: what the model said. The deeper the colour, the greater the row's share."
        sections.append(Section("Confusion matrix", [ConfusionMatrix(labels, counts)], note))
    else:
        sections += make_section("Labels that are confused most", count_confused(counts))
    sections += describe_calibration(answered)
    return [*sections, describe_mistakes(answered, is_wrong, confidence, _show_classes)]


def _show_classes(one: Answered) -> tuple[Cell, Cell, Cell]:
    said, right = ((quote_text(name), *show_share(one.probability(name))) for name in (one.answer, one.gold))
    return _show_text(one), said, right


def _show_text(one: Answered) -> Cell:
    assert isinstance(one.example, TextExample)
    pair = one.example.pair
    return (quote_text(one.example.text), *((BREAK, quote_text(pair)) if pair is not None else ()))


def _describe_label_sets(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    wanted = Counter(name for one in answered for name in {*one.gold})
    given = Counter(name for one in answered for name in {*one.answer})
    same = Counter(name for one in answered for name in {*one.gold} & {*one.answer})
    order = {name: index for index, name in enumerate(task.labels)}
    names = sorted({*task.labels, *wanted, *given}, key=lambda name: (order.get(name, len(order)), str(name)))
    return [
        Section("By label", [count_found(names, wanted, given, same, "label")]),
        describe_mistakes(answered, _has_wrong_labels, _label_confidence, _show_label_sets),
    ]


def _has_wrong_labels(one: Answered) -> float:
    return float({*one.gold} != {*one.answer})


def _label_confidence(one: Answered) -> float | None:
    """How sure the model was of the label that it missed or added."""
    missed = [one.probability(name) for name in {*one.gold} - {*one.answer}]
    added = [one.probability(name) for name in {*one.answer} - {*one.gold}]
    known = [1 - share for share in missed if share is not None] + [share for share in added if share]
    return max(known, default=None)


def _show_label_sets(one: Answered) -> tuple[Cell, Cell, Cell]:
    return _show_text(one), _show_names(one, one.answer), _show_names(one, one.gold)


def _show_names(one: Answered, names: Iterable[Any]) -> Cell:
    lines: list[tuple[Span, ...]] = [(quote_text(name), *show_share(one.probability(name))) for name in names]
    return join_lines(lines[:MOST_WORDS] + ([(Span("…"),)] if len(lines) > MOST_WORDS else [])) or "none"


def _describe_numbers(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    pairs = [(one.gold, one.answer) for one in answered if is_finite(one.gold) and is_finite(one.answer)]
    sections: Description = []
    if pairs:
        golds, said = ([float(pair[column]) for pair in pairs] for column in (0, 1))
        sections += _warn_of_constants(golds, said)
        note = "A model that is unsure keeps to the middle."
        parts: list[Part] = [
            Scatter(
                "Predicted against given scores", pairs, "given", "predicted", "On the dashed line, both are the same."
            ),
            Histogram("How often scores occur", {"given": golds, "predicted": said}, "score", note),
        ]
        sections.append(Section("Predicted and given scores", parts))
    note = "Those farthest off come first."
    return [*sections, describe_mistakes(answered, _distance, _distance, _show_numbers, note)]


def _warn_of_constants(golds: Sequence[float], said: Sequence[float]) -> list[Notice]:
    """A warning, if a model gives every text the same number: a correlation, which knows no scale, does not show it."""
    if statistics.pstdev(said) >= _LEAST_SPREAD * statistics.pstdev(golds):
        return []
    least, most, low, high = (format_metric("mse", end(values)) for values in (said, golds) for end in (min, max))
    message = f"It says nearly the same for every text, {least} to {most}, where the given scores go from {low} to "
    return [Notice(f"{message}{high}: a correlation does not show that.")]


def _distance(one: Answered) -> float:
    return abs(one.gold - one.answer) if is_finite(one.gold) and is_finite(one.answer) else math.inf


def _show_numbers(one: Answered) -> tuple[Cell, Cell, Cell]:
    return _show_text(one), format_metric("mse", one.answer), format_metric("mse", one.gold)
