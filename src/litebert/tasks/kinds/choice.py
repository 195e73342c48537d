"""Multiple choice: a passage, a question about it, and options of which one is right."""

import itertools
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from litebert.batch import Batch
from litebert.config import Head
from litebert.errors import RequestError
from litebert.quantities import format_share
from litebert.tasks.features import Features, Ids, assemble, encode_texts
from litebert.tasks.kinds.description import (
    MOST_ROWS,
    MOST_TEXT,
    Answered,
    Description,
    confidence,
    describe_calibration,
    describe_mistakes,
    is_wrong,
    make_section,
    quote_text,
    short_name,
    show_share,
)
from litebert.tasks.kinds.kind import (
    ROUNDED,
    AnswerType,
    Cells,
    FilePrediction,
    Kind,
    expect,
    pick,
    probabilities,
    read_name,
    take_cell,
)
from litebert.tasks.kinds.options import EncodeOptions, Outputs
from litebert.tasks.kinds.texts import share_equal
from litebert.tasks.sections import BREAK, Cell, Span, Table, shorten
from litebert.tasks.task import ChoiceExample, Columns, DataError, Example, Predictions, Task
from litebert.text.cleanup import mend
from litebert.text.records import BadRecordError, WholeFileError, quote, take_text
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["Choice", "ChosenOption", "find_option", "join_option"]

_MOST_QUESTION = 128  # tokens of a question and its option, of which the last ones stay
_BLANK = "_"  # where the option belongs in the question


@dataclass(frozen=True)
class ChosenOption:
    """The option that fits best."""

    index: int
    option: str
    probability: float
    probabilities: tuple[float, ...]
    truncated: bool = False


