"""Where preparation runs: in this process, on the cores of this machine, or on a Dask cluster; always in order.

Results come back in the order of their items, and only so many items are under way at a time: memory stays bounded.
"""

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from litebert import __version__
from litebert.errors import LitebertError

__all__ = ["Runner", "open_runner"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

_MOST_FAILURES = 20  # workers that may die over one item before it is taken for the cause


class Runner(Protocol):
    """Applies a function to items, with something that all of them share."""

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Results in the order of the items."""


@contextlib.contextmanager
def open_runner(num_workers: int, scheduler: str | None) -> Iterator[Runner]:
    """One worker is this process; several are Dask workers, on this machine or behind a scheduler's address."""
    if scheduler is None and num_workers == 1:
        yield _InProcess()
        return
    import dask
    from distributed import Client, LocalCluster

    settings = {"distributed.scheduler.allowed-failures": _MOST_FAILURES, "logging.distributed": "error"}
    with contextlib.ExitStack() as stack, dask.config.set(settings):
        if scheduler is None:
            # A bare scheduler and its workers: no dashboard, nothing that listens beyond this machine.
            with _ignoring_interrupts():
                cluster = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=num_workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    host="127.0.0.1",
                    silence_logs=50,
                    memory_limit=0,
                )
            stack.enter_context(cluster)
            client = stack.enter_context(Client(cluster))  # type: ignore[no-untyped-call]
        else:
            client = stack.enter_context(_connect(Client, scheduler))
        yield _OnDask(client)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; workers that start here leave it to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _connect(client_type: Any, scheduler: str) -> Any:
    try:
        client = client_type(scheduler, timeout="5s")
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise LitebertError(f"no Dask scheduler answers at {scheduler}: check the address ({reason})") from None
    versions = set(client.run(_version).values())
    if not versions:
        client.close()
        raise LitebertError(f"the scheduler at {scheduler} has no workers: start some with `dask worker {scheduler}`")
    if versions != {__version__}:
        client.close()
        there = ", ".join(sorted(map(str, versions)))
        raise LitebertError(
            f"the workers of {scheduler} have litebert {there}, and this is {__version__}: install that"
        )
    return client


def _version() -> str:
    return __version__


def _same(value: Any) -> Any:
    return value


class _InProcess:
    """No workers at all."""

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        for item in items:
            yield function(shared, item)


class _OnDask:
    """Dask workers; what a killed one was doing is done again by another."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        # As the result of a task, what is shared can be made again on a new worker; data that is scattered cannot.
        everywhere = self._client.submit(_same, shared, pure=False)
        num_cores = max(1, sum(self._client.ncores().values()))
        under_way: deque[Any] = deque()
        for item in items:
            under_way.append(self._client.submit(function, everywhere, item, pure=False))
            if len(under_way) > 2 * num_cores:
                yield self._result(under_way.popleft())
        while under_way:
            yield self._result(under_way.popleft())

    def _result(self, future: Any) -> Any:
        from distributed import CancelledError, KilledWorker

        try:
            return future.result()
        except (KilledWorker, CancelledError, OSError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise LitebertError(f"preparation lost its workers ({reason}): run it again, and it goes on") from None
