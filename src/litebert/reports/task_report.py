"""The report of a fine-tuned model on a task's examples: figures, curves, where it errs, its worst mistakes.

It is one HTML file that needs nothing else. In the folder of a run it also shows how the training went; in any other
folder it shows what the examples and answers tell. Of the folder of a run alone, without examples, a shorter page can
be drawn at any time.
"""

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from litebert.errors import FolderError, RequestError
from litebert.folders import read_json
from litebert.lab.run_folder import RUN_FILE, Run, read_kind, read_run, render_events, render_progress, render_shape
from litebert.reports.page import (
    assemble_page,
    escape,
    finite_numbers,
    format_score,
    render_cards,
    render_charts,
    render_details,
    render_table,
    show,
    write_page,
)
from litebert.reports.task_cases import (
    Case,
    choose_threshold_of,
    find_probability,
    list_cases,
    list_wrong_words,
    measure_error,
    measure_sureness,
)
from litebert.tasks.metrics import METRICS
from litebert.tasks.seeds import has_learnt
from litebert.tasks.task import ChoiceExample, Example, QuestionExample, TaggedExample, Task

if TYPE_CHECKING:
    from litebert.tasks.outputs import Answers

__all__ = ["render_run_report", "render_task_report", "write_run_report", "write_task_report"]

_KIND = "fine-tuning"
_MOST_MISTAKES = 30
_MOST_CARDS = 24
_MOST_TEXT = 300
_MOST_WORDS = 5
_LONGEST_WORD = 60
_NO_CHARTS = "the report's charts need matplotlib; install it with `pip install matplotlib`"
_EVALUATION = "evaluation.json"
_NOT_SCORES = ("step", "progress", "seconds", "tokens")
_EXCERPT = "<p class=excerpt>"  # no text of an example can hold it: it would be escaped
_BLIND = {"questions": "“no answer” to all", "regression": "the mean score alone", "choice": "one position alone"}
_THRESHOLD = "greater null odds count as no answer"


def write_task_report(
    folder: Path,
    task: Task,
    examples: Sequence[Example],
    answers: "Answers",
    scores: dict[str, float],
    *,
    samples: bool = True,
) -> Path:
    """Write `report.html` into a folder, whole or not at all, and say where.

    Without `samples` the page holds no text of examples, so that it can be shown where they must not be.
    """
    run = _find_run(folder)
    return write_page(folder / "report.html", render_task_report(run, task, examples, answers, scores, samples=samples))


def render_task_report(
    run: Run | None,
    task: Task,
    examples: Sequence[Example],
    answers: "Answers",
    scores: dict[str, float],
    *,
    samples: bool = True,
) -> str:
    """Make the page; the same input gives the same bytes."""
    try:
        from litebert.reports.task_breakdown import render_breakdown, render_constancy
    except ImportError:
        raise RequestError(_NO_CHARTS) from None
    known = finite_numbers(scores)
    majority = finite_numbers(run.part("baselines", "majority")) if run else {}
    cases = list_cases(examples, answers)
    parts = [_render_head(task, run, len(examples), len(cases))]
    parts += [_render_verdict(task, known, majority), render_constancy(task, cases)]
    parts += [_render_cards(task, known, majority), _render_training(run, task, majority) if run else ""]
    parts.append(render_breakdown(task, cases, known))
    parts += [_render_mistakes(task, cases, choose_threshold_of(known))] if samples else []
    parts += [render_events(run), _render_settings(run)] if run else []
    return assemble_page(f"Task {task.name}", parts)


def write_run_report(folder: Path, out: Path | None = None) -> Path:
    """Draw a fine-tuning run from its folder alone, finished or not; `report.html` in its folder, unless told.

    The folder holds no examples, so that this page says less than the one that a run leaves at its end. That one is
    never overwritten.
    """
    own = folder / "report.html"
    page = own if out is None else out
    is_own = own.is_file() and page.exists() and page.samefile(own)
    if is_own and _EXCERPT not in own.read_text(encoding="utf-8", errors="replace"):
        raise RequestError(
            f"{own} is the full page of this run, and what can be drawn without its examples says less: "
            "open that one, or name another file with --out"
        )
    return write_page(page, render_run_report(read_run(folder, _KIND, "litebert finetune")))


