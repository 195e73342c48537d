"""The report of a pretraining run: one HTML file that needs nothing else, no network and no script.

It is made of what the run left in its folder (`run.json`, `metrics.jsonl`), also while the run goes on or after it was
killed. Nothing in these files is trusted: numbers are looked at, text is escaped, what is missing is left out.
"""

import html
import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.errors import FolderError, RequestError
from litebert.folders import PARTIAL, read_json
from litebert.lab.quantities import format_bytes, format_count, format_duration

__all__ = ["Run", "read_run", "render_report", "write_report"]

Row = dict[str, float]

_KIND = "litebert pretraining"
_MOST_STEPS = 2000  # what charts can show
_MOST_EVENTS = 500
_SHARE = "{:.1%}"
_TROUBLES = ("skipped", "rolled back", "resumed", "interrupted", "damaged")
_STATES = {"began": "running or cut off", "resumed": "running or cut off"} | {s: s for s in ("interrupted", "finished")}
_SHAPE = {"num_layers": "layers", "hidden_size": "hidden", "embedding_size": "embedding", "vocab_size": "vocabulary"}
_SIZES = _SHAPE | {"parameters": "parameters"}
_GUESSERS = {"unigram": "always the most frequent word", "ngram": "n-gram guesser"}
_HEAD = """<!doctype html><html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""


@dataclass
class Run:
    """What a folder tells of a run; rows hold finite numbers only, so that a value that is no number is missing."""

    folder: Path
    about: dict[str, Any]
    steps: list[Row] = field(default_factory=list)
    evaluations: list[Row] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    last: Row = field(default_factory=dict)
    num_damaged: int = 0
    num_without_loss: int = 0

    @property
    def state(self) -> str:
        """`finished`, `interrupted`, or `running or cut off`: a killed run cannot say that it was."""
        return ["running or cut off", *(_STATES[it["what"]] for it in self.events if it["what"] in _STATES)][-1]

    def part(self, *names: str) -> dict[str, Any]:
        """A part of `run.json`; empty if there is none."""
        part: Any = self.about
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part if isinstance(part, dict) else {}


def read_run(folder: Path) -> Run:
    """Read the folder of a run, finished or not; steps that were done again after a resumption replace the old ones."""
    if not (folder / "run.json").exists():
        problem = "has no run.json" if folder.is_dir() else "is no folder"
        raise FolderError(f"{folder} {problem}; name a folder that `litebert pretrain` wrote")
    run = Run(folder, read_json(folder / "run.json"))
    if run.about.get("kind", _KIND) != _KIND:
        raise FolderError(f"{folder} is not a pretraining run; name a folder that `litebert pretrain` wrote")
    stride, count, latest = 1, 0, Row()
    for line in _read_lines(run, folder / "metrics.jsonl"):
        row, kind = _numbers(line), line.get("kind")
        if kind == "step":
            if row.get("step", math.inf) <= latest.get("step", -math.inf):
                _forget_from(run, row["step"])
            run.num_without_loss += "loss" in line and "loss" not in row
            latest, count = row, count + 1
            run.steps += [row] if count % stride == 0 else []
            if len(run.steps) >= _MOST_STEPS:
                del run.steps[::2]
                stride *= 2
        elif kind == "evaluation":
            run.evaluations.append(row)
        elif kind == "samples":
            run.samples.append({**row, "samples": line.get("samples")})
        elif kind == "event":
            run.events.append({**row, "what": str(line.get("what", "")), "words": str(line.get("words", ""))})
        else:
            continue
        run.last.update(row)
    run.steps += [latest] if latest and run.steps[-1:] != [latest] else []
    if run.last.get("seconds") and "tokens" in run.last:
        run.last["speed"] = run.last["tokens"] / run.last["seconds"]
    return run


def _read_lines(run: Run, path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines one by one; what cannot be read is counted, unless it is a last line that was cut off."""
    if path.exists() and not path.is_file():
        raise FolderError(f"{path} is not an ordinary file; restore it, or move it out of the folder")
    try:
        with path.open("rb") as file:
            while line := file.readline(1 << 24):  # a longer line is none of ours
                try:
                    content = json.loads(line) if line.strip() else {}
                except (ValueError, RecursionError):
                    content = None
                if isinstance(content, dict):
                    yield content
                else:
                    run.num_damaged += line.endswith(b"\n")
    except FileNotFoundError:
        return  # a run that has just begun
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror}); check its permissions") from None


def _numbers(content: dict[str, Any]) -> Row:
    """The entries that are finite numbers; what is absurdly large counts as infinite."""
    return {key: value for key, value in content.items() if type(value) in (int, float) and -1e99 < value < 1e99}


def _forget_from(run: Run, step: float) -> None:
    """Drop what was recorded of a step and those after it, because the run went back and did them again."""
    rows: list[Any]
    for rows in (run.steps, run.evaluations, run.samples):
        while rows and rows[-1].get("step", -math.inf) >= step:
            rows.pop()


