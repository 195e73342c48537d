"""The page of a fine-tuned model on a task's examples: metrics, curves, where it errs, its worst mistakes.

In the folder of a run the page also shows how the training went; in any other folder it shows what the examples and
answers tell. Of the folder of a run alone, without examples, a shorter page can be drawn at any time.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from litebert.errors import FolderError, RequestError
from litebert.folders import read_json
from litebert.quantities import finite_numbers, is_finite
from litebert.reports.page import (
    Card,
    describe_shape,
    importing_charts,
    render,
    show,
    view_details,
    view_events,
    view_progress,
    view_sections,
    write_page,
)
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.description import Answered
from litebert.tasks.metrics import explain_metric, has_learnt
from litebert.tasks.sections import Notice, Table, format_metric
from litebert.tasks.task import Example, Predictions, Task
from litebert.training.run_folder import Run, RunFolder, read_kind, read_run

__all__ = ["render_run_report", "render_task_report", "write_run_report", "write_task_report"]

Metrics = dict[str, float]

_KIND = "fine-tuning"
_MOST_CARDS = 24
_NOT_METRICS = ("step", "progress", "seconds", "tokens")
_EXCERPT = "<p class=excerpt>"  # no text of an example can hold it: it would be escaped
_THRESHOLD = "greater null odds count as no answer"


def write_task_report(
    folder: Path,
    task: Task,
    examples: Sequence[Example],
    answers: Predictions,
    metrics: Metrics,
    *,
    samples: bool = True,
) -> Path:
    """Write `report.html` into a folder, whole or not at all, and say where.

    Without `samples` the page holds no text of examples, so that it can be shown where they must not be.
    """
    run = read_run(folder, _KIND, "litebert finetune") if read_kind(folder) == _KIND else None
    page = render_task_report(run, task, examples, answers, metrics, samples=samples)
    return write_page(RunFolder(folder).report, page)


def render_task_report(
    run: Run | None,
    task: Task,
    examples: Sequence[Example],
    answers: Predictions,
    metrics: Metrics,
    *,
    samples: bool = True,
) -> str:
    """Make the page; the same input gives the same bytes."""
    known = finite_numbers(metrics)
    majority = finite_numbers(run.part("baselines", "majority")) if run else {}
    answered = list_answered(task, examples, answers)
    description = kind_of(task).describe(task, answered, known) if answered else []
    summary = f"{_name_kind(task)}; evaluated on {len(examples):,} examples."
    num_unlabelled = len(examples) - len(answered)
    if num_unlabelled:
        summary += f" {num_unlabelled:,} of them have no label, and say nothing of right and wrong."
    notices = [entry.message for entry in description if isinstance(entry, Notice)]
    return render(
        "finetuning.html",
        title=f"Task {task.name}",
        summary=summary,
        excerpt=None,
        notices=[*_judge(task, known, majority), *notices],
        cards=_make_cards(task, known, majority),
        splits=None,
        sections=view_sections(description, samples),
        run=_view_run(run, task, majority) if run else None,
    )


def list_answered(task: Task, examples: Sequence[Example], answers: Predictions) -> list[Answered]:
    """Put examples that have a label beside their answers. Nothing can be said of those without one."""
    if len(examples) != len(answers.answers):
        raise RequestError(
            f"there are {len(answers.answers):,} answers to {len(examples):,} examples: give one for each"
        )
    kind = kind_of(task)
    answered = []
    for index, example in enumerate(examples):
        details = answers.details[index] if index < len(answers.details) else {}
        odds = answers.null_odds[index] if answers.null_odds is not None else None
        gold = kind.gold(example)
        if gold is not None:
            known = details if isinstance(details, dict) else {}
            answered.append(Answered(example, gold, answers.answers[index], known, odds if is_finite(odds) else None))
    return answered


def write_run_report(folder: Path, out: Path | None = None) -> Path:
    """Draw a fine-tuning run from its folder alone, finished or not; `report.html` in its folder, unless told.

    The folder holds no examples, so that this page says less than the one that a run leaves at its end. That one is
    never overwritten.
    """
    own = RunFolder(folder).report
    page = own if out is None else out
    is_own = own.is_file() and page.exists() and page.samefile(own)
    if is_own and _EXCERPT not in own.read_text(encoding="utf-8", errors="replace"):
        raise RequestError(
            f"{own} is the full page of this run, and what can be drawn without its examples says less: "
            "open that one, or name another file with --out"
        )
    return write_page(page, render_run_report(read_run(folder, _KIND, "litebert finetune")))


def render_run_report(run: Run) -> str:
    """Make the page of a run without its examples: metrics, curves, settings, and where there is more."""
    task, majority = _read_task(run), finite_numbers(run.part("baselines", "majority"))
    source, splits = _read_metrics(run)
    first = splits.get("dev", next(iter(splits.values()), {}))
    table = None
    if len(splits) > 1:
        names = list(dict.fromkeys(name for metrics in splits.values() for name in metrics))
        rows = [[name, *(format_metric(name, metrics.get(name)) for metrics in splits.values())] for name in names]
        table = Table(["", *splits], rows)
    return render(
        "finetuning.html",
        title=f"Task {task.name}",
        summary=f"{_name_kind(task)}{source}.",
        excerpt=_say_what_is_missing(run),
        notices=_judge(task, first, majority) if run.state == "finished" else [],
        cards=_make_cards(task, first, majority) if first else [],
        splits=table,
        sections=[],
        run=_view_run(run, task, majority),
    )


def _read_task(run: Run) -> Task:
    try:
        task = Task.model_validate_json(json.dumps(run.part("config", "task")))
        kind_of(task)
        return task
    except (ValidationError, RequestError):
        raise FolderError(
            f"{RunFolder(run.folder).run_file} describes no task that this version of litebert knows: fine-tune again"
        ) from None


def _read_metrics(run: Run) -> tuple[str, dict[str, Metrics]]:
    """The metrics of each split, and what they are; before a run's end, those of the last evaluation."""
    path = RunFolder(run.folder).evaluation_file
    known = read_json(path).get("splits") if run.state == "finished" and path.exists() else None
    if isinstance(known, dict) and known:
        splits = {str(name): finite_numbers(part) for name, part in known.items() if isinstance(part, dict)}
        return f"; evaluated on {', '.join(splits)}", splits
    if not run.evaluations:
        return "; not evaluated yet", {}
    last = run.evaluations[-1]
    metrics = {name: value for name, value in last.items() if name not in _NOT_METRICS}
    return f"; last evaluated on dev at step {show(last, 'step')}", {"dev": metrics}


