"""Where a model is right and where it errs, as fits the kind of task: tables and charts for a report."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from litebert.reports.page import escape, format_score, is_finite, render_charts, render_table
from litebert.reports.task_cases import Case, choose_threshold_of, find_probability, measure_error
from litebert.reports.task_charts import draw_calibration, draw_histograms, draw_scatter
from litebert.tasks.metrics import find_chunks
from litebert.tasks.squad_metrics import score_answer
from litebert.tasks.task import ChoiceExample, QuestionExample, Task

__all__ = ["measure_calibration", "render_breakdown", "render_constancy"]

_MOST_LABELS = 20  # of a matrix
_MOST_PAIRS = 20
_MOST_ROWS = 100
_NUM_BINS = 10
_LEAST_SPREAD = 0.05  # of predictions, as a share of that of the given scores
_LONGEST_NAME = 40
_BLUE, _ORANGE = "61,127,217", "224,123,40"
_ANSWER_LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, None))
_CONTEXT_LENGTHS = ((0, 99), (100, 199), (200, 399), (400, 799), (800, None))
Bins = list[tuple[float, float, int]]


def render_breakdown(task: Task, cases: Sequence[Case], scores: dict[str, float]) -> str:
    """The tables and charts of the task's kind."""
    if not cases:
        return ""
    match task.kind:
        case "classification":
            return _render_confusion(task, cases) + _render_calibration(cases)
        case "multi-label":
            return _render_label_scores(task, cases)
        case "regression":
            return _render_numbers(cases)
        case "tagging":
            return _render_tags(cases)
        case "questions":
            return _render_questions(task, cases, scores)
        case "choice":
            return _render_choices(task, cases) + _render_calibration(cases)


def measure_calibration(rated: Iterable[tuple[float, bool]]) -> tuple[Bins, float]:
    """Bins of (mean sureness, share right, count) for answers that are so sure and right or not, and the ECE.

    The expected calibration error is the mean of |sureness - share right| over ten bins of equal width, each by its
    count.

    >>> measure_calibration([(0.75, True), (0.75, False), (1.0, True), (1.0, True)])
    ([(0.75, 0.5, 2), (1.0, 1.0, 2)], 0.125)
    """
    groups: dict[int, list[tuple[float, bool]]] = {}
    for sure, is_right in rated:
        groups.setdefault(min(_NUM_BINS - 1, int(sure * _NUM_BINS)), []).append((sure, is_right))
    bins = []
    for _, group in sorted(groups.items()):
        bins.append((sum(sure for sure, _ in group) / len(group), sum(r for _, r in group) / len(group), len(group)))
    total = sum(count for _, _, count in bins)
    return bins, sum(count * abs(sure - right) for sure, right, count in bins) / max(1, total)


def _render_calibration(cases: Sequence[Case]) -> str:
    known = [(find_probability(case, case.answer), case.answer == case.gold) for case in cases]
    rated = [(sure, is_right) for sure, is_right in known if sure is not None]
    if not rated:
        return ""
    bins, error = measure_calibration(rated)
    sure, right = (sum(entry[column] for entry in rated) / len(rated) for column in (0, 1))
    caption = (
        f"Expected calibration error {_share(error)}: the mean distance from the dashed line, over ten bins; larger "
        f"dots stand for more answers. On average, the model was {_share(sure)} sure and {_share(right)} right."
    )
    return "<h2>How far its probabilities can be trusted</h2>\n" + render_charts([draw_calibration(bins, caption)])


def _render_confusion(task: Task, cases: Sequence[Case]) -> str:
    """A matrix; of many labels, the pairs that were confused most."""
    counts = Counter((str(case.gold), str(case.answer)) for case in cases)
    labels = list(dict.fromkeys([*task.labels, *(name for pair in counts for name in pair)]))
    if len(labels) > _MOST_LABELS:
        table = _render_pairs(counts)
        return "<h2>Labels that are confused most</h2>\n" + table if table else ""
    num_gold = Counter(str(case.gold) for case in cases)
    num_said = Counter(str(case.answer) for case in cases)
    rows = []
    for gold in labels:
        cells = [_shade(counts[gold, said], num_gold[gold], said == gold) for said in labels]
        rows.append([f"<b>{_name(gold)}</b>", *cells, _ratio(counts[gold, gold], num_gold[gold])])
    rows.append(["precision", *(_ratio(counts[name, name], num_said[name]) for name in labels), ""])
    note = (
        "<p>Rows: what is right. Columns: what the model said. The deeper the colour, the greater the row's share.</p>"
    )
    head = ["right ↓ said →", *map(_name, labels), "recall"]
    return f"<h2>Confusion matrix</h2>\n{note}\n" + render_table(rows, head, "matrix")


