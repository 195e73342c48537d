"""Where a model is right and where it errs, for each kind of task, as sections of a report (`tasks.sections`).

`describe` looks a kind up in `DESCRIBERS`. `list_answered` puts examples that have a label
beside their answers; a kind describes these, its worst mistakes last: what the model was surest of and got wrong.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litebert.errors import RequestError
from litebert.quantities import format_share, is_finite
from litebert.tasks.metrics import find_chunks, gold_answer
from litebert.tasks.sections import (
    BREAK,
    Calibration,
    Case,
    Cases,
    Cell,
    ConfusionMatrix,
    Histogram,
    Notice,
    Part,
    Scatter,
    Section,
    Span,
    Table,
    format_metric,
    shorten,
)
from litebert.tasks.squad_metrics import score_answer
from litebert.tasks.task import ChoiceExample, Example, QuestionExample, TaggedExample, Task, TextExample

if TYPE_CHECKING:
    from litebert.tasks.outputs import Answers

__all__ = ["DESCRIBERS", "Answered", "describe", "list_answered", "measure_calibration", "name_majority"]

Description = list[Section | Notice]

_MOST_LABELS = 20  # of a confusion matrix
_MOST_PAIRS = 20
_MOST_ROWS = 100
_MOST_MISTAKES = 30
_MOST_TEXT = 300  # characters of an example
_MOST_WORDS = 5  # of a cell
_LONGEST_WORD = 60
_LONGEST_NAME = 40
_NUM_BINS = 10
_LEAST_SPREAD = 0.05  # of predictions, as a share of that of the given values
_ANSWER_LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, None))
_CONTEXT_LENGTHS = ((0, 99), (100, 199), (200, 399), (400, 799), (800, None))


@dataclass(frozen=True)
class Answered:
    """An example that has a label, and what the model answered."""

    example: Example
    gold: Any
    answer: Any
    details: Mapping[str, Any]
    null_odds: float | None = None

    def probability(self, key: Any) -> float | None:
        """What the model gave a label (by name) or an option or word (by index), if that is known and makes sense."""
        shares = self.details.get("probabilities")
        value: Any = None
        if isinstance(shares, dict):
            value = shares.get(key)
        elif isinstance(shares, list | tuple) and type(key) is int and 0 <= key < len(shares):
            value = shares[key]
        return _as_share(value)


def describe(
    task: Task, examples: Sequence[Example], answers: "Answers", metrics: Mapping[str, float] | None = None
) -> Description:
    """What the predictions of a task tell: sections for a report, and warnings."""
    answered = list_answered(examples, answers)
    return DESCRIBERS[task.kind](task, answered, metrics or {}) if answered else []


def list_answered(examples: Sequence[Example], answers: "Answers") -> list[Answered]:
    """Put examples that have a label beside their answers. Nothing can be said of those without one."""
    if len(examples) != len(answers.answers):
        raise RequestError(
            f"there are {len(answers.answers):,} answers to {len(examples):,} examples: give one for each"
        )
    answered = []
    for index, example in enumerate(examples):
        details = answers.details[index] if index < len(answers.details) else {}
        odds = answers.null_odds[index] if answers.null_odds is not None else None
        gold = gold_answer(example)
        if gold is not None:
            known = details if isinstance(details, dict) else {}
            answered.append(Answered(example, gold, answers.answers[index], known, odds if is_finite(odds) else None))
    return answered


def name_majority(task: Task) -> str:
    """What a model that does not look at the text says at best."""
    return _MAJORITIES.get(task.kind, "the most frequent answer alone")


# Classification.


def _describe_classes(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    counts = Counter((str(one.gold), str(one.answer)) for one in answered)
    labels = list(dict.fromkeys([*task.labels, *(name for pair in counts for name in pair)]))
    sections: Description = []
    if len(labels) <= _MOST_LABELS:
        note = "Rows: what is right. Columns: what the model said. The deeper the colour, the greater the row's share."
        sections.append(Section("Confusion matrix", [ConfusionMatrix(labels, counts)], note))
    else:
        sections += _section("Labels that are confused most", _count_confused(counts))
    sections += _describe_calibration(answered)
    return [*sections, _describe_mistakes(answered, _is_wrong, _confidence, _show_classes)]


def _show_classes(one: Answered) -> tuple[Cell, Cell, Cell]:
    said, right = ((_quote(name), *_show_share(one.probability(name))) for name in (one.answer, one.gold))
    return _show_text(one), said, right


def _show_text(one: Answered) -> Cell:
    assert isinstance(one.example, TextExample)
    pair = one.example.pair
    return (_quote(one.example.text), *((BREAK, _quote(pair)) if pair is not None else ()))


# Several labels.


def _describe_label_sets(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    wanted = Counter(name for one in answered for name in {*one.gold})
    given = Counter(name for one in answered for name in {*one.answer})
    same = Counter(name for one in answered for name in {*one.gold} & {*one.answer})
    order = {name: index for index, name in enumerate(task.labels)}
    names = sorted({*task.labels, *wanted, *given}, key=lambda name: (order.get(name, len(order)), str(name)))
    return [
        Section("By label", [_count_found(names, wanted, given, same, "label")]),
        _describe_mistakes(answered, _has_wrong_labels, _label_confidence, _show_label_sets),
    ]


def _has_wrong_labels(one: Answered) -> float:
    return float({*one.gold} != {*one.answer})


def _label_confidence(one: Answered) -> float | None:
    """How sure the model was of the label that it missed or added."""
    missed = [one.probability(name) for name in {*one.gold} - {*one.answer}]
    added = [one.probability(name) for name in {*one.answer} - {*one.gold}]
    known = [1 - share for share in missed if share is not None] + [share for share in added if share]
    return max(known, default=None)


def _show_label_sets(one: Answered) -> tuple[Cell, Cell, Cell]:
    return _show_text(one), _show_names(one, one.answer), _show_names(one, one.gold)


def _show_names(one: Answered, names: Iterable[Any]) -> Cell:
    lines: list[tuple[Span, ...]] = [(_quote(name), *_show_share(one.probability(name))) for name in names]
    return _join_lines(lines[:_MOST_WORDS] + ([(Span("…"),)] if len(lines) > _MOST_WORDS else [])) or "none"


# Numbers.


def _describe_numbers(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    pairs = [(one.gold, one.answer) for one in answered if is_finite(one.gold) and is_finite(one.answer)]
    sections: Description = []
    if pairs:
        golds, said = ([float(pair[column]) for pair in pairs] for column in (0, 1))
        sections += _warn_of_constants(golds, said)
        note = "A model that is unsure keeps to the middle."
        parts: list[Part] = [
            Scatter(
                "Predicted against given scores", pairs, "given", "predicted", "On the dashed line, both are the same."
            ),
            Histogram("How often scores occur", {"given": golds, "predicted": said}, "score", note),
        ]
        sections.append(Section("Predicted and given scores", parts))
    note = "Those farthest off come first."
    return [*sections, _describe_mistakes(answered, _distance, _distance, _show_numbers, note)]


def _warn_of_constants(golds: Sequence[float], said: Sequence[float]) -> list[Notice]:
    """A warning, if a model gives every text the same number: a correlation, which knows no scale, does not show it."""
    if statistics.pstdev(said) >= _LEAST_SPREAD * statistics.pstdev(golds):
        return []
    least, most, low, high = (format_metric("mse", end(values)) for values in (said, golds) for end in (min, max))
    message = f"It says nearly the same for every text, {least} to {most}, where the given scores go from {low} to "
    return [Notice(f"{message}{high}: a correlation does not show that.")]


def _distance(one: Answered) -> float:
    return abs(one.gold - one.answer) if is_finite(one.gold) and is_finite(one.answer) else math.inf


def _show_numbers(one: Answered) -> tuple[Cell, Cell, Cell]:
    return _show_text(one), format_metric("mse", one.answer), format_metric("mse", one.gold)


# Tags of words.


def _describe_tags(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    wanted: Counter[str] = Counter()
    given: Counter[str] = Counter()
    same: Counter[str] = Counter()
    confused: Counter[tuple[str, str]] = Counter()
    for one in answered:
        golds, found = find_chunks(one.gold), find_chunks(one.answer)
        wanted.update(type_ for _, _, type_ in golds)
        given.update(type_ for _, _, type_ in found)
        same.update(type_ for _, _, type_ in golds & found)
        confused.update(zip(one.gold, one.answer, strict=False))
    names = sorted({*wanted, *given})
    sections: Description = []
    sections += _section("By type of name", _count_found(names, wanted, given, same, "type") if names else None)
    sections += _section("Tags that are confused most", _count_confused(confused))
    note = "{wrong} of {all} sentences have a wrong tag. Those that the model was surest of come first."
    return [*sections, _describe_mistakes(answered, _has_wrong_tags, _tag_confidence, _show_tags, note)]


def _has_wrong_tags(one: Answered) -> float:
    return float(tuple(one.gold) != tuple(one.answer))


def _list_wrong_words(one: Answered) -> list[tuple[float | None, int]]:
    """The words that got a wrong tag, surest first, with the probability of that tag."""
    pairs = zip(one.gold, one.answer, strict=False)
    wrong = [index for index, (gold, answer) in enumerate(pairs) if gold != answer]
    rated = [(one.probability(index), index) for index in wrong]
    return sorted(rated, key=lambda entry: (-(entry[0] or 0.0), entry[1]))


def _tag_confidence(one: Answered) -> float | None:
    return max((share for share, _ in _list_wrong_words(one) if share is not None), default=None)


def _show_tags(one: Answered) -> tuple[Cell, Cell, Cell]:
    """The words around the surest mistake, with all wrong ones marked."""
    assert isinstance(one.example, TaggedExample)
    words, wrong = one.example.words, _list_wrong_words(one)
    marked = {index for _, index in wrong}
    first = max(0, (wrong[0][1] if wrong else 0) - _LONGEST_WORD // 4)
    shown, length = [Span("… ")] if first else [], 0
    for index, word in enumerate(words[first:], first):
        space = " " if index > first else ""
        if length > _MOST_TEXT:
            shown.append(Span(" …"))
            break
        length += 1 + min(len(word), _LONGEST_WORD)
        shown.append(Span(space + shorten(word, _LONGEST_WORD), "wrong" if index in marked else "plain"))
    said: list[tuple[Span, ...]] = []
    right: list[tuple[Span, ...]] = []
    for share, index in wrong[:_MOST_WORDS]:
        tag = _quote(one.answer[index])
        said.append((_quote(words[index], most=_LONGEST_WORD), Span(": "), tag, *_show_share(share)))
        right.append((_quote(one.gold[index]),))
    if len(wrong) > len(said):
        said.append((Span(f"and {len(wrong) - len(said):,} more"),))
    return tuple(shown), _join_lines(said) or "–", _join_lines(right) or "–"


# Questions.


def _describe_questions(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    threshold = _find_threshold(metrics)
    sections: Description = []
    if task.has_unanswerable and any(one.null_odds is not None for one in answered):
        groups: dict[str, list[float]] = {"has an answer": [], "has none": []}
        for one in answered:
            groups["has an answer" if one.gold else "has none"] += [] if one.null_odds is None else [one.null_odds]
        note = "" if threshold is None else _explain_threshold([*groups.values()], threshold)
        chart = Histogram("Odds that there is no answer", groups, "null odds", note, threshold)
        sections.append(Section("Does the context hold an answer?", [chart]))
    with_answer = [one for one in answered if one.gold]
    by_answer = _group(with_answer, lambda one: min(len(text.split()) for text in one.gold), _ANSWER_LENGTHS)
    by_context = _group(answered, _count_context, _CONTEXT_LENGTHS)
    if len(with_answer) < len(answered):
        by_answer.append(("no answer", [one for one in answered if not one.gold]))
    sections += _section("By words of the right answer", _count_f1(task, by_answer) if by_answer else None)
    sections += _section("By words of the context", _count_f1(task, by_context))

    def error(one: Answered) -> float:
        assert isinstance(one.example, QuestionExample)
        return 1.0 - score_answer(one.example, str(one.answer), task.has_unanswerable)[1]

    def weight(one: Answered) -> float | None:
        sure = _answer_confidence(one, threshold)
        return None if sure is None else sure * error(one)

    return [*sections, _describe_mistakes(answered, error, weight, _show_question)]


def _find_threshold(metrics: Mapping[str, float]) -> float | None:
    """The odds above which a question counted as having no answer, if the metrics tell."""
    names = ("threshold", "best_f1_thresh", "best_exact_thresh")
    return next((float(metrics[name]) for name in names if is_finite(metrics.get(name))), None)


def _explain_threshold(groups: Sequence[Sequence[float]], threshold: float) -> str:
    """What a threshold makes of the odds: the chart may not reach as far as where it is."""
    odds = [value for group in groups for value in group]
    num_answered = sum(value <= threshold for value in odds)
    shown = {0: "none", len(odds): "all"}.get(num_answered, f"{num_answered:,}")
    return (
        f"Beyond the threshold, {format_metric('threshold', threshold)}, the model says that there is no answer. "
        f"It answers {shown} of the {len(odds):,} questions."
    )


def _count_context(one: Answered) -> int:
    return len(one.example.context.split()) if isinstance(one.example, QuestionExample) else 0


def _group(
    answered: Sequence[Answered], measure: Callable[[Answered], int], edges: Sequence[tuple[int, int | None]]
) -> list[tuple[str, list[Answered]]]:
    """Examples by a length, in ranges that are named as people write them; empty ranges are left out."""
    groups = []
    for index, (low, high) in enumerate(edges):
        least = 0 if index == 0 else low
        inside = [one for one in answered if least <= measure(one) <= (high or 1 << 62)]
        name = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
        groups += [(name, inside)] if inside else []
    return groups


def _count_f1(task: Task, groups: Sequence[tuple[str, Sequence[Answered]]]) -> Table:
    rows = []
    for name, answered in groups:
        questions = [(one.example, str(one.answer)) for one in answered if isinstance(one.example, QuestionExample)]
        pairs = [score_answer(question, answer, task.has_unanswerable) for question, answer in questions]
        means = [format_share(sum(pair[column] for pair in pairs), len(pairs)) for column in (0, 1)]
        rows.append([name, f"{len(pairs):,}", *means])
    return Table(["words", "questions", "exact", "F1"], rows)


def _answer_confidence(one: Answered, threshold: float | None = None) -> float | None:
    """How sure the model was of an answer, or that there is none."""
    if one.answer == "":
        odds = one.null_odds
        return None if odds is None else 0.5 * (1 + math.tanh((odds - (threshold or 0.0)) / 2))
    candidates = one.details.get("nbest")
    for candidate in candidates if isinstance(candidates, list) else ():
        if isinstance(candidate, dict) and candidate.get("text") == one.answer:
            return _as_share(candidate.get("probability"))
    return None


def _show_question(one: Answered) -> tuple[Cell, Cell, Cell]:
    example = one.example
    assert isinstance(example, QuestionExample)
    index = example.answers[0].begin if example.answers else example.context.find(str(one.answer))
    text = (Span(shorten(example.question, _MOST_TEXT), "bold"), BREAK, _quote(example.context, index))
    said = (_quote(one.answer), *_show_share(_answer_confidence(one))) if one.answer else (Span("no answer"),)
    if one.null_odds is not None:
        said = (*said, Span(f"null odds {format_metric('threshold', one.null_odds)}", "small"))
    golds: list[tuple[Span, ...]] = [(_quote(gold),) for gold in dict.fromkeys(one.gold)]
    return text, said, _join_lines(golds[:_MOST_WORDS]) or "no answer"


# Choices.


def _describe_choices(task: Task, answered: Sequence[Answered], metrics: Mapping[str, float]) -> Description:
    hits = [one.gold == one.answer for one in answered]
    groups = [one.example.group if isinstance(one.example, ChoiceExample) else "" for one in answered]
    said = Counter(one.answer for one in answered)
    sections: Description = []
    if any(groups):
        rows = [[_name(name) or "–", *cells] for name, cells in _count_hits(groups, hits)]
        sections += _section("By group", Table(["group", "questions", "right"], rows))
    positions = _count_hits([one.gold for one in answered], hits)
    rows = [[str(position + 1), *cells, f"{said[position]:,}"] for position, cells in positions]
    header = ["right option", "questions", "right", "times it was chosen"]
    sections += _section("By position of the right option", Table(header, rows))
    sections += _describe_calibration(answered)
    return [*sections, _describe_mistakes(answered, _is_wrong, _confidence, _show_choice)]


def _count_hits(keys: Sequence[Any], hits: Sequence[bool]) -> list[tuple[Any, list[str]]]:
    """How many there are of each key, and the share that is right."""
    totals = Counter(keys)
    right = Counter(key for key, is_right in zip(keys, hits, strict=True) if is_right)
    return [(key, [f"{totals[key]:,}", format_share(right[key], totals[key])]) for key in sorted(totals)[:_MOST_ROWS]]


def _show_choice(one: Answered) -> tuple[Cell, Cell, Cell]:
    example = one.example
    assert isinstance(example, ChoiceExample)

    def show(index: Any) -> Cell:
        is_there = isinstance(index, int) and 0 <= index < len(example.options)
        return (_quote(example.options[index]), *_show_share(one.probability(index))) if is_there else "–"

    text = (_quote(example.passage), BREAK, Span(shorten(example.question, _MOST_TEXT), "bold"))
    return text, show(one.answer), show(one.gold)


# What several kinds share.


def measure_calibration(rated: Iterable[tuple[float, bool]]) -> tuple[list[tuple[float, float, int]], float]:
    """Bins of (mean confidence, share right, count) for answers that are so sure and right or not, and the ECE.

    The expected calibration error is the mean of |confidence - share right| over ten bins of equal width, each by its
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


