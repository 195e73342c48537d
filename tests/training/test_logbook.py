"""The logbook of a run: lines that any tool can read, and no line from a future that did not happen."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from litebert.errors import LitebertError
from litebert.training.logbook import METRICS, Logbook


def lines(folder: Path) -> list[dict[str, Any]]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    text = (folder / METRICS).read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_lines_are_plain_json(tmp_path: Path) -> None:
    book = Logbook(tmp_path)
    book.write("step", 1, loss=float("nan"), rate=float("inf"), tokens=3)
    book.write("samples", 2, samples=[{"text": "밥을 [MASK]"}])
    assert lines(tmp_path) == [
        {"kind": "step", "step": 1, "loss": None, "rate": None, "tokens": 3},
        {"kind": "samples", "step": 2, "samples": [{"text": "밥을 [MASK]"}]},
    ]
    assert "밥을" in (tmp_path / METRICS).read_text(encoding="utf-8")


def test_what_came_after_a_step_is_dropped(tmp_path: Path) -> None:
    book = Logbook(tmp_path)
    for step in range(6):
        book.write("step", step, loss=step / 2)
        book.write("event", step, what="saved")
    book.keep_until(3)
    assert [entry["step"] for entry in lines(tmp_path)] == [0, 0, 1, 1, 2, 2, 3, 3]
    book.write("step", 4, loss=9.0)
    assert lines(tmp_path)[-1] == {"kind": "step", "step": 4, "loss": 9.0}
    book.keep_until(-1)
    assert lines(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [METRICS]


@pytest.mark.parametrize("cut", range(1, 45))
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    """Wherever the cut goes through: also within a character."""
    book = Logbook(tmp_path)
    book.write("step", 1, words="first")
    book.write("step", 1, words="밥을 먹었습니다")
    content = (tmp_path / METRICS).read_bytes()
    (tmp_path / METRICS).write_bytes(content[: -1 - cut])
    book.keep_until(5)
    book.write("step", 2, words="next")
    assert [entry["words"] for entry in lines(tmp_path)] == ["first", "next"]


def test_lines_that_are_no_entries_are_dropped(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('[1]\n3\n\n{"kind": "step", "step": 1}\nnull\n')
    Logbook(tmp_path).keep_until(1)
    assert lines(tmp_path) == [{"kind": "step", "step": 1}]


def test_only_one_process_writes(tmp_path: Path) -> None:
    book = Logbook(tmp_path, writes=False)
    book.write("step", 1, loss=1.0)
    book.keep_until(0)
    book.close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "gone")
    with pytest.raises(LitebertError, match=r"cannot write .*metrics\.jsonl: No such file or directory"):
        book.write("step", 1, loss=1.0)
    book.keep_until(3)  # where there is nothing, nothing is to be dropped


def test_a_board_shows_no_steps_that_will_be_taken_again(tmp_path: Path) -> None:
    """TensorBoard itself is no part of the tests: what matters is what it is told."""
    writer = mock.MagicMock()
    with mock.patch.dict(sys.modules, {"torch.utils.tensorboard": SimpleNamespace(SummaryWriter=writer)}):
        book = Logbook(tmp_path)
        book.keep_until(3)
        book.write("step", 4, loss=0.5, words="none", bad=float("nan"))
        book.write("event", 4, what="saved")
        book.close()
    writer.assert_called_once_with(str(tmp_path / "tensorboard"), purge_step=4)
    writer.return_value.add_scalar.assert_called_once_with("step/loss", 0.5, 4)
    writer.return_value.close.assert_called_once_with()
