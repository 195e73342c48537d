"""Charts as SVG that stands inside a page: of the three kinds of runs, of predictions, of a comparison.

Only this module knows matplotlib. What it draws takes the colour of the text around it, so that it can be read on light
and on dark paper, and is the same to the byte whenever it is drawn of the same numbers. A few points are drawn as they
are; many that scatter are smoothed, and a few of many that lie far out are cut off.
"""

import colorsys
import contextlib
import html
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
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from litebert.quantities import format_count
from litebert.reports.page import Chart
from litebert.tasks.sections import Calibration, Histogram, Scatter, format_metric

__all__ = [
    "Bar",
    "draw_comparison",
    "draw_distillation",
    "draw_finetuning",
    "draw_lines",
    "draw_part",
    "draw_pretraining",
    "draw_spread",
]

Row = Mapping[str, float]
Points = list[tuple[float, float]]

_INK = "#010203"  # stands for the colour of the text; the page's own takes its place
_BLUE, _ORANGE = "#3d7fd9", "#e07b28"  # mid-tones: both are clear on white and on near-black
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 10.0,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width", "grid.linewidth"), 0.6),
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _INK,
    "grid.alpha": 0.12,
    "axes.xmargin": 0.02,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
}
_SIZE = (5.4, 3.1)  # inches of 72 px: about what a phone has, so that text keeps its size there
_FEW = 40  # points that are drawn one by one
_MOST_POINTS = 2000
_MOST_STAGES = 24
_MOST_BARS = 60
_MOST_DEPTHS = 8  # lines that can be told apart
_NUM_BINS = 30
_LONGEST_NAME = 28
_GUESSERS = {"unigram": "top token", "ngram": "n-gram"}
_SMOOTHED = "The thin line is what single steps gave, the thick one is smoothed."


class _Clock(NamedTuple):
    """The unit that time is shown in."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Bar:
    """A name with its value, and how far down and up it may really be."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


# Pretraining.


def draw_pretraining(
    steps: Sequence[Row], evaluations: Sequence[Row], baselines: Mapping[str, float], sentence_task: str
) -> list[Chart]:
    """Draw whatever the rows have numbers for; the baselines are how often simple guessers are right."""
    guessers = {name: baselines[key] for key, name in _GUESSERS.items() if key in baselines}
    evaluations = _thin(evaluations)
    clock = _choose_clock([*steps[-1:], *evaluations[-1:]])
    held_out = "On held-out text."
    beside = f"{held_out} Dashed: guessers that say the most frequent token, or go by n-grams."
    accuracies = {
        "mlm": ("Masked-LM accuracy", guessers, beside if guessers else held_out),
        "sop": (f"{sentence_task} accuracy", {"coin": 0.5}, f"{held_out} Dashed: a coin."),
    }
    with _drawing():
        charts = [
            _draw_pretraining_loss(steps, evaluations),
            *(_draw_accuracy(steps, evaluations, name, *rest, clock) for name, rest in accuracies.items()),
            *_draw_pace(steps, clock),
        ]
    return [chart for chart in charts if chart is not None]


def _draw_pretraining_loss(steps: Sequence[Row], evaluations: Sequence[Row]) -> Chart | None:
    # Held-out loss is known for masked tokens alone; the total of training, sentences included, would not compare.
    key = "mlm_loss" if any("mlm_loss" in row for row in steps) else "loss"
    across = "tokens" if any("tokens" in row for row in steps) else "step"
    trained, full = _take_points(steps, across, key), _take_points(evaluations, across, "mlm_loss")
    staged = _take_stage(evaluations, across, "mlm_loss")
    title = "Masked-LM loss" if key == "mlm_loss" else "Loss"
    if not any(map(_is_known, trained + full)):
        return None
    if not _has_curve(trained) and not _has_curve(full):
        return _excuse_chart(title, "steps")
    figure, axes = _begin_chart()
    is_smoothed = bool(trained) and _plot_steps(axes, trained, "training")
    _plot_held_out(axes, full, staged, "held-out")
    _limit_values(axes, [value for _, value in trained + full + staged], from_zero=False)
    caption = [_SMOOTHED] if is_smoothed else []
    caption += [_mark_stages(axes, steps, across)]
    axes.legend(loc="best")
    axes.set_xlabel("tokens seen in training" if across == "tokens" else "steps")
    axes.set_ylabel("loss (nats per masked token)" if key == "mlm_loss" else "loss (nats)")
    _count_steps(axes)
    return _finish_chart(figure, title, " ".join(filter(None, caption)))


