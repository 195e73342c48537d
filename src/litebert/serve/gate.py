"""`Gate`: what every request passes before it is read: its name, its key, its size; and after it has left.

It speaks plain ASGI, so that refusing costs next to nothing when there is too much to do. A client who hangs up takes
the work for its request along.
"""

import asyncio
import hmac
import json
import random
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from litebert.serve.errors import render_error
from litebert.serve.metrics import Metrics
from litebert.serve.settings import ServeSettings

__all__ = ["OPEN_PATHS", "Gate"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})
"""What is answered without the key."""
_OPEN_FOLDER = "/page/"
_MOST_IN_FLIGHT = 2048
_MOST_BYTES = 64_000_000
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SLOW_BODY = 30.0  # seconds
# What an answer does not say itself.
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
]


class _BodyTooLargeError(Exception):
    """More bytes than a request may have."""


class _TooManyBytesError(Exception):
    """More bytes than all requests together may have before they are complete."""


class _GoneError(Exception):
    """The client hung up."""


class Gate:
    """Lets requests in, one way for all of them."""

    def __init__(self, app: App, settings: ServeSettings, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.paths = paths
        self.num_in_flight = self.num_taken = self.num_lost = self.num_bytes = 0

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else b"%032x" % random.getrandbits(128)
        status = 499  # the client was gone before there was an answer

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = list(message.get("headers", []))
                said = {name for name, _ in own}
                message["headers"] = [
                    *own,
                    (b"x-request-id", request_id),
                    *(one for one in _HEADERS if one[0] not in said),
                ]
            await send(message)

        self.num_in_flight += 1
        self.num_taken += 1
        self.metrics.in_flight.inc()
        try:
            await self._let_in(scope, headers, receive, send_with_id)
        except _GoneError:
            self.metrics.refusals.labels("disconnected").inc()
        finally:
            self.num_in_flight -= 1
            self.num_lost += status == 499
            self.metrics.in_flight.dec()
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - begun)

    async def _let_in(self, scope: Any, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        path = scope["path"]
        is_open = path in OPEN_PATHS or path.startswith(_OPEN_FOLDER)
        if self.settings.api_key is not None and not is_open and not self._has_key(headers):
            message = "this server wants its API key: send it as `Authorization: Bearer KEY`"
            return await self._refuse(send, 401, message, "invalid_api_key", {"www-authenticate": "Bearer"})
        if self.num_in_flight > _MOST_IN_FLIGHT and not is_open:
            return await self._refuse(send, 429, "too many requests at once: try again", "overloaded", _SOON)
        try:
            async with asyncio.timeout(_SLOW_BODY):
                body = await self._read_body(headers, receive)
        except _TooManyBytesError:
            return await self._refuse(send, 429, "too many large requests at once: try again", "overloaded", _SOON)
        except _BodyTooLargeError:
            message = f"a request may have {self.settings.max_body:,} bytes: send fewer texts at once"
            return await self._refuse(send, 413, message, "body_too_large", {"connection": "close"})
        except TimeoutError:
            return await self._refuse(send, 408, "the request did not arrive in time", None, {"connection": "close"})
        await self._run(scope, body, receive, send)
        return None

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        """Compared in a time that tells nothing."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        given = headers.get(b"x-api-key") or (given.strip() if scheme.lower() == b"bearer" else b"")
        return hmac.compare_digest(given, (self.settings.api_key or "").encode())

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        claimed = headers.get(b"content-length", b"0")
        if claimed.isdigit() and int(claimed[:20]) > self.settings.max_body:
            raise _BodyTooLargeError
        parts, size = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self.num_bytes += len(parts[-1])
                if size > self.settings.max_body:
                    raise _BodyTooLargeError
                if self.num_bytes > max(_MOST_BYTES, self.settings.max_body):
                    raise _TooManyBytesError
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            self.num_bytes -= size

    async def _run(self, scope: Any, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application until it has answered or the client has gone."""
        given = [{"type": "http.request", "body": body, "more_body": False}]
        gone = asyncio.Event()

        async def replay() -> Message:
            if given:
                return given.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        watching = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                await asyncio.wait({answering})
                raise _GoneError
            answering.result()
        finally:
            gone.set()
            watching.cancel()
            answering.cancel()

    async def _refuse(
        self, send: Send, status: int, message: str, code: str | None, headers: dict[str, str] | None = None
    ) -> None:
        """Answer without having read the request."""
        self.metrics.refusals.labels(code or str(status)).inc()
        content = json.dumps(render_error(status, message, code)).encode()
        given = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        encoded = [(name.encode(), value.encode()) for name, value in given.items()]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": content})


_SOON = {"retry-after": "1"}