def _shade(count: int, total: int, is_right: bool) -> str:
    depth = 0.6 * count / max(1, total)
    style = f' style="background:rgba({_BLUE if is_right else _ORANGE},{depth:.3f})"' if count else ""
    return f"<td{style}>{count:,}</td>"


def _render_pairs(counts: Counter[tuple[str, str]]) -> str:
    """What was taken for what, most often first."""
    totals: Counter[str] = Counter()
    for (gold, _), count in counts.items():
        totals[gold] += count
    wrong = [(pair, count) for pair, count in counts.most_common() if pair[0] != pair[1]][:_MOST_PAIRS]
    rows = [[_name(gold), _name(said), f"{n:,}", _ratio(n, totals[gold])] for (gold, said), n in wrong]
    return render_table(rows, ["right", "said instead", "times", "of the right one's"]) if rows else ""


def _render_label_scores(task: Task, cases: Sequence[Case]) -> str:
    wanted = Counter(name for case in cases for name in {*case.gold})
    given = Counter(name for case in cases for name in {*case.answer})
    same = Counter(name for case in cases for name in {*case.gold} & {*case.answer})
    order = {name: place for place, name in enumerate(task.labels)}
    names = sorted({*task.labels, *wanted, *given}, key=lambda name: (order.get(name, len(order)), str(name)))
    return "<h2>By label</h2>\n" + _render_found(names, wanted, given, same, "label")


def _render_found(
    names: Sequence[str], wanted: Counter[str], given: Counter[str], same: Counter[str], title: str
) -> str:
    """Precision, recall and F1 of each name; of very many names, the most frequent."""
    shown = names
    if len(names) > _MOST_ROWS:
        shown = sorted(names, key=lambda name: (-wanted[name], -given[name], str(name)))[:_MOST_ROWS]
    rows = []
    for name in shown:
        counts = [f"{counter[name]:,}" for counter in (wanted, given, same)]
        shares = [_ratio(same[name], given[name]), _ratio(same[name], wanted[name])]
        rows.append([_name(name), *counts, *shares, _ratio(2 * same[name], wanted[name] + given[name])])
    more = f"<p>The {_MOST_ROWS} most frequent of {len(names):,}.</p>\n" if len(names) > _MOST_ROWS else ""
    return more + render_table(rows, [title, "there are", "found", "right", "precision", "recall", "F1"], "number")


def _render_tags(cases: Sequence[Case]) -> str:
    wanted: Counter[str] = Counter()
    given: Counter[str] = Counter()
    same: Counter[str] = Counter()
    confused: Counter[tuple[str, str]] = Counter()
    for case in cases:
        golds, found = find_chunks(case.gold), find_chunks(case.answer)
        wanted.update(type_ for _, _, type_ in golds)
        given.update(type_ for _, _, type_ in found)
        same.update(type_ for _, _, type_ in golds & found)
        confused.update(zip(case.gold, case.answer, strict=False))
    names = sorted({*wanted, *given})
    parts = ["<h2>By type of name</h2>", _render_found(names, wanted, given, same, "type")] if names else []
    pairs = _render_pairs(confused)
    return "\n".join([*parts, *(["<h2>Tags that are confused most</h2>", pairs] if pairs else [])])


def _render_numbers(cases: Sequence[Case]) -> str:
    pairs = [(case.gold, case.answer) for case in cases if is_finite(case.gold) and is_finite(case.answer)]
    groups = {"given": [gold for gold, _ in pairs], "predicted": [answer for _, answer in pairs]}
    scatter = draw_scatter(pairs, "On the dashed line, both are the same.")
    histogram = draw_histograms(
        "How often scores occur", groups, "score", "A model that is unsure keeps to the middle."
    )
    return "<h2>Predicted and given scores</h2>\n" + render_charts([scatter, histogram]) if pairs else ""


def render_constancy(task: Task, cases: Sequence[Case]) -> str:
    """A warning, if a model gives every text the same score: a correlation, which knows no scale, does not show it."""
    pairs = [(case.gold, case.answer) for case in cases if is_finite(case.gold) and is_finite(case.answer)]
    if task.kind != "regression" or not pairs:
        return ""
    golds, answers = ([float(pair[column]) for pair in pairs] for column in (0, 1))
    if statistics.pstdev(answers) >= _LEAST_SPREAD * statistics.pstdev(golds):
        return ""
    least, most, low, high = (format_score("mse", end(values)) for values in (answers, golds) for end in (min, max))
    return (
        f"<p class=open>It says nearly the same for every text, {least} to {most}, where the given scores go from "
        f"{low} to {high}: a correlation does not show that.</p>"
    )


