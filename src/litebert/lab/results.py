"""From cells to what people read: numbers by seed, means and spreads beside the paper's values, verdicts.

Everything is written anew from the results of the cells, whenever some of them are done: JSON and CSV for machines,
Markdown, and a page with plots.
"""

import csv
import io
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.folders import MANIFEST, PARTIAL, read_json, write_json
from litebert.lab.cell import read_result
from litebert.lab.experiment import Column, Experiment, list_experiments
from litebert.lab.findings import Verdict, judge, judge_exact
from litebert.lab.grid import Grid, describe_cell
from litebert.lab.scales import find_scale
from litebert.quantities import format_count
from litebert.reports.lab import IndexEntry, LabPage, PlotView, write_index, write_lab_page
from litebert.tasks import sections

__all__ = ["Row", "Table", "collect", "format_cell", "render_markdown", "write_outputs"]

RESULTS, MARKDOWN, CSV, PAGE = "results.json", "table.md", "table.csv", "report.html"
_MINUS = "−"
_NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """A cell: what is known of it, what was measured for each seed, and what the paper's row says."""

    name: str
    facts: Mapping[str, float | str]
    metrics: Mapping[int, Mapping[str, float]]
    series: Mapping[int, Mapping[str, Sequence[Sequence[float]]]]
    paper: Mapping[str, float | str]
    seconds: Mapping[int, float]

    def values(self, metric: str) -> dict[int, float]:
        """A metric by seed."""
        return {seed: found[metric] for seed, found in self.metrics.items() if metric in found}


@dataclass(frozen=True)
class Table:
    """An experiment with its numbers and verdicts."""

    name: str
    experiment: Experiment
    rows: list[Row]
    verdicts: list[Verdict]
    scale: str
    steps: int
    origin: "Origin"

    @property
    def seeds(self) -> int:
        """For how many seeds some cell is done."""
        return len({seed for row in self.rows for seed in row.metrics})


@dataclass(frozen=True)
class Origin:
    """What somebody needs to know to repeat an experiment, and to judge its numbers."""

    command: str
    measured: str
    """On how much, in a sentence."""
    text: str
    machines: Sequence[str]
    versions: Mapping[str, str]
    precisions: Sequence[str] = ()


def collect(grid: Grid, name: str) -> Table:
    """Read all that is done of an experiment."""
    experiment, rows = grid.experiments[name], []
    all_results: list[dict[str, Any]] = []
    for cell in experiment.all_cells():
        results: dict[int, dict[str, Any]] = {}
        if key := grid.keys[name][cell.name]:
            found = {seed: read_result(grid.folder_of(key, seed)) for seed in range(grid.options.seeds)}
            results = {seed: result for seed, result in found.items() if result is not None}
        all_results += results.values()
        rows.append(
            Row(
                cell.name,
                describe_cell(experiment, cell, grid),
                {seed: result["metrics"] for seed, result in results.items()},
                {seed: result["series"] for seed, result in results.items()},
                cell.paper,
                {seed: result["seconds"] for seed, result in results.items()},
            )
        )
    verdicts = []
    for finding in experiment.findings:
        if finding.exact:
            counts = {row.name: float(row.facts[finding.metric]) for row in rows}
            verdicts.append(judge_exact(finding, experiment, counts))
        else:
            verdicts.append(judge(finding, {row.name: row.values(finding.metric) for row in rows}))
    scale = experiment.scale or grid.options.scale
    return Table(name, experiment, rows, verdicts, scale, grid.steps, _trace(name, experiment, grid, all_results))


def _trace(name: str, experiment: Experiment, grid: Grid, results: Sequence[Mapping[str, Any]]) -> Origin:
    """Where the numbers come from."""
    options, scale = grid.options, find_scale(experiment.scale or grid.options.scale)
    words = ["litebert", "lab", "run", name if name in list_experiments() else f"{name}.toml"]
    if not experiment.trains:
        return Origin(shlex.join(words), "", "", (), {})
    words += ["--scale", options.scale, "--corpus", str(options.corpus)]
    if options.more_text is not None and any(cell.more_text for cell in experiment.all_cells()):
        words += ["--more-text", str(options.more_text)]
    if "tasks" in experiment.measures:
        words += [word for task in options.tasks for word in ("--task", task)]
    words += ["--steps", str(grid.steps), "--seeds", str(options.seeds), "--out", str(grid.folder)]
    lengths = sorted({grid.cell(key).config.stream.length for key in grid.keys[name].values()})
    said = {
        "masked": f"masked tokens in {scale.scored_rows:,} rows of {' or '.join(map(str, lengths))} tokens",
        "probes": f"sentences by a linear probe that learnt from {scale.probed_pairs:,} pairs, on at most as many",
        "tasks": f"tasks by a linear model that learnt from up to {scale.labels:,} labels",
        "layers": "moves of states on 64 rows",
    }
    measured = "; ".join(said[measure] for measure in experiment.measures)
    return Origin(
        shlex.join(words),
        f"Measured on held-out text: {measured}.",
        _describe_text(options.corpus),
        sorted({str(result["machine"]) for result in results}),
        dict(results[-1]["versions"]) if results else {},
        sorted({result["precision"] for result in results if "precision" in result}),
    )


