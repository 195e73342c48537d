"""The grid runner: the cells of some experiments, each for several seeds, into one folder; killed, it goes on.

    lab/grid.json            scale, steps, corpus, pace of each shape: what all cells have in common
    lab/cells/KEY/seed-0/    a pretraining run, and result.json with what was measured
    lab/table4/              results.json, table.md, table.csv, report.html

A cell is known by a hash of all that decides about it, so that tables share the cells that they have in common. Seeds
come one after the other, with all cells for each, so that noise of the machine falls on all of them alike.
"""

import hashlib
import json
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.folders import MANIFEST, hash_file, lock_folder, read_json, write_json
from litebert.lab.cell import CellRun, CellStatus, is_measured, run_cell
from litebert.lab.experiment import Cell, Experiment
from litebert.lab.scales import Scale, find_scale
from litebert.lab.workers import open_workers
from litebert.model.cost import count_encoder_parameters, training_flops, training_memory
from litebert.pretraining.config import PretrainConfig
from litebert.training.monitoring import watching_signals
from litebert.training.settings import apply_settings

__all__ = [
    "Grid",
    "GridEvent",
    "GridOptions",
    "GridResult",
    "PlannedCell",
    "describe_cell",
    "plan_grid",
    "read_settled",
    "run_grid",
]

GRID, CELLS = "grid.json", "cells"
_SECONDS_BETWEEN_LOOKS = 0.5
_LEAST_STEPS = 20
_MEASURING = 8.0  # seconds of a cell that are not training, about
_PACE_ROUNDS = 3
_LONGEST_TRIAL = 10.0  # seconds of a step that is tried to see how long steps take