def render_run_report(run: Run) -> str:
    """Make the page of a run without its examples: figures, curves, settings, and where there is more."""
    task, majority = _read_task(run), finite_numbers(run.part("baselines", "majority"))
    source, splits = _read_scores(run)
    first = splits.get("dev", next(iter(splits.values()), {}))
    parts = [f"<p>{_name_kind(task)}{source}.</p>{_render_origin(run)}", _render_advice(run)]
    parts += [_render_verdict(task, first, majority) if run.state == "finished" else ""]
    parts += [_render_cards(task, first, majority)] if first else []
    if len(splits) > 1:
        names = list(dict.fromkeys(name for scores in splits.values() for name in scores))
        rows = [[escape(n), *(format_score(n, scores.get(n)) for scores in splits.values())] for n in names]
        parts += ["<h2>By split</h2>", render_table(rows, ["", *map(escape, splits)], "number")]
    parts += [_render_training(run, task, majority), render_events(run), _render_settings(run)]
    return assemble_page(f"Task {task.name}", parts)


def _read_task(run: Run) -> Task:
    try:
        return Task.model_validate_json(json.dumps(run.part("config", "task")))
    except ValidationError:
        raise FolderError(
            f"{run.folder / RUN_FILE} describes no task that this version of litebert knows: fine-tune again"
        ) from None


def _read_scores(run: Run) -> tuple[str, dict[str, dict[str, float]]]:
    """The figures of each split, and in words what they are; before a run's end, those of the last evaluation."""
    path = run.folder / _EVALUATION
    known = read_json(path).get("splits") if run.state == "finished" and path.exists() else None
    if isinstance(known, dict) and known:
        splits = {str(name): finite_numbers(part) for name, part in known.items() if isinstance(part, dict)}
        return f"; scored on {escape(', '.join(splits))}", splits
    if not run.evaluations:
        return "; not scored yet", {}
    last = run.evaluations[-1]
    scores = {name: value for name, value in last.items() if name not in _NOT_SCORES}
    return f"; last scored on dev at step {show(last, 'step')}", {"dev": scores}


def _render_advice(run: Run) -> str:
    """Say what this page lacks and which one has it, and how a run goes on that has not finished."""
    lacks = "Drawn from the folder of the run, which holds no examples: this page cannot show where the model errs."
    command = shlex.join(["litebert", "evaluate", str(run.folder), "--data", "DATA", "--out", "FOLDER"])
    if run.state == "finished":
        return f"{_EXCERPT}{lacks} The full page is made by <code>{escape(command)}</code>.</p>"
    resume = "If the run has stopped, the same <code>litebert finetune</code> command with --resume goes on"
    return f"{_EXCERPT}{lacks} {resume}, and writes the full page at its end.</p>"


def _find_run(folder: Path) -> Run | None:
    """The fine-tuning run of a folder, if it holds one."""
    return read_run(folder, _KIND, "litebert finetune") if read_kind(folder) == _KIND else None


def _render_head(task: Task, run: Run | None, num_examples: int, num_cases: int) -> str:
    lines = [f"{_name_kind(task)}; scored on {num_examples:,} examples."]
    if num_cases < num_examples:
        lines.append(f"{num_examples - num_cases:,} of them have no label, and say nothing of right and wrong.")
    return f"<p>{' '.join(lines)}</p>" + (_render_origin(run) if run else "")


def _name_kind(task: Task) -> str:
    return (f"{task.kind}, {len(task.labels):,} labels" if task.labels else task.kind).capitalize()


