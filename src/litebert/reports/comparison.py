"""A comparison of several ways to solve one task: a page with a chart, plain text, and Markdown.

A row is a dict: `name` and `score` (the value of the metric), and as far as known `explanation`, `score_low` and
`score_high` (over seeds), `train_seconds`, `size_bytes`, `texts_per_second`, `only_majority` and `note`. What is
missing or no number is shown as a dash. `about` is the rest of `compare.json`: with `num_examples` the page says how
certain the values are, with `settings` how they came about.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from litebert.quantities import finite_numbers, format_bytes, format_count, format_duration, is_finite
from litebert.reports.page import flatten, importing_charts, render, write_page
from litebert.tasks.metrics import METRICS, has_learnt
from litebert.tasks.sections import Cell, Span, Table, format_metric

__all__ = [
    "estimate_interval",
    "is_different",
    "render_comparison_markdown",
    "render_comparison_text",
    "write_comparison",
]

Row = Mapping[str, Any]
Rows = Sequence[Row]
Interval = tuple[float, float]

_MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "train_seconds": ("training", lambda seconds: format_duration(seconds) if seconds >= 1 else "< 1 s"),
    "size_bytes": ("size", format_bytes),
    "texts_per_second": ("texts/s", lambda rate: format_count(rate) if rate < 1000 else f"{rate:,.0f}"),
}
_ERRORS = ("mse", "mae")  # the lower the better, and without an upper end
_CORRELATIONS = ("pearson", "spearman", "matthews")
_MAJORITY = "majority"
_Z = 1.96  # 95 % of a normal distribution
_SETTINGS = {"learning_rate": "learning rate", "batch_size": "batch size", "max_length": "tokens at most"}


def write_comparison(
    out: Path, title: str, rows: list[dict[str, Any]], metric: str, about: Mapping[str, Any] | None = None
) -> Path:
    """Write the page: a chart, everything in one table in the order given, how certain it is, and the settings."""
    return write_page(out, render("comparison.html", **_view(title, rows, metric, about or {})))


def _view(title: str, rows: Rows, metric: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says, as plain values, tables and charts."""
    with importing_charts():
        from litebert.reports.charts import Bar, draw_comparison

    num_examples = _count_examples(about)
    intervals = [_find_interval(row, metric, num_examples) for row in rows]
    has_intervals = any(intervals)
    bars = []
    for row, interval in zip(rows, intervals, strict=True):
        known = finite_numbers(row)
        over_seeds = None if has_intervals else (known.get("score_low"), known.get("score_high"))
        bars.append(Bar(_say(row, "name"), known.get("score"), *(interval or over_seeds or (None, None))))
    caption = "The thin lines are 95 % intervals." if has_intervals else ""
    if not has_intervals and any(bar.low is not None for bar in bars):
        caption = "The thin lines reach from the lowest to the highest seed."
    chart = draw_comparison(bars, metric, caption)
    explanation = about.get("metric_says", METRICS.get(metric))
    return {
        "title": title,
        "metric": metric + (f": {explanation}" if isinstance(explanation, str) else ""),
        "best": _name_best(rows, metric, num_examples),
        "notices": _warn_of_majority(rows, metric),
        "charts": [chart] if chart else [],
        "table": _tabulate(rows, metric, num_examples),
        "has_notes": any(_say(row, "note") for row in rows),
        "uncertainty": _explain_uncertainty(rows, metric, num_examples, about),
        "settings": _tabulate_settings(about),
    }


def _tabulate(rows: Rows, metric: str, num_examples: int | None) -> Table:
    best = _find_best(rows, metric)
    table: list[list[Cell]] = []
    for row, cells in zip(rows, _fill_cells(rows, metric, num_examples), strict=True):
        about = _say(row, "explanation")
        name = (Span(cells[0]), *([Span(about, "small")] if about else []))
        value: Cell = (Span(cells[1], "right"),) if cells[1] == best else cells[1]
        table.append([name, value, *cells[2:]])
    return Table(_name_columns(rows, metric, num_examples), table)


def _tabulate_settings(about: Mapping[str, Any]) -> Table | None:
    settings = about.get("settings")
    rows = [
        [_SETTINGS.get(name, name.replace("_", " ")), value]
        for name, value in flatten("", settings if isinstance(settings, dict) else {})
        if value != "None"
    ]
    return Table([], rows, "text") if rows else None


# How certain a value is.