@dataclass(frozen=True)
class GridOptions:
    """What a user may choose about a grid."""

    corpus: Path
    more_text: Path | None = None
    tasks: tuple[str, ...] = ()
    scale: str = "nano"
    seeds: int = 3
    steps: int | None = None
    budget: float | None = None
    """Seconds for the whole grid, from which the number of steps follows."""
    workers: int = 1
    threads: int = 1
    scheduler: str | None = None


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its configuration, the same for all seeds."""

    key: str
    name: str
    """The first experiment that has it, and what it is called there."""
    config: PretrainConfig
    corpus: Path
    measures: tuple[str, ...]
    parent: str | None
    """The key of the cell whose weights it begins with."""
    seconds: float | None = None
    """Planned, of one seed."""

    @property
    def memory(self) -> int:
        """Bytes that the process will need, about."""
        train, length = self.config.train, self.config.stream.length
        rows = min(train.batch_size, train.micro_batch_size or train.batch_size)
        return training_memory(self.config.model, rows, length).process

    @property
    def operations(self) -> float:
        """Of its training, on one seed."""
        train, length = self.config.train, self.config.stream.length
        assert train.steps is not None
        return training_flops(self.config.model, length) * train.steps * train.batch_size * length


@dataclass(frozen=True)
class Grid:
    """Experiments, their cells without repetition, and which cell of an experiment is which of them."""

    folder: Path
    options: GridOptions
    steps: int
    experiments: dict[str, Experiment]
    cells: list[PlannedCell]
    keys: dict[str, dict[str, str]]
    """For each experiment, the key of each of its cells."""
    pace: dict[str, float] = field(default_factory=dict)
    """Seconds of a step, by the shape that takes them."""

    def cell(self, key: str) -> PlannedCell:
        """A cell by its key."""
        return next(cell for cell in self.cells if cell.key == key)

    def folder_of(self, key: str, seed: int) -> Path:
        """Where a cell lies."""
        return self.folder / CELLS / key / f"seed-{seed}"


@dataclass(frozen=True)
class GridEvent:
    """What a callback is told when a cell has ended or begun."""

    done: float
    """Share of all operations."""
    message: str


@dataclass(frozen=True)
class GridResult:
    """How a call ended: which cells failed and why, and whether somebody stopped it."""

    folder: Path
    done: int
    total: int
    failures: dict[str, str]
    interrupted: bool = False


# --- the plan -------------------------------------------------------------------------------------------------------


def plan_grid(
    experiments: dict[str, Experiment],
    folder: Path,
    options: GridOptions,
    pace: bool = False,
    vocab_size: int | None = None,
    on_message: Callable[[str], None] = lambda message: None,
) -> Grid:
    """Work out all cells; with `pace`, or where something depends on it, measure how long a step of each shape takes.

    What an earlier call wrote into the folder stands: the scale, the steps, the corpus. `vocab_size` is that of a
    corpus that is not there yet.
    """
    scale = find_scale(options.scale)
    known = read_settled(folder, options)
    trained = {name: one for name, one in experiments.items() if one.trains}
    measured: dict[str, float] = dict(known.get("pace", {}))
    steps = options.steps or known.get("steps") or scale.steps
    needs_pace = options.budget is not None and "steps" not in known
    needs_pace = needs_pace or pace or any(_looks_at_pace(one) for one in trained.values())
    vocab_size = vocab_size or (_read_vocab_size(options.corpus) if trained else scale.vocab_size)
    plan = _Planner(scale, options, trained, vocab_size)
    if needs_pace:
        shapes = plan.list_shapes()
        missing = {key: config for key, config in shapes.items() if key not in measured}
        if missing:
            measured |= _measure_pace(missing, options.threads, on_message)
    if options.budget is not None and "steps" not in known:
        steps = plan.fit_steps(options.budget, measured)
    cells, keys = plan.make_cells(steps, measured)
    for name, one in experiments.items():
        if not one.trains:
            keys[name] = {cell.name: "" for cell in one.all_cells()}
    return Grid(folder, options, steps, experiments, cells, keys, measured)


def _looks_at_pace(experiment: Experiment) -> bool:
    """Whether the speed of steps is shown, or decides about their number."""
    metrics = {column.metric for column in experiment.columns}
    return bool(metrics & {"tokens_per_second", "seconds_per_step"}) or any(
        cell.equal_time for cell in experiment.all_cells()
    )


def read_settled(folder: Path, options: GridOptions) -> dict[str, Any]:
    """What a grid that was begun in the folder has settled; other wishes are refused."""
    path = folder / GRID
    if not path.is_file():
        return {}
    known = read_json(path)
    wanted = {"scale": options.scale, "steps": options.steps, "corpus": _hash_corpus(options.corpus)}
    for name, value in wanted.items():
        if value is not None and name in known and known[name] != value:
            was = "another corpus" if name == "corpus" else f"{name} {known[name]}"
            raise RequestError(f"{folder} holds a grid with {was}: repeat it, or choose another --out")
    return known


def _hash_corpus(corpus: Path) -> str | None:
    return hash_file(corpus / MANIFEST) if (corpus / MANIFEST).is_file() else None


def _read_vocab_size(corpus: Path) -> int:
    from litebert.corpus.corpus import Corpus

    return Corpus.open(corpus, verify=False).tokenizer.vocab_size


class _Planner:
    """From experiments to cells."""

    def __init__(self, scale: Scale, options: GridOptions, experiments: dict[str, Experiment], vocab_size: int) -> None:
        self.scale, self.options, self.experiments, self.vocab_size = scale, options, experiments, vocab_size

    def configure(self, experiment: Experiment, cell: Cell) -> PretrainConfig:
        """A cell's configuration, with the steps of the scale."""
        shape = self.scale.shape(cell.preset or experiment.preset, self.vocab_size)
        settings = experiment.settings_of(cell, self.scale.shrinks)
        if isinstance(settings.get("model"), dict):
            shape = apply_settings(shape, settings["model"])
        base = self.scale.run(shape)
        rows = max(1, round(base.train.batch_size * cell.batch))
        base = base.model_copy(update={"train": base.train.model_copy(update={"batch_size": rows})})
        config = apply_settings(base, settings)
        if config.train.steps is None:
            raise RequestError(f"{cell.name}: cells run for a number of steps, not for a time")
        return config

    def list_shapes(self) -> dict[str, PretrainConfig]:
        """Every shape that takes a time of its own."""
        found = {}
        for experiment in self.experiments.values():
            for cell in experiment.all_cells():
                config = self.configure(experiment, cell)
                found[_shape_key(config)] = config
        return found

    def fit_steps(self, seconds: float, pace: dict[str, float]) -> int:
        """The number of steps with which all cells, for all seeds, take about so long."""
        cells, _ = self.make_cells(1000, pace)
        fixed = len(cells) * _MEASURING * self.options.seeds
        training = sum((cell.seconds or 0.0) - _MEASURING for cell in cells) * self.options.seeds
        left = seconds * max(1, self.options.workers) - fixed
        steps = int(1000 * left / max(training, 1e-9) / 10) * 10
        if steps < _LEAST_STEPS:
            least = (fixed + training * _LEAST_STEPS / 1000) / max(1, self.options.workers)
            raise RequestError(f"so short a --budget leaves no steps to {len(cells)} cells: give it {least:.0f}s")
        return steps

    def make_cells(self, steps: int, pace: dict[str, float]) -> tuple[list[PlannedCell], dict[str, dict[str, str]]]:
        """All cells without repetition, parents first, and their keys by experiment and name."""
        cells: dict[str, PlannedCell] = {}
        keys: dict[str, dict[str, str]] = {}
        for name, experiment in self.experiments.items():
            keys[name] = {}
            for cell in experiment.all_cells():
                planned = self._plan_cell(name, experiment, cell, keys[name], steps, pace)
                keys[name][cell.name] = planned.key
                old = cells.get(planned.key, planned)
                both = tuple(sorted({*old.measures, *planned.measures}))
                cells[planned.key] = replace(old, measures=both)
        return list(cells.values()), keys

    def _plan_cell(
        self,
        name: str,
        experiment: Experiment,
        cell: Cell,
        keys: dict[str, str],
        steps: int,
        pace: dict[str, float],
    ) -> PlannedCell:
        config = self.configure(experiment, cell)
        count = self._count_steps(experiment, cell, steps, pace)
        config = config.model_copy(update={"train": config.train.model_copy(update={"steps": count})})
        corpus = self._choose_corpus(cell)
        parent = None if cell.begin_from is None else keys[cell.begin_from]
        identity = {"config": config.identity(defaults=False), "parent": parent, "corpus": _hash_corpus(corpus)}
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        seconds = None
        if (shape := _shape_key(config)) in pace:
            seconds = pace[shape] * count + _MEASURING
        return PlannedCell(key, f"{name}: {cell.name}", config, corpus, tuple(experiment.measures), parent, seconds)

    def _count_steps(self, experiment: Experiment, cell: Cell, steps: int, pace: dict[str, float]) -> int:
        count = max(1, round(steps * cell.steps))
        if cell.equal_time is None:
            return count
        other = next(one for one in experiment.all_cells() if one.name == cell.equal_time)
        theirs, ours = (pace.get(_shape_key(self.configure(experiment, one)), 1.0) for one in (other, cell))
        return max(1, round(max(1, round(steps * other.steps)) * theirs / ours))

    def _choose_corpus(self, cell: Cell) -> Path:
        if not cell.more_text:
            return self.options.corpus
        if self.options.more_text is None:
            raise RequestError(
                f"{cell.name!r} reads more text: name a corpus that has it, with the same tokenizer, by --more-text"
            )
        return self.options.more_text


