"""A comparison says who has won, how certain that is, and who has learnt nothing; on a page and as text."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import RequestError
from litebert.reports.comparison import (
    estimate_interval,
    is_different,
    render_comparison_markdown,
    render_comparison_text,
    write_comparison,
)
from tests.reports.test_finetuning import read_tables
from tests.reports.test_pretraining import HOSTILE, Page

LADDER: list[dict[str, Any]] = [
    {"name": "majority", "explanation": "always the same", "score": 0.5, "train_seconds": 0.01, "size_bytes": 100},
    {"name": "나무", "score": float("nan"), "note": "failed"},
    {"name": "ours", "score": 0.875, "score_low": 0.85, "score_high": 0.9, "train_seconds": 400, "size_bytes": 8e6},
]


def _find_height(content: str, text: str) -> float:
    """How far down a drawing a text stands."""
    found = re.search(rf' y="([0-9.]+)"[^>]*>{text}</text>', content)
    assert found, text
    return float(found[1])


def test_a_comparison_in_three_forms(tmp_path: Path) -> None:
    content = write_comparison(tmp_path / "c.html", "Who wins?", LADDER, "accuracy").read_text(encoding="utf-8")
    rows = read_tables(content)["In figures"]
    assert rows[0] == ["name", "accuracy", "range", "training", "size", "note"]
    assert rows[1] == ["majorityalways the same", "50.0 %", "–", "&lt; 1 s", "100 B", ""]
    assert rows[3] == ["ours", "87.5 %", "85.0 to 90.0 %", "7 min", "8.0 MB", ""]
    heights = [_find_height(content, text) for text in ("majority", "50.0 %", "ours", "87.5 %")]
    assert heights == pytest.approx([heights[0], heights[0], heights[2], heights[2]], abs=3)
    assert heights[0] + 20 < heights[2]
    assert content == write_comparison(tmp_path / "c.html", "Who wins?", LADDER, "accuracy").read_text(encoding="utf-8")
    assert render_comparison_text(LADDER, "accuracy").splitlines() == [
        "name      accuracy           range  training    size  note",
        "majority    50.0 %               –     < 1 s   100 B",
        "나무             –               –         –       –  failed",
        "ours        87.5 %  85.0 to 90.0 %     7 min  8.0 MB",
    ]
    lines = render_comparison_markdown(LADDER, "accuracy").splitlines()
    assert lines[2] == "| majority (always the same) | 50.0 % | – | \\< 1 s | 100 B |  |"
    assert len({line.count(" |") for line in lines}) == 1


def test_all_that_tie_have_won(tmp_path: Path) -> None:
    for score_name, won in (("accuracy", ["b", "<c>", "d"]), ("mse", ["a"])):
        rows = [{"name": name, "score": score} for name, score in (("a", 0.5), ("b", 1.0), ("<c>", 1.0), ("d", 1.0))]
        content = write_comparison(tmp_path / "c.html", "x", rows, score_name).read_text(encoding="utf-8")
        assert content.count("<b class=right>") == len(won)
        best = "Best: b, <c> and d, with 100.0 %." if len(won) > 1 else "Best: a, with 0.500."
        assert best in Page(content).text


def test_a_comparison_of_anything(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"name": HOSTILE + "\x1b[2J\n| $a$", "explanation": HOSTILE, "note": HOSTILE, "score": -0.5},
        {},
        {"name": None},
    ]
    page = Page(write_comparison(tmp_path / "c.html", HOSTILE, rows, "matthews").read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img"}
    assert page.text.count('<script>alert("1")</script>') >= 5
    assert "\x1b" not in render_comparison_text(rows, "matthews")
    assert len(render_comparison_text(rows, "matthews").splitlines()) == 4
    markdown = render_comparison_markdown(rows, "matthews")
    assert len(markdown.splitlines()) == 5
    assert "\\<script\\>" in markdown
    assert "nothing to compare" in write_comparison(tmp_path / "c.html", "x", [], "f1").read_text(encoding="utf-8")
    assert render_comparison_text([], "f1") == "name  f1"


ABOUT: dict[str, Any] = {
    "split": "test",
    "num_examples": {"train": 5000, "test": 200},
    "settings": {"encoder": "mini", "steps": 45, "epochs": None, "learning_rate": 5e-05, "seeds": [0, 1, 2]},
}
CLOSE: list[dict[str, Any]] = [
    {"name": "majority", "score": 0.6},
    {"name": "tf-idf", "score": 0.9},
    {"name": "encoder from scratch", "score": 0.6, "seeds": {"0": 0.6, "1": 0.6, "2": 0.6}},
    {"name": "pretrained encoder", "score": 0.92, "seeds": {"0": 0.9, "1": 0.92, "2": 0.93}},
]


def test_what_chance_can_do_is_no_difference(tmp_path: Path) -> None:
    content = write_comparison(tmp_path / "c.html", "x", CLOSE, "accuracy", ABOUT).read_text(encoding="utf-8")
    rows = read_tables(content)["In figures"]
    assert rows[0] == ["name", "accuracy", "95 % interval", "from the best"]
    assert [row[3] for row in rows[1:]] == ["−32.0 points", "no difference", "−32.0 points", "best"]
    assert rows[4][2] == "87.4 to 95.0 %"
    text = Page(content).text
    assert "Best: pretrained encoder, with 92.0 %; no difference can be told from tf-idf." in text
    assert "computed on 200 examples" in text
    assert "In 95 of 100 comparisons" in text
    assert "seeds 0, 1, 2" in text
    more = write_comparison(tmp_path / "c.html", "x", CLOSE, "accuracy", ABOUT | {"num_examples": 20_000})
    assert "no difference" not in more.read_text(encoding="utf-8")


def test_who_only_found_the_majority_is_named(tmp_path: Path) -> None:
    message = (
        "encoder from scratch only found the majority, which gets 60.0 %: with 60.0 %, it has not learnt the task."
    )
    for about in (ABOUT, {}):
        page = Page(write_comparison(tmp_path / "c.html", "x", CLOSE, "accuracy", about).read_text(encoding="utf-8"))
        assert page.text.count(message) == page.text.count("only found the majority") == 1
    told = [{"name": "ours", "score": 0.5, "only_majority": True}, {"name": "other", "score": 0.5}]
    page = Page(write_comparison(tmp_path / "c.html", "x", told, "accuracy").read_text(encoding="utf-8"))
    assert page.text.count("ours only found the majority: ") == page.text.count("only found") == 1


def test_settings_are_named(tmp_path: Path) -> None:
    content = write_comparison(tmp_path / "c.html", "x", CLOSE, "accuracy", ABOUT).read_text(encoding="utf-8")
    assert read_tables(content)["Settings"] == [
        ["encoder", "mini"],
        ["steps", "45"],
        ["learning rate", "5e-05"],
        ["seeds", "0, 1, 2"],
    ]


@pytest.mark.parametrize("value", [None, "x", [], {}, -1, float("nan"), {"test": "many"}, {HOSTILE: HOSTILE}])
def test_a_comparison_that_does_not_say_how_it_came_about(tmp_path: Path, value: Any) -> None:
    about = {"num_examples": value, "settings": value, "split": value}
    content = write_comparison(tmp_path / "c.html", "x", CLOSE, "accuracy", about).read_text(encoding="utf-8")
    assert "95 %" not in content
    assert not Page(content).tags & {"script", "img"}


def test_intervals() -> None:
    assert estimate_interval("accuracy", 1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-3)
    assert estimate_interval("pearson", 0.5, 103) == pytest.approx((0.3396, 0.6319), abs=2e-3)
    assert estimate_interval("mse", 0.5, 100) is None
    assert estimate_interval("matthews", 1.0, 3) is None
    assert is_different("mae", 0.5, 0.6, 100) is None
    assert is_different("spearman", 0.9, 0.5, 100)


def test_without_matplotlib_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litebert.reports.charts", None)
    with pytest.raises(RequestError, match="pip install matplotlib"):
        write_comparison(tmp_path / "x.html", "x", LADDER, "accuracy")
    assert not list(tmp_path.glob("*.html"))