def _describe_text(folder: Path) -> str:
    """How much a corpus has."""
    if not (folder / MANIFEST).is_file():
        return ""
    corpus = Corpus.open(folder, verify=False)
    tokens, held_out = (format_count(corpus.num_tokens(split)) for split in (TRAIN, HELD_OUT))
    return f"{folder.name}: {tokens} tokens to train on, {held_out} held out, {corpus.tokenizer.vocab_size:,} pieces"


def _say_setting(table: Table) -> str:
    """Scale, steps and seeds."""
    if not table.experiment.trains:
        return ""
    seeds = f"{table.seeds} seed{'' if table.seeds == 1 else 's'}"
    return f"Scale {table.scale}, {table.steps:,} steps a cell unless the table says otherwise, {seeds}."


# --- as text --------------------------------------------------------------------------------------------------------


def format_number(value: float, form: str) -> str:
    """A number as tables show it.

    >>> [format_number(0.1234, "percent"), format_number(11683584, "count"), format_number(0.1234, "number")]
    ['12.3', '11.7M', '0.123']
    """
    match form:
        case "percent":
            shown = f"{100 * value:.1f}"
        case "count":
            shown = format_count(value)
        case "whole":
            shown = f"{value:,.0f}"
        case "times":
            shown = f"{value:.2f} ×"
        case _:
            shown = f"{value:.3g}"
    return shown.replace("-", _MINUS)


def format_cell(row: Row, column: Column) -> str:
    """The mean over seeds, with the least and the most of them; or a fact."""
    values = list(row.values(column.metric).values())
    if values:
        mean, low, high = (
            format_number(value, column.form) for value in (statistics.mean(values), min(values), max(values))
        )
        return mean if len(values) == 1 else f"{mean} ({low} to {high})"
    fact = row.facts.get(column.metric)
    if fact is None:
        return _NOTHING
    return fact if isinstance(fact, str) else format_number(fact, column.form)


def _paper_columns(table: Table) -> list[str]:
    return list(dict.fromkeys(name for row in table.rows for name in row.paper))


def _show_paper(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


def _lay_out(table: Table) -> tuple[list[str], list[list[str]]]:
    """Head and rows, ours first, the paper's values behind them."""
    paper = _paper_columns(table)
    head = ["", *(column.title for column in table.experiment.columns), *(f"paper: {name}" for name in paper)]
    rows = [
        [
            row.name,
            *(format_cell(row, column) for column in table.experiment.columns),
            *(_show_paper(row.paper.get(name, "")) for name in paper),
        ]
        for row in table.rows
    ]
    return head, rows


def describe_verdict(verdict: Verdict, form: str) -> str:
    """A verdict in a sentence, with its number and interval."""
    shown = ""
    if verdict.mean is not None:
        unit = " points" if form == "percent" else ""
        shown = f" {format_number(verdict.mean, form)}{unit}"
        if verdict.low is not None and verdict.high is not None:
            shown += f" ({format_number(verdict.low, form)} to {format_number(verdict.high, form)})"
        shown += f", {verdict.seeds} seed{'s' if verdict.seeds > 1 else ''}"
    reason = f" {verdict.reason}" if verdict.reason else ""
    return f"**{verdict.outcome}**:{shown}{';' if shown and reason else ''}{reason}".rstrip(":")


def form_of(table: Table, metric: str) -> str:
    """How a metric is shown."""
    forms: dict[str, str] = {column.metric: column.form for column in table.experiment.columns}
    return forms.get(metric, "percent")


def render_markdown(table: Table) -> str:
    """The table with its verdicts."""
    head, rows = _lay_out(table)
    lines = [f"# {table.experiment.title}", "", " ".join(table.experiment.about.split()), ""]
    if table.experiment.trains:
        lines += [f"{_say_setting(table)} The mean, with the least and the most; shares are in percent.", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "-|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if table.verdicts:
        lines += ["", "| what to look for | here |", "|-|-|"]
        lines += [
            f"| {verdict.claim} | {describe_verdict(verdict, form_of(table, verdict.metric))} |"
            for verdict in table.verdicts
        ]
    lines += ["", *_list_origin(table.origin), "", "```sh", table.origin.command, "```"]
    return "\n".join(lines) + "\n"


def _list_origin(origin: Origin) -> list[str]:
    """What was measured, on which text and machines, in sentences."""
    versions = ", ".join(f"{name} {number}" for name, number in origin.versions.items())
    where = ", ".join([*origin.machines, *origin.precisions, *([versions] if versions else [])])
    return [
        sentence for sentence in (origin.measured, origin.text and f"{origin.text}.", where and f"{where}.") if sentence
    ]


def render_csv(table: Table) -> str:
    """A line for each cell and seed, with every metric; facts and the paper's values are repeated."""
    metrics = sorted({name for row in table.rows for found in row.metrics.values() for name in found})
    facts = list(dict.fromkeys(name for row in table.rows for name in row.facts))
    paper = _paper_columns(table)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["cell", "seed", *metrics, *facts, *(f"paper {name}" for name in paper)])
    for row in table.rows:
        known = [row.facts.get(name, "") for name in facts] + [row.paper.get(name, "") for name in paper]
        for seed, found in sorted(row.metrics.items()):
            writer.writerow([row.name, seed, *(found.get(name, "") for name in metrics), *known])
        if not row.metrics:
            writer.writerow([row.name, "", *("" for _ in metrics), *known])
    return buffer.getvalue()


# --- into files -----------------------------------------------------------------------------------------------------


def write_outputs(grid: Grid, names: Sequence[str]) -> list[Path]:
    """Write what people and machines read about some experiments, and the page that leads to all of them."""
    pages = []
    for name in names:
        table = collect(grid, name)
        folder = grid.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RESULTS, _as_json(table, grid))
        _write_text(folder / MARKDOWN, render_markdown(table))
        _write_text(folder / CSV, render_csv(table))
        pages.append(write_lab_page(folder / PAGE, _view(table)))
    write_index(grid.folder / "index.html", _list_pages(grid.folder))
    return pages


