"""Where preparation runs: in this process, in processes of this machine, or on a Dask cluster; always in order.

Results come back in the order of their items, and only so many items are under way at a time: memory stays bounded.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol, TypeVar

from litebert import __version__
from litebert.errors import LitebertError
from litebert.runtime import without_main

__all__ = ["Runner", "open_cluster", "open_runner"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")

_SECONDS_TO_CONNECT = 15
_SECONDS_BETWEEN_LOOKS = 5
_SECONDS_WITHOUT_WORKERS = 60
_MOST_FAILURES = 20  # workers of a cluster that may die over one item before it is taken for the cause
_MOST_FILES_TO_LOOK_AT = 100
_MOST_DEATHS = 5  # the same on this machine, where nobody takes workers away
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Runner(Protocol):
    """Applies a function to items, with something that all of them share."""

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Results in the order of the items."""

    def can_read(self, paths: Sequence[str]) -> bool:
        """Whether all workers see these files as this process does."""


@contextlib.contextmanager
def open_runner(num_workers: int, scheduler: str | None) -> Iterator[Runner]:
    """One worker is this process, several are processes of this machine; a scheduler's address means a Dask cluster."""
    if scheduler is not None:
        with open_cluster(scheduler) as client:
            yield _OnCluster(client)
    elif num_workers == 1:
        yield _InProcess()
    else:
        with contextlib.closing(_OnProcesses(num_workers)) as runner:
            yield runner


@contextlib.contextmanager
def open_cluster(scheduler: str) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client
    except ModuleNotFoundError as error:
        raise LitebertError(
            "--scheduler needs Dask, which is not installed: install it with pip install 'litebert[cluster]'"
        ) from error
    settings = {"distributed.scheduler.allowed-failures": _MOST_FAILURES, "logging.distributed": "error"}
    with dask.config.set(settings), _connect(Client, scheduler) as client:
        yield client


@contextlib.contextmanager
def _blocking_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; workers that start here leave it to this one."""
    # Blocked, not ignored: processes that start here inherit that, and a Ctrl-C of this moment comes afterwards.
    # The first process that Python starts brings a tracker with it, and starting that one would unblock the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A library's thread may take the signal instead, and Python would then act on it here: that has to wait as well.
    waiting: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number)) if is_main else None
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


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


def _look(paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """Size and time of files, as far as they are there."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


class _InProcess:
    """No workers at all."""

    def can_read(self, paths: Sequence[str]) -> bool:
        return True

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        for item in items:
            yield function(shared, item)


class _OnProcesses:
    """Processes of this machine, each behind a pipe; what a killed one was doing is done again by another."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._workers: list[_Worker] = []

    def can_read(self, paths: Sequence[str]) -> bool:
        return True

    def map_in_order(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        rest = enumerate(items)
        first = list(itertools.islice(rest, 2))
        if len(first) < 2:  # a process would take longer to start
            yield from (function(shared, item) for _, item in first)
            return
        source = itertools.chain(first, rest)
        waiting: deque[tuple[int, Item]] = deque()
        results: dict[int, Result] = {}
        deaths: Counter[int] = Counter()
        num_read = num_given = 0
        is_at_end = False
        while not (is_at_end and num_given == num_read):
            while waiting and (worker := self._find_idle(function, shared)):
                worker.begin(*waiting.popleft())
            # While the workers are busy, the next items are read. Those that are done early count, too.
            may_read = not is_at_end and len(waiting) < self._num_workers
            may_read = may_read and num_read - num_given <= 2 * self._num_workers
            if may_read:
                task = next(source, None)
                is_at_end = task is None
                if task is not None:
                    waiting.append(task)
                    num_read += 1
            for worker in self._find_ready(at_once=may_read):
                index, item = worker.task
                try:
                    is_good, result = worker.receive()
                except (EOFError, OSError):
                    self._workers.remove(worker)
                    deaths[index] += 1
                    if deaths[index] >= _MOST_DEATHS:
                        raise LitebertError(
                            f"preparation lost {_MOST_DEATHS} workers over the same part of the text (is there enough "
                            "memory?): run it again with fewer --workers, and it goes on"
                        ) from None
                    waiting.appendleft((index, item))
                    continue
                if not is_good:
                    raise result
                results[index] = result
            while waiting and (worker := self._find_idle(function, shared)):  # before the results are dealt with
                worker.begin(*waiting.popleft())
            while num_given in results:
                yield results.pop(num_given)
                num_given += 1

    def _find_idle(self, function: Callable[..., Any], shared: object) -> "_Worker | None":
        """A worker that has nothing to do; a new one, if there may be more."""
        for worker in self._workers:
            if worker.task is None:
                return worker
        if len(self._workers) == self._num_workers:
            return None
        self._workers.append(_Worker(function, shared))
        return self._workers[-1]

    def _find_ready(self, at_once: bool) -> list["_Worker"]:
        """Busy workers that have a result or have died; wait for one, unless the answer is wanted at once."""
        busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
        return [busy[connection] for connection in wait(list(busy), 0 if at_once else None)]  # type: ignore[index]

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers:
            worker.kill()
        self._workers = []


class _Worker:
    """A process that applies a function to one item after the other."""

    def __init__(self, function: Callable[..., Any], shared: object) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.task: Any = None
        before = {name: os.environ.get(name) for name in _THREAD_SETTINGS}
        os.environ.update(dict.fromkeys(_THREAD_SETTINGS, "1"))  # each worker has one core
        job = ForkingPickler.dumps((function, shared))
        defined_in_script = b"__main__" in bytes(job)
        try:
            with _blocking_interrupts(), contextlib.nullcontext() if defined_in_script else without_main():
                self._process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        theirs.close()  # so that the pipe ends when the process does
        # Not as an argument of the process: writing that to one which has died would wait for ever.
        with contextlib.suppress(OSError):
            self.connection.send_bytes(job)

    def begin(self, index: int, item: object) -> None:
        """Hand out an item. A worker that has died is found out when its result is awaited."""
        self.task = index, item
        with contextlib.suppress(OSError):
            self.connection.send(item)

    def receive(self) -> tuple[bool, Any]:
        """Whether all went well, and the result or the error; an `EOFError` or `OSError` if the process has died."""
        try:
            answer: tuple[bool, Any] = self.connection.recv()
        except (EOFError, OSError):
            self.kill()
            raise
        self.task = None
        return answer

    def kill(self) -> None:
        """End the process, and forget it."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def _work(connection: Any) -> None:
    """What a process does until the other end of its pipe is gone: first it hears what."""
    with contextlib.suppress(EOFError, OSError):
        function, shared = connection.recv()
        while True:
            item = connection.recv()
            try:
                answer = True, function(shared, item)
            except Exception as error:
                answer = False, error
            connection.send(answer)


class _OnCluster:
    """Dask workers, anywhere; what a killed one was doing is done again by another."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def can_read(self, paths: Sequence[str]) -> bool:
        some = list(paths[:: max(1, len(paths) // _MOST_FILES_TO_LOOK_AT)])
        here = _look(some)
        return all(there == here for there in self._client.run(_look, some).values())

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
