"""Progress of long work: a bar with an ETA on a terminal, one line now and then elsewhere; always on standard error."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from litebert.training.job import ProgressEvent

__all__ = ["Show", "as_far_as_it_came", "is_main_process", "showing_progress", "showing_run"]

_SECONDS_BETWEEN_LINES = 10.0
Result = TypeVar("Result")


class Show(Protocol):
    """Takes how much is done, of a total that was given before, and a message about it."""

    def __call__(self, done: int, message: str) -> None:
        """Show it."""


@contextmanager
def showing_progress(title: str, total: int | None, quiet: bool = False, fill: bool = True) -> Iterator[Show]:
    """Show progress while the block runs; a bar is filled at its end, unless the block may end early."""
    if quiet:
        yield lambda done, message: None
    elif not sys.stderr.isatty():
        yield _lines(title, total)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[message]}"),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task(title, total=total, message="")
            yield _bar(progress, task)
            if fill and total is not None:
                progress.update(task, completed=total)


def _bar(progress: "Progress", task: "TaskID") -> Show:
    has_begun = False

    def show(done: int, message: str) -> None:
        nonlocal has_begun
        if not has_begun:  # what was done before this work began, and its start, say nothing about its speed
            progress.reset(task, completed=done, message=message)
            has_begun = True
        progress.update(task, completed=done, message=message)

    return show


def _lines(title: str, total: int | None, clock: Callable[[], float] = time.monotonic) -> Show:
    last = clock()
    first: tuple[float, int] | None = None  # when this work first showed progress, and what was done by then

    def show(done: int, message: str) -> None:
        nonlocal last, first
        now = clock()
        first = (now, done) if first is None else first
        if now - last < _SECONDS_BETWEEN_LINES:
            return
        last, (begun, before) = now, first
        share = f"{done / total:.0%} " if total else ""
        left = f", {(now - begun) * (total - done) / (done - before):.0f} s left" if total and done > before else ""
        print(f"{title}: {share}{message}{left}", file=sys.stderr, flush=True)

    return show


def is_main_process() -> bool:
    """Whether this process speaks for all that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def showing_run(title: str, quiet: bool, metric: str) -> Iterator[dict[str, Any]]:
    """Show the progress of a run while the block trains it; gives the callbacks that training takes."""
    quiet = quiet or not is_main_process()
    with showing_progress(title, 1000, quiet, fill=False) as show:

        def on_step(event: "ProgressEvent") -> None:
            parts = [f"step {event.step:,}"]
            if event.recent.get("loss") is not None:
                parts.append(f"loss {event.recent['loss']:.3f}")
            if metric in event.metrics:
                parts.append(f"{metric} {event.metrics[metric]:.3f}")
            if event.recent:
                parts.append(f"{event.recent['tokens_per_second']:,.0f} tokens/s")
            show(round(1000 * event.progress), ", ".join(parts))

        def on_message(message: str) -> None:
            if not quiet:
                print(f"litebert: {message}", file=sys.stderr, flush=True)

        yield {"on_step": on_step, "on_message": on_message}


def as_far_as_it_came(train: Callable[..., Result], *args: Any, **how: Any) -> Result:
    """What training returns; of a run that a signal stopped, what it came to: commands say that themselves."""
    from litebert.training.job import Interrupted

    try:
        return train(*args, **how)
    except Interrupted as stopped:
        return stopped.result  # type: ignore[no-any-return]
