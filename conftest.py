"""Tests run with whatever is installed: one that comes upon a library that is not there is skipped, and says so.

The core alone uses encoders; torch and the rest come with extras. A library of the core is never passed over.
"""

from collections.abc import Iterator
from typing import Any

import pytest

EXTRAS = {
    *("torch", "matplotlib", "jinja2", "sklearn", "scipy", "zstandard"),  # train
    *("fastapi", "starlette", "uvicorn", "orjson", "prometheus_client"),  # serve
    "psutil",
}


def _find_missing(error: BaseException | None) -> str | None:
    """The library whose absence led to an error; none if that is not what happened."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        library = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and library in EXTRAS:
            return library
        error = error.__cause__ or error.__context__
    return None


def _say(library: str) -> str:
    return f"needs {library}: pip install -e '.[dev]'"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Skip a module that imports what is not installed."""
    report = yield
    found = report.call.excinfo
    library = None if found is None else _find_missing(found.value)
    if library is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {_say(library)}")
    return report


def _skip_if_missing() -> Iterator[Any]:
    try:
        return (yield)
    except Exception as error:
        library = _find_missing(error)
        if library is None:
            raise
        pytest.skip(_say(library))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[Any]:
    """Skip a test whose fixtures need what is not installed."""
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Skip a test that comes upon what is not installed."""
    return (yield from _skip_if_missing())