def _describe_calibration(answered: Sequence[Answered]) -> list[Section]:
    known = [(one.probability(one.answer), one.answer == one.gold) for one in answered]
    rated = [(sure, is_right) for sure, is_right in known if sure is not None]
    if not rated:
        return []
    bins, error = measure_calibration(rated)
    sure, right = (sum(entry[column] for entry in rated) / len(rated) for column in (0, 1))
    note = (
        f"Expected calibration error {format_share(error)}: the mean distance from the dashed line, over ten bins; "
        f"larger dots stand for more answers. On average, the model was {format_share(sure)} sure and "
        f"{format_share(right)} right."
    )
    return _section("How far its probabilities can be trusted", Calibration("Calibration", bins, note))


def _count_confused(counts: Counter[tuple[str, str]]) -> Table | None:
    """What was taken for what, most often first; nothing if all is right."""
    totals: Counter[str] = Counter()
    for (gold, _), count in counts.items():
        totals[gold] += count
    wrong = [(pair, count) for pair, count in counts.most_common() if pair[0] != pair[1]][:_MOST_PAIRS]
    rows = [[_name(gold), _name(said), f"{n:,}", format_share(n, totals[gold])] for (gold, said), n in wrong]
    return Table(["right", "said instead", "times", "of the right one's"], rows, "text") if rows else None


