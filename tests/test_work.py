"""The measures of work tell linear from quadratic work, and count the same every time."""

from collections.abc import Callable

import pytest

from tests.work import assert_linear, count_calls


def test_quadratic_work_is_found() -> None:
    def linear(size: int) -> Callable[[], object]:
        return lambda: sum(range(200 * size))

    def quadratic(size: int) -> Callable[[], object]:
        return lambda: [sum(range(size)) for _ in range(size)]

    assert_linear(linear, 300)
    with pytest.raises(AssertionError, match="8 times the size"):
        assert_linear(quadratic, 300, attempts=2)


def test_calls_are_counted() -> None:
    def work(size: int) -> int:
        return count_calls(lambda: [len(repr(number)) for number in range(size)])

    assert work(200) - work(100) == 200
    assert work(100) == work(100)