def _shape_key(config: PretrainConfig) -> str:
    """What decides how long a step takes."""
    model, train = config.model, config.train
    depths = f"{model.num_layers}x{model.hidden_size}e{model.embedding_size}-{model.sharing}-{model.family}"
    dropout = "-dropout" if model.hidden_dropout or model.attention_dropout else ""
    return f"{depths}{dropout}-{train.batch_size}x{config.stream.length}-v{model.vocab_size}"


def _measure_pace(
    shapes: dict[str, PretrainConfig], threads: int, on_message: Callable[[str], None]
) -> dict[str, float]:
    """Seconds of a step of each shape: the median of some rounds over all of them, so that noise meets all alike.

    A shape whose steps would take too long to be tried is reckoned from the rate of the largest that was.
    """
    import torch

    from litebert.planning.planner import measure_speed

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found: dict[str, list[float]] = {key: [] for key in shapes}
    rate = 0.0  # operations a second
    reckoned: dict[str, float] = {}
    smallest_first = sorted(shapes.items(), key=lambda entry: _operations_at_once(entry[1]))
    try:
        for round_ in range(_PACE_ROUNDS):
            for number, (key, config) in enumerate(smallest_first, start=1):
                rows, length = config.train.batch_size, config.stream.length
                operations = training_flops(config.model, length) * length
                if rate and _operations_at_once(config) / rate > _LONGEST_TRIAL:
                    reckoned[key] = rows * operations / rate
                    continue
                if round_ == 0:
                    on_message(f"measuring how long a step takes: shape {number} of {len(shapes)}")
                at_once = min(rows, config.train.micro_batch_size or rows)
                speed = measure_speed(config.model, at_once, length)
                if speed is not None:
                    found[key].append(rows * length / speed)
                    rate = operations * speed / length
    finally:
        torch.set_num_threads(before)
    return reckoned | {key: statistics.median(values) for key, values in found.items() if values}


