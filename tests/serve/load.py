"""A client that puts load on a server: plain HTTP/1.1 on asyncio, quick enough not to be what is measured."""

import asyncio
import itertools
import json
import random
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Load", "ask_together", "free_port", "make_body", "run_closed", "run_open", "run_paced", "wait_until_ready"]


@dataclass
class Load:
    """What came of many requests."""

    seconds: list[float] = field(default_factory=list)
    """Of the requests that were answered with 200."""
    statuses: Counter[int] = field(default_factory=Counter)
    """0 where the connection ended without an answer."""
    elapsed: float = 0.0
    retry_after: int = 0
    """How many refusals said when to come again."""

    def quantile(self, share: float) -> float:
        """The time within which so many of the answers came."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return len(self.seconds) / self.elapsed if self.elapsed else 0.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_until_ready(address: str, process: subprocess.Popen[Any]) -> None:
    """Wait for as long as the server lives."""
    while True:
        try:
            urllib.request.urlopen(f"{address}/ready", timeout=30).close()
            return
        except OSError:
            assert process.poll() is None, process.stderr.read() if process.stderr else "the server ended"
            time.sleep(0.05)


def make_body(path: str, content: dict[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection:
    """One connection that stays open."""

    def __init__(self, address: str, is_patient: bool = False) -> None:
        """`is_patient` tries again where the server had closed a connection that was idle for too long."""
        self._is_patient = is_patient
        parts = urlsplit(address)
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer; status 0 if there was none."""
        was_open = self._streams is not None
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            if was_open and self._is_patient:
                return await self.ask(request)
            return 0, {}, b""
        if headers.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), headers, body

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def _ask_one(connection: Connection, request: bytes, load: Load) -> int:
    begun = time.perf_counter()
    status, headers, _ = await connection.ask(request)
    load.statuses[status] += 1
    if status == 200:
        load.seconds.append(time.perf_counter() - begun)
    elif status == 429:
        load.retry_after += "retry-after" in headers
    return status


async def run_closed(address: str, requests: Sequence[bytes], clients: int, seconds: float) -> Load:
    """So many clients, each of which asks again as soon as it has its answer; it waits a little after a refusal."""
    load, begun = Load(), time.perf_counter()
    turn = itertools.cycle(requests)

    async def keep_asking() -> None:
        connection = Connection(address)
        while time.perf_counter() - begun < seconds:
            if await _ask_one(connection, next(turn), load) != 200:
                await asyncio.sleep(0.05)
        connection.close()

    await asyncio.gather(*(keep_asking() for _ in range(clients)))
    load.elapsed = time.perf_counter() - begun
    return load


async def run_open(address: str, requests: Sequence[bytes], rate: float, seconds: float, seed: int = 0) -> Load:
    """Requests that come at their own pace, however long the answers take."""
    load, begun, generator = Load(), time.perf_counter(), random.Random(seed)
    turn, idle, tasks = itertools.cycle(requests), list[Connection](), set[asyncio.Task[None]]()

    async def ask(request: bytes) -> None:
        connection = idle.pop() if idle else Connection(address, is_patient=True)
        await _ask_one(connection, request, load)
        idle.append(connection)

    due = begun
    while due < begun + seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.add(asyncio.create_task(ask(next(turn))))
        due += generator.expovariate(rate)
    await asyncio.gather(*tasks)
    load.elapsed = time.perf_counter() - begun
    for connection in idle:
        connection.close()
    return load


async def run_paced(address: str, requests: Sequence[bytes], rate: float, count: int, seed: int = 0) -> Load:
    """So many requests at a pace that leaves room for others; if this process is paused, the rest comes later."""
    load, begun, generator = Load(), time.perf_counter(), random.Random(seed)
    turn, idle, tasks = itertools.cycle(requests), list[Connection](), set[asyncio.Task[None]]()

    async def ask(request: bytes) -> None:
        connection = idle.pop() if idle else Connection(address, is_patient=True)
        await _ask_one(connection, request, load)
        idle.append(connection)

    for _ in range(count):
        await asyncio.sleep(generator.expovariate(rate))
        task = asyncio.create_task(ask(next(turn)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    load.elapsed = time.perf_counter() - begun
    for connection in idle:
        connection.close()
    return load


async def ask_together(address: str, requests: Sequence[bytes], clients: int) -> list[tuple[int, bytes]]:
    """Status and body for each request, in their order, asked by so many clients at once."""
    answers: list[tuple[int, bytes]] = [(0, b"")] * len(requests)
    numbers = iter(range(len(requests)))

    async def work() -> None:
        connection = Connection(address)
        for number in numbers:
            status, _, body = await connection.ask(requests[number])
            answers[number] = status, body
        connection.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return answers