def _render_origin(run: Run) -> str:
    """What was trained, on how much, and how far it has come."""
    sizes = finite_numbers(run.part("examples"))
    counts = ", ".join(f"{count:,} {escape(name)}" for name, count in sizes.items())
    begun = run.part("config").get("begin_from")
    origin = f"; began from {escape(begun)}" if begun else "; began from random weights"
    return f"<p>{render_shape(run)}{origin}{f'; examples: {counts}' if counts else ''}.</p>" + render_progress(run)


def _render_training(run: Run, task: Task, majority: dict[str, float]) -> str:
    try:
        from litebert.reports.task_charts import draw_training
    except ImportError:
        raise RequestError(_NO_CHARTS) from None
    levels = {"majority": majority[task.score]} if task.score in majority else {}
    charts = draw_training(run.steps, run.evaluations, task.score, levels)
    return "<h2>How it went</h2>\n" + render_charts(charts) if charts else ""


def _render_verdict(task: Task, scores: dict[str, float], majority: dict[str, float]) -> str:
    """A warning, if the model is no better than an answer that does not look at the text."""
    if task.score not in scores or task.score not in majority:
        return ""
    if has_learnt(scores[task.score], majority[task.score]):
        return ""
    return f"<p class=open>No better than {_name_blind(task)}: it has not learnt the task.</p>"


def _name_blind(task: Task) -> str:
    return _BLIND.get(task.kind, "the most frequent answer alone")


def _render_cards(task: Task, scores: dict[str, float], majority: dict[str, float]) -> str:
    """The score that decides and what to compare it with, then all others."""
    names = list(dict.fromkeys([task.score, *(name for name in task.metrics if name in scores), *scores]))
    cards = []
    for name in names[:_MOST_CARDS]:
        notes = [escape(_explain(name))]
        if name in majority:
            beside = format_score(name, majority[name])
            notes.insert(0, f"{_name_blind(task)}: {beside}")
        cards.append((escape(name), format_score(name, scores.get(name)), "<br>".join(filter(None, notes))))
    return render_cards(cards, main=True)


def _explain(name: str) -> str:
    if name in METRICS:
        return METRICS[name]
    group = name.removeprefix("accuracy_")
    return _THRESHOLD if name == "threshold" else f"accuracy of the group {group}" if group != name else ""


def _render_mistakes(task: Task, cases: Sequence[Case], threshold: float | None) -> str:
    """The wrong answers that the model was surest of, or those that are farthest off."""
    errors = [(measure_error(task, case), case) for case in cases]
    wrong = [(error, case) for error, case in errors if error > 0]
    if not cases:
        return ""
    if not wrong:
        return f"<h2>Worst mistakes</h2>\n<p>None: all {len(cases):,} answers are right.</p>"
    rated = []
    for place, (error, case) in enumerate(wrong):
        sure = measure_sureness(task, case, threshold)
        weight = -1.0 if sure is None else sure * error if task.kind == "questions" else sure
        rated.append((-weight, place, case))
    worst = [case for _, _, case in sorted(rated, key=lambda entry: entry[:2])[:_MOST_MISTAKES]]
    rows = [[escape(_shorten(case.example.id, _LONGEST_WORD)), *_describe(task, case)] for case in worst]
    what = "sentences have a wrong tag" if task.kind == "tagging" else "answers are not right"
    note = f"{len(wrong):,} of {len(cases):,} {what}. Those that the model was surest of come first."
    if task.kind == "regression":
        note = "Those farthest off come first."
    return f"<h2>Worst mistakes</h2>\n<p>{note}</p>\n" + render_table(
        rows, ["id", "", "said", "right"], "wide mistakes"
    )


