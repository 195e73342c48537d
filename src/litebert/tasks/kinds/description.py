"""What the descriptions of several kinds share: answered examples, calibration, confusions, the worst mistakes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litebert.quantities import format_share, is_finite
from litebert.tasks.sections import BREAK, Calibration, Case, Cases, Cell, Notice, Part, Section, Span, Table, shorten
from litebert.tasks.task import Example

__all__ = [
    "LONGEST_NAME",
    "LONGEST_WORD",
    "MOST_ROWS",
    "MOST_TEXT",
    "MOST_WORDS",
    "Answered",
    "Description",
    "as_share",
    "confidence",
    "count_confused",
    "count_found",
    "describe_calibration",
    "describe_mistakes",
    "is_wrong",
    "join_lines",
    "make_section",
    "measure_calibration",
    "quote_text",
    "short_name",
    "show_share",
]

Description = list[Section | Notice]

MOST_ROWS = 100  # of a table
MOST_TEXT = 300  # characters of an example
MOST_WORDS = 5  # of a cell
LONGEST_WORD = 60
LONGEST_NAME = 40
_MOST_PAIRS = 20
_MOST_MISTAKES = 30
_NUM_BINS = 10


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
        return as_share(value)


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


def describe_calibration(answered: Sequence[Answered]) -> list[Section]:
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
    return make_section("How far its probabilities can be trusted", Calibration("Calibration", bins, note))


def count_confused(counts: Counter[tuple[str, str]]) -> Table | None:
    """What was taken for what, most often first; nothing if all is right."""
    totals: Counter[str] = Counter()
    for (gold, _), count in counts.items():
        totals[gold] += count
    wrong = [(pair, count) for pair, count in counts.most_common() if pair[0] != pair[1]][:_MOST_PAIRS]
    rows = [[short_name(gold), short_name(said), f"{n:,}", format_share(n, totals[gold])] for (gold, said), n in wrong]
    return Table(["right", "said instead", "times", "of the right one's"], rows, "text") if rows else None


def count_found(
    names: Sequence[str], wanted: Counter[str], given: Counter[str], same: Counter[str], title: str
) -> Table:
    """Precision, recall and F1 of each name; of very many names, the most frequent."""
    shown = names
    if len(names) > MOST_ROWS:
        shown = sorted(names, key=lambda name: (-wanted[name], -given[name], str(name)))[:MOST_ROWS]
    rows = []
    for name in shown:
        counts = [f"{counter[name]:,}" for counter in (wanted, given, same)]
        shares = [format_share(same[name], given[name]), format_share(same[name], wanted[name])]
        rows.append([short_name(name), *counts, *shares, format_share(2 * same[name], wanted[name] + given[name])])
    note = f"The {MOST_ROWS} most frequent of {len(names):,}." if len(names) > MOST_ROWS else ""
    return Table([title, "there are", "found", "right", "precision", "recall", "F1"], rows, note=note)


def describe_mistakes(
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
    cases = [Case(shorten(one.example.id, LONGEST_WORD), *show(one)) for one in worst]
    return Section("Worst mistakes", [Cases(cases)], note.format(wrong=f"{len(wrong):,}", all=f"{len(answered):,}"))


def is_wrong(one: Answered) -> float:
    return float(one.gold != one.answer)


def confidence(one: Answered) -> float | None:
    return one.probability(one.answer)


def make_section(title: str, part: Part | None) -> list[Section]:
    return [] if part is None else [Section(title, [part])]


def quote_text(text: object, around: int = 0, most: int = MOST_TEXT) -> Span:
    return Span(shorten(text, most, around))


def show_share(share: float | None) -> tuple[Span, ...]:
    return () if share is None else (Span(f" {format_share(share)}", "soft"),)


def join_lines(lines: Sequence[tuple[Span, ...]]) -> tuple[Span, ...]:
    joined = [span for line in lines for span in (BREAK, *line)]
    return tuple(joined[1:])


def short_name(text: object) -> str:
    return shorten(text, LONGEST_NAME)


def as_share(value: object) -> float | None:
    return float(value) if is_finite(value) and 0 <= value <= 1 else None
