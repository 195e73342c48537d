"""What every HTML page of the lab is made of: one file that needs nothing else, no network and no script.

Whatever comes from a file or a text passes `escape` on its way into a page, and a page is written whole or not at all.
"""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from litebert.errors import RequestError
from litebert.folders import PARTIAL
from litebert.quantities import format_bytes

if TYPE_CHECKING:
    from litebert.reports.charts import Chart

__all__ = [
    "assemble_page",
    "escape",
    "finite_numbers",
    "flatten",
    "format_score",
    "is_finite",
    "list_dicts",
    "render_cards",
    "render_charts",
    "render_details",
    "render_table",
    "show",
    "write_page",
]

_MOST_ENTRIES = 50  # of a list, in a cell
_MOST_CHARACTERS = 10_000  # of a cell
_NOT_SHARES = ("matthews", "pearson", "spearman", "mse", "mae")
_HEAD = """<!doctype html><html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #62676e; --paper: #f5f5f3; --card: #fff; --line: #dcdcd8;
  --good: #1a7f4b; --bad: #b3471b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #a0a5ab; --paper: #16181a; --card: #1f2225;
  --line: #35393d; --good: #5cc48d; --bad: #f0915f; } }
* { box-sizing: border-box; overflow-wrap: anywhere; }
body { max-width: 70rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .7rem; }
h3 { font-size: .95rem; margin: 0 0 .4rem; } p { margin: .3rem 0; } summary { cursor: pointer; margin: .75rem 0 .5rem; }
.cards, .charts { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(min(46%, 14rem), 1fr)); }
.cards { margin-top: 1.2rem; } .charts { margin-top: .7rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
.cards > *, figure, .sheet { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; margin: 0;
  padding: .8rem 1rem; min-width: 0; overflow-x: auto; }
figcaption, small { display: block; color: var(--soft); font-size: .85rem; line-height: 1.4; }
.cards b { display: block; font-size: 1.6rem; line-height: 1.3; } .open { color: var(--bad); }
.finished, .right { color: var(--good); font-weight: 600; } .soft { color: var(--soft); font-weight: 400; }
figure svg { display: block; width: 100%; height: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem 1.5rem .35rem 0; border-top: 1px solid var(--line); }
tr:first-child > * { border-top: 0; } th { font-weight: 600; color: var(--soft); white-space: nowrap; }
.cards .main b { font-size: 2.4rem; line-height: 1.15; } .wide table { width: 100%; }
.number td, .number th { text-align: right; font-variant-numeric: tabular-nums; }
.number td:first-child, .number th:first-child { text-align: left; }
.matrix td, .matrix th { text-align: center; vertical-align: middle; padding: .35rem .4rem; min-width: 2.8rem; }
.matrix th { white-space: normal; max-width: 7rem; } .matrix th:first-child { max-width: none; white-space: nowrap; }
.matrix td, .number td { white-space: nowrap; } .matrix *, .number * { overflow-wrap: break-word; }
.matrix td:first-child, .number td:first-child { white-space: normal; min-width: 6rem; }
.matrix td:first-child { text-align: left; } .mistakes td:nth-child(n+3) { min-width: 8rem; }
.mistakes td:first-child { min-width: 5rem; max-width: 8rem; }
.mistakes td:nth-child(2) { min-width: 16rem; width: 60%; }
.guesses td { white-space: nowrap; } .guesses td:first-child { min-width: 13rem; white-space: normal; }
"""


def assemble_page(title: str, parts: Iterable[str]) -> str:
    """Put the parts of a page under its title; parts are HTML, the title is text."""
    name = escape(title)
    head = f"<title>{name}</title>\n<style>{_STYLE}</style>\n<body>\n<h1>{name}</h1>"
    return "\n".join([_HEAD, head, *(part for part in parts if part), "</body>\n</html>\n"])


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


def escape(text: object) -> str:
    """Any text as text of a page, without halves of characters, which no file can hold.

    >>> escape("<b> & \\ud800")
    '&lt;b&gt; &amp; ?'
    """
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"))


def is_finite(value: object) -> TypeGuard[float]:
    """Whether something is a finite number; what is absurdly large counts as infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e99 < value < 1e99


def finite_numbers(content: Mapping[Any, Any]) -> dict[Any, float]:
    """The entries that are finite numbers."""
    return {key: value for key, value in content.items() if is_finite(value)}


def show(values: Mapping[str, float], key: str, form: str = "{:,.0f}") -> str:
    """A number in a form, or a dash if it is not known."""
    return form.format(values[key]).replace("%", " %") if key in values else "–"


def format_score(name: str, value: object) -> str:
    """The value of a metric as people write it: shares in percent, correlations and errors as they are, counts whole.

    >>> format_score("accuracy", 0.68694), format_score("pearson", 0.68694), format_score("HasAns_total", 5928.0)
    ('68.7 %', '0.687', '5,928')
    """
    if not is_finite(value):
        return "–"
    if name == "total" or name.endswith("_total"):
        return f"{value:,.0f}"
    if name in _NOT_SHARES or "thresh" in name:
        return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"
    return f"{100 * value:.1f} %" if abs(value) < 1e6 else f"{value:.3g}"


def render_cards(cards: Iterable[tuple[str, str, str]], main: bool = False) -> str:
    """Figures with their name and a note, all HTML; with `main`, the first is larger."""
    looks = [" class=main"] if main else []
    shown = [
        f"<div{looks.pop() if looks else ''}>{name}<b>{value}</b><small>{note}</small></div>"
        for name, value, note in cards
    ]
    return "<div class=cards>\n" + "\n".join(shown) + "\n</div>" if shown else ""


def render_charts(charts: Sequence["Chart | None"]) -> str:
    """Charts with their captions; those there were no numbers for are left out."""
    known = [chart for chart in charts if chart is not None]
    figures = [f"<figure><h3>{c.title}</h3>{c.svg}<figcaption>{c.caption}</figcaption></figure>" for c in known]
    return "\n".join(["<div class=charts>", *figures, "</div>"]) if figures else ""


def render_table(rows: Iterable[Sequence[str]], head: Sequence[str], kind: str = "") -> str:
    """A table of cells that are HTML; a cell that begins with `<td` is taken as it is."""
    lines = ["".join(f"<th>{cell}</th>" for cell in head)] if head else []
    lines += ["".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row) for row in rows]
    return f'<div class="sheet {kind}"><table>\n<tr>' + "</tr>\n<tr>".join(lines) + "</tr>\n</table></div>"


def render_details(title: str, content: Any) -> str:
    """Settings of any shape as a table that is folded away."""
    rows = [[escape(name), escape(value[:_MOST_CHARACTERS])] for name, value in flatten("", content)]
    return f"<details><summary>{title}</summary>{render_table(rows, [])}</details>"


def list_dicts(content: Any) -> list[dict[str, Any]]:
    """The entries of a list that are dicts, whatever it is that was read."""
    return [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []


def flatten(name: str, content: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted names and plain values; the entries of a list are counted from one."""
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
