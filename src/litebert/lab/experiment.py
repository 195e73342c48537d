"""An experiment is data: its cells, what varies, what is measured, the paper's numbers, and what to look for.

Those of the paper lie in `experiments/` as TOML; one of your own is a file like these. Shapes come from presets, which
a scale shrinks (`litebert.lab.scales`); settings are those of `litebert pretrain --set`, taken as they are.
"""

import difflib
import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from litebert.config import explain
from litebert.errors import RequestError
from litebert.folders import read_text
from litebert.training.settings import merge_settings, read_settings

__all__ = [
    "CURVES",
    "FACTS",
    "METRICS",
    "Cell",
    "Column",
    "Experiment",
    "Finding",
    "Plot",
    "list_experiments",
    "open_experiment",
]

Measure = Literal["masked", "probes", "tasks", "layers"]
PaperValues = dict[str, float | str]
FACTS = (
    *("steps", "seconds_per_step", "tokens_per_second"),
    *("parameters", "num_layers", "hidden_size", "embedding_size", "sharing"),
)
"""What is known of every cell."""
METRICS: dict[Measure, tuple[str, ...]] = {
    "masked": ("mlm_accuracy", "mlm_loss", "sentence_accuracy"),
    "probes": ("nsp_probe", "sop_probe"),
    "tasks": ("tasks",),
    "layers": ("distance_variation", "angle_variation", "last_distance", "last_angle"),
}
"""What each measure finds; of tasks also task_NAME for each of them."""
CURVES: dict[str, tuple[str, ...]] = {
    "curves": ("curve_mlm_accuracy", "curve_sop_accuracy"),
    "layers": ("distance", "angle"),
}
"""Rows of numbers that a kind of plot can draw."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Cell(_Record):
    """One way to pretrain, run once for each seed."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    preset: str | None = None
    """A name of `litebert models`, if not the experiment's; the scale shrinks it."""
    settings: dict[str, Any] = {}
    """Settings over the experiment's, by dotted names or nested; not shrunk."""
    begin_from: str | None = None
    """The cell whose final weights this one begins with."""
    steps: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Steps, in those of the scale."""
    batch: Annotated[float, Field(gt=0, le=1024)] = 1.0
    """Rows of a step, in those of the scale."""
    equal_time: str | None = None
    """Run for the steps that take as long as those of this cell."""
    more_text: bool = False
    """Read the larger corpus."""
    paper: PaperValues = {}
    """What the paper's row says, by the title of the column."""


class Column(_Record):
    """A column of the table."""

    metric: str
    title: str
    form: Literal["percent", "count", "whole", "number", "times", "text"] = "percent"


class Finding(_Record):
    """Something to look for: a sum of cells with weights, minus a constant, lies above a border or within one.

    `exact` instead holds every cell's metric against the paper's value in the column of that metric; with `within`,
    such a share of it may be missing.
    """

    claim: str
    metric: str
    contrast: dict[str, float] = {}
    minus: float = 0.0
    above: float | None = None
    within: Annotated[float | None, Field(gt=0)] = None
    exact: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Finding":
        if not self.exact and (self.above is None) == (self.within is None):
            raise ValueError("a finding needs one of above and within")
        if not self.exact and not self.contrast:
            raise ValueError("a finding needs a contrast: cells with their weights")
        return self


class Plot(_Record):
    """A picture: a metric of each cell with all seeds, or curves by step or by layer."""

    kind: Literal["spread", "curves", "layers"]
    metric: str
    title: str
    form: Literal["percent", "count", "number", "times"] = "percent"


