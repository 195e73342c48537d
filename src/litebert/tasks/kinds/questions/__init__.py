"""Questions about a context that holds the answer, or (SQuAD 2.0) does not.

`windows` cuts long contexts, `spans` finds answers in what the model says about the windows, `sentences` has counted
words choose among them, `squad_metrics` compares them with what people said.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.config import Head
from litebert.quantities import format_share, is_finite
from litebert.tasks.features import Features
from litebert.tasks.kinds.description import (
    MOST_TEXT,
    MOST_WORDS,
    Answered,
    Description,
    as_share,
    describe_mistakes,
    join_lines,
    make_section,
    quote_text,
    show_share,
)
from litebert.tasks.kinds.kind import ROUNDED, AnswerType, Cells, FilePrediction, Kind, expect
from litebert.tasks.kinds.options import EncodeOptions, Outputs, WindowConfig
from litebert.tasks.kinds.questions.sentences import add_ratings, rate_sentences, weigh_ratings
from litebert.tasks.kinds.questions.spans import (
    Prediction,
    average_predictions,
    combine_all,
    decode_beam,
    decode_plain,
)
from litebert.tasks.kinds.questions.squad_metrics import (
    choose_threshold,
    find_best_threshold,
    score_answer,
    score_questions,
)
from litebert.tasks.kinds.questions.windows import make_windows
from litebert.tasks.sections import BREAK, Cell, Histogram, Section, Span, Table, format_metric, shorten
from litebert.tasks.task import Columns, Example, Predictions, QuestionExample, Task
from litebert.tasks.tf_idf import TfIdf
from litebert.text.records import BadRecordError, take_text
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["Answer", "Questions"]

_ANSWER_LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, None))
_CONTEXT_LENGTHS = ((0, 99), (100, 199), (200, 399), (400, 799), (800, None))


@dataclass(frozen=True)
class Answer:
    """A part of the context that answers the question: `context[begin:end] == text`; empty if there is none."""

    text: str
    probability: float
    begin: int
    end: int
    null_odds: float
    """The higher, the likelier there is no answer."""


class Questions(Kind):
    """The part of a text that answers a question."""

    name = "questions"
    purpose = "the part of a text that answers a question"
    answer_type: ClassVar[AnswerType] = "span"
    meanings: ClassVar[Mapping[str, str]] = {"f1": "harmonic mean of precision and recall of the words of an answer"}
    metrics = ("f1", "exact")
    constant = "“no answer” to all"
    is_pair = True
    splits_rows = True
    prediction_keys = ("answer", "label", "score")
    file_format = "squad"

    def head(self, task: Task, plain: bool = False) -> Head:
        """Starts and ends of answers; where there may be none, with a head of its own for that (the paper's)."""
        return "answerable-question-answering" if task.has_unanswerable and not plain else "question-answering"

    def options(self, max_length: int) -> EncodeOptions:
        """The paper's windows, smaller where rows are short."""
        query = min(64, max(1, (max_length - 3) // 3))
        stride = max(1, min(128, (max_length - query) // 2))
        return EncodeOptions(max_length, WindowConfig(max_length=max_length, max_query=query, stride=stride))

    def losses(self, head: Head) -> tuple[str, ...]:
        """The span, and whether there is an answer."""
        return ("span_loss", "answerable_loss") if head == "answerable-question-answering" else ("loss",)

    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> QuestionExample:
        """A question and a context; answers come as SQuAD's JSON only."""
        question, context = (take_text(cells.get(key), key) for key in ("question", "context"))
        return QuestionExample(id_, question, context, location=location)

    def parse_line(self, task: Task, id_: str, line: str, location: str) -> QuestionExample:
        """A context, a tab and the question."""
        parts = line.split("\t")
        if len(parts) != 2:
            form = "a context that may hold the answer, a tab and the question"
            raise BadRecordError(f"has {len(parts)} parts: {task.name} takes {form}, or a JSON object")
        return QuestionExample(id_, question=parts[1], context=parts[0], location=location)

    def parse_object(self, task: Task, id_: str, record: Cells, columns: Columns, location: str) -> QuestionExample:
        """An object with a question, a context and perhaps an id."""
        given = record.get("id")
        name = str(given) if isinstance(given, str | int) else id_
        return self.parse(name, record, columns, False, location)

    def gold(self, example: Example) -> Any:
        """All texts that people gave."""
        assert isinstance(example, QuestionExample)
        return None if example.answers is None else tuple(answer.text for answer in example.answers)

    def text_key(self, example: Example) -> object:
        """The context."""
        assert isinstance(example, QuestionExample)
        return example.context

    def inputs(self, example: Example) -> Any:
        """Question and context."""
        assert isinstance(example, QuestionExample)
        return example.question, example.context

    def baseline_target(self, example: Example) -> Any:
        """The answers as a list."""
        return list(self.gold(example) or ())

    def check_learnable(self, name: str, examples: Sequence[Example]) -> None:
        """Any answers will do."""

    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """`[CLS] question [SEP] window of the context [SEP]`."""
        config = options.windows or WindowConfig(max_length=options.max_length)
        windows = make_windows([one for one in examples if isinstance(one, QuestionExample)], tokenizer, config)
        masks = []
        for window in windows:
            mask = window.answer_mask
            mask[0] = True  # [CLS] stands for no answer
            masks.append(mask)
        spans = [
            (NO_LABEL, NO_LABEL) if window.start is None or window.end is None else (window.start, window.end)
            for window in windows
        ]
        return Features(
            tokens=np.concatenate([window.input_ids for window in windows]) if windows else np.zeros(0, np.int32),
            ends=np.cumsum([len(window.input_ids) for window in windows], dtype=np.int64),
            splits=np.array([window.split for window in windows], np.int64),
            examples=np.array([window.example for window in windows], np.int64),
            spans=np.array(spans, np.int64) if any(window.start is not None for window in windows) else None,
            allowed=np.concatenate(masks) if masks else np.zeros(0, bool),
            parts=windows,
        )

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """The loss of the span, and whether there is an answer."""
        from litebert.training.objectives import answerable_loss, span_loss

        spans = span_loss(output, batch, totals[0])
        return [spans, answerable_loss(output, batch, totals[1])] if len(totals) > 1 else [spans]

    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """The best spans of each window."""
        windows = [features.parts[item] for item in items]
        config = options.windows or WindowConfig()
        if "starts" in outputs:
            return list(decode_beam(windows, outputs, config))
        return list(decode_plain(windows, outputs["start_logits"], outputs["end_logits"], config))

    def join(
        self, task: Task, examples: Sequence[Example], features: Features, found: list[Any], options: EncodeOptions
    ) -> list[Any]:
        """The windows of each question together."""
        questions = [example for example in examples if isinstance(example, QuestionExample)]
        return list(combine_all(questions, features.parts, found, options.windows or WindowConfig()))

    def average(self, task: Task, members: Sequence[Any]) -> Any:
        """Probabilities by position in the text, and the odds."""
        return average_predictions(members)

    def decode(self, task: Task, outputs: Sequence[Any], threshold: float | None = None) -> Predictions:
        """The best answer, or none if the odds of that are above the threshold."""
        limit = threshold if task.has_unanswerable else None
        decoded = super().decode(task, outputs)
        answers = tuple(prediction.answer(limit) for prediction in outputs)
        return Predictions(answers, decoded.details, tuple(prediction.null_odds for prediction in outputs))

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The best answer, and the candidates."""
        assert isinstance(output, Prediction)
        nbest = [
            {"text": one.text, "begin": one.begin, "end": one.end, "probability": round(one.probability, ROUNDED)}
            for one in output.candidates
        ]
        return output.answer(), {"null_odds": output.null_odds, "nbest": nbest}

    def score_words(self, tf_idf: TfIdf, example: Example) -> NDArray[np.float32]:
        """What words say for each sentence of the context."""
        assert isinstance(example, QuestionExample)
        return rate_sentences(tf_idf, example.question, example.context)

    def add_words(self, output: Any, said: NDArray[np.float32], weight: float = 1.0) -> Any:
        """The candidates, those in a sentence like the question first."""
        return add_ratings(output, said, weight)

    def weigh_words(
        self, task: Task, examples: Sequence[Example], outputs: Sequence[Any], said: Sequence[NDArray[np.float32]]
    ) -> float:
        """By F1."""
        return weigh_ratings(_questions(examples), outputs, said)

    def choose_threshold(self, task: Task, examples: Sequence[Example], outputs: Sequence[Any]) -> float | None:
        """Where F1 is best on these examples; a threshold tuned on what it is measured on flatters."""
        if not task.has_unanswerable:
            return None
        raw = self.decode(task, outputs)
        assert raw.null_odds is not None
        return choose_threshold(_questions(examples), raw.answers, raw.null_odds, metric="f1")

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> Answer:
        """The answer and where it stands."""
        none: dict[str, Any] = {"probability": 0.0, "begin": 0, "end": 0}
        best = details["nbest"][0] if answer and details["nbest"] else none
        return Answer(answer, best["probability"], best["begin"], best["end"], details["null_odds"])

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """SQuAD's exact match and F1; with odds, also those of the best threshold."""
        questions, unanswerable = _questions(examples), task.has_unanswerable
        metrics = score_questions(questions, predictions.answers, has_unanswerable=unanswerable)
        if unanswerable and predictions.null_odds is not None:
            metrics |= find_best_threshold(questions, predictions.raw_answers, predictions.null_odds)
        return metrics

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """There is no answer."""
        return lambda example: ""

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """Texts."""
        return [expect(one, str, "a text, empty where there is no answer") for one in given]

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Odds, lengths, mistakes."""
        return _describe_questions(task, answered, metrics)


def _questions(examples: Sequence[Example]) -> list[QuestionExample]:
    return [example for example in examples if isinstance(example, QuestionExample)]


def _describe_questions(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    threshold = _find_threshold(metrics)
    sections: Description = []
    if task.has_unanswerable and any(one.null_odds is not None for one in answered):
        groups: dict[str, list[float]] = {"has an answer": [], "has none": []}
        for one in answered:
            groups["has an answer" if one.gold else "has none"] += [] if one.null_odds is None else [one.null_odds]
        note = "" if threshold is None else _explain_threshold([*groups.values()], threshold)
        chart = Histogram("Odds that there is no answer", groups, "null odds", note, threshold)
        sections.append(Section("Does the context hold an answer?", [chart]))
    with_answer = [one for one in answered if one.gold]
    by_answer = _group(with_answer, lambda one: min(len(text.split()) for text in one.gold), _ANSWER_LENGTHS)
    by_context = _group(answered, _count_context, _CONTEXT_LENGTHS)
    if len(with_answer) < len(answered):
        by_answer.append(("no answer", [one for one in answered if not one.gold]))
    sections += make_section("By words of the right answer", _count_f1(task, by_answer) if by_answer else None)
    sections += make_section("By words of the context", _count_f1(task, by_context))

    def error(one: Answered) -> float:
        assert isinstance(one.example, QuestionExample)
        return 1.0 - score_answer(one.example, str(one.answer), task.has_unanswerable)[1]

    def weight(one: Answered) -> float | None:
        sure = _answer_confidence(one, threshold)
        return None if sure is None else sure * error(one)

    return [*sections, describe_mistakes(answered, error, weight, _show_question)]


def _find_threshold(metrics: Mapping[str, float]) -> float | None:
    """The odds above which a question counted as having no answer, if the metrics tell."""
    names = ("threshold", "best_f1_thresh", "best_exact_thresh")
    return next((float(metrics[name]) for name in names if is_finite(metrics.get(name))), None)


def _explain_threshold(groups: Sequence[Sequence[float]], threshold: float) -> str:
    """What a threshold makes of the odds: the chart may not reach as far as where it is."""
    odds = [value for group in groups for value in group]
    num_answered = sum(value <= threshold for value in odds)
    shown = {0: "none", len(odds): "all"}.get(num_answered, f"{num_answered:,}")
    return (
        f"Beyond the threshold, {format_metric('threshold', threshold)}, the model says that there is no answer. "
        f"It answers {shown} of the {len(odds):,} questions."
    )


def _count_context(one: Answered) -> int:
    return len(one.example.context.split()) if isinstance(one.example, QuestionExample) else 0


def _group(
    answered: Sequence[Answered], measure: Callable[[Answered], int], edges: Sequence[tuple[int, int | None]]
) -> list[tuple[str, list[Answered]]]:
    """Examples by a length, in ranges that are named as people write them; empty ranges are left out."""
    groups = []
    for index, (low, high) in enumerate(edges):
        least = 0 if index == 0 else low
        inside = [one for one in answered if least <= measure(one) <= (high or 1 << 62)]
        name = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
        groups += [(name, inside)] if inside else []
    return groups


def _count_f1(task: Task, groups: Sequence[tuple[str, Sequence[Answered]]]) -> Table:
    rows = []
    for name, answered in groups:
        questions = [(one.example, str(one.answer)) for one in answered if isinstance(one.example, QuestionExample)]
        pairs = [score_answer(question, answer, task.has_unanswerable) for question, answer in questions]
        means = [format_share(sum(pair[column] for pair in pairs), len(pairs)) for column in (0, 1)]
        rows.append([name, f"{len(pairs):,}", *means])
    return Table(["words", "questions", "exact", "F1"], rows)


def _answer_confidence(one: Answered, threshold: float | None = None) -> float | None:
    """How sure the model was of an answer, or that there is none."""
    if one.answer == "":
        odds = one.null_odds
        return None if odds is None else 0.5 * (1 + math.tanh((odds - (threshold or 0.0)) / 2))
    candidates = one.details.get("nbest")
    for candidate in candidates if isinstance(candidates, list) else ():
        if isinstance(candidate, dict) and candidate.get("text") == one.answer:
            return as_share(candidate.get("probability"))
    return None


def _show_question(one: Answered) -> tuple[Cell, Cell, Cell]:
    example = one.example
    assert isinstance(example, QuestionExample)
    index = example.answers[0].begin if example.answers else example.context.find(str(one.answer))
    text = (Span(shorten(example.question, MOST_TEXT), "bold"), BREAK, quote_text(example.context, index))
    said = (quote_text(one.answer), *show_share(_answer_confidence(one))) if one.answer else (Span("no answer"),)
    if one.null_odds is not None:
        said = (*said, Span(f"null odds {format_metric('threshold', one.null_odds)}", "small"))
    golds: list[tuple[Span, ...]] = [(quote_text(gold),) for gold in dict.fromkeys(one.gold)]
    return text, said, join_lines(golds[:MOST_WORDS]) or "no answer"
