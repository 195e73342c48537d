"""Charts as SVG that stands inside a page: what all charts share, and those of a pretraining run.

Only this module and `task_charts` know matplotlib. What they draw takes the colour of the text around it, so that it
can be read on light and on dark paper, and is the same to the byte whenever it is drawn of the same numbers.
"""

import contextlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from litebert.quantities import format_count

__all__ = [
    "BLUE",
    "INK",
    "ORANGE",
    "Chart",
    "begin_chart",
    "count_steps",
    "draw_charts",
    "drawing",
    "excuse_chart",
    "finish_chart",
    "format_share",
    "has_curve",
    "is_known",
    "limit_values",
    "mark_levels",
    "plot_noisy",
    "plot_points",
    "take_points",
]

Row = Mapping[str, float]
Points = list[tuple[float, float]]

INK = "#010203"  # stands for the colour of the text; the page's own takes its place
BLUE, ORANGE = "#3d7fd9", "#e07b28"  # mid-tones: both are clear on white and on near-black
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 10.0,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width", "grid.linewidth"), 0.6),
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": INK,
    "grid.alpha": 0.12,
    "axes.xmargin": 0.015,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}
_SIZE = (5.4, 3.1)  # inches of 72 px: about what a phone has, so that text keeps its size there
_GUESSERS = {"unigram": "top word", "ngram": "n-gram"}
_MOST_POINTS = 2000
_MOST_STAGES = 24
_LONG_RUN = 5 * 3600


@dataclass(frozen=True)
class Chart:
    """A drawing, what it shows and how to read it."""

    title: str
    caption: str
    svg: str


class _Clock(NamedTuple):
    """The unit that time is shown in."""

    name: str
    seconds: float