def write_report(folder: Path, out: Path | None = None, samples: bool = True) -> Path:
    """Write the report of a run, whole or not at all, and say where: `report.html` in its folder, unless told."""
    content = render_report(read_run(folder), samples)
    path = folder / "report.html" if out is None else out
    partial = path.with_name(path.name + PARTIAL)
    try:
        partial.write_text(content, encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RequestError(f"cannot write {path} ({error.strerror}); name a file in a folder that exists") from None
    return path


def render_report(run: Run, samples: bool = True) -> str:
    """Make the page; the same run gives the same bytes. Without `samples` it holds no text of the corpus."""
    try:
        from litebert.lab.charts import PAGE_STYLE, draw_charts
    except ImportError:
        raise RequestError("the report's charts need matplotlib; install it with `pip install matplotlib`") from None
    title = f"Pretraining run {_escape(run.folder.resolve().name)}"
    task = "Next sentence" if run.part("config", "stream").get("pairs") == "nsp" else "Sentence order"
    parts = [_HEAD, f"<title>{title}</title>\n<style>{PAGE_STYLE}</style>\n<body>\n<h1>{title}</h1>", _render_head(run)]
    if run.last:
        parts.append(_render_cards(run, task))
        charts = draw_charts(run.steps, run.evaluations, _numbers(run.part("baselines")), task)
        figures = [f"<figure><h3>{c.title}</h3>{c.svg}<figcaption>{c.caption}</figcaption></figure>" for c in charts]
        parts += ["<h2>How it went</h2>\n<div class=charts>", *figures, "</div>"] if figures else []
        parts += [_render_samples(run)] if samples else []
    return "\n".join([*parts, _render_events(run), _render_settings(run), "</body>\n</html>\n"])


def _escape(text: object) -> str:
    """Text of a run as text of a page, without halves of characters, which no file can hold."""
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"))


def _show(values: Row, key: str, form: str = "{:,.0f}") -> str:
    return form.format(values[key]).replace("%", " %") if key in values else "–"


def _render_head(run: Run) -> str:
    """The shape of the model, the size of the corpus, and how far the run has come."""
    model, last, look = run.part("config", "model"), run.last, "finished" if run.state == "finished" else "open"
    sizes = _numbers(run.about | model)
    shape = [_escape(str(model.get("family", "encoder")).upper())]
    shape += [f"{sizes[key]:,} {name}" for key, name in _SIZES.items() if key in sizes]
    tokens = _numbers(run.part("corpus")).get("train_tokens")
    model_line = f"<p>{', '.join(shape)}{f'; a corpus of {format_count(tokens)} tokens' if tokens else ''}.</p>"
    if not last:
        return f"{model_line}\n<p class=open>Nothing has been recorded yet.</p>"
    done = [f"{100 * last['progress']:.0f} % done"] if look == "open" and "progress" in last else []
    done += [f"step {_show(last, 'step')}", f"{format_count(last.get('tokens', 0))} tokens"]
    done += [format_duration(last.get("seconds", 0)), f"{_show(last, 'speed')} tokens/s"]
    return f"{model_line}\n<p><b class={look}>{run.state.capitalize()}</b>: {', '.join(done)}.</p>"


def _average(rows: list[Row]) -> Row:
    known = {key: [row[key] for row in rows if key in row] for key in set().union(*rows)}
    return {key: math.fsum(values) / len(values) for key, values in known.items()}


def _render_cards(run: Run, task: str) -> str:
    """The figures that matter, each with what to compare it with."""
    last, lately = (run.evaluations or [{}])[-1], _average(run.steps[-max(1, len(run.steps) // 20) :])
    best = max(run.evaluations, key=lambda row: row.get("words_accuracy", -1), default=Row())
    notes = [f"best {_show(best, 'words_accuracy', _SHARE)} after {format_duration(best.get('seconds', 0))}"]
    scores, corpus = _numbers(run.part("baselines")), _numbers(run.part("corpus")).get("train_tokens")
    notes += [f"{name} {_show(scores, key, _SHARE)}" for key, name in _GUESSERS.items() if key in scores]
    tokens = run.last.get("tokens", 0)
    epochs = f"{tokens / corpus:.2f} epochs of {format_count(corpus)}" if corpus else ""
    cards = [
        ("Hidden words right", _show(last, "words_accuracy", _SHARE), "<br>".join(notes)),
        (f"{task} right", _show(last, "sentence_accuracy", _SHARE), "a coin gets 50 %"),
        ("Held-out loss", _show(last, "words_loss", "{:.3f}"), "nats per hidden word"),
        ("Training loss", _show(lately, "words_loss", "{:.3f}"), "nats per hidden word, lately"),
        ("Tokens per second", _show(run.last, "speed"), f"lately {_show(lately, 'tokens_per_second')}"),
        ("Of the hardware's rate", _show(_average(run.steps), "hardware_share", _SHARE), "on average"),
        ("Tokens seen", format_count(tokens), epochs),
        ("Time", format_duration(run.last.get("seconds", 0)), f"{_show(run.last, 'step')} steps"),
    ]
    known = [card for card in cards if card[1] != "–" or (card is cards[0] and best)]
    shown = [f"<div>{name}<b>{value}</b><small>{note}</small></div>" for name, value, note in known]
    return "<div class=cards>\n" + "\n".join(shown) + "\n</div>"


def _render_samples(run: Run) -> str:
    """A table of sentences with a hidden word, and what the model said at up to five times, the first and the last."""
    end = len(run.samples) - 1
    times = [run.samples[place] for place in sorted({round(end * part / 4) for part in range(5)}) if end >= 0]
    told = [{str(sample.get("text")): sample for sample in _list_dicts(time["samples"])} for time in times]
    head = ["", *(f"step {_show(time, 'step')}<br>{format_duration(time.get('seconds', 0))}" for time in times)]
    rows = []
    for text, sample in told[-1].items() if told else ():
        sentence = f"<bdi>{_escape(text)}</bdi><small>right: <bdi>{_escape(sample.get('answer', '–'))}</bdi></small>"
        rows.append([sentence, *(_render_guesses(known.get(text, {})) for known in told)])
    return "<h2>What it fills in</h2>\n" + _render_table(rows, head, "guesses") if rows else ""


def _list_dicts(content: Any) -> list[dict[str, Any]]:
    return [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []


def _render_guesses(sample: dict[str, Any]) -> str:
    guesses, lines = sample.get("guesses"), []
    for guess in guesses[:5] if isinstance(guesses, list) else ():
        if isinstance(guess, list) and len(guess) == 2:
            share = _show(_numbers({"share": guess[1]}), "share", _SHARE)
            line = f"<bdi>{_escape(guess[0]).strip() or '␣'}</bdi> <span class=soft>{share}</span>"
            lines.append(f"<span class=right>{line} ✓</span>" if guess[0] == sample.get("answer") else line)
    return "<br>".join(lines) or "–"


def _render_table(rows: list[list[str]], head: list[str], kind: str = "") -> str:
    lines = ["".join(f"<th>{cell}</th>" for cell in head)] if head else []
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return f'<div class="sheet {kind}"><table>\n<tr>' + "</tr>\n<tr>".join(lines) + "</tr>\n</table></div>"


def _render_events(run: Run) -> str:
    """What went wrong, then all that happened."""
    troubles = [event for event in run.events if event["what"] in _TROUBLES]
    notes = []
    if run.num_without_loss:
        notes.append(f"<p>The loss of {run.num_without_loss:,} recorded steps was not a number.</p>")
    if run.num_damaged:
        notes.append(f"<p>Damaged lines of metrics.jsonl, left out: {run.num_damaged:,}.</p>")
    notes += [_list_events(troubles)] if troubles else [] if notes else ["<p>Nothing.</p>"]
    folded = f"<details><summary>All {len(run.events):,} events</summary>{_list_events(run.events)}</details>"
    return "\n".join(["<h2>What went wrong</h2>", *notes, folded if run.events else ""])


def _list_events(events: list[dict[str, Any]]) -> str:
    rows = []
    for event in events[-_MOST_EVENTS:]:
        when = [_show(event, "step"), format_duration(event.get("seconds", 0))]
        rows.append([*when, _escape(event["what"]), _escape(event["words"])])
    more = f"<p>The first {len(events) - len(rows):,} are not shown.</p>" if len(events) > len(rows) else ""
    return more + _render_table(rows, ["step", "time", "what", ""])


def _render_settings(run: Run) -> str:
    """How to go on, and what made the run what it is."""
    parts = ["<h2>How it was made</h2>"]
    if run.state != "finished":
        corpus = shlex.quote(str(run.part("corpus").get("folder", "CORPUS")))
        command = f"litebert pretrain {corpus} --out {shlex.quote(str(run.folder))} --resume"
        parts.insert(0, f"<h2>How to go on</h2>\n<p>If it has stopped: <code>{_escape(command)}</code></p>")
    machine = {name: part for name, part in run.about.items() if name not in ("config", "format", "kind")}
    for title, content in (("Configuration", run.part("config")), ("Machine, versions, corpus", machine)):
        rows = [[_escape(name), _escape(value)] for name, value in _flatten("", content)]
        parts.append(f"<details><summary>{title}</summary>{_render_table(rows, [])}</details>")
    return "\n".join(parts)


def _flatten(name: str, content: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Dotted names and plain values; the entries of a list are counted from one."""
    if _list_dicts(content):
        content = {str(number): entry for number, entry in enumerate(content, 1)}
    if isinstance(content, dict) and depth < 9:
        for key, value in content.items():
            yield from _flatten(f"{name}.{key}".lstrip("."), value, depth + 1)
    elif name.endswith("_bytes") and _numbers({name: content}):
        yield name, format_bytes(content)
    else:
        entries = content if isinstance(content, list) else [content]
        yield name, ", ".join("…" if isinstance(entry, dict | list) else str(entry) for entry in entries)