class Choice(Kind):
    """The right one of several options."""

    name = "choice"
    purpose = "the right one of several options"
    answer_type: ClassVar[AnswerType] = "option"
    metrics = ("accuracy",)
    constant = "one position alone"
    is_pair = True
    writes_indices = True

    def head(self, task: Task, plain: bool = False) -> Head:
        """A score for each option, from its pooled state."""
        return "multiple-choice"

    def check_columns(self, columns: Columns) -> None:
        """Options have to be named."""
        if not columns.options:
            raise RequestError("multiple choice needs options: name their columns")

    def wanted_columns(self, columns: Columns, with_labels: bool) -> tuple[str, ...]:
        """The options as well."""
        self.check_columns(columns)
        return tuple(dict.fromkeys((*super().wanted_columns(columns, with_labels), *columns.options)))

    def pick_columns(self, named: Columns, there: Collection[str]) -> Columns:
        """Passage, question, answer and options may be called so; options also A, B, C …"""
        picked = super().pick_columns(named, there)
        text = pick(there, named.text, "passage", "text")
        pair = None if named.pair is None else pick(there, named.pair, "question", "pair")
        if pair is None and text != named.text and "question" in there:
            pair = "question"
        options = named.options
        if not (options and all(name in there for name in options)):
            letters = tuple(itertools.takewhile(there.__contains__, string.ascii_uppercase))
            options = ("options",) if "options" in there else letters if len(letters) > 1 else options
        label = pick(there, named.label, "answer", "label")
        return picked.model_copy(update={"text": text, "pair": pair, "label": label, "options": options})

    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> ChoiceExample:
        """A passage, a question, options (a column each, or one list), and which of them is right."""
        values = [take_cell(cells, column) for column in columns.options]
        if len(values) == 1 and isinstance(values[0], list | tuple | np.ndarray):
            options = tuple(take_text(option, columns.options[0]) for option in values[0])
        else:
            options = tuple(take_text(value, column) for value, column in zip(values, columns.options, strict=True))
        if len(options) < 2:
            raise BadRecordError("has fewer than two options: add one")
        right = read_name(take_cell(cells, columns.label), columns.label) if with_labels else None
        return ChoiceExample(
            id=id_,
            passage=take_text(take_cell(cells, columns.text), columns.text),
            question="" if columns.pair is None else take_text(take_cell(cells, columns.pair), columns.pair),
            options=options,
            answer=None if right is None else find_option(right, options, columns),
            location=location,
        )

    def parse_line(self, task: Task, id_: str, line: str, location: str) -> ChoiceExample:
        """A passage, a question and options, with tabs between them."""
        parts = line.split("\t")
        if len(parts) < 4:
            form = "a passage, a question and two options at least, with tabs between them"
            raise BadRecordError(f"has {len(parts)} parts: {task.name} takes {form}, or a JSON object")
        return ChoiceExample(id_, parts[0], parts[1], tuple(parts[2:]), location=location)

    def gold(self, example: Example) -> Any:
        """The index of the right option."""
        assert isinstance(example, ChoiceExample)
        return example.answer

    def text_key(self, example: Example) -> object:
        """The passage."""
        assert isinstance(example, ChoiceExample)
        return example.passage

    def inputs(self, example: Example) -> Any:
        """Passage, question and options."""
        assert isinstance(example, ChoiceExample)
        return example.passage, example.question, example.options

    def check_learnable(self, name: str, examples: Sequence[Example]) -> None:
        """The right option may always stand first."""

    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """`[CLS] passage [SEP] question and option [SEP]`: the end of the latter stays, the passage is cut."""
        asked = [example for example in examples if isinstance(example, ChoiceExample)]
        passages = list(dict.fromkeys(example.passage for example in asked))
        encoded = dict(zip(passages, encode_texts(tokenizer, passages), strict=True))
        questions = encode_texts(
            tokenizer, [join_option(example.question, option) for example in asked for option in example.options]
        )
        pairs: list[tuple[Ids, Ids | None]] = []
        cut = set()
        at = 0
        most = min(_MOST_QUESTION, (options.max_length - 3) // 2)
        for number, example in enumerate(asked):
            passage = encoded[example.passage]
            for question in questions[at : at + len(example.options)]:
                kept = question[-most:]
                room = options.max_length - 3 - len(kept)
                cut |= {number} if len(passage) > room or len(kept) < len(question) else set()
                pairs.append((passage[:room], kept))
            at += len(example.options)
        tokens, ends, splits = assemble(tokenizer, pairs)
        answers = [example.answer for example in asked]
        return Features(
            tokens,
            ends,
            splits,
            np.arange(len(asked)),
            num_rows=np.array([len(example.options) for example in asked], np.int64),
            labels=None if None in answers else np.array(answers, np.int64),
            cut=frozenset(cut),
        )

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Cross-entropy over the options that are there."""
        import torch

        from litebert.training.objectives import class_loss

        assert output.logits is not None
        assert batch.labels is not None
        assert batch.attention_mask is not None
        is_there = batch.attention_mask.sum(-1) > 1
        lowest = torch.finfo(output.logits.dtype).min
        return [class_loss(output.logits.masked_fill(~is_there, lowest), batch.labels, totals[0])]

    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """The logits of the options."""
        assert features.num_rows is not None
        logits = outputs["logits"]
        return [logits[row, : features.num_rows[item]] for row, item in enumerate(items)]

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The index of the likeliest option."""
        shares = probabilities(output)
        return int(shares.argmax()), {"probabilities": [round(share, ROUNDED) for share in shares.tolist()]}

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> ChosenOption:
        """The option with its probability."""
        assert isinstance(example, ChoiceExample)
        shares = tuple(details["probabilities"])
        return ChosenOption(answer, example.options[answer], shares[answer], shares, bool(details.get("truncated")))

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """Accuracy, and that of each group of the data."""
        groups: dict[str, list[bool]] = {}
        for example, gold, answer in zip(examples, golds, predictions.answers, strict=True):
            group = example.group if isinstance(example, ChoiceExample) else ""
            groups.setdefault(group, []).append(gold == answer)
        metrics = {"accuracy": share_equal(golds, predictions.answers)}
        return metrics | {f"accuracy_{name}": sum(hits) / len(hits) for name, hits in sorted(groups.items()) if name}

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """The position that is most often right; where there are fewer options than that, the last one."""
        choose = super().majority(task, examples)
        return lambda example: min(choose(example), len(self.inputs(example)[2]) - 1)

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """An index from 0, as we write it ourselves, or a text that is read as the right answer in a table is."""
        return [_parse_option(task, example, one) for example, one in zip(examples, given, strict=True)]

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Groups, positions, calibration, mistakes."""
        return _describe_choices(task, answered, metrics)


def join_option(question: str, option: str) -> str:
    """A question and one of its options as one text; a blank in the question is where the option belongs.

    >>> join_option("The cat sat on the _ .", "mat"), join_option("Where is it?", "On the mat.")
    ('The cat sat on the mat .', 'Where is it? On the mat.')
    """
    return question.replace(_BLANK, option, 1) if _BLANK in question else f"{question} {option}"


def _parse_option(task: Task, example: Example, given: FilePrediction) -> int:
    assert isinstance(example, ChoiceExample)
    if isinstance(given.value, int) and not isinstance(given.value, bool):
        last = len(example.options) - 1
        if not 0 <= given.value <= last:
            raise DataError(
                f"{given.location} predicts {given.value}, which is no option: numbers count from 0 to {last}"
            )
        return given.value
    text = str(expect(given, str, "an option"))
    try:
        return find_option(text, example.options, task.columns or Columns(), "predicts")
    except BadRecordError as error:
        raise DataError(f"{given.location} {error}") from None


def find_option(given: str, options: Sequence[str], columns: Columns, verb: str = "has the answer") -> int:
    """Say which option is meant by a right or a predicted answer: its column's name, letter, number from 0, or text.

    Where columns have numbers for names, a number is nothing but a name. The verb says in errors what the answer is.

    >>> columns = Columns(options=("b", "a"))
    >>> [find_option(given, ("red", "blue"), columns) for given in ("b", "red", "0", "1")]
    [0, 0, 0, 1]
    """
    given = mend(given).strip()
    names = columns.options if len(columns.options) == len(options) else ()
    if given in names:
        return names.index(given)
    letters = string.ascii_uppercase[: len(options)]
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 9 else None
    readings = {index for index, option in enumerate(options) if option.strip() == given}
    readings |= {index for index, name in enumerate(names) if name.upper() == given.upper()}
    readings |= {letters.index(given)} if len(given) == 1 and given in letters else set()
    readings |= {number} & set(range(len(options))) if number is not None and not _have_numbers(names) else set()
    if not readings and len(given) == 1 and given in letters.lower():
        readings = {letters.lower().index(given)}
    if len(readings) > 1:
        ways = "its column, letter, number from 0 or text"
        raise BadRecordError(f"{verb} {quote(given)}, which may mean several options: write another of {ways}")
    return readings.pop() if readings else _refuse_option(given, number, len(options), names, verb)


def _refuse_option(given: str, number: int | None, num_options: int, names: Sequence[str], verb: str) -> NoReturn:
    """Refuse an answer that is no option; numbers that seem to be counted otherwise make all the others doubtful."""
    last = num_options - 1
    letter = string.ascii_uppercase[:num_options][-1]
    if number in (0, last + 1) and _have_numbers(names):
        known = ", ".join(map(quote, names[:30]))
        raise WholeFileError(
            f"{verb} {quote(given)}, but numbers are names of columns here: write {known}, or its text"
        )
    if number == last + 1:
        advice = f"0 to {last} (one less in each record, if they begin with 1), A to {letter}, or its text"
        raise WholeFileError(f"{verb} {quote(given)}, but numbers count from 0: write {advice}")
    ways = ", ".join(map(quote, names[:30])) if _have_numbers(names) else f"A to {letter}, 0 to {last}"
    raise BadRecordError(f"{verb} {quote(given)}, which is no option: write {ways}, or its text")


def _have_numbers(names: Sequence[str]) -> bool:
    return any(map(str.isdecimal, names))


def _describe_choices(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    hits = [one.gold == one.answer for one in answered]
    groups = [one.example.group if isinstance(one.example, ChoiceExample) else "" for one in answered]
    said = Counter(one.answer for one in answered)
    sections: Description = []
    if any(groups):
        rows = [[short_name(name) or "–", *cells] for name, cells in _count_hits(groups, hits)]
        sections += make_section("By group", Table(["group", "questions", "right"], rows))
    positions = _count_hits([one.gold for one in answered], hits)
    rows = [[str(position + 1), *cells, f"{said[position]:,}"] for position, cells in positions]
    header = ["right option", "questions", "right", "times it was chosen"]
    sections += make_section("By position of the right option", Table(header, rows))
    sections += describe_calibration(answered)
    return [*sections, describe_mistakes(answered, is_wrong, confidence, _show_choice)]


def _count_hits(keys: Sequence[Any], hits: Sequence[bool]) -> list[tuple[Any, list[str]]]:
    """How many there are of each key, and the share that is right."""
    totals = Counter(keys)
    right = Counter(key for key, is_right in zip(keys, hits, strict=True) if is_right)
    return [(key, [f"{totals[key]:,}", format_share(right[key], totals[key])]) for key in sorted(totals)[:MOST_ROWS]]


def _show_choice(one: Answered) -> tuple[Cell, Cell, Cell]:
    example = one.example
    assert isinstance(example, ChoiceExample)

    def show(index: Any) -> Cell:
        is_there = isinstance(index, int) and 0 <= index < len(example.options)
        return (quote_text(example.options[index]), *show_share(one.probability(index))) if is_there else "–"

    text = (quote_text(example.passage), BREAK, Span(shorten(example.question, MOST_TEXT), "bold"))
    return text, show(one.answer), show(one.gold)