def _count_found(
    names: Sequence[str], wanted: Counter[str], given: Counter[str], same: Counter[str], title: str
) -> Table:
    """Precision, recall and F1 of each name; of very many names, the most frequent."""
    shown = names
    if len(names) > _MOST_ROWS:
        shown = sorted(names, key=lambda name: (-wanted[name], -given[name], str(name)))[:_MOST_ROWS]
    rows = []
    for name in shown:
        counts = [f"{counter[name]:,}" for counter in (wanted, given, same)]
        shares = [format_share(same[name], given[name]), format_share(same[name], wanted[name])]
        rows.append([_name(name), *counts, *shares, format_share(2 * same[name], wanted[name] + given[name])])
    note = f"The {_MOST_ROWS} most frequent of {len(names):,}." if len(names) > _MOST_ROWS else ""
    return Table([title, "there are", "found", "right", "precision", "recall", "F1"], rows, note=note)


def _describe_mistakes(
    answered: Sequence[Answered],
    error: Callable[[Answered], float],
    confidence: Callable[[Answered], float | None],
    show: Callable[[Answered], tuple[Cell, Cell, Cell]],
    note: str = "{wrong} of {all} answers are not right. Those that the model was surest of come first.",
) -> Section:
    """The wrong answers, the surest (or farthest off) first; `show` makes the text, what was said and what is right."""
    wrong = [one for one in answered if error(one) > 0]
    if not wrong:
        return Section("Worst mistakes", [Cases([])], f"None: all {len(answered):,} answers are right.")
    rated = []
    for index, one in enumerate(wrong):
        sure = confidence(one)
        rated.append((1.0 if sure is None else -sure, index))
    worst = [wrong[index] for _, index in sorted(rated)[:_MOST_MISTAKES]]
    cases = [Case(shorten(one.example.id, _LONGEST_WORD), *show(one)) for one in worst]
    return Section("Worst mistakes", [Cases(cases)], note.format(wrong=f"{len(wrong):,}", all=f"{len(answered):,}"))


