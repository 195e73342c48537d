"""The logbook of a run: lines that any tool can read, and no line from a future that did not happen."""

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from litebert.errors import LitebertError
from litebert.training.logbook import Logbook

METRICS = "metrics.jsonl"


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
    assert {path.name for path in tmp_path.iterdir()} - {"tensorboard"} == {METRICS}  # nothing half written is left


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
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "gone")
    with pytest.raises(LitebertError, match=r"cannot write .*metrics\.jsonl: No such file or directory"):
        book.write("step", 1, loss=1.0)
    book.keep_until(3)  # where there is nothing, nothing is to be dropped


def test_a_board_shows_no_steps_that_will_be_taken_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for begin, end in ((-1, 6), (3, 5)):
        book = Logbook(tmp_path)
        book.keep_until(begin)
        for step in range(begin + 1, end):
            book.write("step", step, loss=step + end / 10, words="none", bad=float("nan"))
        book.write("event", end, what="saved", seconds=1.0)
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert shown.Tags()["scalars"] == ["step/loss"]
    points = [(each.step, each.value) for each in shown.Scalars("step/loss")]
    assert points == [(step, pytest.approx(loss)) for step, loss in ((0, 0.6), (1, 1.6), (2, 2.6), (3, 3.6), (4, 4.5))]


def test_without_tensorboard_there_is_no_board(tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"tensorboard": None, "tensorboard.compat.proto.event_pb2": None}):
        book = Logbook(tmp_path)
        book.keep_until(0)
        book.write("step", 1, loss=1.0)
    assert [path.name for path in tmp_path.iterdir()] == [METRICS]


def test_a_board_that_cannot_be_written_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logbook speaks for both: it cannot be written either, or it has all that the board would show."""
    records = pytest.importorskip("tensorboard.summary.writer.record_writer")
    (tmp_path / "tensorboard").write_text("no folder")
    book = Logbook(tmp_path)
    book.keep_until(0)
    book.write("step", 1, loss=1.0)
    (tmp_path / "tensorboard").unlink()
    book.keep_until(1)
    monkeypatch.setattr(records.RecordWriter, "write", mock.Mock(side_effect=OSError(28, "No space left on device")))
    for step in (2, 3):
        book.write("step", step, loss=1.0)
    assert [entry["step"] for entry in lines(tmp_path)] == [1, 2, 3]
    assert capfd.readouterr() == ("", "")
