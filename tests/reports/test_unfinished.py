"""A fine-tuning run can be drawn from its folder at any time, and that never costs it a better page."""

import json
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import FolderError, RequestError
from litebert.reports.pretraining import write_report
from litebert.tasks.task import Task
from tests.reports.test_finetuning import classified, write
from tests.reports.test_pretraining import HOSTILE, Page, write_run

TASK = Task(name="colours", kind="classification", labels=("red", "blue"), metrics=("accuracy", "f1"))


def begin(folder: Path, state: str = "interrupted", task: Any = None, **about: Any) -> Path:
    """A run that was scored at steps 10 and 20, and has come so far."""
    base = {
        "kind": "litebert fine-tuning",
        "config": {"task": TASK.model_dump() if task is None else task, "begin_from": "mini", "max_length": 77},
        "baselines": {"majority": {"accuracy": 0.75}},
        **about,
    }
    rows: list[dict[str, Any]] = [{"kind": "event", "step": 0, "what": "began"}]
    for number in (10, 20):
        here = {"step": number, "seconds": number, "tokens": 100 * number, "progress": number / 40}
        rows += [{"kind": "step", **here, "loss": 1 / number}, {"kind": "evaluation", **here, "accuracy": number / 32}]
    return write_run(folder, [*rows, {"kind": "event", "step": 20, "what": state, "words": ""}], about=base)


def finish(folder: Path, splits: Any, **about: Any) -> Path:
    begin(folder, "finished", **about)
    (folder / "evaluation.json").write_text(json.dumps({"task": "colours", "score": "accuracy", "splits": splits}))
    return folder


def read(path: Path) -> str:
    return Page(path.read_text(encoding="utf-8")).text


def test_a_run_that_was_interrupted_shows_what_there_is(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run")
    (folder / "evaluation.json").write_text('{"splits": {"dev": {"accuracy": 0.1234}}}')  # of before it went on
    page = write_report(folder)
    assert page == folder / "report.html"
    text = read(page)
    for words in (
        "Task colours",
        "Classification, 2 labels; last evaluated on dev at step 20.",
        "Interrupted: 50 % done, step 20",
        "litebert finetune command with --resume",
        "62.5 %",
        "the most frequent answer alone: 75.0 %",
        "Training loss",
        "Metric while training",
        "max_length77",
    ):
        assert words in text
    assert "12.3 %" not in text
    assert "has not learnt the task" not in text  # it may yet
    assert write_report(folder) == page  # as often as one likes


def test_a_finished_run_shows_its_scores_and_where_there_is_more(tmp_path: Path) -> None:
    splits = {"odd": {"accuracy": 0.875}, "dev": {"accuracy": 0.5, "f1": 0.25}}
    folder = finish(tmp_path / "my run", splits)
    text = read(write_report(folder))
    assert "evaluated on odd, dev." in text
    assert f"litebert evaluate '{folder}' --data DATA --out FOLDER" in text
    assert "No better than the most frequent answer alone" in text
    assert text.index("50.0 %") < text.index("By split") < text.index("87.5 %")
    assert "--resume" not in text


def test_the_full_page_of_a_run_is_never_overwritten(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run")
    write_report(folder)
    full = write(folder, *classified())  # takes the place of the shorter one
    assert "Confusion matrix" in full
    for out in (None, folder / "report.html", folder / ".." / "run" / "report.html"):
        with pytest.raises(RequestError, match=r"run/report\.html is the full page of this run"):
            write_report(folder, out)
    assert (folder / "report.html").read_text(encoding="utf-8") == full
    assert "Confusion matrix" not in read(write_report(folder, tmp_path / "other.html"))


@pytest.mark.parametrize("state", ["finished", "interrupted"])
@pytest.mark.parametrize("splits", [None, [], {}, {"dev": None}, {"dev": {"accuracy": None}}])
def test_scores_of_any_shape(tmp_path: Path, state: str, splits: Any) -> None:
    folder = finish(tmp_path / "run", splits) if state == "finished" else begin(tmp_path / "run")
    (folder / "metrics.jsonl").write_text("" if state == "interrupted" else '{"kind": "event", "what": "finished"}\n')
    assert "Task colours" in read(write_report(folder))


def test_a_task_that_is_none_is_told(tmp_path: Path) -> None:
    for number, task in enumerate(([], {"name": "x"}, {**TASK.model_dump(), "kind": "poetry"})):
        with pytest.raises(FolderError, match=r"run\.json describes no task"):
            write_report(begin(tmp_path / str(number), task=task))


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    task = {**TASK.model_dump(), "name": HOSTILE.replace("\ud800", "")}
    folder = finish(tmp_path / "<script>x", {HOSTILE: {HOSTILE: 1}, "b": {"c": 0}}, task=task)
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img", "link", "iframe", "object"}
    assert page.text.count('<script>alert("1")</script>') >= 3
