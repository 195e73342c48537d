"""The logbook of a run: what happened, as JSON lines that any tool can read, and in TensorBoard if it is installed.

Each line has a `kind`: `step`, `evaluation`, `samples` or `event`. A run that goes on from a checkpoint first drops
the lines after it, since those steps will be taken again.
"""

import contextlib
import importlib
import json
import math
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litebert.errors import LitebertError
from litebert.folders import PARTIAL
from litebert.training.run_folder import RunFolder

__all__ = ["Logbook"]


class Logbook:
    """Appends to the metrics of a run; in a process that does not speak for all, it writes nothing."""

    def __init__(self, folder: Path, writes: bool = True) -> None:
        self._files = RunFolder(folder)
        self._path = self._files.metrics_file
        self._writes = writes
        self._board: TensorBoard | None = None

    def keep_until(self, step: int) -> None:
        """Begin: drop what was written after this step, and a line that was cut off."""
        if not self._writes:
            return
        self._board = _open_tensorboard(self._files.tensorboard, step)
        if not self._path.exists():
            return
        partial = self._path.with_name(self._path.name + PARTIAL)
        with (
            self._saying_what_fails(),
            self._path.open(encoding="utf-8", errors="replace") as old,
            partial.open("w", encoding="utf-8") as new,
        ):
            for line in old:
                with contextlib.suppress(ValueError, AttributeError):
                    entry = json.loads(line)
                    if entry.get("step", 0) <= step:
                        new.write(json.dumps(entry, ensure_ascii=False) + "\n")
            new.flush()
            os.fsync(new.fileno())
            partial.replace(self._path)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Append a line; numbers that are none (NaN, infinite) become null, which JSON knows."""
        if not self._writes:
            return
        known = {name: _finite(value) for name, value in values.items()}
        with self._saying_what_fails(), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **known}, ensure_ascii=False) + "\n")
        if self._board is not None and kind in ("step", "evaluation"):
            numbers = {name: value for name, value in known.items() if isinstance(value, int | float)}
            self._board.add_scalars({f"{kind}/{name}": float(value) for name, value in numbers.items()}, step)

    @contextlib.contextmanager
    def _saying_what_fails(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LitebertError(f"cannot write {self._path}: {error.strerror or error}") from error


class TensorBoard:
    """A file of events that TensorBoard shows.

    TensorBoard's own writer leaves the writing to a thread, whose failure (a full disk) a user would see as a
    traceback. This one writes at once. If it cannot, it gives up without a word: the same numbers are in the logbook.
    """

    def __init__(self, folder: Path, step: int) -> None:
        """Nothing after this step is shown of what was written before."""
        events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        records = importlib.import_module("tensorboard.summary.writer.record_writer")
        self._event, self._summary, self._record_writer = events.Event, summaries.Summary, records.RecordWriter
        # TensorBoard reads files by their names, whose first number is the time.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._path, self._has_failed = folder / name, False
        self._write(file_version="brain.Event:2")
        self._write(step=step + 1, session_log=events.SessionLog(status=events.SessionLog.START))

    def add_scalars(self, values: dict[str, float], step: int) -> None:
        """Show numbers at a step."""
        shown = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=self._summary(value=shown))

    def _write(self, **content: Any) -> None:
        if self._has_failed:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                self._record_writer(file).write(self._event(wall_time=time.time(), **content).SerializeToString())
        except OSError:
            self._has_failed = True


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _open_tensorboard(folder: Path, step: int) -> TensorBoard | None:
    """A board on which nothing after this step is shown, if TensorBoard is installed."""
    try:
        return TensorBoard(folder, step)
    except ImportError:
        return None
