"""Every link leads somewhere, and every command in the documentation is one that exists."""

import re
import shlex
from pathlib import Path
from typing import Any

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
    for line in written:
        check(get_command(app), shlex.split(line, comments=True)[1:], line)


def check(group: Any, words: list[str], line: str) -> None:
    """A command exists and takes these options; named without any, it need only exist."""
    for name in words[0].split("|"):
        assert name in group.commands, line
        command = group.commands[name]
        if hasattr(command, "commands") and len(words) > 1:
            check(command, words[1:], line)
        elif len(words) > 1:
            command.make_context(name, words[1:])  # parses the options; a wrong one raises


def test_results_of_benchmarks_are_recorded() -> None:
    for name in ("train-step", "corpus", "time-to-quality", "loop", "finetune"):
        assert list((ROOT / "benchmarks" / "results").glob(f"*-{name}.md"))
    assert list((ROOT / "docs" / "results").glob("*-tasks.md"))
