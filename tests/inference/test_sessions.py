import pytest

from litebert.inference import sessions


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("4,2", 4), ("", None), ("many", None), ("0", None)])
def test_threads(given: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert sessions.choose_threads() == (expected or sessions.num_cores())
