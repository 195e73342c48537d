"""Pages of the lab: a table or figure with the paper's values beside it, verdicts and plots; and a list of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.reports.page import importing_charts, render, write_page
from litebert.tasks.sections import Table

__all__ = ["IndexEntry", "LabPage", "PlotView", "write_index", "write_lab_page"]

Line = Sequence[tuple[float, ...]]


@dataclass(frozen=True)
class PlotView:
    """Numbers to draw: `groups` of values, one a seed; or `lines` of points, one a seed."""

    kind: str
    title: str
    form: str
    groups: Mapping[str, Sequence[float]]
    lines: Mapping[str, Sequence[Line]]


@dataclass(frozen=True)
class LabPage:
    """What a page says."""

    title: str
    about: str
    setting: str
    table: Table
    verdicts: Sequence[tuple[str, str, str]]
    """A claim, its outcome, and the outcome in a sentence."""
    plots: Sequence[PlotView]
    origin: Sequence[str] = ()
    """On what it was measured, from which text, where: sentences."""
    command: str = ""
    """That repeats it."""
    files: Sequence[str] = ()
    """Beside the page, with the same numbers."""


@dataclass(frozen=True)
class IndexEntry:
    """A line of the list: how large the experiment was, and how many findings hold, do not, and are open."""

    name: str
    title: str
    setting: str
    outcomes: Mapping[str, int]


def write_lab_page(path: Path, page: LabPage) -> Path:
    """Write the page of an experiment, whole or not at all."""
    with importing_charts():
        from litebert.reports.charts import draw_lines, draw_spread
    charts = []
    for number, plot in enumerate(page.plots, start=1):
        if plot.kind == "spread":
            chart = draw_spread(plot.groups, plot.title, plot.form, number)
        else:
            chart = draw_lines(plot.lines, plot.title, plot.form, "layer" if plot.kind == "layers" else "step", number)
        if chart is not None:
            charts.append(chart)
    return write_page(path, render("lab.html", title=page.title, page=page, charts=charts))


def write_index(path: Path, pages: Sequence[IndexEntry]) -> Path:
    """Write the page that leads to all others."""
    return write_page(path, render("lab_index.html", title="The lab", pages=pages))
