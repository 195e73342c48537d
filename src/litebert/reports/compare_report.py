"""A comparison of several ways to solve one task, as a page with a chart, as plain text and as Markdown.

A row is a dict: `name` and `score`, and as far as known `explanation`, `score_low` and `score_high` (over seeds),
`train_seconds`, `size_bytes`, `texts_per_second` and `note`. What is missing or no number is shown as a dash.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.quantities import format_bytes, format_count, format_duration
from litebert.reports.page import (
    assemble_page,
    escape,
    finite_numbers,
    format_score,
    render_charts,
    render_table,
    write_page,
)
from litebert.tasks.metrics import METRICS

__all__ = ["render_comparison_markdown", "render_comparison_text", "write_comparison"]

Rows = Sequence[Mapping[str, Any]]

_MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "train_seconds": ("training", lambda seconds: format_duration(seconds) if seconds >= 1 else "< 1 s"),
    "size_bytes": ("size", format_bytes),
    "texts_per_second": ("texts/s", lambda rate: format_count(rate) if rate < 1000 else f"{rate:,.0f}"),
}


def write_comparison(out: Path, title: str, rows: list[dict[str, Any]], score_name: str) -> Path:
    """Write the page: a chart of the scores, then everything in one table, in the order given."""
    try:
        from litebert.reports.task_charts import draw_comparison
    except ImportError:
        raise RequestError("the report's charts need matplotlib; install it with `pip install matplotlib`") from None
    numbers = [finite_numbers(row) for row in rows]
    bars = [
        (_say(row, "name"), known.get("score"), known.get("score_low"), known.get("score_high"))
        for row, known in zip(rows, numbers, strict=True)
    ]
    best = _find_best(numbers, score_name)
    body = []
    for row, cells in zip(rows, _fill_cells(rows, score_name), strict=True):
        about = f"<small>{escape(_say(row, 'explanation'))}</small>" if _say(row, "explanation") else ""
        score = f"<span class=right>{escape(cells[1])}</span>" if cells[1] == best else escape(cells[1])
        body.append([f"<bdi>{escape(cells[0])}</bdi>{about}", score, *map(escape, cells[2:])])
    head = [escape(name) for name in _name_columns(rows, score_name)]
    explanation = f": {METRICS[score_name]}" if score_name in METRICS else ""
    parts = [
        f"<p>{escape(score_name + explanation)}</p>",
        _name_best(rows, score_name, best),
        render_charts([draw_comparison(bars, score_name)]),
        "<h2>In figures</h2>",
    ]
    parts += [render_table(body, head, "wide")] if body else ["<p>There is nothing to compare.</p>"]
    return write_page(out, assemble_page(title, parts))


def render_comparison_text(rows: Rows, score_name: str) -> str:
    """The table for terminals: columns are aligned, figures on the right.

    >>> ladder = [{"name": "majority", "score": 0.509}, {"name": "ours", "score": 0.87, "train_seconds": 400}]
    >>> print(render_comparison_text(ladder, "accuracy"))
    name      accuracy  training
    majority    50.9 %         –
    ours        87.0 %     7 min
    """
    head = _name_columns(rows, score_name)
    table = [head, *(list(map(_clean, cells)) for cells in _fill_cells(rows, score_name))]
    widths = [max(map(_measure_width, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for name, cell, width in zip(head, row, widths, strict=True):
            space = " " * (width - _measure_width(cell))
            cells.append(cell + space if name in ("name", "note") else space + cell)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def render_comparison_markdown(rows: Rows, score_name: str) -> str:
    """The table for a page of Markdown, with what each name stands for.

    >>> print(render_comparison_markdown([{"name": "a|b", "score": 0.5, "explanation": "guesses"}], "f1"))
    | name | f1 |
    | --- | ---: |
    | a\\|b (guesses) | 50.0 % |
    """
    head = _name_columns(rows, score_name)
    rules = ["---" if name in ("name", "note") else "---:" for name in head]
    lines = [head, rules]
    for row, cells in zip(rows, _fill_cells(rows, score_name), strict=True):
        explanation = f" ({_say(row, 'explanation')})" if _say(row, "explanation") else ""
        lines.append([_escape_markdown(cell) for cell in (cells[0] + explanation, *cells[1:])])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _name_columns(rows: Rows, score_name: str) -> list[str]:
    """What is known of any row gets a column."""
    measured = [title for key, (title, _) in _MEASURES.items() if any(key in finite_numbers(row) for row in rows)]
    spread = ["range"] if any(_format_range(finite_numbers(row), score_name) for row in rows) else []
    return ["name", score_name, *spread, *measured, *(["note"] if any(_say(row, "note") for row in rows) else [])]


def _fill_cells(rows: Rows, score_name: str) -> list[list[str]]:
    """The cells of all rows, under the columns of `_name_columns`."""
    columns = _name_columns(rows, score_name)
    filled = []
    for row in rows:
        known = finite_numbers(row)
        cells = [_say(row, "name") or "–", format_score(score_name, known.get("score"))]
        cells += [_format_range(known, score_name) or "–"] if "range" in columns[2:3] else []
        for key, (title, form) in _MEASURES.items():
            if title in columns[2:]:
                cells.append(form(known[key]) if known.get(key, -1.0) >= 0 else "–")
        filled.append([*cells, *([_say(row, "note")] if columns[-1] == "note" else [])])
    return filled


def _format_range(known: Mapping[str, float], score_name: str) -> str:
    """The lowest and the highest score over seeds, if there were several."""
    if "score_low" not in known or "score_high" not in known:
        return ""
    least, most = (format_score(score_name, known[key]) for key in ("score_low", "score_high"))
    return f"{least.removesuffix(' %')} to {most}"


def _find_best(numbers: Sequence[Mapping[str, float]], score_name: str) -> str | None:
    """The best score as it is shown: those that look the same to a reader have won together."""
    scores = [known["score"] for known in numbers if "score" in known]
    choose = min if score_name in ("mse", "mae") else max
    return format_score(score_name, choose(scores)) if scores else None


def _name_best(rows: Rows, score_name: str, best: str | None) -> str:
    """Say in a line who has won."""
    if best is None:
        return ""
    won = [cells[0] for cells in _fill_cells(rows, score_name) if cells[1] == best]
    names = [f"<bdi>{escape(name)}</bdi>" for name in won]
    together = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"<p>Best: <b>{together}</b>, with {escape(best)}.</p>"


def _say(row: Mapping[str, Any], key: str) -> str:
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