def _render_questions(task: Task, cases: Sequence[Case], scores: dict[str, float]) -> str:
    parts = []
    if task.has_unanswerable and any(case.null_odds is not None for case in cases):
        groups: dict[str, list[float]] = {"has an answer": [], "has none": []}
        for case in cases:
            groups["has an answer" if case.gold else "has none"] += [] if case.null_odds is None else [case.null_odds]
        threshold = choose_threshold_of(scores)
        caption = "" if threshold is None else _describe_threshold([*groups.values()], threshold)
        chart = draw_histograms("Odds that there is no answer", groups, "null odds", caption, threshold)
        parts += ["<h2>Does the context hold an answer?</h2>", render_charts([chart])]
    answered = [case for case in cases if case.gold]
    by_answer = _group(answered, lambda case: min(len(text.split()) for text in case.gold), _ANSWER_LENGTHS)
    by_context = _group(cases, _count_context, _CONTEXT_LENGTHS)
    if len(answered) < len(cases):
        by_answer.append(("no answer", [case for case in cases if not case.gold]))
    parts += ["<h2>By words of the right answer</h2>", _render_f1(task, by_answer)] if by_answer else []
    return "\n".join([*parts, "<h2>By words of the context</h2>", _render_f1(task, by_context)])


def _describe_threshold(groups: Sequence[Sequence[float]], threshold: float) -> str:
    """What a threshold makes of the odds: the chart may not reach as far as where it is."""
    odds = [value for group in groups for value in group]
    num_answered = sum(value <= threshold for value in odds)
    answered = {0: "none", len(odds): "all"}.get(num_answered, f"{num_answered:,}")
    return (
        f"Beyond the threshold, {format_score('threshold', threshold)}, the model says that there is no answer. "
        f"It answers {answered} of the {len(odds):,} questions."
    )


def _count_context(case: Case) -> int:
    return len(case.example.context.split()) if isinstance(case.example, QuestionExample) else 0


def _group(
    cases: Sequence[Case], measure: Callable[[Case], int], edges: Sequence[tuple[int, int | None]]
) -> list[tuple[str, list[Case]]]:
    """Cases by a length, in ranges that are named as people write them; ranges without a case are left out."""
    groups = []
    for place, (low, high) in enumerate(edges):
        least = 0 if place == 0 else low
        inside = [case for case in cases if least <= measure(case) <= (high or 1 << 62)]
        name = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
        groups += [(name, inside)] if inside else []
    return groups


def _render_f1(task: Task, groups: Sequence[tuple[str, Sequence[Case]]]) -> str:
    rows = []
    for name, cases in groups:
        questions = [(case.example, str(case.answer)) for case in cases if isinstance(case.example, QuestionExample)]
        pairs = [score_answer(question, answer, task.has_unanswerable) for question, answer in questions]
        means = [_ratio(sum(pair[column] for pair in pairs), len(pairs)) for column in (0, 1)]
        rows.append([name, f"{len(pairs):,}", *means])
    return render_table(rows, ["words", "questions", "exact", "F1"], "number")


def _render_choices(task: Task, cases: Sequence[Case]) -> str:
    hits = [measure_error(task, case) == 0 for case in cases]
    groups = [case.example.group if isinstance(case.example, ChoiceExample) else "" for case in cases]
    said = Counter(case.answer for case in cases)
    parts = []
    if any(groups):
        rows = [[name, *cells] for name, cells in _count_hits(groups, hits)]
        parts += ["<h2>By group</h2>", render_table(rows, ["group", "questions", "right"], "number")]
    places = [case.gold for case in cases]
    rows = [[name, *cells, f"{said[place]:,}"] for place, (name, cells) in _sort_places(places, hits)]
    head = ["right option", "questions", "right", "times it was chosen"]
    return "\n".join([*parts, "<h2>By position of the right option</h2>", render_table(rows, head, "number")]) + "\n"


def _sort_places(places: Sequence[int], hits: Sequence[bool]) -> list[tuple[int, tuple[str, list[str]]]]:
    """Options are counted from one, as people do."""
    order = sorted({*places})[:_MOST_ROWS]
    return list(zip(order, _count_hits([place + 1 for place in places], hits), strict=True))


def _count_hits(keys: Sequence[Any], hits: Sequence[bool]) -> list[tuple[str, list[str]]]:
    """How many there are of each key, and the share that is right."""
    totals = Counter(keys)
    right = Counter(key for key, is_right in zip(keys, hits, strict=True) if is_right)
    ordered = sorted(totals)[:_MOST_ROWS]
    return [(_name(key) or "–", [f"{totals[key]:,}", _ratio(right[key], totals[key])]) for key in ordered]


def _ratio(part: float, whole: float) -> str:
    return _share(part / whole) if whole else "–"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _name(text: object) -> str:
    """A label on a page, cut if it is very long."""
    name = str(text)
    return f"<bdi>{escape(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + '…')}</bdi>"
