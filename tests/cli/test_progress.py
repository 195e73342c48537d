"""Time that is left: it goes by what this call has done, not by what was done before it."""

import pytest
from rich.progress import Progress

from litebert.cli.progress import _bar, _lines


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_count_from_where_a_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    show = _lines("pretraining", 1000, clock)
    clock.now = 100.0  # the start takes its time
    show(500, "step 50")
    assert "left" not in capsys.readouterr().err
    clock.now = 120.0
    show(600, "step 60")
    assert capsys.readouterr().err == "pretraining: 60% step 60, 80 s left\n"


def test_a_bar_counts_from_where_a_run_goes_on() -> None:
    clock = Clock()
    with Progress(get_time=clock, disable=True) as progress:
        task = progress.add_task("pretraining", total=1000, message="")
        show = _bar(progress, task)
        clock.now = 100.0
        show(500, "step 50")
        assert progress.tasks[0].completed == 500
        for number in range(1, 11):
            clock.now = 100.0 + 2 * number
            show(500 + 10 * number, "on")
        assert progress.tasks[0].time_remaining == pytest.approx(80, abs=10)
