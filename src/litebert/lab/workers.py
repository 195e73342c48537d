"""Where cells run: in processes of this machine, or on the workers of a Dask cluster that share its disk."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeVar

from litebert.errors import RequestError
from litebert.runtime import without_main

__all__ = ["Workers", "open_workers"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Workers(Protocol):
    """Processes that each run one item at a time."""

    count: int

    def submit(self, function: Callable[[Item], Result], item: Item) -> Future[Result] | None:
        """Begin with an item, if a process is idle."""

    def interrupt(self) -> None:
        """Ask all that run to save what they have, and to stop."""


@contextlib.contextmanager
def open_workers(count: int, threads: int, scheduler: str | None) -> Iterator[Workers]:
    """So many processes of this machine with so many threads each; or a cluster, by its scheduler's address."""
    if scheduler is None:
        lanes = _Lanes(count, threads)
        try:
            yield lanes
        finally:
            lanes.close()
        return
    from litebert.corpus.runners import open_cluster

    with open_cluster(scheduler) as client:
        yield _Cluster(client)


class _Lanes:
    """A pool of one process for each lane, so that one that is killed takes no other with it."""

    def __init__(self, count: int, threads: int) -> None:
        self.count = count
        self._threads = threads
        self._lanes: list[tuple[ProcessPoolExecutor, Future[Any]]] = []

    def submit(self, function: Callable[[Item], Result], item: Item) -> Future[Result] | None:
        idle = [lane for lane in self._lanes if lane[1].done()]
        if not idle and len(self._lanes) == self.count:
            return None
        pool = None
        if idle:
            pool, last = idle[0]
            self._lanes.remove(idle[0])
            if isinstance(last.exception(), BrokenProcessPool):
                pool = None
        pool = pool or self._open()
        with without_main():  # the first item starts the process
            future = pool.submit(function, item)
        self._lanes.append((pool, future))
        return future

    def _open(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self._threads,))

    def interrupt(self) -> None:
        for pool, future in self._lanes:
            if not future.done():
                for process in list(pool._processes.values()):
                    process.terminate()

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        for pool, _ in self._lanes:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(threads: int) -> None:
    """The start of a process: its share of the cores, Ctrl-C left to the one that began it, and no life after that."""
    os.environ.update(dict.fromkeys(_THREAD_SETTINGS, str(threads)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


class _Cluster:
    """As many cells at a time as the cluster has workers; Dask gives what a lost one was doing to another."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count = len(client.ncores())
        if not self.count:
            raise RequestError("the cluster has no workers: start some, and run this again")
        self._executor = client.get_executor(pure=False)
        self._running: list[Future[Any]] = []

    def submit(self, function: Callable[[Item], Result], item: Item) -> Future[Result] | None:
        self._running = [future for future in self._running if not future.done()]
        if len(self._running) >= self.count:
            return None
        future: Future[Result] = self._executor.submit(function, item)
        self._running.append(future)
        return future

    def interrupt(self) -> None:
        for future in self._running:
            future.cancel()
