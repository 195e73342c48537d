"""The page of a pretraining run, made of what the run left in its folder, also while it goes on or after it was killed.

`write_report` writes the page of any run: those of other kinds are made by `litebert.reports.finetuning` and
`litebert.reports.distillation`.
"""

from pathlib import Path
from typing import Any

from litebert.errors import RequestError
from litebert.quantities import finite_numbers, format_duration
from litebert.reports.page import (
    Card,
    average_lately,
    describe_corpus,
    describe_shape,
    importing_charts,
    list_dicts,
    make_resume_command,
    make_run_cards,
    render,
    show,
    view_details,
    view_events,
    view_progress,
    write_page,
)
from litebert.tasks.sections import BREAK, Cell, Span, Table
from litebert.training import run_folder
from litebert.training.run_folder import Run, RunFolder, name_run

__all__ = ["read_run", "render_report", "write_report"]

Row = dict[str, float]

_SHARE = "{:.1%}"
_GUESSERS = {"unigram": "always the most frequent token", "ngram": "n-gram guesser"}


def read_run(folder: Path) -> Run:
    """Read the folder of a pretraining run, finished or not."""
    return run_folder.read_run(folder, "pretraining", "litebert pretrain", "litebert distill", "litebert finetune")


def write_report(folder: Path, out: Path | None = None, samples: bool = True) -> Path:
    """Write the report of a run, whole or not at all, and say where: `report.html` in its folder, unless told."""
    kind = run_folder.read_kind(folder)
    if kind == "fine-tuning":
        from litebert.reports.finetuning import write_run_report

        return write_run_report(folder, out)
    if kind == "fitting":
        raise RequestError(f"{folder} was fitted at once: its page is {RunFolder(folder).report}")
    if kind == "distillation":
        from litebert.reports import distillation

        content = distillation.render_report(distillation.read_run(folder))
    else:
        content = render_report(read_run(folder), samples)
    return write_page(RunFolder(folder).report if out is None else out, content)


def render_report(run: Run, samples: bool = True) -> str:
    """Make the page; the same run gives the same bytes. Without `samples` it holds no text of the corpus."""
    return render("pretraining.html", **_view(run, samples))


def _view(run: Run, samples: bool) -> dict[str, Any]:
    """What the page says, as plain values, tables and charts."""
    with importing_charts():
        from litebert.reports.charts import draw_pretraining

    task = "Next-sentence" if run.part("config", "stream").get("pairs") == "nsp" else "Sentence-order"
    baselines = finite_numbers(run.part("baselines"))
    return {
        "title": f"Pretraining run {name_run(run.folder)}".strip(),
        "summary": [f"{'; '.join(filter(None, [describe_shape(run), describe_corpus(run)]))}."],
        "progress": view_progress(run),
        "cards": _make_cards(run, task, baselines) if run.last else [],
        "charts": draw_pretraining(run.steps, run.evaluations, baselines, task) if run.last else [],
        "samples": _tabulate_samples(run) if samples and run.last else None,
        "events": view_events(run),
        "command": make_resume_command(run, "pretrain", str(run.part("corpus").get("folder", "CORPUS"))),
        "details": view_details(run, "Machine, versions, corpus"),
    }


def _make_cards(run: Run, task: str, baselines: Row) -> list[Card]:
    """The figures that matter, each with what to compare it with."""
    last = (run.evaluations or [{}])[-1]
    best = max(run.evaluations, key=lambda row: row.get("mlm_accuracy", -1), default=Row())
    notes = [f"best {show(best, 'mlm_accuracy', _SHARE)} after {format_duration(best.get('seconds', 0))}"]
    if last.get("stage_mlm_accuracy", last.get("mlm_accuracy")) != last.get("mlm_accuracy"):
        notes.append(f"{show(last, 'stage_mlm_accuracy', _SHARE)} at the depth of its stage")
    notes += [f"{name} {show(baselines, key, _SHARE)}" for key, name in _GUESSERS.items() if key in baselines]
    lately = average_lately(run)
    replaced = show(lately, "replaced_loss", "{:.3f}") if lately.get("replaced_loss") else "–"  # 0: not asked yet
    cards = [
        Card("Masked-LM accuracy", show(last, "mlm_accuracy", _SHARE), notes),
        Card(f"{task} accuracy", show(last, "sop_accuracy", _SHARE), ["a coin gets 50 %"]),
        Card("Held-out loss", show(last, "mlm_loss", "{:.3f}"), ["nats per masked token"]),
        Card("Training loss", show(lately, "mlm_loss", "{:.3f}"), ["nats per masked token, lately"]),
        Card("Replaced-token loss", replaced, ["weighted, lately"]),
        *make_run_cards(run),
    ]
    return [card for card in cards if card.value != "–" or (card is cards[0] and best)]


def _tabulate_samples(run: Run) -> Table | None:
    """Sentences with a masked token, and what the model said at up to five times, the first and the last among them."""
    end = len(run.samples) - 1
    times = [run.samples[index] for index in sorted({round(end * part / 4) for part in range(5)}) if end >= 0]
    told = [{str(sample.get("text")): sample for sample in list_dicts(time["samples"])} for time in times]
    header = ["", *(f"step {show(time, 'step')}\n{format_duration(time.get('seconds', 0))}" for time in times)]
    rows: list[list[Cell]] = []
    for text, sample in told[-1].items() if told else ():
        sentence = (Span(text), Span(f"right: {_show_token(sample.get('answer', '–'))}", "small"))
        rows.append([sentence, *(_list_guesses(known.get(text, {})) for known in told)])
    return Table(header, rows, "text") if rows else None


def _list_guesses(sample: dict[str, Any]) -> Cell:
    """The model's five best guesses, the right one marked."""
    guesses = sample.get("guesses")
    spans: list[Span] = []
    for guess in guesses[:5] if isinstance(guesses, list) else ():
        if isinstance(guess, list) and len(guess) == 2:
            share = show(finite_numbers({"share": guess[1]}), "share", _SHARE)
            is_right = guess[0] == sample.get("answer")
            spans += [BREAK] if spans else []
            spans += [Span(_show_token(guess[0]), "right" if is_right else "plain"), Span(f" {share}", "soft")]
            spans += [Span(" ✓", "right")] if is_right else []
    return tuple(spans) or "–"


def _show_token(token: object) -> str:
    """A token of the vocabulary; one that is but a space is shown as such."""
    return str(token).strip() if str(token).strip(" ▁") else "␣"
