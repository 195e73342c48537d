"""What a kind of task tells about its predictions, as plain data: tables, charts and cases, without a line of HTML.

The module of a kind has `describe(task, examples, answers, metrics)`, which returns a list of `Section`s and `Notice`s.
`litebert.reports` draws them in the order given, and knows no kind of task. A kind says what it has to say with these
parts:

    Section("By label", [Table(["label", "F1"], [["joy", "80.0 %"], ["fear", "66.7 %"]])])
    Section("Predicted and given", [Scatter("Predicted against given", points, "given", "predicted")])
    Notice("It says nearly the same for every text.")             # stands above everything else, in red

A cell is a `str`, or a tuple of `Span`s where parts of it look different. All text is escaped by the page. Text of
examples stands in `Cases` alone, so that a page can be made that holds none of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from litebert.quantities import is_finite

__all__ = [
    "BREAK",
    "Calibration",
    "Case",
    "Cases",
    "Cell",
    "ConfusionMatrix",
    "Histogram",
    "Notice",
    "Part",
    "Scatter",
    "Section",
    "Span",
    "Table",
    "format_metric",
    "shorten",
]

_NOT_SHARES = ("matthews", "pearson", "spearman", "mse", "mae")


@dataclass(frozen=True)
class Span:
    """A piece of text that looks like one thing: `soft` is grey, `small` stands on a line of its own."""

    text: str
    look: Literal["plain", "bold", "soft", "small", "right", "wrong", "break"] = "plain"


BREAK = Span("", "break")
"""The end of a line inside a cell."""
Cell = str | tuple[Span, ...]


@dataclass(frozen=True)
class Table:
    """Rows under a header; `layout` says whether the columns after the first are numbers."""

    header: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    layout: Literal["text", "numbers"] = "numbers"
    note: str = ""


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each label (rows) was taken for each other (columns): `counts[gold, predicted]`."""

    labels: Sequence[str]
    counts: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Histogram:
    """How often values occur, in one group or two; `threshold` is an upright line."""

    title: str
    groups: Mapping[str, Sequence[float]]
    x_label: str
    note: str = ""
    threshold: float | None = None


@dataclass(frozen=True)
class Scatter:
    """Points, and the diagonal where both values are the same."""

    title: str
    points: Sequence[tuple[float, float]]
    x_label: str
    y_label: str
    note: str = ""


@dataclass(frozen=True)
class Calibration:
    """How often answers are right against how sure the model was: (mean confidence, share right, count) of each bin."""

    title: str
    bins: Sequence[tuple[float, float, int]]
    note: str = ""


@dataclass(frozen=True)
class Case:
    """An example with what the model said and what is right."""

    id: str
    text: Cell
    predicted: Cell
    expected: Cell


@dataclass(frozen=True)
class Cases:
    """Examples that are worth a look, such as the worst mistakes. They alone hold text of examples."""

    cases: Sequence[Case]


Part = Table | ConfusionMatrix | Histogram | Scatter | Calibration | Cases


@dataclass(frozen=True)
class Section:
    """A part of a page under a title of its own. `note` is a sentence below the title."""

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)
    note: str = ""


@dataclass(frozen=True)
class Notice:
    """A warning about the predictions as a whole."""

    message: str


def format_metric(name: str, value: object) -> str:
    """The value of a metric as people write it: shares in percent, correlations and errors as they are, counts whole.

    >>> format_metric("accuracy", 0.68694), format_metric("pearson", 0.68694), format_metric("HasAns_total", 5928.0)
    ('68.7 %', '0.687', '5,928')
    """
    if not is_finite(value):
        return "–"
    if name == "total" or name.endswith("_total"):
        return f"{value:,.0f}"
    if name in _NOT_SHARES or "thresh" in name:
        return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"
    return f"{100 * value:.1f} %" if abs(value) < 1e6 else f"{value:.3g}"


def shorten(text: object, most: int, around: int = 0) -> str:
    """At most so many characters of a text, those around an index.

    >>> shorten("abcdefghij", 4), shorten("abcdefghij", 4, around=6)
    ('abcd…', '…fghi…')
    """
    whole = str(text)
    if len(whole) <= most:
        return whole
    begin = max(0, min(around - most // 3, len(whole) - most))
    return ("…" if begin else "") + whole[begin : begin + most] + ("…" if begin + most < len(whole) else "")
