"""What every page is made of: plain data that a Jinja2 template draws (`templates/`), in one file without a script.

A page is made in two steps. A function gathers what it says as plain values, tables and charts; `render` puts them into
a template. The templates escape all text; the drawings of `litebert.reports.charts` alone go in as they are. A page is
written whole or not at all.
"""

import contextlib
import functools
import itertools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from litebert.errors import RequestError
from litebert.folders import PARTIAL
from litebert.quantities import finite_numbers, format_bytes, format_count, format_duration, format_share, is_finite
from litebert.tasks.sections import Cases, Cell, ConfusionMatrix, Notice, Section, Span, Table, shorten
from litebert.training.run_folder import Run

if TYPE_CHECKING:
    import jinja2

Row = dict[str, float]

__all__ = [
    "Card",
    "Chart",
    "Details",
    "Events",
    "Progress",
    "SectionView",
    "average_lately",
    "describe_corpus",
    "describe_shape",
    "importing_charts",
    "list_dicts",
    "make_resume_command",
    "make_run_cards",
    "render",
    "show",
    "view_details",
    "view_events",
    "view_progress",
    "view_sections",
    "write_page",
]

_MOST_ENTRIES = 50  # of a list, in a cell
_MOST_CHARACTERS = 10_000  # of a cell
_MOST_EVENTS = 500
_LONGEST_NAME = 40
_TROUBLES = ("skipped", "rolled back", "resumed", "interrupted", "damaged")
_SIZES = {
    "num_layers": "layers",
    "hidden_size": "hidden",
    "embedding_size": "embedding",
    "vocab_size": "vocabulary",
    "parameters": "parameters",
}


@dataclass(frozen=True)
class Card:
    """A figure with its name, and what to compare it with."""

    name: str
    value: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """A drawing, what it shows and how to read it; without a drawing, why there is none."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Progress:
    """How far a run has come; nothing is `done` of one that has recorded nothing."""

    state: str
    is_finished: bool
    done: Sequence[str]


@dataclass(frozen=True)
class Events:
    """What went wrong, and all that happened."""

    notes: Sequence[str]
    troubles: Table | None
    everything: Table | None
    count: int


@dataclass(frozen=True)
class Details:
    """Names and values that are folded away."""

    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix with the depth of each cell's colour."""

    labels: Sequence[str]
    rows: Sequence[dict[str, Any]]
    precisions: Sequence[str]


@dataclass(frozen=True)
class SectionView:
    """A section whose charts are drawn."""

    title: str
    note: str
    parts: Sequence[tuple[Literal["charts", "matrix", "cases", "table"], Any]]


# From templates to files.


def render(template: str, **values: Any) -> str:
    """Fill a template; the same values give the same bytes."""
    page = _load_templates().get_template(template).render(values)
    return page.encode("utf-8", "replace").decode("utf-8")  # halves of characters, which no file can hold