def _operations_at_once(config: PretrainConfig) -> float:
    """Of the rows that are trained on together."""
    train, length = config.train, config.stream.length
    rows = min(train.batch_size, train.micro_batch_size or train.batch_size)
    return training_flops(config.model, length) * rows * length


def describe_cell(experiment: Experiment, cell: Cell, grid: Grid) -> dict[str, float | str]:
    """What is known of a cell without training it."""
    key = grid.keys[_name_of(experiment, grid)][cell.name]
    if key:
        planned = grid.cell(key)
        model, train = planned.config.model, planned.config.train
        facts: dict[str, float | str] = {"steps": float(train.steps or 0)}
        if (shape := _shape_key(planned.config)) in grid.pace:
            facts["seconds_per_step"] = grid.pace[shape]
            facts["tokens_per_second"] = train.batch_size * planned.config.stream.length / grid.pace[shape]
    else:
        scale = find_scale(experiment.scale or grid.options.scale)
        model = scale.shape(cell.preset or experiment.preset, scale.vocab_size)
        facts = {}
    return facts | {
        "parameters": float(count_encoder_parameters(model)),
        "num_layers": float(model.num_layers),
        "hidden_size": float(model.hidden_size),
        "embedding_size": float(model.embedding_size),
        "sharing": model.sharing,
    }


def _name_of(experiment: Experiment, grid: Grid) -> str:
    return next(name for name, one in grid.experiments.items() if one is experiment)


# --- the run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """A cell for one seed."""

    cell: PlannedCell
    run: CellRun
    parent: str | None


def run_grid(grid: Grid, on_event: Callable[[GridEvent], None] = lambda event: None) -> GridResult:
    """Run all cells that are not done. One that fails is reported, and the rest goes on; so is what begins from it."""
    if not grid.cells:
        return GridResult(grid.folder, 0, 0, {})  # tables that are only described leave what a grid has settled alone
    grid.folder.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(grid.folder, "grid")
    try:
        write_json(
            grid.folder / GRID,
            {
                "scale": grid.options.scale,
                "steps": grid.steps,
                "corpus": _hash_corpus(grid.options.corpus),
                "pace": grid.pace,
                "threads": grid.options.threads,
            },
        )
        return _Run(grid, on_event).go()
    finally:
        os.close(lock)


