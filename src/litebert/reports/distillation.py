"""The page of a distillation run: teacher and student, how well they agree at each depth, how the training went.

It is made of what the run left in its folder, also while it goes on or after it was killed. A metric without a depth in
its name is that of the deepest (`litebert.distillation.job`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from litebert.quantities import finite_numbers, format_count, format_duration, is_finite
from litebert.reports.page import (
    Card,
    average_lately,
    describe_corpus,
    describe_shape,
    importing_charts,
    make_resume_command,
    make_run_cards,
    render,
    view_details,
    view_events,
    view_progress,
)
from litebert.tasks.sections import Table, format_metric, shorten
from litebert.training import run_folder
from litebert.training.run_folder import Run, name_run

__all__ = ["read_run", "render_report"]

Row = Mapping[str, float]

_LOSSES = {"similarities": "similarities_loss", "vectors": "vectors_loss", "states": "states_loss"}
_COLUMNS = ("agreement", "cosine", "sts")
_MOST_ROWS = 100  # of a table
_LONGEST_NAME = 200


def read_run(folder: Path) -> Run:
    """Read the folder of a distillation run, finished or not."""
    return run_folder.read_run(folder, "distillation", "litebert distill")


def render_report(run: Run) -> str:
    """Make the page; the same run gives the same bytes."""
    with importing_charts():
        from litebert.reports.charts import draw_distillation

    depths = _list_depths(run)
    return render(
        "distillation.html",
        title=f"Distillation run {name_run(run.folder)}".strip(),
        summary=_describe_pair(run),
        progress=view_progress(run),
        cards=_make_cards(run, depths) if run.last else [],
        charts=draw_distillation(run.steps, run.evaluations, depths, _LOSSES) if run.last else [],
        depths=_tabulate_depths(run, depths),
        parts=_tabulate_parts(run),
        events=view_events(run),
        command=make_resume_command(run, "distill", _name_teacher(run, "TEACHER"), _name_text(run), *_name_rated(run)),
        details=view_details(run, "Machine, versions, teacher, corpus"),
    )


def _name_teacher(run: Run, otherwise: str) -> str:
    teacher = run.part("teacher")
    return str(teacher.get("name") or teacher.get("folder") or otherwise)


def _name_text(run: Run) -> str:
    return str(run.part("corpus").get("folder") or "TEXT")


def _name_rated(run: Run) -> list[str]:
    source = run.part("rated").get("source")
    return ["--rated", str(source)] if source else []


def _describe_pair(run: Run) -> list[str]:
    """Who learns from whom, and on what."""
    teacher = finite_numbers(run.part("teacher")).get("parameters")
    parts = [shorten(_name_teacher(run, "not known"), _LONGEST_NAME)]
    parts += [f"{teacher:,} parameters"] if teacher else []
    described = {"Teacher": ", ".join(parts), "Student": describe_shape(run), "Text": describe_corpus(run)}
    return [f"{name}: {about}." for name, about in described.items() if about]


def _make_cards(run: Run, depths: Mapping[str, str]) -> list[Card]:
    """The figures that matter, each with what to compare it with."""
    last = (run.evaluations or [{}])[-1]
    best = max(run.evaluations, key=lambda row: row.get("agreement", -2), default=dict[str, float]())
    held_out = finite_numbers(run.part("corpus")).get("held_out_tokens", 1)
    notes = [f"correlation of cosines between {'held-out texts' if held_out else 'texts that it learns from'}"]
    if best.get("agreement") != last.get("agreement"):
        notes.append(f"best {_show(best, 'agreement')} after {format_duration(best.get('seconds', 0))}")
    top = max(depths, key=lambda name: last.get(f"agreement{depths[name]}", -2))
    if depths[top] and "agreement" in last:  # cards show the deepest, which may have been trained least
        notes.append(f"at the greatest depth; {_show(last, f'agreement{depths[top]}')} at depth {top}")
    cards = [
        Card("Agreement with the teacher", _show(last, "agreement"), notes),
        Card("Similarity of rated pairs", _show(last, "sts"), _compare_rated(last)),
        Card("Training loss", _show(average_lately(run), "loss"), ["lately"]),
        *_compare_sizes(run),
        *make_run_cards(run),
    ]
    return [card for card in cards if card.value != "–" or (card is cards[0] and best)]


def _compare_rated(last: Row) -> list[str]:
    teacher = [f"the teacher has {_show(last, 'teacher_sts')}"] if "teacher_sts" in last else []
    return ["correlation with what people said", *teacher]


def _compare_sizes(run: Run) -> list[Card]:
    student = finite_numbers(run.about).get("parameters", 0)
    teacher = finite_numbers(run.part("teacher")).get("parameters", 0)
    if student <= 0:
        return []
    notes = [f"the teacher has {format_count(teacher)}, {teacher / student:.3g} × as many"] if teacher > 0 else []
    return [Card("Parameters", format_count(student), notes)]


def _list_depths(run: Run) -> dict[str, str]:
    """The names of the depths that were measured, and what their metrics end in; the deepest last."""
    others = _find_numbers(run.evaluations, "(?:agreement|sts)_depth_")
    chosen = run.part("config").get("depths")
    known = [depth for depth in chosen if is_finite(depth)] if isinstance(chosen, list) else []
    deepest = max(known, default=0)
    name = f"{deepest:.0f}" if deepest > max(others, default=0) else "all"
    return {**{str(depth): f"_depth_{depth}" for depth in others}, name: ""}


def _find_numbers(rows: Sequence[Row], begin: str) -> list[int]:
    """The numbers that names of metrics end in, of those that begin so; of very many, the greatest."""
    found = (re.fullmatch(begin + "([1-9][0-9]{0,5})", name) for name in set().union(*rows))
    return sorted({int(match[1]) for match in found if match})[-_MOST_ROWS:]


def _tabulate_depths(run: Run, depths: Mapping[str, str]) -> Table | None:
    """How good each depth was when it was measured last."""
    last = (run.evaluations or [{}])[-1]
    columns = [name for name in _COLUMNS if any(name + end in last for end in depths.values())]
    if not columns:
        return None
    rows = [[name, *(_show(last, column + end) for column in columns)] for name, end in depths.items()]
    note = "One set of weights serves at every depth. " if len(rows) > 1 else ""
    note += "Agreement: correlation of student's and teacher's cosines."
    note += " Cosine: of student's and teacher's vectors." if "cosine" in columns else ""
    note += " Sts: correlation of cosines with what people said about rated pairs." if "sts" in columns else ""
    return Table(["passes", *columns], rows, note=note)


def _tabulate_parts(run: Run) -> Table | None:
    """How good the first numbers of a vector are alone, beside all of them."""
    last = (run.evaluations or [{}])[-1]
    sizes = _find_numbers([last], "agreement_first_")
    if not sizes:
        return None
    rows = [[str(size), _show(last, f"agreement_first_{size}")] for size in sizes]
    whole = finite_numbers(run.part("config", "model")).get("hidden_size")
    rows.append([f"{whole:.0f} (all)" if whole else "all", _show(last, "agreement")])
    return Table(["numbers", "agreement"], rows, note="Shorter vectors are faster to search. At the greatest depth.")


def _show(metrics: Row, name: str) -> str:
    """A correlation or a loss with three decimals, or a dash if it is not known."""
    return format_metric("pearson", metrics.get(name))
