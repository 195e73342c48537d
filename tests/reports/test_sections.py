"""Whatever a kind of task says with sections is drawn, in its order, as text and nothing else."""

from litebert.reports.page import render, view_sections
from litebert.tasks.sections import (
    BREAK,
    Calibration,
    Case,
    Cases,
    ConfusionMatrix,
    Histogram,
    Notice,
    Part,
    Scatter,
    Section,
    Span,
    Table,
)
from tests.reports.test_finetuning import read_tables
from tests.reports.test_pretraining import HOSTILE, Page

LOOKS = ("plain", "bold", "soft", "small", "right", "wrong")


def draw(description: list[Section | Notice], samples: bool = True) -> str:
    empty = {"summary": "", "excerpt": None, "notices": [], "cards": [], "splits": None, "run": None}
    return render("finetuning.html", title="x", sections=view_sections(description, samples), **empty)


def test_all_parts_hold_hostile_text_and_their_order() -> None:
    cell = (*(Span(HOSTILE, look) for look in LOOKS), BREAK)
    parts: list[Part] = [
        Table([HOSTILE, cell], [[HOSTILE, cell]], note=HOSTILE),
        ConfusionMatrix([HOSTILE, "b"], {(HOSTILE, "b"): 2}),
        Histogram(HOSTILE, {HOSTILE: [1.0, 2.0]}, HOSTILE, HOSTILE, threshold=1.5),
        Histogram(HOSTILE, {HOSTILE: [1.0, 2.0]}, HOSTILE, HOSTILE),
        Scatter(HOSTILE, [(1.0, 2.0)], HOSTILE, HOSTILE, HOSTILE),
        Calibration(HOSTILE, [(0.5, 0.5, 3)], HOSTILE),
        Cases([Case(HOSTILE, cell, cell, HOSTILE)]),
    ]
    content = draw([Section(f"{HOSTILE} {number}", [part], HOSTILE) for number, part in enumerate(parts)])
    page = Page(content)
    assert not page.tags & {"script", "img", "link", "iframe", "object"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count('<script>alert("1")</script>') >= 50
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    numbers = [page.text.index(f"? {number}") for number in range(len(parts))]
    assert numbers == sorted(numbers)


def test_charts_that_follow_each_other_stand_side_by_side() -> None:
    charts = [Scatter(f"chart {name}", [(1.0, 2.0)], "x", "y") for name in "abc"]
    content = draw([Section("s", [*charts[:2], Table(["h"], [["cell"]]), charts[2]])])
    assert [part.count("<figure>") for part in content.split("<div class=charts>")[1:]] == [2, 1]


def test_a_chart_without_numbers_is_left_out() -> None:
    nothing = [float("nan"), float("inf")]
    content = draw([Section("s", [Histogram("h", {"a": nothing}, "x"), Scatter("p", [(0.0, nothing[0])], "x", "y")])])
    assert "<figure>" not in content


def test_only_cases_hold_text_of_examples() -> None:
    sections: list[Section | Notice] = [
        Section("table", [Table(["h"], [["kept"]])]),
        Section("mistakes", [Cases([Case("1", "a secret", "x", "y")])], "a note"),
        Notice("stands elsewhere"),
    ]
    assert read_tables(draw(sections))["mistakes"] == [["id", "", "said", "right"], ["1", "a secret", "x", "y"]]
    without = draw(sections, samples=False)
    assert "kept" in without
    assert "mistakes" not in without
    assert "stands elsewhere" not in draw(sections)


def test_words_of_one_cell_keep_together_in_any_direction_of_writing() -> None:
    cell = (Span("שלום"), Span(" עולם", "wrong"), Span(" 50.0 %", "soft"), BREAK, Span("next"))
    content = draw([Section("s", [Table([], [[cell]])])])
    expected = "<bdi>שלום<b class=wrong> עולם</b></bdi><span class=soft> 50.0 %</span><br><bdi>next</bdi>"
    assert f"<td>{expected}</td>" in content
