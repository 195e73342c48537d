"""Pages of the lab: the same numbers give the same bytes, and nothing in them is code."""

from pathlib import Path

from litebert.reports.lab import IndexEntry, LabPage, PlotView, write_index, write_lab_page
from litebert.tasks.sections import Table

PAGE = LabPage(
    "Mine <script>",
    "About & more",
    "Scale nano.",
    Table(["", "loss"], [["<b>cell</b>", "1.0"]]),
    [("a is better", "holds", "holds: 0.1"), ("b is better", "open", "open")],
    [
        PlotView("spread", "Loss", "number", {"a": [0.1, 0.2], "b": [float("nan")]}, {}),
        PlotView("layers", "Moves", "number", {}, {"a": [[(1.0, 0.5), (2.0, 0.6)], [(1.0, 0.4), (2.0, 0.7)]]}),
        PlotView("curves", "Nothing yet", "percent", {}, {"a": []}),
    ],
)


def test_a_page_is_whole_escaped_and_the_same(tmp_path: Path) -> None:
    first = write_lab_page(tmp_path / "a.html", PAGE).read_bytes()
    assert write_lab_page(tmp_path / "b.html", PAGE).read_bytes() == first
    page = first.decode("utf-8")
    assert "<script" not in page
    assert "&lt;b&gt;cell&lt;/b&gt;" in page
    assert page.count("<svg") == 2  # what has no numbers is not drawn
    assert 'class="right"' in page


def test_the_list_leads_to_the_pages(tmp_path: Path) -> None:
    counts = {"holds": 2, "does not hold": 1, "open": 0}
    entry = IndexEntry("table4", "Table 4: what layers share", "nano, 750 steps, 3 seeds", counts)
    page = write_index(tmp_path / "index.html", [entry]).read_text("utf-8")
    assert (
        '<a href="table4/report.html">Table 4: what layers share</a><small>nano, 750 steps, 3 seeds</small></td>'
        in page
    )
    assert "<td>2</td><td>1</td><td>0</td>" in page
