"""The page of a distillation run says how well student and teacher agree, at every depth, whatever the run's state."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import FolderError, RequestError
from litebert.reports.distillation import read_run, render_report
from litebert.reports.pretraining import write_report
from tests.reports.test_finetuning import read_tables
from tests.reports.test_pretraining import HOSTILE, Page, event, write_run

ABOUT: dict[str, Any] = {
    "format": 1,
    "kind": "litebert distillation",
    "parameters": 6_000_000,
    "teacher": {"folder": "/models/a teacher", "name": "someone/a teacher", "parameters": 24_000_000},
    "corpus": {"folder": "my corpus", "train_tokens": 1_000_000},
    "config": {
        "model": {"family": "albert", "num_layers": 6, "hidden_size": 384},
        "depths": [2, 4, 6],
        "dimensions": [64, 128],
    },
}


def step(number: int, **changes: Any) -> dict[str, Any]:
    parts = {"states_loss": 2 / number, "vectors_loss": 1 / number, "similarities_loss": 0.5 / number}
    values = {"loss": math.fsum(parts.values()), **parts, "learning_rate": 0.001, "tokens_per_second": 2000}
    values |= {"hardware_share": 0.4, "depth": 2 if number <= 200 else 6, "length": 64}
    here = {"step": number, "seconds": number / 2, "tokens": number * 2048, "progress": number / 400}
    return {"kind": "step", **here, **values, **changes}


def evaluation(number: int, depths: tuple[int, ...] = (2, 4), **changes: Any) -> dict[str, Any]:
    best = number / 500
    values = {"agreement": best, "sts": best + 0.0625, "cosine": best / 2}
    for depth in depths:
        values |= {f"agreement_depth_{depth}": best - 0.1 / depth, f"sts_depth_{depth}": best - 0.2 / depth}
    values |= {"agreement_first_64": best / 4, "agreement_first_128": best / 2}
    return {"kind": "evaluation", "step": number, "seconds": number / 2, "tokens": number * 2048, **values, **changes}


def normal_rows() -> list[dict[str, Any]]:
    rows = [event(0, "began")]
    for number in range(10, 401, 10):
        rows += [step(number)] + [evaluation(number)] * (number % 100 == 0)
    return [*rows, event(400, "finished")]


def write(folder: Path, rows: list[dict[str, Any]], tail: str = "", about: dict[str, Any] | None = None) -> str:
    path = write_report(write_run(folder, rows, tail, ABOUT if about is None else about))
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def find_chart(content: str, title: str) -> str:
    return content.split(f"<h3>{title}</h3>")[1].split("</figure>")[0]


def test_a_finished_run(tmp_path: Path) -> None:
    content = write(tmp_path / "small", normal_rows())
    text = Page(content).text
    for sentence in (
        "Distillation run small",
        "Teacher: someone/a teacher, 24,000,000 parameters.",
        "Student: ALBERT, 6 layers, 384 hidden, 6,000,000 parameters.",
        "Text: a corpus of 1M tokens.",
        "Finished: step 400, 819k tokens, 3 min, 4,096 tokens/s.",
        "the teacher has 24M, 4 × as many",
    ):
        assert sentence in text
    cards = dict(re.findall(r"<div>([^<]*)<b>([^<]*)</b>", content))
    assert cards == {
        "Agreement with the teacher": "0.800",
        "Similarity of rated pairs": "0.863",
        "Training loss": "0.009",
        "Parameters": "6M",
        "Tokens per second": "4,096",
        "Of the hardware&#39;s rate": "40.0 %",
        "Tokens seen": "819k",
        "Time": "3 min",
    }
    assert re.search(r"What went wrong\s+Nothing\.", text)
    assert "--resume" not in text


def test_tables_of_depths_and_of_the_first_numbers(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path / "run", normal_rows()))
    assert tables["By number of passes"] == [
        ["passes", "agreement", "cosine", "sts"],
        ["2", "0.750", "–", "0.700"],
        ["4", "0.775", "–", "0.750"],
        ["6", "0.800", "0.400", "0.863"],
    ]
    assert tables["The first numbers of a vector alone"] == [
        ["numbers", "agreement"],
        ["64", "0.200"],
        ["128", "0.400"],
        ["384 (all)", "0.800"],
    ]


def test_curves(tmp_path: Path) -> None:
    content = write(tmp_path / "run", normal_rows())
    titles = re.findall("<figure><h3>(.*?)</h3>", content)
    assert titles[:3] == ["Agreement with the teacher", "Similarity of rated pairs", "Training loss"]
    assert titles[3:] == ["Learning rate", "Tokens per second", "Share of the hardware&#39;s rate"]
    for title in titles[:2]:
        chart = find_chart(content, title)
        assert re.findall(r">([^<]*)</text>", chart)[-4:] == ["passes", "6", "4", "2"]
        assert "2 × 64" in chart
        assert "6 × 64" in chart
    names = re.findall(r">([^<]*)</text>", find_chart(content, "Training loss"))
    assert names[-4:] == ["all", "states", "vectors", "similarities"]


def test_only_what_was_measured_is_shown(tmp_path: Path) -> None:
    """Another width and another tokenizer leave one part of the loss; nothing was rated; there is one depth."""
    without = ("states_loss", "vectors_loss", "sts", "cosine", "agreement_first_64", "agreement_first_128")
    rows = [{key: row[key] for key in row if key not in without and "_depth_" not in key} for row in normal_rows()[:-1]]
    about = {**ABOUT, "config": {**ABOUT["config"], "depths": [6]}}
    content = write(tmp_path / "run", rows, about=about)
    assert read_tables(content)["By number of passes"] == [["passes", "agreement"], ["6", "0.800"]]
    for absent in ("rated", "The first numbers", "passes</text>", ">states</text>", ">all</text>", "every depth"):
        assert absent not in content
    assert ">similarities</text>" in find_chart(content, "Training loss")


def test_the_best_is_named_if_it_is_not_the_last(tmp_path: Path) -> None:
    rows = [evaluation(100), evaluation(200, agreement=0.9), evaluation(300)]
    assert "best 0.900 after 2 min" in write(tmp_path / "a", rows)
    assert "best 0" not in write(tmp_path / "b", rows[:2])
    assert "best 0.900 after 2 min" in write(tmp_path / "c", [*rows, evaluation(400, agreement=math.nan)])


def test_a_better_depth_is_named(tmp_path: Path) -> None:
    note = "at the greatest depth; 0.950 at depth 2"
    assert note in write(tmp_path / "a", [evaluation(100, agreement_depth_2=0.95)])
    assert "greatest depth;" not in write(tmp_path / "b", [evaluation(100)])


def test_a_killed_run_says_how_to_go_on(tmp_path: Path) -> None:
    about = {**ABOUT, "rated": {"source": "my pairs.tsv", "pairs": 3}}
    text = Page(write(tmp_path / "run", normal_rows()[:-1], tail='{"kind": "step", "st', about=about)).text
    assert "Running or cut off: 100 % done" in text
    command = f"--rated 'my pairs.tsv' --out {tmp_path / 'run'} --resume"
    assert f"litebert distill 'someone/a teacher' 'my corpus' {command}" in text
    about = {**ABOUT, "teacher": {"folder": "/models/a teacher"}, "corpus": {}}
    text = Page(write(tmp_path / "b" / "run", [step(10)], about=about)).text
    assert f"litebert distill '/models/a teacher' TEXT --out {tmp_path / 'b' / 'run'} --resume" in text
    assert "--rated" not in text


def test_nothing_recorded_yet(tmp_path: Path) -> None:
    content = write(tmp_path / "run", [])
    assert "Nothing has been recorded yet." in content
    assert "<figure>" not in content
    assert "Teacher: someone/a teacher" in content


def test_a_single_step_makes_no_curve(tmp_path: Path) -> None:
    content = write(tmp_path / "run", [step(10), evaluation(10)])
    for title, what in (("Agreement with the teacher", "evaluations"), ("Training loss", "steps")):
        assert f"Too few {what} for a curve." in find_chart(content, title)
    assert "<svg" not in content


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400, "7", True, [1], {}])
@pytest.mark.parametrize("only_those", [False, True])
def test_values_that_are_no_numbers(tmp_path: Path, value: Any, only_those: bool) -> None:
    bad_step = {key: value for key in step(1) if key not in ("kind", "step", "seconds")}
    bad_evaluation = {key: value for key in evaluation(1) if key not in ("kind", "step", "seconds")}
    rows = [step(number, **bad_step) for number in range(1, 5)] + [evaluation(5, **bad_evaluation)]
    rows += [] if only_those else [step(number) for number in range(6, 60)] + [evaluation(60), evaluation(61)]
    content = write(tmp_path / "run", rows)
    assert "The loss of 4 recorded steps was not a number." in content
    assert "nan" not in re.sub(r"<style>.*?</style>", "", content, flags=re.DOTALL).lower()


@pytest.mark.parametrize("value", [-3.0, 0.0, 1e-30, 1e30, -1e98, 1e98])
def test_numbers_that_make_no_sense(tmp_path: Path, value: float) -> None:
    bad = dict.fromkeys(("loss", "states_loss", "vectors_loss", "learning_rate", "tokens_per_second"), value)
    rows = [step(number, **(bad if number == 30 else {})) for number in range(1, 60)]
    rows += [evaluation(number) for number in (60, 70)] + [evaluation(80, agreement=value, sts_depth_2=value)]
    content = write(tmp_path / "run", rows)
    assert len(content) < 200_000
    assert ">all</text>" in find_chart(content, "Training loss")


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    assert "metrics.jsonl, left out: 2" in write(tmp_path / "run", normal_rows(), tail='{"ki\n[1]\n')


@pytest.mark.parametrize("broken", [None, 7, "x", [None, 1], {"parameters": -1}, {"parameters": 0, "name": {"a": 1}}])
@pytest.mark.parametrize("rows", [[], [{"kind": "step"}, {"kind": "evaluation"}, {"kind": "event"}], normal_rows()])
def test_a_run_of_any_shape(tmp_path: Path, broken: Any, rows: list[dict[str, Any]]) -> None:
    names = ("teacher", "corpus", "config", "parameters", "baselines", "machine")
    about = {"kind": "litebert distillation", **dict.fromkeys(names, broken)}
    assert "<h1>Distillation run" in write(tmp_path / "run", rows, about=about)


@pytest.mark.parametrize("depths", [None, [], 6, {"6": 6}, ["6", None, [6]], [2, 4], [math.nan, 1e300]])
def test_depths_that_do_not_fit_have_no_number_for_the_deepest(tmp_path: Path, depths: Any) -> None:
    about = {**ABOUT, "config": {"depths": depths}}
    tables = read_tables(write(tmp_path / "run", normal_rows(), about=about))
    assert [row[0] for row in tables["By number of passes"]] == ["passes", "2", "4", "all"]
    assert tables["The first numbers of a vector alone"][-1] == ["all", "0.800"]


def test_names_that_are_almost_those_of_metrics(tmp_path: Path) -> None:
    names = ("agreement_depth_", "agreement_depth_02", "agreement_depth_²", "agreement_depth_1.5", "agreement_first_-1")
    rows = [row | dict.fromkeys(names, 0.5) if row["kind"] == "evaluation" else row for row in normal_rows()]
    folder = write_run(tmp_path / "run", normal_rows(), about=ABOUT)
    expected = render_report(read_run(folder))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert render_report(read_run(folder)) == expected


def test_many_depths_stay_readable(tmp_path: Path) -> None:
    depths = tuple(range(1, 5000))
    about = {**ABOUT, "config": {"depths": [*depths, 5000]}}
    content = write(tmp_path / "run", [evaluation(number, depths) for number in (10, 20, 30)], about=about)
    assert len(content) < 200_000
    assert [row[0] for row in read_tables(content)["By number of passes"]][-2:] == ["4999", "5000"]
    chart = find_chart(content, "Agreement with the teacher")
    assert "Not all depths are drawn." in chart
    names = re.findall(r">([^<]*)</text>", chart)
    assert len(names[names.index("passes") :]) == 9
    assert "5000" in names


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    about = {
        "kind": "litebert distillation",
        "teacher": {"name": HOSTILE, "folder": HOSTILE, HOSTILE: HOSTILE},
        "config": {HOSTILE: {"x": HOSTILE}, "model": {"family": HOSTILE}, "depths": [HOSTILE]},
        "corpus": {"folder": HOSTILE},
    }
    named = {HOSTILE: 0.5, f"agreement_depth_{HOSTILE}": 0.5, f"agreement_first_{HOSTILE}": 0.5, "sts_depth_9": HOSTILE}
    rows = [step(1), step(2), evaluation(2, **named), evaluation(3, **named), event(3, "skipped", HOSTILE)]
    page = Page(write(tmp_path / "<script>x", [*rows, event(3, HOSTILE, HOSTILE)], about=about))
    assert not page.tags & {"script", "img", "link", "iframe", "object"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count('<script>alert("1")</script>') >= 8


def test_a_page_needs_nothing_else_and_its_ids_are_unique(tmp_path: Path) -> None:
    content = write(tmp_path / "run", normal_rows())
    page = Page(content)
    assert "://" not in content
    assert not {name for name, _ in page.attributes} & {"src", "srcset", "data", "action"}
    ids = [value for name, value in page.attributes if name == "id"]
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', content))
    assert len(ids) == len(set(ids))
    assert used
    assert used <= set(ids)


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    content = write(tmp_path / "run", normal_rows())
    code = "import sys, pathlib; from litebert.reports.pretraining import write_report as write; "
    code += "write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "other.html")], check=True)
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == content


def test_other_runs_are_refused(tmp_path: Path) -> None:
    for number, kind in enumerate(("litebert pretraining", "something else")):
        with pytest.raises(FolderError, match="is not a distillation run; name a folder that `litebert distill` wrote"):
            read_run(write_run(tmp_path / str(number), [], about={"kind": kind}))
    assert "<h1>Distillation run" in render_report(read_run(write_run(tmp_path / "new", [], about=ABOUT)))


def test_without_matplotlib_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "run", normal_rows(), about=ABOUT)
    monkeypatch.setitem(sys.modules, "litebert.reports.charts", None)
    with pytest.raises(RequestError, match="pip install matplotlib"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_reading_needs_neither_torch_nor_matplotlib() -> None:
    code = "import litebert.reports.distillation, sys; print([n for n in ('torch', 'matplotlib') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