def estimate_interval(metric: str, value: float, num_examples: int) -> Interval | None:
    """The 95 % interval of a metric, from the number of examples alone; None if that does not tell it.

    Of a share it is Wilson's interval, of a correlation Fisher's. An F1 is taken for a share, approximately.

    >>> low, high = estimate_interval("accuracy", 0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    n = num_examples
    if metric in _CORRELATIONS and n > 3:
        middle, reach = math.atanh(max(-0.999999, min(0.999999, value))), _Z / math.sqrt(n - 3)
        return math.tanh(middle - reach), math.tanh(middle + reach)
    if metric in _ERRORS or metric in _CORRELATIONS or n < 1 or not 0 <= value <= 1:
        return None
    middle = (value + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    reach = _Z / (1 + _Z**2 / n) * math.sqrt(value * (1 - value) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def is_different(metric: str, better: float, worse: float, num_examples: int) -> bool | None:
    """Whether a value is better than another by more than chance; None if the number of examples does not tell.

    The interval of the difference is put together from those of both values (Newcombe). It takes them for values of
    different examples, which is careful: on the same examples, a smaller difference can already be a real one.

    >>> is_different("accuracy", 0.9, 0.88, 100), is_different("accuracy", 0.9, 0.88, 5000)
    (False, True)
    """
    first, second = (estimate_interval(metric, value, num_examples) for value in (better, worse))
    if first is None or second is None:
        return None
    return better - worse > math.hypot(better - first[0], second[1] - worse)


def _count_examples(about: Mapping[str, Any]) -> int | None:
    """How many examples the metric was computed on: a number, or one for each split."""
    known = about.get("num_examples")
    count = known.get(str(about.get("split"))) if isinstance(known, dict) else known
    return int(count) if is_finite(count) and count >= 1 else None


def _find_interval(row: Row, metric: str, num_examples: int | None) -> Interval | None:
    value = row.get("score")
    return estimate_interval(metric, value, num_examples) if num_examples and is_finite(value) else None


def _explain_uncertainty(rows: Rows, metric: str, num_examples: int | None, about: Mapping[str, Any]) -> list[str]:
    """Say in sentences what the intervals are, and what they leave out."""
    sentences = []
    if num_examples and any(_find_interval(row, metric, num_examples) for row in rows):
        sentences.append(
            f"The metric was computed on {num_examples:,} examples. In 95 of 100 comparisons like this, the interval "
            "holds the value that very many examples of the same kind would give."
        )
        if metric in _CORRELATIONS:
            sentences.append("The interval is Fisher's, from the correlation and the number of examples.")
        else:
            f1 = " An F1 is treated like a share, so that its interval is approximate." if "f1" in metric else ""
            sentences.append(f"The interval is Wilson's, from the share and the number of examples.{f1}")
        sentences.append(
            "“No difference” means that the distance from the best lies within what chance alone may give on so few "
            "examples: such rows must not be ranked."
        )
    elif num_examples:
        sentences.append(f"The metric was computed on {num_examples:,} examples; that alone gives no interval for it.")
    seeds = {str(seed): None for row in rows if isinstance(row.get("seeds"), dict) for seed in row["seeds"]}
    count = len(seeds)
    if seeds:
        named = f"seeds {', '.join(seeds)}" if count > 1 else f"one seed ({', '.join(seeds)})"
        more = "; the value is the median, the range goes from the lowest to the highest" if count > 1 else ""
        sentences.append(f"Encoders were trained with {named}{more}.")
        if count == 1:
            sentences.append("Another seed may give another value: run it with --seeds 3 or more to see how far.")
    return sentences


def _warn_of_majority(rows: Rows, metric: str) -> list[str]:
    """Name the rows that are no better than the majority: they have learnt nothing."""
    level = next((row.get("score") for row in rows if _say(row, "name") == _MAJORITY), None)
    messages = []
    for row in rows:
        value, told = row.get("score"), row.get("only_majority")
        if _say(row, "name") == _MAJORITY or not is_finite(value):
            continue
        if told is None and is_finite(level):
            told = value >= level if metric in _ERRORS else not has_learnt(value, level)
        if told:
            beside = f", which gets {format_metric(metric, level)}" if is_finite(level) else ""
            messages.append(
                f"{_say(row, 'name')} only found the majority{beside}: with {format_metric(metric, value)}, it has not "
                "learnt the task."
            )
    return messages


# Tables as text.


def render_comparison_text(rows: Rows, metric: str, about: Mapping[str, Any] | None = None) -> str:
    """The table for terminals: columns are aligned, figures on the right.

    >>> ladder = [{"name": "majority", "score": 0.509}, {"name": "ours", "score": 0.87, "train_seconds": 400}]
    >>> print(render_comparison_text(ladder, "accuracy"))
    name      accuracy  training
    majority    50.9 %         –
    ours        87.0 %     7 min
    """
    num_examples = _count_examples(about or {})
    header = _name_columns(rows, metric, num_examples)
    table = [header, *(list(map(_clean, cells)) for cells in _fill_cells(rows, metric, num_examples))]
    widths = [max(map(_measure_width, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            space = " " * (width - _measure_width(cell))
            cells.append(cell + space if name in ("name", "note") else space + cell)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def render_comparison_markdown(rows: Rows, metric: str, about: Mapping[str, Any] | None = None) -> str:
    """The table for a page of Markdown, with what each name stands for.

    >>> print(render_comparison_markdown([{"name": "a|b", "score": 0.5, "explanation": "guesses"}], "f1"))
    | name | f1 |
    | --- | ---: |
    | a\\|b (guesses) | 50.0 % |
    """
    num_examples = _count_examples(about or {})
    header = _name_columns(rows, metric, num_examples)
    rules = ["---" if name in ("name", "note") else "---:" for name in header]
    lines = [header, rules]
    for row, cells in zip(rows, _fill_cells(rows, metric, num_examples), strict=True):
        explanation = f" ({_say(row, 'explanation')})" if _say(row, "explanation") else ""
        lines.append([_escape_markdown(cell) for cell in (cells[0] + explanation, *cells[1:])])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _name_columns(rows: Rows, metric: str, num_examples: int | None) -> list[str]:
    """What is known of any row gets a column."""
    has_intervals = any(_find_interval(row, metric, num_examples) for row in rows)
    certain = ["95 % interval", "from the best"] if has_intervals else []
    spread = ["range"] if any(_format_range(finite_numbers(row), metric) for row in rows) else []
    measured = [title for key, (title, _) in _MEASURES.items() if any(key in finite_numbers(row) for row in rows)]
    noted = ["note"] if any(_say(row, "note") for row in rows) else []
    return ["name", metric, *certain, *spread, *measured, *noted]


def _fill_cells(rows: Rows, metric: str, num_examples: int | None) -> list[list[str]]:
    """The cells of all rows, under the columns of `_name_columns`."""
    columns = _name_columns(rows, metric, num_examples)[2:]
    filled = []
    for row in rows:
        known = finite_numbers(row)
        cells = [_say(row, "name") or "–", format_metric(metric, known.get("score"))]
        if "95 % interval" in columns:
            interval = _find_interval(row, metric, num_examples)
            cells.append(_format_ends(*interval, metric) if interval else "–")
            cells.append(_compare_with_best(rows, row, metric, num_examples))
        if "range" in columns:
            cells.append(_format_range(known, metric) or "–")
        for key, (title, form) in _MEASURES.items():
            if title in columns:
                cells.append(form(known[key]) if known.get(key, -1.0) >= 0 else "–")
        filled.append([*cells, *([_say(row, "note")] if columns[-1:] == ["note"] else [])])
    return filled


def _compare_with_best(rows: Rows, row: Row, metric: str, num_examples: int | None) -> str:
    """How far a row is from the best: `best`, `no difference`, or the distance."""
    value, best = row.get("score"), _find_best_value(rows, metric)
    if not is_finite(value) or best is None or num_examples is None:
        return "–"
    if format_metric(metric, value) == format_metric(metric, best):
        return "best"
    told = is_different(metric, best, value, num_examples)
    if told is None:
        return "–"
    distance = f"−{100 * (best - value):.1f} points" if metric not in _CORRELATIONS else f"−{best - value:.3f}"
    return distance if told else "no difference"


def _format_range(known: Mapping[str, float], metric: str) -> str:
    """The lowest and the highest value over seeds, if there were several."""
    if "score_low" not in known or "score_high" not in known:
        return ""
    return _format_ends(known["score_low"], known["score_high"], metric)


def _format_ends(low: float, high: float, metric: str) -> str:
    return f"{format_metric(metric, low).removesuffix(' %')} to {format_metric(metric, high)}"


def _find_best_value(rows: Rows, metric: str) -> float | None:
    values = [value for value in (row.get("score") for row in rows) if is_finite(value)]
    return (min if metric in _ERRORS else max)(values, default=None)


def _find_best(rows: Rows, metric: str) -> str | None:
    """The best value as it is shown: those that look the same to a reader have won together."""
    best = _find_best_value(rows, metric)
    return None if best is None else format_metric(metric, best)


def _name_best(rows: Rows, metric: str, num_examples: int | None) -> tuple[Span, ...]:
    """Say in a line who has won, and who is as good as far as one can tell."""
    best = _find_best(rows, metric)
    cells = _fill_cells(rows, metric, num_examples)
    won = [row[0] for row in cells if row[1] == best]
    if best is None or not won:
        return ()
    ties = [row[0] for row in cells if "no difference" in row[2:4]]
    certain = f"; no difference can be told from {_join_names(ties)}" if ties else ""
    return Span(_join_names(won), "bold"), Span(f", with {best}{certain}")


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _say(row: Row, key: str) -> str:
    return "" if row.get(key) is None else str(row[key])


def _clean(text: str) -> str:
    """Text without what moves a terminal's cursor, or what it cannot show."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else " " for letter in whole)


def _measure_width(text: str) -> int:
    """Columns of a terminal: Chinese, Japanese and Korean letters take two, marks upon letters none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", _clean(text))
