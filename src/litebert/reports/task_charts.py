"""Charts of a fine-tuning run and of a comparison, drawn with what all charts share (`litebert.reports.charts`)."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from litebert.quantities import format_count
from litebert.reports.charts import (
    BLUE,
    INK,
    ORANGE,
    Chart,
    begin_chart,
    count_steps,
    drawing,
    excuse_chart,
    finish_chart,
    has_curve,
    is_known,
    limit_values,
    mark_levels,
    plot_noisy,
    plot_points,
    take_points,
)
from litebert.reports.page import format_score

__all__ = ["Bar", "draw_calibration", "draw_comparison", "draw_histograms", "draw_scatter", "draw_training"]

Row = Mapping[str, float]
Bar = tuple[str, float | None, float | None, float | None]
"""A name, its score, and the lowest and the highest score if there were several."""

_MOST_DOTS = 2000
_MOST_BARS = 60
_NUM_BINS = 30
_LONGEST_NAME = 28


def draw_training(
    steps: Sequence[Row], evaluations: Sequence[Row], score: str, levels: Mapping[str, float]
) -> list[Chart]:
    """The training loss and the score on held-out examples by step, where there are numbers; levels are dashed."""
    with drawing():
        charts = [_draw_loss(steps), _draw_score(evaluations, score, levels)]
    return [chart for chart in charts if chart is not None]


def _draw_loss(steps: Sequence[Row]) -> Chart | None:
    points = take_points(steps, "step", "loss")
    if not any(map(is_known, points)):
        return None
    if not has_curve(points):
        return excuse_chart("Training loss", "steps")
    figure, axes = begin_chart()
    plot_noisy(axes, points)
    limit_values(axes, [value for _, value in points], from_zero=True)
    axes.set_xlabel("steps")
    axes.set_ylabel("training loss")
    count_steps(axes)
    return finish_chart(figure, "Training loss", "The thin line is what single steps gave, the thick one is smoothed.")


def _draw_score(evaluations: Sequence[Row], score: str, levels: Mapping[str, float]) -> Chart | None:
    every = len(evaluations) // _MOST_DOTS + 1
    points = take_points([*evaluations[:-1:every], *evaluations[-1:]], "step", score)
    if not any(map(is_known, points)):
        return None
    if not has_curve(points):
        return excuse_chart("Score while training", "evaluations")
    figure, axes = begin_chart()
    plot_points(axes, points, ORANGE)
    values = [value for _, value in filter(is_known, points)] + list(levels.values())
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    axes.set_ylim(low - margin, high + margin)
    mark_levels(axes, levels, lambda value: format_score(score, value))
    axes.set_xlabel("steps")
    axes.set_ylabel(score)
    count_steps(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(score, value)))
    caption = "On the development set." + (" Dashed: the most frequent answer alone." if levels else "")
    return finish_chart(figure, "Score while training", caption)


def draw_calibration(bins: Sequence[tuple[float, float, int]], caption: str) -> Chart:
    """How often answers are right against how sure the model was: (mean sureness, share right, count) of each bin."""
    with drawing():
        figure, axes = begin_chart()
        axes.plot([0, 1], [0, 1], color=INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
        largest = max((count for _, _, count in bins), default=1)
        sizes = [15 + 165 * count / largest for _, _, count in bins]
        sure, right = [entry[0] for entry in bins], [entry[1] for entry in bins]
        axes.plot(sure, right, color=BLUE, linewidth=1.2)
        axes.scatter(sure, right, s=sizes, color=BLUE, alpha=0.75, linewidths=0)
        axes.set(xlim=(0, 1.03), ylim=(-0.03, 1.05), xlabel="how sure the model was", ylabel="how often it was right")
        axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        return finish_chart(figure, "Calibration", caption)


def draw_scatter(points: Sequence[tuple[float, float]], caption: str) -> Chart | None:
    """Predicted scores against given ones; of very many points, some."""
    known = [point for point in points if all(map(math.isfinite, point))]
    if not known:
        return None
    shown = known[:: len(known) // _MOST_DOTS + 1]
    with drawing():
        figure, axes = begin_chart()
        low, high = min(map(min, known)), max(map(max, known))
        axes.plot([low, high], [low, high], color=INK, alpha=0.55, linewidth=1.0, dashes=(4, 3))
        places, values = [given for given, _ in shown], [predicted for _, predicted in shown]
        axes.scatter(places, values, s=12, color=BLUE, alpha=0.5, linewidths=0)
        axes.set(xlabel="given", ylabel="predicted")
        return finish_chart(figure, "Predicted against given scores", caption)


def draw_histograms(
    title: str, groups: Mapping[str, Sequence[float]], across: str, caption: str, threshold: float | None = None
) -> Chart | None:
    """How often values occur, for one or two groups of them; a threshold is an upright dashed line.

    A threshold far from all values would press them together: the caption says where it is instead.
    """
    known = {name: [value for value in values if math.isfinite(value)] for name, values in groups.items()}
    everything = sorted(value for values in known.values() for value in values)
    if not everything:
        return None
    # A few values far out would put all others into one bin.
    edge = len(everything) // 200
    low, high = everything[edge], everything[-1 - edge]
    low, high = (low, high) if high - low > 1e-12 * max(abs(low), abs(high)) else (low - 0.5, high + 0.5)
    if threshold is not None and math.isfinite(threshold):
        low, high = (min(low, max(threshold, 2 * low - high)), max(high, min(threshold, 2 * high - low)))
    with drawing():
        figure, axes = begin_chart()
        for color, (name, values) in zip((BLUE, ORANGE), known.items(), strict=False):
            inside = [min(max(value, low), high) for value in values]
            axes.hist(inside, bins=_NUM_BINS, range=(low, high), color=color, alpha=0.5, label=name)
        more = f" The {edge:,} least and the {edge:,} greatest are counted at the ends." if edge else ""
        if threshold is not None and not low <= threshold <= high:
            more += f" The threshold lies {'left' if threshold < low else 'right'} of the chart."
        elif threshold is not None:
            axes.axvline(threshold, color=INK, alpha=0.7, linewidth=1.2, dashes=(4, 3), label="threshold")
        axes.legend(loc="best")
        axes.set(xlabel=across, ylabel="examples")
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: format_count(count)))
        return finish_chart(figure, title, caption + more)


def draw_comparison(bars: Sequence[Bar], score: str) -> Chart | None:
    """A bar for each score in the order given, from top to bottom; the spread over seeds is a thin line upon it."""
    bars = bars[:_MOST_BARS]
    known = [value for _, *values in bars for value in values if value is not None]
    if not known:
        return None
    with drawing():
        figure, axes = begin_chart(0.8 + 0.32 * len(bars))
        places = range(len(bars))
        axes.barh(places, [middle or 0.0 for _, middle, _, _ in bars], height=0.62, color=BLUE, alpha=0.8)
        width = max(known) - min(0.0, min(known))
        for place, (_, middle, least, most) in enumerate(bars):
            ends = [value for value in (middle, least, most) if value is not None]
            if least is not None and most is not None:
                axes.plot([least, most], [place, place], color=INK, linewidth=1.4, marker="|", markersize=7)
            at = max([0.0, *ends]) + 0.02 * (width or 1.0)
            axes.text(at, place, format_score(score, middle), va="center", fontsize=9)
        axes.set_yticks(places, [_shorten(name) for name, *_ in bars])
        axes.set_xlim(min(0.0, *known), max(0.0, *known) + 0.16 * (width or 1.0))
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.grid(False)
        axes.grid(True, axis="x")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_tick(score, value)))
        spread = any(least is not None for _, _, least, _ in bars)
        return finish_chart(
            figure, "Scores side by side", "The thin lines reach from the lowest to the highest seed." if spread else ""
        )


def _format_tick(score: str, value: float) -> str:
    """A score on an axis, where `90 %` needs no decimals."""
    return format_score(score, value).replace(".0 %", " %")


def _shorten(name: str) -> str:
    clean = "".join(letter if letter.isprintable() else " " for letter in name)
    return clean if len(clean) <= _LONGEST_NAME else clean[: _LONGEST_NAME - 1] + "…"
