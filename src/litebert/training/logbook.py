"""The logbook of a run: what happened, as JSON lines that any tool can read, and in TensorBoard if it is installed.

Each line has a `kind`: `step`, `evaluation`, `samples` or `event`. A run that goes on from a checkpoint first drops
the lines after it, since those steps will be taken again.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litebert.errors import LitebertError
from litebert.folders import PARTIAL

__all__ = ["METRICS", "Logbook"]

METRICS = "metrics.jsonl"


class Logbook:
    """Appends to the metrics of a run; in a process that does not speak for all, it writes nothing."""

    def __init__(self, folder: Path, writes: bool = True) -> None:
        self._path = folder / METRICS
        self._writes = writes
        self._board: Any = None

    def keep_until(self, step: int) -> None:
        """Begin: drop what was written after this step, and a line that was cut off."""
        if not self._writes:
            return
        self._board = _open_tensorboard(self._path.parent / "tensorboard", step)
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
            for name, value in known.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    @contextlib.contextmanager
    def _saying_what_fails(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LitebertError(f"cannot write {self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Let TensorBoard write what it still holds."""
        if self._board is not None:
            self._board.close()


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _open_tensorboard(folder: Path, step: int) -> Any:
    """A board on which nothing after this step is shown, if TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)
