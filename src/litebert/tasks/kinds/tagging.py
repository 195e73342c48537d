"""Tags: a label for each word of a sentence, such as the names in it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.config import Head
from litebert.errors import RequestError
from litebert.tasks.features import Features, Ids, assemble, encode_texts
from litebert.tasks.kinds.description import (
    LONGEST_WORD,
    MOST_TEXT,
    MOST_WORDS,
    Answered,
    Description,
    count_confused,
    count_found,
    describe_mistakes,
    join_lines,
    make_section,
    quote_text,
    show_share,
)
from litebert.tasks.kinds.kind import (
    ROUNDED,
    AnswerType,
    Cells,
    FilePrediction,
    Kind,
    expect_names,
    find_label,
    join_names,
    most_frequent,
    pick,
    probabilities,
    take_cell,
)
from litebert.tasks.kinds.options import EncodeOptions, Outputs
from litebert.tasks.sections import Cell, Span, shorten
from litebert.tasks.task import Columns, DataError, Example, Predictions, TaggedExample, Task
from litebert.text.records import BadRecordError, take_text
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["Tagging", "Tags", "find_chunks"]

_BEGINS = frozenset("BSU")
_ENDS = frozenset("ELSU")
_PREFIXES = frozenset("BIEMSLU")


@dataclass(frozen=True)
class Tags:
    """A tag for each word, and how likely it is."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


