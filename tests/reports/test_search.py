"""The page of a search: what was asked, what was found, and nothing that a text could do to the page."""

from pathlib import Path

from litebert.inference.search import Found, Passage
from litebert.reports.search import render_search, write_search


def test_the_page_shows_questions_and_passages(tmp_path: Path) -> None:
    found = [[Found(Passage("A <b>bold</b> text.", "notes & more, line 3"), 0.75)], []]
    page = write_search(tmp_path / "found.html", ["what <i>is</i> it?", "and this?"], found, "notes", "litebert-en")
    content = page.read_text(encoding="utf-8")
    assert "A &lt;b&gt;bold&lt;/b&gt; text." in content
    assert "what &lt;i&gt;is&lt;/i&gt; it?" in content
    assert "notes &amp; more, line 3" in content
    assert "width:75%" in content
    assert "0.750" in content
    assert content == render_search(["what <i>is</i> it?", "and this?"], found, "notes", "litebert-en")