def _write_text(path: Path, text: str) -> None:
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)


def _as_json(table: Table, grid: Grid) -> dict[str, Any]:
    """Everything, without what was not a number."""
    return {
        "name": table.name,
        "title": table.experiment.title,
        "scale": table.scale,
        "steps": table.steps,
        "seeds": table.seeds,
        "origin": asdict(table.origin),
        "experiment": table.experiment.model_dump(mode="json", exclude_defaults=True),
        "cells": [
            {
                "name": row.name,
                "key": grid.keys[table.name][row.name],
                "facts": dict(row.facts),
                "paper": dict(row.paper),
                "seeds": {
                    str(seed): {
                        "metrics": {name: value for name, value in found.items() if math.isfinite(value)},
                        "series": row.series[seed],
                        "seconds": row.seconds[seed],
                    }
                    for seed, found in sorted(row.metrics.items())
                },
            }
            for row in table.rows
        ],
        "verdicts": [asdict(verdict) for verdict in table.verdicts],
    }


def _view(table: Table) -> LabPage:
    """What the page shows."""
    head, rows = _lay_out(table)
    plots = []
    for plot in table.experiment.plots:
        if plot.kind == "spread":
            groups = {row.name: list(row.values(plot.metric).values()) for row in table.rows}
            plots.append(PlotView(plot.kind, plot.title, plot.form, groups, {}))
            continue
        lines = {
            row.name: [list(map(tuple, found[plot.metric])) for found in row.series.values() if plot.metric in found]
            for row in table.rows
        }
        plots.append(PlotView(plot.kind, plot.title, plot.form, {}, lines))
    verdicts = [
        (verdict.claim, verdict.outcome, describe_verdict(verdict, form_of(table, verdict.metric)).replace("**", ""))
        for verdict in table.verdicts
    ]
    return LabPage(
        title=table.experiment.title,
        about=" ".join(table.experiment.about.split()),
        setting=_say_setting(table),
        table=sections.Table(head, rows),
        verdicts=verdicts,
        plots=plots,
        origin=_list_origin(table.origin),
        command=table.origin.command,
        files=(MARKDOWN, CSV, RESULTS),
    )


def _list_pages(folder: Path) -> list[IndexEntry]:
    """Every experiment in a folder, the tables first."""
    found = []
    for path in sorted(folder.glob(f"*/{RESULTS}")):
        content = read_json(path)
        outcomes = [verdict["outcome"] for verdict in content["verdicts"]]
        counts = {name: outcomes.count(name) for name in ("holds", "does not hold", "open")}
        trains, seeds = content["experiment"].get("trains", True), content.get("seeds", 0)
        setting = f"{content['scale']}, {content['steps']:,} steps, {seeds} seed{'' if seeds == 1 else 's'}"
        found.append(IndexEntry(path.parent.name, str(content["title"]), setting if trains else "", counts))
    return sorted(found, key=lambda page: (page.title.split()[0] != "Table", len(page.name), page.name))