def _is_wrong(one: Answered) -> float:
    return float(one.gold != one.answer)


def _confidence(one: Answered) -> float | None:
    return one.probability(one.answer)


def _section(title: str, part: Part | None) -> list[Section]:
    return [] if part is None else [Section(title, [part])]


def _quote(text: object, around: int = 0, most: int = _MOST_TEXT) -> Span:
    return Span(shorten(text, most, around))


def _show_share(share: float | None) -> tuple[Span, ...]:
    return () if share is None else (Span(f" {format_share(share)}", "soft"),)


def _join_lines(lines: Sequence[tuple[Span, ...]]) -> tuple[Span, ...]:
    joined = [span for line in lines for span in (BREAK, *line)]
    return tuple(joined[1:])


def _name(text: object) -> str:
    return shorten(text, _LONGEST_NAME)


def _as_share(value: object) -> float | None:
    return float(value) if is_finite(value) and 0 <= value <= 1 else None


DESCRIBERS: dict[str, Callable[[Task, Sequence[Answered], Mapping[str, float]], Description]] = {
    "classification": _describe_classes,
    "multi-label": _describe_label_sets,
    "regression": _describe_numbers,
    "tagging": _describe_tags,
    "questions": _describe_questions,
    "choice": _describe_choices,
}
_MAJORITIES = {"questions": "“no answer” to all", "regression": "the mean score alone", "choice": "one position alone"}