def _draw_accuracy(
    steps: Sequence[Row],
    evaluations: Sequence[Row],
    objective: str,
    title: str,
    guessers: Mapping[str, float],
    caption: str,
    clock: _Clock,
) -> Chart | None:
    """A held-out metric over time, at full depth and at the depth of the stage, with guessers as dashed lines."""
    key = f"{objective}_accuracy"
    full = _take_points(evaluations, "seconds", key, clock.seconds)
    staged = _take_stage(evaluations, "seconds", key, clock.seconds)
    if not any(map(_is_known, full)):
        return None
    if not _has_curve(full):
        return _excuse_chart(title, "evaluations")
    figure, axes = _begin_chart()
    _plot_held_out(axes, full, staged)
    values = [value for _, value in filter(_is_known, full + staged)] + list(guessers.values())
    low = 0.0 if min(values) < 0.4 else min(values) - 0.05
    high = max(*values, low + 0.02)
    axes.set_ylim(low, high + 0.08 * (high - low))
    _mark_levels(axes, guessers, _format_share)
    stages = _mark_stages(axes, steps, "seconds", clock.seconds)
    if staged:
        axes.legend(loc="best")
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel("share that is right")
    axes.yaxis.set_major_formatter(FuncFormatter(_format_share))
    return _finish_chart(figure, title, f"{caption} {stages}".strip())


def _take_stage(evaluations: Sequence[Row], across: str, key: str, unit: float = 1.0) -> Points:
    """The metric at the depth of the stage, which is full depth in the last one; nothing if it is that throughout."""
    staged = [{**row, key: row.get(f"stage_{key}", row.get(key, math.nan))} for row in evaluations]
    is_staged = any(row.get(f"stage_{key}", row.get(key)) != row.get(key) for row in evaluations)
    return _take_points(staged, across, key, unit) if is_staged else []


def _plot_held_out(axes: Axes, full: Points, staged: Points, name: str = "") -> None:
    if staged:
        _plot_points(axes, staged, _INK, f"{name} at the stage's depth".strip())
    if full:
        _plot_points(axes, full, _ORANGE, f"{name} at full depth".strip() if staged else name)


def _draw_pace(steps: Sequence[Row], clock: _Clock) -> list[Chart | None]:
    """How fast a run learns and works."""
    return [
        _draw_steps(steps, "learning_rate", "Learning rate", lambda rate, _: f"{rate:.3g}", clock),
        _draw_steps(steps, "tokens_per_second", "Tokens per second", lambda rate, _: format_count(rate), clock),
        _draw_steps(steps, "hardware_share", "Share of the hardware's rate", _format_share, clock),
    ]


def _draw_steps(
    steps: Sequence[Row], key: str, title: str, form: Callable[[float, int | None], str], clock: _Clock
) -> Chart | None:
    points = _take_points(steps, "seconds", key, clock.seconds)
    if not _has_curve(points):
        return None
    figure, axes = _begin_chart()
    if key == "learning_rate":
        _plot_points(axes, points, _BLUE)
    else:
        _plot_steps(axes, points)
    _limit_values(axes, [value for _, value in points], from_zero=True)
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel(title.lower())
    axes.yaxis.set_major_formatter(FuncFormatter(form))
    return _finish_chart(figure, title, "")


def _choose_clock(rows: Sequence[Row]) -> _Clock:
    longest = max((row.get("seconds", 0.0) for row in rows), default=0.0)
    units = (_Clock("seconds", 1.0), 180.0), (_Clock("minutes", 60.0), 5 * 3600.0)
    return next((clock for clock, until in units if longest <= until), _Clock("hours", 3600.0))


