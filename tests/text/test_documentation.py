"""The documentation that comes with Python reads as English prose, and always comes in the same order."""

import re
import sys
import sysconfig
from pathlib import Path

import pytest

from litebert.text import documentation
from litebert.text.sources import Reader, find_sources

MODULE = '''#!/usr/bin/env python
"""Tools for the measuring of rivers and of the bridges that cross them.

Every bridge is measured at high water::

    measure(bridge, water="high")

Usage
-----
    >>> measure(1)
    17 is what this prints and no prose at all

See :class:`~rivers.Bridge` for how the ``length`` of a bridge is found.
"""

QUERY = """
this string is only a value and it is never any documentation
"""


class Bridge:
    r"""A bridge is a way over the water that people and horses can use."""

    def cross(self, feet: int = 4) -> int:  # a comment with a " in it
        """Cross the bridge slowly and say how long it took to cross.

        Parameters
        ----------
        feet : int, optional
            The number of feet of whoever crosses the bridge today.
        """
        raise SystemExit("foreign code must never run")


raise SystemExit("foreign code must never run")
'''


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        documentation.sysconfig, "get_paths", lambda: dict.fromkeys(("stdlib", "purelib", "platlib"), str(tmp_path))
    )
    return tmp_path


def found() -> dict[str, str]:
    return {place: text for place, text in documentation.documents() if not place.startswith("topic ")}


def test_prose_stays_and_code_goes(packages: Path) -> None:
    (packages / "rivers.py").write_text(MODULE)
    assert found()["rivers.py"].split("\n\n") == [
        "Tools for the measuring of rivers and of the bridges that cross them.",
        "Every bridge is measured at high water:",
        "See rivers.Bridge for how the length of a bridge is found.",
        "A bridge is a way over the water that people and horses can use.",
        "Cross the bridge slowly and say how long it took to cross.",
        "The number of feet of whoever crosses the bridge today.",
    ]
    assert "rivers" not in sys.modules


def test_what_cannot_be_used_is_passed_over(packages: Path) -> None:
    (packages / "tests").mkdir()
    (packages / "tests" / "rivers.py").write_text(MODULE)
    (packages / "short.py").write_text('"""This is a short text of seven words."""')
    (packages / "latin.py").write_bytes(MODULE.encode() + b"\xe9")
    (packages / "chinese.py").write_text('"""' + "这是一个很长的文档。" * 100 + '"""', encoding="utf-8")
    (packages / "broken.py").write_text('def f(:\n  """never closed')
    (packages / "escape.py").write_text(MODULE.replace("slowly", "slow\\dly"))
    (packages / "loop").symlink_to(packages)
    (packages / "gone.py").symlink_to(packages / "nowhere.py")
    assert list(found()) == ["escape.py"]


def test_the_order_is_that_of_the_names_and_copies_come_once(packages: Path) -> None:
    for name in ("b.py", "a.py", "c.py"):
        (packages / name).write_text(MODULE if name != "c.py" else MODULE.replace("bridge", "tunnel"))
    assert list(found()) == ["a.py", "c.py"]


def test_what_is_installed_here() -> None:
    first = list(documentation.documents(limit_bytes=300_000))
    assert first == list(documentation.documents(limit_bytes=300_000))
    assert 250_000 < sum(len(text.encode()) for _, text in first) <= 300_000
    assert all(len(text) >= 200 and ">>>" not in text for _, text in first)
    words = re.findall(r"[a-z]+", " ".join(text for _, text in first))
    assert 0.04 < words.count("the") / len(words) < 0.12


def test_it_is_a_source_like_any_other() -> None:
    reader = Reader(find_sources(["builtin:documentation"]))
    document = next(iter(reader))
    assert document.location.startswith("builtin:documentation, topic ")
    assert reader.bytes_total is None


def test_python_alone_leaves_packages_out(monkeypatch: pytest.MonkeyPatch) -> None:
    roots: list[Path] = []
    monkeypatch.setattr(documentation, "_python_files", lambda root: roots.append(root) or iter(()))
    assert all(location.startswith("topic ") for location, _ in documentation.documents(python_alone=True))
    assert roots == [Path(sysconfig.get_paths()["stdlib"])]
    list(documentation.documents())
    assert len(roots) > 2
    document = next(iter(Reader(find_sources(["builtin:python"]))))
    assert document.location.startswith("builtin:python, topic ")