class Experiment(_Record):
    """A table or a figure."""

    title: str
    about: str
    """What the paper found, or what you want to know."""
    preset: str = "albert-base"
    scale: str | None = None
    """The only scale at which it makes sense, if there is one."""
    trains: bool = True
    """Whether cells are trained at all, or only described."""
    settings: dict[str, Any] = {}
    small_settings: dict[str, Any] = {}
    """More settings, at every scale but the paper's: what it takes to see something in so little time."""
    vary: dict[str, list[Any]] = {}
    """Settings by dotted names, with the values that they take: all combinations are cells."""
    cells: list[Cell] = []
    measures: list[Measure] = ["masked"]
    columns: list[Column] = []
    findings: list[Finding] = []
    plots: list[Plot] = []

    @model_validator(mode="after")
    def _fits_together(self) -> "Experiment":
        names = [cell.name for cell in self.all_cells()]
        if not names:
            raise ValueError("an experiment needs cells, or settings to vary")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two cells are called {twice[0]!r}")
        for cell in self.all_cells():
            for other in filter(None, (cell.begin_from, cell.equal_time)):
                if other not in names[: names.index(cell.name)] and other == cell.begin_from:
                    raise ValueError(f"{cell.name!r} begins from {other!r}, which is no cell before it")
                if other not in names:
                    raise ValueError(f"{cell.name!r} names {other!r}, which is no cell")
        for finding in self.findings:
            if unknown := [name for name in finding.contrast if name not in names]:
                known = ", ".join(map(repr, names))
                raise ValueError(
                    f"the finding {finding.claim!r} names {unknown[0]!r}, which is no cell: the cells are {known}"
                )
        self._check_metrics()
        return self

    def _check_metrics(self) -> None:
        """Refuse what nobody measures: its column would stay empty."""
        single = [column.metric for column in self.columns] + [finding.metric for finding in self.findings]
        single += [plot.metric for plot in self.plots if plot.kind == "spread"]
        for metric in single:
            self._check_metric(metric)
        for plot in self.plots:
            if plot.kind != "spread" and plot.metric not in CURVES[plot.kind]:
                raise ValueError(f"{plot.kind} of {plot.metric!r} cannot be drawn: only of {_join(CURVES[plot.kind])}")
            if plot.kind == "layers" and "layers" not in self.measures:
                raise ValueError(f'the plot of {plot.metric!r} needs "layers" in measures')

    def _check_metric(self, metric: str) -> None:
        if metric in FACTS:
            return
        for measure, found in METRICS.items():
            if metric in found or (measure == "tasks" and metric.startswith("task_")):
                if measure not in self.measures:
                    raise ValueError(f'{metric!r} needs "{measure}" in measures')
                return
        known = [*FACTS, *(name for found in METRICS.values() for name in found)]
        raise ValueError(f"there is no metric {metric!r}{_guess(metric, known)}")

    def all_cells(self) -> list[Cell]:
        """Those that are listed, then the combinations of what varies."""
        return [*self.cells, *_combine(self.vary)]

    def settings_of(self, cell: Cell, is_small: bool = True) -> dict[str, Any]:
        """Settings of a cell over those of the experiment, nested."""
        small = _nest(self.small_settings) if is_small else {}
        return merge_settings(merge_settings(_nest(self.settings), small), _nest(cell.settings))


def _join(names: Sequence[str]) -> str:
    return " and ".join(names)


def _guess(name: str, known: Sequence[str]) -> str:
    """End the sentence about a name that does not exist.

    >>> _guess("mlm_acuracy", ["mlm_loss", "mlm_accuracy"]), _guess("x", ["ab", "cd"])
    (': did you mean mlm_accuracy?', ': choose from ab, cd')
    """
    near = difflib.get_close_matches(name, known, 1)
    return f": did you mean {near[0]}?" if near else f": choose from {', '.join(known)}"


def _combine(vary: Mapping[str, Sequence[Any]]) -> Iterator[Cell]:
    """A cell for each combination, named after it.

    >>> [cell.name for cell in _combine({"train.optim.lr": [0.001, 0.002], "model.sharing": ["all"]})]
    ['lr 0.001, sharing all', 'lr 0.002, sharing all']
    """
    if not vary:
        return
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        name = ", ".join(f"{setting.rpartition('.')[2]} {value}" for setting, value in chosen.items())
        yield Cell(name=name, settings=chosen)


def _nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested settings; what is nested already stays so."""
    return read_settings(options=settings)


def list_experiments() -> dict[str, Experiment]:
    """The paper's, by name, in its order."""
    folder = resources.files("litebert.lab") / "experiments"
    files = {entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.name.endswith(".toml")}
    ordered = sorted(files, key=lambda name: (name.startswith("figure"), len(name), name))
    return {name: _parse(files[name].read_text(encoding="utf-8"), name) for name in ordered}


def open_experiment(name: str) -> tuple[str, Experiment]:
    """One of the paper's by its name, or your own by its file; its short name goes with it."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise RequestError(f"there is no file {name}: name a grid of your own, or one of `litebert lab list`")
        return path.stem, _parse(read_text(path), name)
    known = list_experiments()
    if name not in known:
        raise RequestError(f"there is no experiment {name!r}: choose from {', '.join(known)}, or name a .toml file")
    return name, known[name]


def _parse(text: str, name: str) -> Experiment:
    try:
        return Experiment.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{name} is no TOML: {error}") from None
    except ValidationError as error:
        first, guess = error.errors()[0], ""
        if first["type"] == "extra_forbidden":
            guess = _guess(str(first["loc"][-1]), _fields_at(first["loc"]))
        raise RequestError(f"{name}: {explain(error)}{guess}") from None


def _fields_at(place: tuple[int | str, ...]) -> list[str]:
    """What the record at a place of the file can have: `cells.3.colour` is about what a cell has."""
    parts: dict[str, type[_Record]] = {"cells": Cell, "columns": Column, "findings": Finding, "plots": Plot}
    record = Experiment if len(place) == 1 else parts.get(str(place[0]), Experiment)
    return list(record.model_fields)