def _describe(task: Task, case: Case) -> list[str]:
    """An example, what was said and what is right, as cells of a table."""
    example = case.example
    if isinstance(example, TaggedExample):
        return _describe_tags(example, case)
    if isinstance(example, QuestionExample):
        return _describe_question(task, example, case)
    if isinstance(example, ChoiceExample):
        text = f"{_quote(example.passage)}<br><b>{_quote(example.question)}</b>"
        return [text, *(_show_option(example, case, place) for place in (case.answer, case.gold))]
    text = _quote(example.text) + (f"<br>{_quote(example.pair)}" if example.pair is not None else "")
    if task.kind == "regression":
        return [text, format_score("mse", case.answer), format_score("mse", case.gold)]
    if task.kind == "multi-label":
        return [text, _show_names(case, case.answer), _show_names(case, case.gold)]
    return [text, *(f"{_quote(name)}{_show_share(find_probability(case, name))}" for name in (case.answer, case.gold))]


def _show_names(case: Case, names: Iterable[Any]) -> str:
    shown = [f"{_quote(name)}{_show_share(find_probability(case, name))}" for name in names]
    return "<br>".join(shown[:_MOST_WORDS] + (["…"] if len(shown) > _MOST_WORDS else [])) or "none"


def _show_option(example: ChoiceExample, case: Case, place: Any) -> str:
    is_there = isinstance(place, int) and 0 <= place < len(example.options)
    return f"{_quote(example.options[place])}{_show_share(find_probability(case, place))}" if is_there else "–"


def _describe_question(task: Task, example: QuestionExample, case: Case) -> list[str]:
    place = example.answers[0].begin if example.answers else example.context.find(str(case.answer))
    text = f"<b>{_quote(example.question)}</b><br>{_quote(example.context, place)}"
    said = f"{_quote(case.answer)}{_show_share(measure_sureness(task, case))}" if case.answer else "no answer"
    if case.null_odds is not None:
        said += f"<small>null odds {format_score('threshold', case.null_odds)}</small>"
    golds = list(dict.fromkeys(case.gold))
    return [text, said, "<br>".join(map(_quote, golds[:_MOST_WORDS])) or "no answer"]


def _describe_tags(example: TaggedExample, case: Case) -> list[str]:
    """The words around the surest mistake, with all wrong ones marked."""
    wrong = list_wrong_words(case)
    marked = {place for _, place in wrong}
    first = max(0, (wrong[0][1] if wrong else 0) - _LONGEST_WORD // 4)
    shown, length = ["…"] if first else [], 0
    for place, word in enumerate(example.words[first:], first):
        if length > _MOST_TEXT:
            shown.append("…")
            break
        length += 1 + min(len(word), _LONGEST_WORD)
        text = escape(_shorten(word, _LONGEST_WORD))
        shown.append(f"<b class=open>{text}</b>" if place in marked else text)
    said, right = [], []
    for share, place in wrong[:_MOST_WORDS]:
        said.append(
            f"{_quote(example.words[place], most=_LONGEST_WORD)}: {_quote(case.answer[place])}{_show_share(share)}"
        )
        right.append(_quote(case.gold[place]))
    more = [f"and {len(wrong) - len(said):,} more"] if len(wrong) > len(said) else []
    return [f"<bdi>{' '.join(shown)}</bdi>", "<br>".join(said + more) or "–", "<br>".join(right) or "–"]


def _show_share(share: float | None) -> str:
    return "" if share is None or not math.isfinite(share) else f" <span class=soft>{100 * share:.1f} %</span>"


def _quote(text: object, around: int = 0, most: int = _MOST_TEXT) -> str:
    return f"<bdi>{escape(_shorten(str(text), most, around))}</bdi>"


def _shorten(text: str, most: int, around: int = 0) -> str:
    """At most so many characters of a text, those around a place."""
    if len(text) <= most:
        return text
    begin = max(0, min(around - most // 3, len(text) - most))
    return ("…" if begin else "") + text[begin : begin + most] + ("…" if begin + most < len(text) else "")


def _render_settings(run: Run) -> str:
    """What made the run what it is."""
    machine = {name: part for name, part in run.about.items() if name not in ("config", "format", "kind")}
    folded = [render_details("Configuration", run.part("config")), render_details("Machine, versions, data", machine)]
    return "\n".join(["<h2>How it was made</h2>", *folded])
