"""From the cells of one record of a user's table to an example, for each kind of task that a table can hold.

Cells are strings, or whatever a JSON object has under its keys; what cannot be used raises `BadRecordError`.
"""

import itertools
import math
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from litebert.errors import RequestError
from litebert.tasks.task import ChoiceExample, Columns, Example, Kind, TaggedExample, TextExample
from litebert.text.cleanup import mend
from litebert.text.records import BadRecordError, WholeFileError, quote, take_text

__all__ = ["Cells", "example_maker", "find_option", "pick_columns", "read_number", "wanted_columns"]

Cells = Mapping[str, Any]
"""The cells of a record that are wanted, by the names of their columns."""


def wanted_columns(kind: Kind, columns: Columns, with_labels: bool) -> tuple[str, ...]:
    """The columns that a table has to have."""
    if kind == "choice" and not columns.options:
        raise RequestError("multiple choice needs options: name their columns")
    optional = (columns.pair, columns.id, columns.label if with_labels else None)
    options = columns.options if kind == "choice" else ()
    return tuple(dict.fromkeys(name for name in (columns.text, *optional, *options) if name is not None))


def pick_columns(kind: Kind, named: Columns, there: Collection[str]) -> Columns:
    """The columns to take of those that are there: the named ones, or else those that everybody would call so.

    >>> pick_columns("classification", Columns(text="sentence1", pair="sentence2"), ["text", "pair"]).pair
    'pair'
    """

    def pick(*names: str) -> str:
        return next((name for name in names if name in there), names[0])

    is_choice = kind == "choice"
    words = {"choice": ("passage",), "tagging": ("words",)}.get(kind, ())
    text = pick(named.text, *words, "text")
    pair = None if named.pair is None else pick(named.pair, *(["question"] if is_choice else []), "pair")
    if is_choice and pair is None and text != named.text and "question" in there:
        pair = "question"
    options = named.options
    if is_choice and not (options and all(name in there for name in options)):
        letters = tuple(itertools.takewhile(there.__contains__, string.ascii_uppercase))
        options = ("options",) if "options" in there else letters if len(letters) > 1 else options
    label = pick(named.label, *(["answer"] if is_choice else []), "label")
    id_ = None if named.id is None else next((name for name in (named.id, "id") if name in there), None)
    return named.model_copy(update={"text": text, "pair": pair, "label": label, "options": options, "id": id_})


def example_maker(
    kind: Kind, columns: Columns, with_labels: bool, labels: tuple[str, ...] | None
) -> Callable[[str, Cells, str], Example]:
    """Make the function that turns a record's number, cells and place into an example.

    Where `labels` are given, no others are accepted; where a column of ids is named, no id may come twice.
    """
    if kind == "multi-label" and not columns.separator:
        raise RequestError("the labels of a cell need a separator: give one, such as ','")
    seen: dict[str, str] = {}
    allowed = None if labels is None else frozenset(labels)

    def make(number: str, cells: Cells, place: str) -> Example:
        name = number if columns.id is None else _read_id(cells, columns.id)
        if columns.id is not None and name in seen:
            raise BadRecordError(f"has the id {quote(name)}, as {seen[name]} has: give each its own")
        example: Example
        if kind == "choice":
            example = _make_choice(name, cells, columns, with_labels, place)
        elif kind == "tagging":
            example = _make_tagged(name, cells, columns, with_labels, place)
            _check_allowed(example.tags or (), labels, allowed)
        else:
            text = take_text(_take(cells, columns.text), columns.text)
            pair = None if columns.pair is None else take_text(_take(cells, columns.pair), columns.pair)
            label = _read_label(_take(cells, columns.label), kind, columns) if with_labels else None
            if isinstance(label, str | tuple):
                _check_allowed((label,) if isinstance(label, str) else label, labels, allowed)
            example = TextExample(name, text, pair, label, place)
        if columns.id is not None:
            seen[name] = place
        return example

    return make


def read_number(value: object, *, may_be_infinite: bool = False) -> float | None:
    """Read a number that a table holds as such or as text; None if it is none, or not finite (unless it may be).

    >>> read_number("-2.5"), read_number(3), read_number("nan"), read_number("1_000"), read_number(True)
    (-2.5, 3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str) or (isinstance(value, str) and "_" in value):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if may_be_infinite or math.isfinite(number) else None


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


def _take(cells: Cells, name: str) -> Any:
    try:
        return cells[name]
    except KeyError:
        there = ", ".join(map(quote, list(cells)[:30])) or "none"
        raise BadRecordError(f"has no key {name!r} (there are: {there}): add it") from None


def _read_id(cells: Cells, column: str) -> str:
    value = _take(cells, column)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else take_text(value, column)


def _read_label(value: Any, kind: Kind, columns: Columns) -> str | float | tuple[str, ...]:
    if kind == "regression":
        score = read_number(value)
        if score is None:
            raise BadRecordError(f"has {quote(value)} in {columns.label!r}, which is no finite number: mend it")
        return score
    if kind == "classification":
        return _read_name(value, columns.label)
    if isinstance(value, str):
        value = [name for name in value.split(columns.separator) if name.strip()]
    elif not isinstance(value, list):
        value = [value]
    return tuple(dict.fromkeys(_read_name(name, columns.label) for name in value))


def _read_name(value: Any, column: str) -> str:
    """Read the name of a class; numbers and truth values of JSON are names as well."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRecordError(f"has no label in {column!r}: fill it in")
    if not isinstance(value, str):
        raise BadRecordError(f"has {quote(value)} in {column!r}, where a label should be: mend it")
    return take_text(value, column).strip()


def _check_allowed(names: tuple[str, ...], labels: tuple[str, ...] | None, allowed: frozenset[str] | None) -> None:
    for name in names:
        if allowed is not None and name not in allowed:
            known = ", ".join(map(quote, (labels or ())[:30]))
            raise BadRecordError(f"has the label {quote(name)}, which is none of {known}: mend it")


def _make_tagged(name: str, cells: Cells, columns: Columns, with_labels: bool, place: str) -> TaggedExample:
    words = _read_words(_take(cells, columns.text), columns.text)
    if not with_labels:
        return TaggedExample(name, words, None, place)
    tags = _read_words(_take(cells, columns.label), columns.label)
    if len(tags) != len(words):
        raise BadRecordError(f"has {len(tags)} tags for {len(words)} words: give each word one")
    return TaggedExample(name, words, tags, place)


def _read_words(value: Any, column: str) -> tuple[str, ...]:
    """Take a list of words, or a text with white space between them."""
    if not isinstance(value, list):
        return tuple(take_text(value, column).split())
    if not value:
        raise BadRecordError(f"has no words in {column!r}: fill it in")
    return tuple(take_text(word, column) for word in value)


def _make_choice(name: str, cells: Cells, columns: Columns, with_labels: bool, place: str) -> ChoiceExample:
    values = [_take(cells, column) for column in columns.options]
    if len(values) == 1 and isinstance(values[0], list):
        options = tuple(take_text(option, columns.options[0]) for option in values[0])
    else:
        options = tuple(take_text(value, column) for value, column in zip(values, columns.options, strict=True))
    if len(options) < 2:
        raise BadRecordError("has fewer than two options: add one")
    right = _read_name(_take(cells, columns.label), columns.label) if with_labels else None
    return ChoiceExample(
        id=name,
        passage=take_text(_take(cells, columns.text), columns.text),
        question="" if columns.pair is None else take_text(_take(cells, columns.pair), columns.pair),
        options=options,
        answer=None if right is None else find_option(right, options, columns),
        place=place,
    )
