"""The page of a comparison of compressed models: how large, how fast and how good each of them is, as bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from litebert.quantities import format_bytes, format_count
from litebert.reports.page import render, write_page
from litebert.tasks.sections import format_metric

__all__ = ["Measured", "render_compression", "write_compression"]


@dataclass(frozen=True)
class Measured:
    """A model in figures; the first of a page is the original."""

    name: str
    parameters: int
    weight_bytes: int
    texts_per_second: float
    speed: float
    """Texts per second, in those of the original."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What was measured on tasks, by the name of a task and its metric: "STS-B pearson"."""


def render_compression(title: str, models: Sequence[Measured], summary: str) -> str:
    """Make the page; the same figures give the same bytes."""
    sizes = {model.name: model.weight_bytes for model in models}
    speeds = {model.name: model.texts_per_second for model in models}
    ratios = {model.name: model.speed for model in models}
    measures = [
        _draw(
            "Weights on disk",
            sizes,
            {
                model.name: f"{format_bytes(model.weight_bytes)}, {format_count(model.parameters)} parameters"
                for model in models
            },
        ),
        _draw("Texts per second", speeds, {name: f"{speeds[name]:,.0f}, {ratios[name]:.2f} ×" for name in speeds}),
    ]
    for metric in dict.fromkeys(name for model in models for name in model.metrics):
        values = {model.name: model.metrics[metric] for model in models if metric in model.metrics}
        shown = {name: format_metric(metric.rpartition(" ")[2], value) for name, value in values.items()}
        measures.append(_draw(metric, values, shown))
    return render("compression.html", title=title, summary=summary, measures=measures)


def _draw(title: str, values: Mapping[str, float], shown: Mapping[str, str]) -> dict[str, object]:
    """Bars as long as their values, the longest as wide as the page."""
    most = max([*values.values(), 0.0]) or 1.0
    bars = [
        {"name": name, "shown": shown[name], "width": round(100 * max(0.0, value) / most, 1), "is_first": not number}
        for number, (name, value) in enumerate(values.items())
    ]
    return {"title": title, "bars": bars}


def write_compression(out: Path, title: str, models: Sequence[Measured], summary: str) -> Path:
    """Write the page, whole or not at all."""
    return write_page(out, render_compression(title, models, summary))