@functools.cache
def _load_templates() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("litebert.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["runs"] = _split_runs
    return environment


def _split_runs(cell: tuple[Span, ...]) -> list[list[Span]]:
    """Spans that belong together: words in one direction of writing must not move what stands beside them."""
    alone = ("break", "small", "soft")
    groups = itertools.groupby(enumerate(cell), lambda entry: entry[0] if entry[1].look in alone else -1)
    return [[span for _, span in group] for _, group in groups]


def write_page(path: Path, content: str) -> Path:
    """Write a page, whole or not at all, and say where."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        partial.write_text(content, encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RequestError(f"cannot write {path} ({error.strerror}); name a file in a folder that exists") from None
    return path


@contextlib.contextmanager
def importing_charts() -> Iterator[None]:
    """Say in a sentence that the library is missing that draws charts."""
    try:
        yield
    except ImportError:
        raise RequestError("the report's charts need matplotlib; install it with `pip install matplotlib`") from None


# What pages say about a run.


def describe_shape(run: Run) -> str:
    """The family and the sizes of a run's model, without a full stop."""
    model = run.part("config", "model")
    sizes = finite_numbers(run.about | model)
    family = str(model.get("family", "encoder")).upper()
    return ", ".join([family, *(f"{sizes[key]:,} {name}" for key, name in _SIZES.items() if key in sizes)])


def describe_corpus(run: Run) -> str:
    """How much text a run learns from, without a full stop; nothing if that is not known."""
    tokens = finite_numbers(run.part("corpus")).get("train_tokens")
    return f"a corpus of {format_count(tokens)} tokens" if tokens else ""


def make_run_cards(run: Run) -> list[Card]:
    """How fast a run is, how much it has read, and how long it took; a figure that is not known is a dash."""
    tokens, corpus = run.last.get("tokens", 0), finite_numbers(run.part("corpus")).get("train_tokens")
    epochs = f"{tokens / corpus:.2f} epochs of {format_count(corpus)}" if corpus else ""
    lately = show(average_lately(run), "tokens_per_second")
    return [
        Card("Tokens per second", show(run.last, "speed"), [f"lately {lately}"]),
        Card("Of the hardware's rate", show(_average(run.steps), "hardware_share", "{:.1%}"), ["on average"]),
        Card("Tokens seen", format_count(tokens), [epochs]),
        Card("Time", format_duration(run.last.get("seconds", 0)), [f"{show(run.last, 'step')} steps"]),
    ]


def average_lately(run: Run) -> Row:
    """Averages over the last twentieth of the recorded steps."""
    return _average(run.steps[-max(1, len(run.steps) // 20) :])


def _average(rows: list[Row]) -> Row:
    known = {key: [row[key] for row in rows if key in row] for key in set().union(*rows)}
    return {key: math.fsum(values) / len(values) for key, values in known.items()}


def make_resume_command(run: Run, *command: str) -> str | None:
    """The `litebert` command that goes on with a run; none if it is finished."""
    if run.state == "finished":
        return None
    return shlex.join(["litebert", *command, "--out", str(run.folder), "--resume"])


def view_progress(run: Run) -> Progress:
    """How far the run has come."""
    last, is_finished = run.last, run.state == "finished"
    done = [f"{100 * last['progress']:.0f} % done"] if not is_finished and "progress" in last else []
    done += [f"step {show(last, 'step')}", f"{format_count(last.get('tokens', 0))} tokens"]
    done += [format_duration(last.get("seconds", 0)), f"{show(last, 'speed')} tokens/s"]
    return Progress(run.state.capitalize(), is_finished, done if last else ())


def view_events(run: Run) -> Events:
    """What went wrong, then all that happened."""
    notes = []
    if run.num_without_loss:
        notes.append(f"The loss of {run.num_without_loss:,} recorded steps was not a number.")
    if run.num_damaged:
        notes.append(f"Damaged lines of metrics.jsonl, left out: {run.num_damaged:,}.")
    troubles = [event for event in run.events if event["what"] in _TROUBLES]
    return Events(notes, _list_events(troubles), _list_events(run.events), len(run.events))


def _list_events(events: list[dict[str, Any]]) -> Table | None:
    rows = []
    for event in events[-_MOST_EVENTS:]:
        when = [show(event, "step"), format_duration(event.get("seconds", 0))]
        rows.append([*when, event["what"], event["message"]])
    more = f"The first {len(events) - len(rows):,} are not shown." if len(events) > len(rows) else ""
    return Table(["step", "time", "what", ""], rows, "text", more) if rows else None


def view_details(run: Run, title: str) -> list[Details]:
    """What made the run what it is: its configuration, and under `title` all else that run.json says."""
    other = {name: part for name, part in run.about.items() if name not in ("config", "format", "kind")}
    contents = {"Configuration": run.part("config"), title: other}
    return [
        Details(name, [(key, value[:_MOST_CHARACTERS]) for key, value in flatten("", content)])
        for name, content in contents.items()
    ]


def list_dicts(content: Any) -> list[dict[str, Any]]:
    """The entries of a list that are dicts, whatever it is that was read."""
    return [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []


def flatten(name: str, content: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted names and plain values; the entries of a list are counted from one.

    >>> list(flatten("", {"optim": {"lr": 0.001, "betas": [0.9, 0.999]}, "memory_bytes": 8e9}))
    [('optim.lr', '0.001'), ('optim.betas', '0.9, 0.999'), ('memory_bytes', '8.0 GB')]
    """
    if list_dicts(content):
        content = {str(number): entry for number, entry in enumerate(content, 1)}
    if isinstance(content, dict) and depth < 9:
        for key, value in content.items():
            yield from flatten(f"{name}.{key}".lstrip("."), value, depth + 1)
    elif name.endswith("_bytes") and is_finite(content):
        yield name, format_bytes(content)
    else:
        entries = content if isinstance(content, list) else [content]
        shown = ["…" if isinstance(entry, dict | list) else str(entry) for entry in entries[:_MOST_ENTRIES]]
        more = [f"and {len(entries) - len(shown):,} more"] if len(entries) > len(shown) else []
        yield name, ", ".join(shown + more)


def show(values: Mapping[str, float], key: str, form: str = "{:,.0f}") -> str:
    """A number in a form, or a dash if it is not known."""
    return form.format(values[key]).replace("%", " %") if key in values else "–"


# What pages say about the predictions of a task.


def view_sections(description: Sequence[Section | Notice], samples: bool) -> list[SectionView]:
    """Draw what a kind of task tells; without `samples`, nothing that holds text of examples."""
    with importing_charts():
        from litebert.reports.charts import draw_part

    views = []
    number = 0
    for section in description:
        if isinstance(section, Notice):
            continue
        if any(isinstance(part, Cases) for part in section.parts) and not samples:
            continue
        parts: list[tuple[Literal["charts", "matrix", "cases", "table"], Any]] = []
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(("table", part))
            elif isinstance(part, ConfusionMatrix):
                parts.append(("matrix", _view_matrix(part)))
            elif isinstance(part, Cases):
                rows: list[list[Cell]] = [[case.id, case.text, case.predicted, case.expected] for case in part.cases]
                parts += [("cases", Table(["id", "", "said", "right"], rows, "text"))] if rows else []
            else:
                number += 1
                chart = draw_part(part, number)
                if parts and parts[-1][0] == "charts":
                    parts[-1][1].extend([chart] if chart else [])
                else:
                    parts.append(("charts", [chart] if chart else []))
        views.append(SectionView(section.title, section.note, parts))
    return views


def _view_matrix(matrix: ConfusionMatrix) -> Matrix:
    counts, labels = matrix.counts, matrix.labels
    rows = []
    for gold in labels:
        total = sum(counts.get((gold, said), 0) for said in labels)
        cells = []
        for said in labels:
            count = counts.get((gold, said), 0)
            cells.append({"count": count, "is_right": said == gold, "depth": f"{0.6 * count / max(1, total):.3f}"})
        recall = format_share(counts.get((gold, gold), 0), total)
        rows.append({"label": shorten(gold, _LONGEST_NAME), "cells": cells, "recall": recall})
    totals = [sum(counts.get((gold, said), 0) for gold in labels) for said in labels]
    precisions = [format_share(counts.get((s, s), 0), total) for s, total in zip(labels, totals, strict=True)]
    return Matrix([shorten(label, _LONGEST_NAME) for label in labels], rows, precisions)