def _mark_stages(axes: Axes, steps: Sequence[Row], across: str, unit: float = 1.0) -> str:
    """Draw a line where depth or length changed, and say what they became; a sentence about that, if they did."""
    stages: list[tuple[float, str]] = []
    for row in steps:
        shape = " × ".join(f"{row[key]:.0f}" for key in ("depth", "length") if key in row)
        if shape and across in row and (not stages or stages[-1][1] != shape):
            stages.append((row[across] / unit, shape))
    if not 2 <= len(stages) <= _MOST_STAGES:
        return ""
    left, right = axes.get_xlim()
    free_from = left
    for number, (position, shape) in enumerate(stages):
        if number:
            axes.axvline(position, color=_INK, alpha=0.3, linewidth=0.8)
        begin = max(position, left) if number else left  # the first stage began before its first recorded step
        if begin >= free_from:
            axes.text(begin, 1.015, shape, transform=axes.get_xaxis_transform(), fontsize=8.5)
            free_from = begin + (0.02 + 0.018 * len(shape)) * (right - left)
    return "Upright lines: a new stage, with its depth × length."


# Distillation.


def draw_distillation(
    steps: Sequence[Row], evaluations: Sequence[Row], depths: Mapping[str, str], losses: Mapping[str, str]
) -> list[Chart]:
    """Draw whatever the rows have numbers for.

    `depths` are names of depths with what their metrics end in, the deepest last; `losses` are names of the parts of
    the loss with their metrics.
    """
    evaluations = _thin(evaluations)
    clock = _choose_clock([*steps[-1:], *evaluations[-1:]])
    correlations = {
        "agreement": ("Agreement with the teacher", "Correlation of cosines between held-out texts, by passes."),
        "sts": ("Similarity of rated pairs", "Correlation of cosines with what people said, by passes."),
    }
    with _drawing():
        charts = [
            *(_draw_depths(steps, evaluations, key, *rest, depths, clock) for key, rest in correlations.items()),
            _draw_loss_parts(steps, losses, clock),
            *_draw_pace(steps, clock),
        ]
    return [chart for chart in charts if chart is not None]


def _draw_depths(
    steps: Sequence[Row],
    evaluations: Sequence[Row],
    metric: str,
    title: str,
    caption: str,
    depths: Mapping[str, str],
    clock: _Clock,
) -> Chart | None:
    """A held-out metric over time, with a line for each depth; of very many depths, some."""
    lines = {name: _take_points(evaluations, "seconds", metric + end, clock.seconds) for name, end in depths.items()}
    lines = {name: points for name, points in lines.items() if any(map(_is_known, points))}
    if not lines:
        return None
    if not any(map(_has_curve, lines.values())):
        return _excuse_chart(title, "evaluations")
    names = list(lines)
    if len(names) > _MOST_DEPTHS:
        names = [names[round(index * (len(names) - 1) / (_MOST_DEPTHS - 1))] for index in range(_MOST_DEPTHS)]
        caption += " Not all depths are drawn."
    figure, axes = _begin_chart()
    for name, color in zip(names, _spread_colors(len(names)), strict=True):
        _plot_points(axes, lines[name], color, name)
    _limit_metric(axes, [value for name in names for _, value in filter(_is_known, lines[name])])
    stages = _mark_stages(axes, steps, "seconds", clock.seconds)
    if len(names) > 1:
        _list_lines(axes, "passes")
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel("correlation")
    return _finish_chart(figure, title, f"{caption} {stages}".strip())


def _draw_loss_parts(steps: Sequence[Row], losses: Mapping[str, str], clock: _Clock) -> Chart | None:
    """The parts of the training loss over time and, if there are several, their sum."""
    lines = {name: _take_points(steps, "seconds", key, clock.seconds) for name, key in losses.items()}
    lines = {name: points for name, points in lines.items() if any(map(_is_known, points))}
    colors = _spread_colors(len(lines))
    total = _take_points(steps, "seconds", "loss", clock.seconds)
    if len(lines) != 1 and any(map(_is_known, total)):
        lines, colors = {**lines, "all": total}, [*colors, _INK]
    if not lines:
        return None
    title = "Training loss"
    if not any(map(_has_curve, lines.values())):
        return _excuse_chart(title, "steps")
    figure, axes = _begin_chart()
    is_smoothed = [
        _plot_steps(axes, points, name, color) for (name, points), color in zip(lines.items(), colors, strict=True)
    ]
    values = [value for points in lines.values() for _, value in filter(_is_known, points)]
    _limit_values(axes, values, from_zero=True)
    if min(values) > 0:
        _use_decades(axes, min(values))
    stages = _mark_stages(axes, steps, "seconds", clock.seconds)
    _list_lines(axes)
    axes.set_xlabel(f"{clock.name} of training")
    axes.set_ylabel("loss, as it is weighted")
    return _finish_chart(figure, title, " ".join(filter(None, [_SMOOTHED if any(is_smoothed) else "", stages])))


