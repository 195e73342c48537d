"""`BatchQueue`: inputs of many requests wait until the model is free, and then run together.

Nobody waits for a batch to fill: the model takes what is there when it is free, up to a number of tokens. It takes one
input of each request in turn, so that small requests do not wait behind large ones. The queue is bounded by the time
that its work would take. A client who has gone away takes its inputs along.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BatchQueue", "OverloadedError", "QueueLimits"]

Run = Callable[[Hashable, list[Any]], list[Any]]
"""Runs an operation on inputs, and gives a result for each."""
OnBatch = Callable[[int, int, float], None]
"""Hears of each batch: inputs, tokens, seconds."""

_BATCH_SECONDS = 0.05
_LEAST_TOKENS = 128  # fewer are slower by the token
_LATELY = 0.2  # the weight of the last batch in the measured speed


class OverloadedError(Exception):
    """There is more work than can be done in time; `retry_after` is when to try again, in seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("there is more work than can be done in time")
        self.retry_after = max(1, math.ceil(retry_after))


@dataclass(frozen=True)
class QueueLimits:
    """How much may wait, and how much runs at once."""

    batch_tokens: int = 2048
    max_wait: float = 5.0
    """Seconds: a request that would wait for longer is refused."""
    timeout: float = 30.0
    """Seconds without any progress after which a request is given up."""
    max_bytes: int = 64_000_000
    """What all waiting inputs together may hold."""


@dataclass(eq=False)
class _Request:
    """Inputs of one request; those from `num_started` on still wait."""

    operation: Hashable
    inputs: Sequence[Any]
    tokens: Sequence[int]
    num_bytes: int
    future: asyncio.Future[list[Any]]
    num_tokens: int
    tokens_left: int
    """Tokens of the inputs that still wait."""
    results: list[Any] = field(default_factory=list)
    num_started: int = 0
    num_done: int = 0


@dataclass(frozen=True)
class _Part:
    """Some inputs of a request that run in one batch."""

    request: _Request
    begin: int
    end: int

    @property
    def inputs(self) -> Sequence[Any]:
        """What runs."""
        return self.request.inputs[self.begin : self.end]


