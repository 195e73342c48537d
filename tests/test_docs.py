"""Every link leads somewhere, and every command in the documentation is one that exists."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from litebert.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shells = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))
    written = re.findall(r"^litebert .*$", shells, re.M) + re.findall(r"`(litebert [a-z][^`]*)`", text)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in written:
        words = shlex.split(line, comments=True)[1:]
        assert words[0] in commands, line
        commands[words[0]].make_context(words[0], words[1:])  # parses the options; a wrong one raises


def test_results_of_benchmarks_are_recorded() -> None:
    assert list((ROOT / "benchmarks" / "results").glob("*-train-step.md"))