class _Run:
    """The state of one call."""

    def __init__(self, grid: Grid, on_event: Callable[[GridEvent], None]) -> None:
        self.grid, self.on_event = grid, on_event
        self.failures: dict[str, str] = {}
        self.done: set[str] = set()
        self.tasks = [self._make_task(cell, seed) for seed in range(grid.options.seeds) for cell in grid.cells]
        self._keep_what_is_needed()
        self.total = sum(task.cell.operations for task in self.tasks) or 1.0
        self.interrupted = False

    def _make_task(self, cell: PlannedCell, seed: int) -> _Task:
        grid, options = self.grid, self.grid.options
        parent = None if cell.parent is None else str(grid.folder_of(cell.parent, seed).resolve())
        train, stream = cell.config.train, cell.config.stream
        config = cell.config.model_copy(
            update={
                "train": train.model_copy(update={"seed": seed}),
                "stream": stream.model_copy(update={"seed": seed}),
            }
        )
        run = CellRun(
            folder=str(grid.folder_of(cell.key, seed).resolve()),
            config=config.model_dump(mode="json"),
            corpus=str(cell.corpus.resolve()),
            held_out=str(options.corpus.resolve()),
            measures=cell.measures,
            tasks=options.tasks,
            scale=options.scale,
            seed=seed,
            begin_from=None if parent is None else str(Path(parent) / "model"),
            threads=options.threads,
        )
        return _Task(cell, run, parent)

    def _keep_what_is_needed(self) -> None:
        """Cells that others are going to begin from need their models, not only their numbers."""
        needed: set[str] = set()
        for number, task in reversed([*enumerate(self.tasks)]):  # parents come before their children
            if task.run.folder in needed:
                task = replace(task, run=replace(task.run, needs_model=True))
                self.tasks[number] = task
            if task.parent is not None and not is_measured(task.run):
                needed.add(task.parent)

    def go(self) -> GridResult:
        """Submit what is ready to whoever is idle, until nothing is left."""
        waiting = [task for task in self.tasks if not self._is_done(task)]
        running: dict[Future[CellStatus], _Task] = {}
        options = self.grid.options
        if waiting:
            with (
                watching_signals() as interruption,
                open_workers(options.workers, options.threads, options.scheduler) as workers,
            ):
                while waiting or running:
                    if interruption.signal is not None and not self.interrupted:
                        self.interrupted, waiting = True, []
                        workers.interrupt()
                    waiting = self._drop_orphans(waiting)
                    while (task := self._next_ready(waiting)) and (future := workers.submit(run_cell, task.run)):
                        waiting.remove(task)
                        running[future] = task
                    ended, _ = wait(running, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                    for future in ended:
                        self._settle(running.pop(future), future)
        return GridResult(self.grid.folder, len(self.done), len(self.tasks), self.failures, self.interrupted)

    def _is_done(self, task: _Task) -> bool:
        if is_measured(task.run):
            self.done.add(task.run.folder)
        return task.run.folder in self.done

    def _next_ready(self, waiting: Sequence[_Task]) -> _Task | None:
        return next((task for task in waiting if task.parent is None or task.parent in self.done), None)

    def _drop_orphans(self, waiting: list[_Task]) -> list[_Task]:
        """Cells that begin from one that failed cannot run."""
        kept = []
        for task in waiting:
            if task.parent in self.failures:
                self.failures[task.run.folder] = "the cell that it begins from failed"
                self._tell(f"{task.cell.name}, seed {task.run.seed}: not run, the cell that it begins from failed")
            else:
                kept.append(task)
        return kept

    def _settle(self, task: _Task, future: Future[CellStatus]) -> None:
        try:
            status = future.result()
        except CancelledError:
            status = CellStatus(task.run.folder, "interrupted")
        except Exception as error:  # of whoever ran it, here or on a cluster: `run_cell` itself raises none
            reason = f"its process was lost ({type(error).__name__}); is there enough memory?"
            status = CellStatus(task.run.folder, "failed", reason)
        label = f"{task.cell.name}, seed {task.run.seed}"
        if status.status == "done":
            self.done.add(task.run.folder)
            self._tell(f"{label}: done")
        elif status.status == "failed" and not self.interrupted:
            self.failures[task.run.folder] = status.message
            self._tell(f"{label}: failed, {status.message}")

    def _tell(self, message: str) -> None:
        finished = sum(task.cell.operations for task in self.tasks if task.run.folder in self.done)
        self.on_event(GridEvent(finished / self.total, message))