class BatchQueue:
    """Runs the inputs of many requests in batches, on one thread."""

    def __init__(
        self, run: Run, limits: QueueLimits, on_batch: OnBatch = lambda inputs, tokens, seconds: None, name: str = ""
    ) -> None:
        self._run, self.limits, self._on_batch = run, limits, on_batch
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._tokens = self._bytes = self._running = 0
        self._speed: float | None = None  # tokens per second
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=f"batches of {name}", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Requests that wait for their first batch, or for another one."""
        return len(self._waiting)

    @property
    def tokens_waiting(self) -> int:
        """Tokens that wait."""
        return self._tokens

    @property
    def seconds_ahead(self) -> float:
        """How long the work takes that is there already, by the speed of late."""
        return (self._tokens + self._running) / self._speed if self._speed else 0.0

    async def submit(
        self, operation: Hashable, inputs: Sequence[Any], tokens: Sequence[int], num_bytes: int = 0
    ) -> list[Any]:
        """Results for inputs, in their order; raises `OverloadedError` where they would come too late."""
        if not inputs:
            return []
        future = asyncio.get_running_loop().create_future()
        request = _Request(operation, inputs, tokens, num_bytes, future, sum(tokens), sum(tokens), [None] * len(inputs))
        with self._changed:
            if self._is_closed:
                raise OverloadedError(1)
            self._refuse_too_much(request)
            self._waiting.append(request)
            self._tokens += request.tokens_left
            self._bytes += num_bytes
            self._changed.notify()
        try:
            num_done = -1
            while not future.done() and request.num_done > num_done:
                num_done = request.num_done
                await asyncio.wait({future}, timeout=self.limits.timeout)
            if not future.done():
                raise OverloadedError(self.seconds_ahead)
            results: list[Any] = future.result()
            return results
        finally:
            with self._changed:
                if request in self._waiting:  # the client has gone, or it took too long
                    self._waiting.remove(request)
                    self._tokens -= request.tokens_left
                self._bytes -= num_bytes

    def _refuse_too_much(self, request: _Request) -> None:
        """All take turns, so that a request waits for no more of another than it has itself.

        Others count as they came, not as they are now: those that come later take turns as well.
        """
        if not self._waiting and not self._running:
            return
        own = request.num_tokens
        ahead = self._running + sum(min(one.num_tokens, own) for one in self._waiting)
        seconds = ahead / self._speed if self._speed else 0.0
        if seconds > self.limits.max_wait or self._bytes + request.num_bytes > self.limits.max_bytes:
            raise OverloadedError(seconds)

    def close(self, timeout: float | None = None) -> None:
        """Take nothing new, finish what is there, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout)

    # --- the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            begun = time.perf_counter()
            results = self._run_parts(batch)
            seconds = time.perf_counter() - begun
            with self._changed:
                tokens, self._running = self._running, 0
                speed = tokens / max(seconds, 1e-6)
                self._speed = speed if self._speed is None else (1 - _LATELY) * self._speed + _LATELY * speed
            for part, found in results:
                self._deliver(part, found)
            self._on_batch(sum(part.end - part.begin for part in batch), tokens, seconds)

    def _take(self) -> list[_Part] | None:
        """Parts of waiting requests that run together; None when the queue is closed and empty."""
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._changed.wait()
            first, room = self._waiting[0], self._choose_size()
            alike = [request for request in self._waiting if request.operation == first.operation]
            begins = [request.num_started for request in alike]
            open_ones = list(alike)
            while open_ones and room > 0:  # one input of each in turn
                for request in list(open_ones):
                    tokens = request.tokens[request.num_started]
                    if tokens > room and self._running:
                        open_ones.remove(request)
                        continue
                    room -= tokens
                    self._running += tokens
                    self._tokens -= tokens
                    request.tokens_left -= tokens
                    request.num_started += 1
                    if request.num_started == len(request.inputs):
                        open_ones.remove(request)
                        self._waiting.remove(request)
            parts = [_Part(one, begin, one.num_started) for one, begin in zip(alike, begins, strict=True)]
            parts = [part for part in parts if part.end > part.begin]
            for part in parts:  # who has had a turn waits behind the others
                if part.request in self._waiting:
                    self._waiting.remove(part.request)
                    self._waiting.append(part.request)
            return parts

    def _choose_size(self) -> int:
        """How many tokens run together: so many as take a short time, by the speed of late, since others wait."""
        most = self.limits.batch_tokens
        return most if self._speed is None else min(most, max(_LEAST_TOKENS, int(self._speed * _BATCH_SECONDS)))

    def _run_parts(self, parts: list[_Part]) -> list[tuple[_Part, list[Any] | Exception]]:
        """What comes of each part; if all together fail, each is tried alone, so that one cannot spoil the others."""
        try:
            results = self._run(parts[0].request.operation, [one for part in parts for one in part.inputs])
        except Exception as error:
            if len(parts) > 1:
                return [pair for part in parts for pair in self._run_parts([part])]
            return [(parts[0], error)]
        found: list[tuple[_Part, list[Any] | Exception]] = []
        for part in parts:
            count = part.end - part.begin
            found.append((part, results[:count]))
            results = results[count:]
        return found

    def _deliver(self, part: _Part, results: list[Any] | Exception) -> None:
        """Give a request what came of its part; with its last part it is answered."""
        request = part.request

        def settle() -> None:
            if request.future.done():
                return
            if isinstance(results, Exception):
                request.future.set_exception(results)
                return
            request.results[part.begin : part.end] = results
            request.num_done += len(results)
            if request.num_done == len(request.inputs):
                request.future.set_result(request.results)

        with contextlib.suppress(RuntimeError):  # its event loop is closed
            request.future.get_loop().call_soon_threadsafe(settle)