def _use_decades(axes: Axes, least: float) -> None:
    """Give equal ratios equal heights, down to the least value: small parts of a loss can be read beside large ones."""
    high = axes.get_ylim()[1]
    low = max(0.8 * least, high / 1e5)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _list_lines(axes: Axes, title: str = "") -> None:
    """Name the lines beside the axes, where none can run through a name; the last one, which lies on top, first."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title=title or None, reverse=True)


def _spread_colors(count: int) -> list[str]:
    """Mid-tones in order, from blue by red to orange; one alone is orange."""
    hues = [(27 - 172 * (count - 1 - index) / max(1, count - 1)) / 360 % 1 for index in range(count)]
    return [_name_color(*colorsys.hls_to_rgb(hue, 0.58, 0.72)) for hue in hues]


def _name_color(*shares: float) -> str:
    return "#" + "".join(f"{round(255 * share):02x}" for share in shares)


# Fine-tuning.


def draw_finetuning(
    steps: Sequence[Row], evaluations: Sequence[Row], metric: str, majority: float | None, name_of_majority: str
) -> list[Chart]:
    """The training loss and the metric on held-out examples by step, where there are numbers; dashed: the majority."""
    levels = {} if majority is None else {"majority": majority}
    caption = "On the development set." + (f" Dashed: {name_of_majority}." if levels else "")
    with _drawing():
        charts = [_draw_finetuning_loss(steps), _draw_metric(_thin(evaluations), metric, levels, caption)]
    return [chart for chart in charts if chart is not None]


def _draw_finetuning_loss(steps: Sequence[Row]) -> Chart | None:
    points = _take_points(steps, "step", "loss")
    if not any(map(_is_known, points)):
        return None
    if not _has_curve(points):
        return _excuse_chart("Training loss", "steps")
    figure, axes = _begin_chart()
    is_smoothed = _plot_steps(axes, points)
    # From zero only if that is near: a loss that falls a little must not look flat.
    known = [value for _, value in filter(_is_known, points)]
    _limit_values(axes, known, from_zero=min(known) < 0.5 * max(known))
    axes.set_xlabel("steps")
    axes.set_ylabel("training loss")
    _count_steps(axes)
    return _finish_chart(figure, "Training loss", _SMOOTHED if is_smoothed else "Each dot is a recorded step.")


def _draw_metric(evaluations: Sequence[Row], metric: str, levels: Mapping[str, float], caption: str) -> Chart | None:
    points = _take_points(evaluations, "step", metric)
    title = "Metric while training"
    if not any(map(_is_known, points)):
        return None
    if not _has_curve(points):
        return _excuse_chart(title, "evaluations")
    figure, axes = _begin_chart()
    _plot_points(axes, points, _ORANGE)
    _limit_metric(axes, [value for _, value in filter(_is_known, points)] + list(levels.values()))
    _mark_levels(axes, levels, lambda value: format_metric(metric, value))
    axes.set_xlabel("steps")
    axes.set_ylabel(_shorten(metric))
    _count_steps(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(metric, value)))
    return _finish_chart(figure, title, caption)


# What a kind of task tells about its predictions.


def draw_part(part: Histogram | Scatter | Calibration, number: int) -> Chart | None:
    """Draw a part of a section; nothing if it has no numbers. Of parts with the same title, `number` tells which."""
    with _drawing():
        if isinstance(part, Histogram):
            return _draw_histogram(part, number)
        return _draw_scatter(part, number) if isinstance(part, Scatter) else _draw_calibration(part, number)


def _draw_calibration(part: Calibration, number: int) -> Chart:
    figure, axes = _begin_chart()
    axes.plot([0, 1], [0, 1], color=_INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
    largest = max((count for _, _, count in part.bins), default=1)
    sizes = [15 + 165 * count / largest for _, _, count in part.bins]
    sure, right = [entry[0] for entry in part.bins], [entry[1] for entry in part.bins]
    axes.plot(sure, right, color=_BLUE, linewidth=1.2)
    axes.scatter(sure, right, s=sizes, color=_BLUE, alpha=0.75, linewidths=0, clip_on=False)
    axes.set(xlim=(0, 1.03), ylim=(-0.03, 1.05), xlabel="how sure the model was", ylabel="how often it was right")
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    return _finish_chart(figure, part.title, part.note, number)


def _draw_scatter(part: Scatter, number: int) -> Chart | None:
    """Points; of very many, some."""
    known = [point for point in part.points if all(map(math.isfinite, point))]
    if not known:
        return None
    shown = known[:: len(known) // _MOST_POINTS + 1]
    figure, axes = _begin_chart()
    low, high = min(map(min, known)), max(map(max, known))
    axes.plot([low, high], [low, high], color=_INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
    axes.scatter(*_split(shown), s=12, color=_BLUE, alpha=0.5, linewidths=0)
    axes.set(xlabel=_shorten(part.x_label), ylabel=_shorten(part.y_label))
    return _finish_chart(figure, part.title, part.note, number)


def _draw_histogram(part: Histogram, number: int) -> Chart | None:
    """Bars for one or two groups.

    A threshold far from all values would press them together: the caption says where it is instead.
    """
    known = {name: [value for value in values if math.isfinite(value)] for name, values in part.groups.items()}
    everything = sorted(value for values in known.values() for value in values)
    if not everything:
        return None
    # A few values far out would put all others into one bin.
    edge = len(everything) // 200
    low, high = everything[edge], everything[-1 - edge]
    low, high = (low, high) if high - low > 1e-12 * max(abs(low), abs(high)) else (low - 0.5, high + 0.5)
    threshold = part.threshold
    if threshold is not None and math.isfinite(threshold):
        low, high = (min(low, max(threshold, 2 * low - high)), max(high, min(threshold, 2 * high - low)))
    figure, axes = _begin_chart()
    for color, (name, values) in zip((_BLUE, _ORANGE), known.items(), strict=False):
        inside = [min(max(value, low), high) for value in values]
        axes.hist(inside, bins=_NUM_BINS, range=(low, high), color=color, alpha=0.5, label=_shorten(name))
    more = f" The {edge:,} least and the {edge:,} greatest are counted at the ends." if edge else ""
    if threshold is not None and not low <= threshold <= high:
        more += f" The threshold lies {'left' if threshold < low else 'right'} of the chart."
    elif threshold is not None:
        axes.axvline(threshold, color=_INK, alpha=0.7, linewidth=1.2, dashes=(4, 3), label="threshold")
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])  # room for the legend
    axes.legend(loc="best")
    axes.set(xlabel=_shorten(part.x_label), ylabel="examples")
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: format_count(count)))
    return _finish_chart(figure, part.title, part.note + more, number)


# A comparison.


def draw_comparison(bars: Sequence[Bar], metric: str, caption: str) -> Chart | None:
    """A bar for each value in the order given, from top to bottom; a thin line upon it shows its interval."""
    bars = bars[:_MOST_BARS]
    known = [value for bar in bars for value in (bar.value, bar.low, bar.high) if value is not None]
    if not known:
        return None
    with _drawing():
        figure, axes = _begin_chart(0.8 + 0.32 * len(bars))
        positions = range(len(bars))
        axes.barh(positions, [bar.value or 0.0 for bar in bars], height=0.62, color=_BLUE, alpha=0.8)
        width = max(known) - min(0.0, min(known))
        for position, bar in enumerate(bars):
            ends = [value for value in (bar.value, bar.low, bar.high) if value is not None]
            if bar.low is not None and bar.high is not None:
                axes.plot([bar.low, bar.high], [position] * 2, color=_INK, linewidth=1.4, marker="|", markersize=7)
            beside = max([0.0, *ends]) + 0.02 * (width or 1.0)
            axes.text(beside, position, format_metric(metric, bar.value), va="center", fontsize=9)
        axes.set_yticks(positions, [_shorten(bar.name) for bar in bars])
        axes.set_xlim(min(0.0, *known), max(0.0, *known) + 0.16 * (width or 1.0))
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.grid(False)
        axes.grid(True, axis="x")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(metric, value)))
        return _finish_chart(figure, "Side by side", caption)


# The lab.


def draw_spread(groups: Mapping[str, Sequence[float]], title: str, form: str, number: int = 0) -> Chart | None:
    """A row for each group, from top to bottom: a dot for each value, a bar at their mean; 0 need not be there."""
    shown = [(name, [value for value in values if math.isfinite(value)]) for name, values in groups.items()]
    shown = [(name, values) for name, values in shown if values][:_MOST_BARS]
    if not shown:
        return None
    with _drawing():
        figure, axes = _begin_chart(0.8 + 0.32 * len(shown))
        for position, (_, values) in enumerate(shown):
            mean = math.fsum(values) / len(values)
            axes.plot([mean] * 2, [position - 0.3, position + 0.3], color=_INK, linewidth=2)
            axes.plot(values, [position] * len(values), "o", color=_BLUE, alpha=0.75, markersize=5)
        axes.set_yticks(range(len(shown)), [_shorten(name) for name, _ in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.margins(x=0.06)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_as(form, value)))
        axes.grid(False)
        axes.grid(True, axis="x")
        return _finish_chart(figure, title, "Dots are seeds, the bar is their mean.", number)


def draw_lines(
    lines: Mapping[str, Sequence[Sequence[Sequence[float]]]], title: str, form: str, across: str, number: int = 0
) -> Chart | None:
    """A line for each name: the mean over its runs, with a band from the least to the most of them."""
    known = {name: [run for run in runs if len(run) > 1] for name, runs in lines.items()}
    known = {name: runs for name, runs in known.items() if runs}
    if not known:
        return None
    with _drawing():
        figure, axes = _begin_chart()
        for color, (name, runs) in zip(_spread_colors(len(known)), known.items(), strict=True):
            columns = list(zip(*runs, strict=False))  # the points that all runs have
            steps = [column[0][0] for column in columns]
            values = [[point[1] for point in column] for column in columns]
            means = [math.fsum(column) / len(column) for column in values]
            axes.plot(steps, means, color=color, label=_shorten(name), marker="o" if len(steps) <= _FEW else "", ms=3.5)
            if len(runs) > 1:
                axes.fill_between(steps, [*map(min, values)], [*map(max, values)], color=color, alpha=0.15, linewidth=0)
        axes.set_xlabel(across)
        _count_steps(axes)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_as(form, value)))
        _list_lines(axes)
        return _finish_chart(figure, title, "Means over seeds; the bands reach from the least to the most.", number)


def _format_as(form: str, value: float) -> str:
    match form:
        case "percent":
            return _format_share(value)
        case "count":
            return format_count(value)
        case _:
            return f"{value:.3g}"


# What all charts share.


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """The settings that charts are drawn with; a reader's own would make another report of the same run."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The reader's browser chooses fonts; that those here lack a character does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _thin(rows: Sequence[Row]) -> list[Row]:
    every = len(rows) // _MOST_POINTS + 1
    return [*rows[:-1:every], *rows[-1:]]


