"""The report of a run: one HTML file that needs nothing else, no network and no script.

It is made of what the run left in its folder, also while the run goes on or after it was killed. Pretraining is drawn
here, fine-tuning by `litebert.reports.task_report`.
"""

import math
import shlex
from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.lab import run_folder
from litebert.lab.run_folder import Run, name_run, render_events, render_progress, render_shape
from litebert.quantities import format_count, format_duration
from litebert.reports.page import (
    assemble_page,
    escape,
    finite_numbers,
    list_dicts,
    render_cards,
    render_charts,
    render_details,
    render_table,
    show,
    write_page,
)

__all__ = ["Run", "read_run", "render_report", "write_report"]

Row = dict[str, float]

_SHARE = "{:.1%}"
_GUESSERS = {"unigram": "always the most frequent word", "ngram": "n-gram guesser"}


def read_run(folder: Path) -> Run:
    """Read the folder of a pretraining run, finished or not."""
    return run_folder.read_run(folder, "pretraining", "litebert pretrain", "litebert finetune")


def write_report(folder: Path, out: Path | None = None, samples: bool = True) -> Path:
    """Write the report of a run, whole or not at all, and say where: `report.html` in its folder, unless told."""
    if run_folder.read_kind(folder) == "fine-tuning":
        from litebert.reports.task_report import write_run_report

        return write_run_report(folder, out)
    content = render_report(read_run(folder), samples)
    return write_page(folder / "report.html" if out is None else out, content)


def render_report(run: Run, samples: bool = True) -> str:
    """Make the page; the same run gives the same bytes. Without `samples` it holds no text of the corpus."""
    try:
        from litebert.reports.charts import draw_charts
    except ImportError:
        raise RequestError("the report's charts need matplotlib; install it with `pip install matplotlib`") from None
    title = f"Pretraining run {name_run(run.folder)}".strip()
    task = "Next sentence" if run.part("config", "stream").get("pairs") == "nsp" else "Sentence order"
    tokens = finite_numbers(run.part("corpus")).get("train_tokens")
    corpus = f"; a corpus of {format_count(tokens)} tokens" if tokens else ""
    parts = [f"<p>{render_shape(run)}{corpus}.</p>", render_progress(run)]
    if run.last:
        parts.append(_render_cards(run, task))
        charts = draw_charts(run.steps, run.evaluations, finite_numbers(run.part("baselines")), task)
        parts += ["<h2>How it went</h2>", render_charts(charts)] if charts else []
        parts += [_render_samples(run)] if samples else []
    return assemble_page(title, [*parts, render_events(run), _render_settings(run)])


def _average(rows: list[Row]) -> Row:
    known = {key: [row[key] for row in rows if key in row] for key in set().union(*rows)}
    return {key: math.fsum(values) / len(values) for key, values in known.items()}


def _render_cards(run: Run, task: str) -> str:
    """The figures that matter, each with what to compare it with."""
    last, lately = (run.evaluations or [{}])[-1], _average(run.steps[-max(1, len(run.steps) // 20) :])
    best = max(run.evaluations, key=lambda row: row.get("words_accuracy", -1), default=Row())
    notes = [f"best {show(best, 'words_accuracy', _SHARE)} after {format_duration(best.get('seconds', 0))}"]
    scores, corpus = finite_numbers(run.part("baselines")), finite_numbers(run.part("corpus")).get("train_tokens")
    notes += [f"{name} {show(scores, key, _SHARE)}" for key, name in _GUESSERS.items() if key in scores]
    tokens = run.last.get("tokens", 0)
    epochs = f"{tokens / corpus:.2f} epochs of {format_count(corpus)}" if corpus else ""
    cards = [
        ("Hidden words right", show(last, "words_accuracy", _SHARE), "<br>".join(notes)),
        (f"{task} right", show(last, "sentence_accuracy", _SHARE), "a coin gets 50 %"),
        ("Held-out loss", show(last, "words_loss", "{:.3f}"), "nats per hidden word"),
        ("Training loss", show(lately, "words_loss", "{:.3f}"), "nats per hidden word, lately"),
        ("Tokens per second", show(run.last, "speed"), f"lately {show(lately, 'tokens_per_second')}"),
        ("Of the hardware's rate", show(_average(run.steps), "hardware_share", _SHARE), "on average"),
        ("Tokens seen", format_count(tokens), epochs),
        ("Time", format_duration(run.last.get("seconds", 0)), f"{show(run.last, 'step')} steps"),
    ]
    known = [card for card in cards if card[1] != "–" or (card is cards[0] and best)]
    return render_cards(known)


def _render_samples(run: Run) -> str:
    """A table of sentences with a hidden word, and what the model said at up to five times, the first and the last."""
    end = len(run.samples) - 1
    times = [run.samples[place] for place in sorted({round(end * part / 4) for part in range(5)}) if end >= 0]
    told = [{str(sample.get("text")): sample for sample in list_dicts(time["samples"])} for time in times]
    head = ["", *(f"step {show(time, 'step')}<br>{format_duration(time.get('seconds', 0))}" for time in times)]
    rows = []
    for text, sample in told[-1].items() if told else ():
        sentence = f"<bdi>{escape(text)}</bdi><small>right: {_render_piece(sample.get('answer', '–'))}</small>"
        rows.append([sentence, *(_render_guesses(known.get(text, {})) for known in told)])
    return "<h2>What it fills in</h2>\n" + render_table(rows, head, "guesses") if rows else ""


def _render_piece(piece: object) -> str:
    """A piece of the vocabulary; one that is but a space is shown as such."""
    return f"<bdi>{escape(piece).strip() if str(piece).strip(' ▁') else '␣'}</bdi>"


def _render_guesses(sample: dict[str, Any]) -> str:
    guesses, lines = sample.get("guesses"), []
    for guess in guesses[:5] if isinstance(guesses, list) else ():
        if isinstance(guess, list) and len(guess) == 2:
            share = show(finite_numbers({"share": guess[1]}), "share", _SHARE)
            line = f"{_render_piece(guess[0])} <span class=soft>{share}</span>"
            lines.append(f"<span class=right>{line} ✓</span>" if guess[0] == sample.get("answer") else line)
    return "<br>".join(lines) or "–"


def _render_settings(run: Run) -> str:
    """How to go on, and what made the run what it is."""
    parts = ["<h2>How it was made</h2>"]
    if run.state != "finished":
        corpus = shlex.quote(str(run.part("corpus").get("folder", "CORPUS")))
        command = f"litebert pretrain {corpus} --out {shlex.quote(str(run.folder))} --resume"
        parts.insert(0, f"<h2>How to go on</h2>\n<p>If it has stopped: <code>{escape(command)}</code></p>")
    machine = {name: part for name, part in run.about.items() if name not in ("config", "format", "kind")}
    parts += [render_details("Configuration", run.part("config")), render_details("Machine, versions, corpus", machine)]
    return "\n".join(parts)
