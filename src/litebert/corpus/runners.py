"""Where preparation runs: in this process, on the cores of this machine, or on a Dask cluster; always in order.

Results come back in the order of their items, and only so many items are under way at a time: memory stays bounded.
"""

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from typing import Any, Protocol, TypeVar

from litebert import __version__
from litebert.errors import LitebertError

__all__ = ["Runner", "open_runner"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

_SECONDS_TO_CONNECT = 15
_SECONDS_BETWEEN_LOOKS = 5
_SECONDS_WITHOUT_WORKERS = 60
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
            with _blocking_interrupts():
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
def _blocking_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; workers that start here leave it to this one."""
    # Blocked, not ignored: processes that start here inherit that, and a Ctrl-C of these seconds comes afterwards.
    # The first process that Python starts brings a tracker with it, and starting that one would unblock the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connect(client_type: Any, scheduler: str) -> Any:
    """Connect, and see that there are workers with this version of litebert."""
    found: list[Any] = []

    def try_it() -> None:
        try:
            client = client_type(scheduler, timeout="5s")
            found.append(client)
            found.append(set(client.run(_version).values()))
        except Exception as error:
            found.append(error)

    # In a thread of its own: what answers at the address may be no scheduler, and say nothing for ever.
    thread = threading.Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(_SECONDS_TO_CONNECT)
    versions = found[-1] if len(found) == 2 else None
    if versions == {__version__}:
        return found[0]
    if found and not isinstance(found[0], Exception):
        found[0].close()
    if versions is None:
        reason = f" ({str(found[0]).partition(chr(10))[0][:200]})" if found else ""
        raise LitebertError(f"no Dask scheduler answers at {scheduler}: check the address{reason}")
    if isinstance(versions, Exception):
        raise LitebertError(f"the workers of {scheduler} cannot import litebert: install litebert {__version__} there")
    if not versions:
        raise LitebertError(f"the scheduler at {scheduler} has no workers: start some with `dask worker {scheduler}`")
    there = ", ".join(sorted(map(str, versions)))
    raise LitebertError(f"the workers of {scheduler} have litebert {there}, and this is {__version__}: install that")


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

        without_workers = 0
        try:
            while without_workers < _SECONDS_WITHOUT_WORKERS:
                try:
                    return future.result(timeout=_SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    has_workers = bool(self._client.ncores())
                    without_workers = 0 if has_workers else without_workers + _SECONDS_BETWEEN_LOOKS
            raise LitebertError("preparation has had no workers for a minute: start some, run it again, and it goes on")
        except (KilledWorker, CancelledError, OSError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise LitebertError(f"preparation lost its workers ({reason}): run it again, and it goes on") from None