def draw_charts(
    steps: Sequence[Row], evaluations: Sequence[Row], baselines: Mapping[str, float], sentence_task: str
) -> list[Chart]:
    """Draw whatever the rows have numbers for; the baselines are how often simple guessers are right."""
    guessers = {name: baselines[key] for key, name in _GUESSERS.items() if key in baselines}
    with drawing():
        charts = _draw_all(steps, _thin(evaluations), guessers, sentence_task)
    return [chart for chart in charts if chart is not None]


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """The settings that charts are drawn with; a reader's own would make another report of the same run."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The reader's browser chooses fonts; that those here lack a character does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _draw_all(
    steps: Sequence[Row], evaluations: Sequence[Row], guessers: Mapping[str, float], sentence_task: str
) -> list[Chart | None]:
    clock = _choose_clock([*steps[-1:], *evaluations[-1:]])
    held_out = "On held-out text."
    beside = f"{held_out} Dashed: guessers that say the most frequent word, or go by n-grams." if guessers else held_out
    return [
        _draw_loss(steps, evaluations),
        _draw_accuracy(evaluations, "words_accuracy", "Hidden words guessed right", guessers, beside, clock),
        _draw_accuracy(evaluations, "sentence_accuracy", f"{sentence_task} right", {"coin": 0.5}, held_out, clock),
        _draw_steps(steps, "learning_rate", "Learning rate", lambda rate, _: f"{rate:.3g}", clock),
        _draw_steps(steps, "tokens_per_second", "Tokens per second", lambda rate, _: format_count(rate), clock),
        _draw_steps(steps, "hardware_share", "Share of the hardware's rate", format_share, clock),
    ]


def _smooth(values: Sequence[float]) -> list[float]:
    """Average each value with its neighbours, a fortieth of them all; those that are no number are left out."""
    reach = max(2, len(values) // 80)
    averages = []
    for position in range(len(values)):
        near = [value for value in values[max(0, position - reach) : position + reach + 1] if math.isfinite(value)]
        averages.append(math.fsum(near) / len(near) if near else math.nan)
    return averages


def _draw_loss(steps: Sequence[Row], evaluations: Sequence[Row]) -> Chart | None:
    # Held-out loss is known for words alone; the total of training, sentences included, would not compare with it.
    key = "words_loss" if any("words_loss" in row for row in steps) else "loss"
    across = "tokens" if any("tokens" in row for row in steps) else "step"
    trained, held_out = take_points(steps, across, key), take_points(evaluations, across, "words_loss")
    title = "Loss on hidden words" if key == "words_loss" else "Loss"
    if not any(map(is_known, trained + held_out)):
        return None
    if not has_curve(trained) and not has_curve(held_out):
        return excuse_chart(title, "steps")
    figure, axes = begin_chart()
    if trained:
        plot_noisy(axes, trained, "training")
    if held_out:
        axes.plot(*_split(held_out), color=ORANGE, label="held-out", marker=_choose_marker(held_out), markersize=3.5)
    limit_values(axes, [value for _, value in trained + held_out], from_zero=False)
    several = _mark_stages(axes, steps, across)
    axes.legend(loc="best")
    axes.set_xlabel("tokens seen in training" if across == "tokens" else "steps")
    axes.set_ylabel("loss (nats per hidden word)" if key == "words_loss" else "loss (nats)")
    count_steps(axes)
    caption = "The thin line is what single steps gave, the thick one is smoothed."
    if several:
        caption += " Upright lines: a new stage, with its depth × length."
    return finish_chart(figure, title, caption)


def _draw_accuracy(
    evaluations: Sequence[Row], key: str, title: str, guessers: Mapping[str, float], caption: str, clock: _Clock
) -> Chart | None:
    points = take_points(evaluations, "seconds", key, clock.seconds)
    if not any(map(is_known, points)):
        return None
    if not has_curve(points):
        return excuse_chart(title, "evaluations")
    figure, axes = begin_chart()
    plot_points(axes, points, ORANGE)
    values = [value for _, value in filter(is_known, points)] + list(guessers.values())
    low = 0.0 if min(values) < 0.4 else min(values) - 0.05
    high = max(*values, low + 0.02)
    axes.set_ylim(low, high + 0.08 * (high - low))
    mark_levels(axes, guessers)
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel("share that is right")
    axes.yaxis.set_major_formatter(FuncFormatter(format_share))
    return finish_chart(figure, title, caption)


def _draw_steps(
    steps: Sequence[Row], key: str, title: str, form: Callable[[float, int | None], str], clock: _Clock
) -> Chart | None:
    points = take_points(steps, "seconds", key, clock.seconds)
    if not has_curve(points):
        return None
    figure, axes = begin_chart()
    if key == "learning_rate":
        plot_points(axes, points, BLUE)
    else:
        plot_noisy(axes, points)
    limit_values(axes, [value for _, value in points], from_zero=True)
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel(title.lower())
    axes.yaxis.set_major_formatter(FuncFormatter(form))
    return finish_chart(figure, title, "")


def _thin(rows: Sequence[Row]) -> list[Row]:
    every = len(rows) // _MOST_POINTS + 1
    return [*rows[:-1:every], *rows[-1:]]


def _choose_clock(rows: Sequence[Row]) -> _Clock:
    longest = max((row.get("seconds", 0.0) for row in rows), default=0.0)
    return _Clock("hours", 3600.0) if longest > _LONG_RUN else _Clock("minutes", 60.0)


def take_points(rows: Sequence[Row], across: str, key: str, unit: float = 1.0) -> Points:
    """Points of a line; a value that was no number makes a gap, one that no row has makes no line."""
    if not any(key in row for row in rows):
        return []
    return [(row[across] / unit, row.get(key, math.nan)) for row in rows if across in row]


def _split(points: Points) -> tuple[list[float], list[float]]:
    return [place for place, _ in points], [value for _, value in points]


def is_known(point: tuple[float, float]) -> bool:
    """Whether a point has a value."""
    return math.isfinite(point[1])


def has_curve(points: Points) -> bool:
    """Whether there are two values at least: a chart of a single one shows nothing that a figure does not."""
    return sum(map(is_known, points)) > 1


def excuse_chart(title: str, what: str) -> Chart:
    """What stands in the place of a chart that there are too few steps or evaluations for."""
    return Chart(title, f"Too few {what} for a curve.", "")


def count_steps(axes: Axes) -> None:
    """Let the axis below count steps or tokens, of which there are no halves."""
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_count(count)))


def _choose_marker(points: Points) -> str:
    """Few points are shown as such: a line of one alone would not be seen."""
    return "o" if len(points) <= 40 else ""


def begin_chart(height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    """An empty drawing as wide as all of them; the height is in inches."""
    figure = Figure(figsize=(_SIZE[0], height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    return figure, axes


def plot_points(axes: Axes, points: Points, color: str, label: str = "") -> None:
    """Draw a line through points."""
    axes.plot(*_split(points), color=color, label=label, marker=_choose_marker(points), markersize=3.5)


def plot_noisy(axes: Axes, points: Points, label: str = "") -> None:
    """Draw points that scatter as a thin line, and a smoothed one upon it."""
    places, values = _split(points)
    axes.plot(places, values, color=BLUE, alpha=0.35, linewidth=0.7, marker=_choose_marker(points), markersize=2.5)
    axes.plot(places, _smooth(values), color=BLUE, label=label)


def limit_values(axes: Axes, values: list[float], from_zero: bool) -> None:
    """Show all values, unless a few are so far out that the others would lie flat on the ground."""
    known = sorted(filter(math.isfinite, values))
    usual = known[int(0.98 * (len(known) - 1))]
    high = known[-1] if known[-1] <= 3 * usual else 1.5 * usual
    low = min(0.0, known[0]) if from_zero else known[0]
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low if from_zero else low - margin, high + margin)


def mark_levels(axes: Axes, guessers: Mapping[str, float], form: Callable[[float], str] | None = None) -> None:
    """Draw a dashed line for each, with its name beside the axes, where no curve can run through it."""
    low, high = axes.get_ylim()
    free_from = low
    for name, value in sorted(guessers.items(), key=lambda guesser: guesser[1]):
        axes.axhline(value, color=INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
        free_from = max(value, free_from)
        place = axes.get_yaxis_transform()
        axes.text(1.01, free_from, f"{name}\n{(form or format_share)(value)}", transform=place, va="center", fontsize=9)
        free_from += 0.16 * (high - low)  # two lines of text


def _mark_stages(axes: Axes, steps: Sequence[Row], across: str) -> bool:
    """Draw a line where depth or length changed, and say what they became; whether there was such a place."""
    stages: list[tuple[float, str]] = []
    for row in steps:
        shape = " × ".join(f"{row[key]:.0f}" for key in ("depth", "length") if key in row)
        if shape and across in row and (not stages or stages[-1][1] != shape):
            stages.append((row[across], shape))
    if not 2 <= len(stages) <= _MOST_STAGES:
        return False
    left, right = axes.get_xlim()
    free_from = left
    for number, (place, shape) in enumerate(stages):
        if number:
            axes.axvline(place, color=INK, alpha=0.3, linewidth=0.8)
        if place >= free_from:
            axes.text(place, 1.015, shape, transform=axes.get_xaxis_transform(), fontsize=8.5)
            free_from = place + (0.02 + 0.018 * len(shape)) * (right - left)
    return True


def format_share(share: float, _: int | None = None) -> str:
    """A share in percent, as axes show it."""
    return f"{100 * share:.3g} %"


def finish_chart(figure: Figure, title: str, caption: str) -> Chart:
    """Write the drawing as part of a page: no header, no date, and ids that no other drawing has."""
    name = re.sub(r"[^a-z]+", "-", title.lower())
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'(\bid="|\burl\(#|\bhref="#)', rf"\1{name}-", svg).replace(INK, "currentColor")
    size = re.sub(r'<svg width="[^"]*" height="[^"]*"', f'<svg role="img" aria-label="{title}"', svg, count=1)
    return Chart(title, caption, size.strip())