def _say_what_is_missing(run: Run) -> dict[str, str]:
    """Say what this page lacks and which one has it, and how a run goes on that has not finished."""
    lacks = "Drawn from the folder of the run, which holds no examples: this page cannot show where the model errs."
    if run.state == "finished":
        command = shlex.join(["litebert", "evaluate", str(run.folder), "--data", "DATA", "--out", "FOLDER"])
        return {"message": f"{lacks} The full page is made by", "command": command}
    resume = "If the run has stopped, the same litebert finetune command with --resume goes on"
    return {"message": f"{lacks} {resume}, and writes the full page at its end.", "command": ""}


def _view_run(run: Run, task: Task, majority: Metrics) -> dict[str, Any]:
    """What was trained, on how much, how far it has come and how it went."""
    with importing_charts():
        from litebert.reports.charts import draw_finetuning

    counts = ", ".join(f"{count:,} {name}" for name, count in finite_numbers(run.part("examples")).items())
    begun = run.part("config").get("begin_from") or "random weights"
    charts = draw_finetuning(run.steps, run.evaluations, task.metric, majority.get(task.metric), kind_of(task).constant)
    return {
        "origin": f"{describe_shape(run)}; began from {begun}{f'; examples: {counts}' if counts else ''}.",
        "progress": view_progress(run),
        "charts": charts,
        "events": view_events(run),
        "details": view_details(run, "Machine, versions, data"),
    }


def _name_kind(task: Task) -> str:
    return (f"{task.kind}, {len(task.labels):,} labels" if task.labels else task.kind).capitalize()


def _judge(task: Task, metrics: Metrics, majority: Metrics) -> list[str]:
    """A warning, if the model is no better than an answer that does not look at the text."""
    if task.metric not in metrics or task.metric not in majority:
        return []
    if has_learnt(metrics[task.metric], majority[task.metric]):
        return []
    return [f"No better than {kind_of(task).constant}: it has not learnt the task."]


def _make_cards(task: Task, metrics: Metrics, majority: Metrics) -> list[Card]:
    """The metric that decides and what to compare it with, then all others."""
    names = list(dict.fromkeys([task.metric, *(name for name in task.metrics if name in metrics), *metrics]))
    cards = []
    for name in names[:_MOST_CARDS]:
        notes = [f"{kind_of(task).constant}: {format_metric(name, majority[name])}"] if name in majority else []
        cards.append(
            Card(name, format_metric(name, metrics.get(name)), list(filter(None, [*notes, _explain(name, task)])))
        )
    return cards


def _explain(name: str, task: Task) -> str:
    if known := explain_metric(name, task):
        return known
    group = name.removeprefix("accuracy_")
    return _THRESHOLD if name == "threshold" else f"accuracy of the group {group}" if group != name else ""