def _take_points(rows: Sequence[Row], across: str, key: str, unit: float = 1.0) -> Points:
    """Points of a line; a value that was no number makes a gap, one that no row has makes no line."""
    if not any(key in row for row in rows):
        return []
    return [(row[across] / unit, row.get(key, math.nan)) for row in rows if across in row]


def _split(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _is_known(point: tuple[float, float]) -> bool:
    return math.isfinite(point[1])


def _has_curve(points: Points) -> bool:
    """Whether there are two values at least: a chart of a single one shows nothing that a figure does not."""
    return sum(map(_is_known, points)) > 1


def _excuse_chart(title: str, what: str) -> Chart:
    """What stands in the place of a chart that there are too few steps or evaluations for."""
    return Chart(title, f"Too few {what} for a curve.", "")


def _begin_chart(height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    """An empty drawing as wide as all of them; the height is in inches."""
    figure = Figure(figsize=(_SIZE[0], height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    return figure, axes


def _count_steps(axes: Axes) -> None:
    """Let the axis below count steps or tokens, of which there are no halves."""
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: format_count(count)))


def _plot_points(axes: Axes, points: Points, color: str, label: str = "") -> None:
    """Draw a line through points; a few of them get a dot each."""
    marker = "o" if len(points) <= _FEW else ""
    axes.plot(*_split(points), color=color, label=label, marker=marker, markersize=3.5, clip_on=marker == "")


def _plot_steps(axes: Axes, points: Points, label: str = "", color: str = _BLUE) -> bool:
    """Draw points that scatter as a thin line, and a smoothed one upon it; a few as they are. Whether it smoothed."""
    if len(points) <= _FEW:
        _plot_points(axes, points, color, label)
        return False
    across, values = _split(points)
    axes.plot(across, values, color=color, alpha=0.35, linewidth=0.7)
    axes.plot(across, _smooth(values), color=color, label=label)
    return True


def _smooth(values: Sequence[float]) -> list[float]:
    """Average each value with its neighbours, a fortieth of them all; those that are no number are left out."""
    reach = max(2, len(values) // 80)
    averages = []
    for index in range(len(values)):
        near = [value for value in values[max(0, index - reach) : index + reach + 1] if math.isfinite(value)]
        averages.append(math.fsum(near) / len(near) if near else math.nan)
    return averages


def _limit_values(axes: Axes, values: list[float], from_zero: bool) -> None:
    """Show all values; of many, not the few that are so far out that the others would lie flat on the ground."""
    known = sorted(filter(math.isfinite, values))
    usual = known[-1] if len(known) <= _FEW else known[int(0.98 * (len(known) - 1))]
    high = known[-1] if known[-1] <= 3 * usual else 1.5 * usual
    low = min(0.0, known[0]) if from_zero else known[0]
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low if from_zero else low - margin, high + margin)


def _limit_metric(axes: Axes, values: list[float]) -> None:
    """Show all values of a metric, with a little room around them."""
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    axes.set_ylim(low - margin, high + margin)


def _mark_levels(axes: Axes, levels: Mapping[str, float], form: Callable[[float], str]) -> None:
    """Draw a dashed line for each, with its name beside the axes, where no curve can run through it."""
    low, high = axes.get_ylim()
    free_from = low
    for name, value in sorted(levels.items(), key=lambda level: level[1]):
        axes.axhline(value, color=_INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
        free_from = max(value, free_from)
        across = axes.get_yaxis_transform()
        axes.text(1.01, free_from, f"{name}\n{form(value)}", transform=across, va="center", fontsize=9)
        free_from += 0.16 * (high - low)  # two lines of text


def _shorten(name: str) -> str:
    """A name that a chart can show: not too long, and without what has no shape."""
    clean = "".join(letter if letter.isprintable() else " " for letter in name)
    return clean if len(clean) <= _LONGEST_NAME else clean[: _LONGEST_NAME - 1] + "…"


def _format_share(share: float, _: int | None = None) -> str:
    """A share in percent, as axes show it."""
    return f"{100 * share:.3g} %"


def _format_tick(metric: str, value: float) -> str:
    """A metric on an axis, where `90 %` needs no decimals."""
    return format_metric(metric, value).replace(".0 %", " %")


def _finish_chart(figure: Figure, title: str, caption: str, number: int = 0) -> Chart:
    """Write the drawing as part of a page: no header, no date, and ids that no other drawing has."""
    name = re.sub(r"[^a-z]+", "-", title.lower()) + (f"-{number}" if number else "")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'(\bid="|\burl\(#|\bhref="#)', rf"\1{name}-", svg).replace(_INK, "currentColor")
    label = html.escape(title)
    size = re.sub(r'<svg width="[^"]*" height="[^"]*"', lambda _: f'<svg role="img" aria-label="{label}"', svg, count=1)
    return Chart(title, caption, size.strip())
