"""The tour keeps its word: every snippet prints what its page shows; pictures, summaries and links are there."""

import ast
import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import need

ROOT = Path(__file__).parents[1]
TOUR = ROOT / "docs" / "tour"
INDEX = TOUR / "index.md"
STEPS = sorted(TOUR.glob("[0-9][0-9]-*.md"))
PAGES = [INDEX, *STEPS]
NAMES = ["one-hot", "bag-of-words", "tf-idf", "word2vec", "ngram", "attention", "bert", "albert", "compression"]
NAMES += ["default-encoder"]
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.M | re.S)
KOREAN, CHINESE = "[\uac00-\ud7a3]", "[\u4e00-\u9fff]"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def find_snippets(page: Path) -> list[tuple[str, str, int]]:
    """The Python of a page, what it prints according to the text block that must follow, and its line number."""
    text = read(page)
    blocks = list(FENCE.finditer(text))
    snippets = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] == "python":
            assert following is not None, f"{page.name}: a snippet has no output"
            assert following[1] == "text", f"{page.name}: a snippet has no output"
            assert not text[block.end() : following.start()].strip(), f"{page.name}: output must follow its snippet"
            snippets.append((block[2], following[2], text.count("\n", 0, block.start()) + 1))
    return snippets


@each_page
def test_snippets_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = find_snippets(page)
    assert snippets
    for library in ("torch", "sklearn", *(["gensim"] if "gensim" in read(page) else [])):
        need(library)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for code, shown, line in snippets:
        printed = io.StringIO()
        tree = ast.increment_lineno(ast.parse(code), line)  # so that a traceback names the line of the page
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(page), "exec"), names)
        assert printed.getvalue() == shown, f"{page.name}, line {line}"
    assert not list(tmp_path.iterdir())


@each_page
def test_snippets_use_our_code_and_are_short(page: Path) -> None:
    snippets = find_snippets(page)
    assert any(re.search(r"^(from|import) litebert", code, re.M) for code, _, _ in snippets)
    for code, _, line in snippets:
        assert len([row for row in code.splitlines() if row and "import" not in row]) <= 16, f"{page.name}, line {line}"


@each_page
def test_picture(page: Path) -> None:
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", read(page))
    assert [name for _, name in pictures] == [f"{page.stem}.svg"]
    assert len(pictures[0][0]) > 20, "a picture needs words for those who do not see it"
    root = ElementTree.parse(TOUR / pictures[0][1]).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert root.findtext(f"{space}title")
    source = read(TOUR / pictures[0][1]).replace("http://www.w3.org/2000/svg", "")
    assert "://" not in source
    assert "href" not in source


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in TOUR.glob("*.svg")} == {page.stem for page in PAGES}


@each_page
def test_summaries(page: Path) -> None:
    sections = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |^---$)", FENCE.sub("", read(page)), re.M | re.S))
    for title, letters in (("한국어 요약", KOREAN), ("中文摘要", CHINESE)):
        assert len(re.findall(letters, sections[title])) >= 60, f"{page.name}: {title}"
        assert "\n\n" not in sections[title].strip(), "one paragraph"


@each_page
def test_links(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", FENCE.sub("", read(page)))
    assert targets
    for target in targets:
        assert target.startswith("https://") or (page.parent / target).is_file(), f"{page.name} links to {target}"


def test_steps_follow_each_other() -> None:
    assert [page.stem for page in STEPS] == [f"{number:02}-{name}" for number, name in enumerate(NAMES, 1)]
    for page, following in pairwise(PAGES):
        title = re.escape(read(following).splitlines()[0].removeprefix("# ").split(":")[0])
        assert re.search(rf"next: \[{title}[^\]]*\]\({following.name}\)$", read(page), re.M), page.name
    for page, following in pairwise(STEPS):
        assert re.search(rf"^previous: \[[^\]]+\]\({page.name}\) · \[The tour\]\(index.md\)", read(following), re.M)


def list_navigation(page: Path) -> set[Path]:
    """The pages that the tables of contents in a page name."""
    found = set[Path]()
    for kind, body in FENCE.findall(read(page)):
        if kind == "{toctree}":
            for line in body.splitlines():
                entry = line.split("<")[-1].rstrip(">")
                found |= set(page.parent.glob(f"{entry}.md")) if entry and not entry.startswith(":") else set()
    return found


def test_every_page_is_in_the_navigation() -> None:
    start = ROOT / "docs" / "index.md"
    assert list_navigation(INDEX) == set(STEPS)
    assert {*TOUR.glob("*.md")} == set(PAGES)
    assert list_navigation(start) >= {INDEX, *ROOT.glob("docs/*.md")} - {start}


def test_the_worked_examples_are_there() -> None:
    shown = {page.stem[:2]: "".join(output for _, output, _ in find_snippets(page)) for page in STEPS}
    assert "1 1 1 1 1 0 0 0\n1 0 1 0 0 1 1 1\n" in shown["02"]
    assert "cat: the fat sat on\n" in shown["04"]
    assert "식당에서: 나는 오늘 밥을 먹었다\n" in shown["04"]
    assert shown["05"].startswith("0.5\n0.2\n")
    assert "[0.88, 0.12]" in shown["06"]