class Tagging(Kind):
    """A tag for each word."""

    name = "tagging"
    purpose = "a tag for each word"
    answer_type: ClassVar[AnswerType] = "tags"
    meanings: ClassVar[Mapping[str, str]] = {"accuracy": "share of words with the right tag"}
    metrics = ("entity_f1", "accuracy")
    constant = "the most frequent tag alone"
    splits_rows = True
    file_format = "conll"

    def head(self, task: Task, plain: bool = False) -> Head:
        """A linear map on every token's state."""
        return "token-classification"

    def pick_columns(self, named: Columns, there: Collection[str]) -> Columns:
        """The words may also be called words."""
        picked = super().pick_columns(named, there)
        return picked.model_copy(update={"text": pick(there, named.text, "words", "text")})

    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> TaggedExample:
        """Words and tags, as lists or with white space between them."""
        words = _read_words(take_cell(cells, columns.text), columns.text)
        if not with_labels:
            return TaggedExample(id_, words, None, location)
        tags = _read_words(take_cell(cells, columns.label), columns.label)
        if len(tags) != len(words):
            raise BadRecordError(f"has {len(tags)} tags for {len(words)} words: give each word one")
        return TaggedExample(id_, words, tags, location)

    def parse_line(self, task: Task, id_: str, line: str, location: str) -> TaggedExample:
        """Words with white space between them."""
        return TaggedExample(id_, tuple(line.split()), location=location)

    def gold(self, example: Example) -> Any:
        """The tags."""
        assert isinstance(example, TaggedExample)
        return example.tags

    def label_names(self, example: Example) -> tuple[str, ...]:
        """The tags."""
        return self.gold(example) or ()

    def answer_labels(self, answer: Any) -> tuple[str, ...]:
        """The tags."""
        return tuple(answer)

    def text_key(self, example: Example) -> object:
        """The words."""
        assert isinstance(example, TaggedExample)
        return example.words

    def inputs(self, example: Example) -> Any:
        """The words."""
        assert isinstance(example, TaggedExample)
        return list(example.words)

    def baseline_target(self, example: Example) -> Any:
        """The tags as a list."""
        return list(self.gold(example) or ())

    def read_baseline(self, answer: Any) -> Any:
        """A tuple of tags."""
        return tuple(answer)

    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """Each word's first token carries its tag. A long sentence goes on in another row, between words."""
        sentences = [example for example in examples if isinstance(example, TaggedExample)]
        index = {name: number for number, name in enumerate(task.labels)}
        pieces = encode_texts(tokenizer, [word for example in sentences for word in example.words])
        unknown = np.array([tokenizer.unknown_id], np.int32)
        room = options.max_length - 2
        rows = _Rows()
        at = 0
        for number, example in enumerate(sentences):
            tags = [NO_LABEL] * len(example.words) if example.tags is None else [index[tag] for tag in example.tags]
            for word, tag in enumerate(tags):
                piece = pieces[at + word][:room]
                piece = piece if len(piece) else unknown  # a word of which nothing is left still counts
                if rows.size + len(piece) > room:
                    rows.close(number)
                rows.add(piece, tag)
            rows.close(number)
            at += len(example.words)
        tokens, ends, splits = assemble(tokenizer, rows.pairs)
        known = bool(rows.labels) and all(example.tags is not None for example in sentences)
        return Features(
            tokens,
            ends,
            splits,
            np.array(rows.owners, np.int64),
            can_pack=True,
            tags=np.concatenate(rows.labels) if known else None,
            parts=rows.starts,
        )

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Cross-entropy of the tag of each word."""
        from litebert.training.objectives import class_loss

        assert output.logits is not None
        assert batch.labels is not None
        return [class_loss(output.logits, batch.labels, totals[0], weights)]

    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """The logits of each word's first token."""
        logits = outputs["logits"]
        return [logits[row, features.parts[item]] for row, item in enumerate(items)]

    def join(
        self, task: Task, examples: Sequence[Example], features: Features, found: list[Any], options: EncodeOptions
    ) -> list[Any]:
        """The words of a long sentence, whose rows follow each other."""
        parts: list[list[NDArray[np.float32]]] = [[] for _ in examples]
        for owner, logits in zip(features.examples.tolist(), found, strict=True):
            parts[owner].append(logits)
        empty = np.zeros((0, len(task.labels)), np.float32)
        return [np.concatenate(part) if part else empty for part in parts]

    def decode_one(self, task: Task, output: Any) -> tuple[Any, dict[str, Any]]:
        """The likeliest tag of each word."""
        shares = probabilities(output)
        best = shares.argmax(-1) if shares.size else np.zeros(shares.shape[:-1], np.int64)
        answer = tuple(task.labels[index] for index in best.tolist())
        return answer, {"probabilities": [round(float(row.max()), ROUNDED) for row in shares]}

    def present(self, task: Task, example: Example, answer: Any, details: Mapping[str, Any]) -> Tags:
        """Words beside their tags."""
        assert isinstance(example, TaggedExample)
        return Tags(example.words, tuple(answer), tuple(details["probabilities"]))

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """F1 of the names (CoNLL), and the share of words with the right tag."""
        num_right = num_words = num_found = num_wanted = num_same = 0
        for example, gold, answer in zip(examples, golds, predictions.answers, strict=True):
            if len(gold) != len(answer):
                raise RequestError(
                    f"{example.location or 'example ' + repr(example.id)} has {len(gold):,} words, but the answer "
                    f"{len(answer):,} tags: give one for each word"
                )
            num_words += len(gold)
            num_right += sum(one == other for one, other in zip(gold, answer, strict=True))
            wanted, found = find_chunks(gold), find_chunks(answer)
            num_wanted += len(wanted)
            num_found += len(found)
            num_same += len(wanted & found)
        return {
            "entity_f1": 2 * num_same / max(1, num_wanted + num_found),
            "entity_precision": num_same / max(1, num_found),
            "entity_recall": num_same / max(1, num_wanted),
            "accuracy": num_right / max(1, num_words),
        }

    def majority(self, task: Task, examples: Sequence[Example]) -> Callable[[Example], Any]:
        """The most frequent tag for every word."""
        tags = [tag for example in examples for tag in self.known_gold(example)]
        if not tags:
            raise RequestError("the training examples hold no tag to take the most frequent of")
        tag = most_frequent(tags, task.labels)
        return lambda example: (tag,) * len(self.inputs(example))

    def parse_predictions(
        self, task: Task, examples: Sequence[Example], given: Sequence[FilePrediction], any_label: bool
    ) -> list[Any]:
        """A tag for each word, from a list or with white space between them."""
        known = {name: name for name in task.labels}
        answers = []
        for example, one in zip(examples, given, strict=True):
            tags, num_words = expect_names(one, None), len(self.inputs(example))
            if len(tags) != num_words:
                raise DataError(f"{one.location} has {len(tags):,} tags for {num_words:,} words: give one for each")
            answers.append(tuple(find_label(task, one, tag, known, any_label) for tag in tags))
        return answers

    def show_cell(self, task: Task, answer: Any) -> str | None:
        """Tags with spaces between them."""
        return join_names(answer, " ")

    def describe(self, task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
        """Types of names, confusions, mistakes."""
        return _describe_tags(task, answered, metrics)


class _Rows:
    """Rows of words that are being filled, one after the other."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Ids, Ids | None]] = []
        self.owners: list[int] = []
        self.starts: list[list[int]] = []
        self.labels: list[NDArray[np.int64]] = []
        self._begin()

    def _begin(self) -> None:
        self.size = 0
        self._pieces: list[Ids] = []
        self._starts: list[int] = []
        self._labels: list[int] = []

    def add(self, piece: Ids, tag: int) -> None:
        """Add a word; its first token has the tag."""
        self._starts.append(self.size + 1)
        self._pieces.append(piece)
        self._labels += [tag, *([NO_LABEL] * (len(piece) - 1))]
        self.size += len(piece)

    def close(self, owner: int) -> None:
        """End the row, which belongs to this example."""
        self.pairs.append((np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int32), None))
        self.owners.append(owner)
        self.starts.append(self._starts)
        self.labels.append(np.array([NO_LABEL, *self._labels, NO_LABEL], np.int64))
        self._begin()


def _read_words(value: Any, column: str) -> tuple[str, ...]:
    """Take a list of words, or a text with white space between them."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return tuple(take_text(value, column).split())
    if not value:
        raise BadRecordError(f"has no words in {column!r}: fill it in")
    return tuple(take_text(word, column) for word in value)


def find_chunks(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The names that tags mark, as (begin, end, type), by the rules of CoNLL's evaluation.

    `B-` begins one, and so does `I-` after `O` or after another type; BIOES, BILOU and BMES are understood as well. Of
    tags without such a prefix, every run of the same tag is one.

    >>> sorted(find_chunks(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"]))
    [(0, 2, 'PER'), (2, 3, 'PER'), (4, 5, 'LOC'), (5, 6, 'ORG')]
    """
    chunks = set()
    begin, before, kind = 0, "O", ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, type_ = _split_tag(tag)
        goes_on = prefix != "O" != before and type_ == kind and prefix not in _BEGINS and before not in _ENDS
        if goes_on:
            before = prefix
            continue
        if before != "O":
            chunks.add((begin, index, kind))
        begin, before, kind = index, prefix, type_
    return chunks


def _split_tag(tag: str) -> tuple[str, str]:
    prefix, _, type_ = tag.partition("-")
    return (prefix, type_) if tag == "O" or prefix in _PREFIXES else ("I", tag)


def _describe_tags(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    wanted: Counter[str] = Counter()
    given: Counter[str] = Counter()
    same: Counter[str] = Counter()
    confused: Counter[tuple[str, str]] = Counter()
    for one in answered:
        golds, found = find_chunks(one.gold), find_chunks(one.answer)
        wanted.update(type_ for _, _, type_ in golds)
        given.update(type_ for _, _, type_ in found)
        same.update(type_ for _, _, type_ in golds & found)
        confused.update(zip(one.gold, one.answer, strict=False))
    names = sorted({*wanted, *given})
    sections: Description = []
    sections += make_section("By type of name", count_found(names, wanted, given, same, "type") if names else None)
    sections += make_section("Tags that are confused most", count_confused(confused))
    note = "{wrong} of {all} sentences have a wrong tag. Those that the model was surest of come first."
    return [*sections, describe_mistakes(answered, _has_wrong_tags, _tag_confidence, _show_tags, note)]


def _has_wrong_tags(one: Answered) -> float:
    return float(tuple(one.gold) != tuple(one.answer))


def _list_wrong_words(one: Answered) -> list[tuple[float | None, int]]:
    """The words that got a wrong tag, surest first, with the probability of that tag."""
    pairs = zip(one.gold, one.answer, strict=False)
    wrong = [index for index, (gold, answer) in enumerate(pairs) if gold != answer]
    rated = [(one.probability(index), index) for index in wrong]
    return sorted(rated, key=lambda entry: (-(entry[0] or 0.0), entry[1]))


def _tag_confidence(one: Answered) -> float | None:
    return max((share for share, _ in _list_wrong_words(one) if share is not None), default=None)


def _show_tags(one: Answered) -> tuple[Cell, Cell, Cell]:
    """The words around the surest mistake, with all wrong ones marked."""
    assert isinstance(one.example, TaggedExample)
    words, wrong = one.example.words, _list_wrong_words(one)
    marked = {index for _, index in wrong}
    first = max(0, (wrong[0][1] if wrong else 0) - LONGEST_WORD // 4)
    shown, length = [Span("… ")] if first else [], 0
    for index, word in enumerate(words[first:], first):
        space = " " if index > first else ""
        if length > MOST_TEXT:
            shown.append(Span(" …"))
            break
        length += 1 + min(len(word), LONGEST_WORD)
        shown.append(Span(space + shorten(word, LONGEST_WORD), "wrong" if index in marked else "plain"))
    said: list[tuple[Span, ...]] = []
    right: list[tuple[Span, ...]] = []
    for share, index in wrong[:MOST_WORDS]:
        tag = quote_text(one.answer[index])
        said.append((quote_text(words[index], most=LONGEST_WORD), Span(": "), tag, *show_share(share)))
        right.append((quote_text(one.gold[index]),))
    if len(wrong) > len(said):
        said.append((Span(f"and {len(wrong) - len(said):,} more"),))
    return tuple(shown), join_lines(said) or "–", join_lines(right) or "–"
