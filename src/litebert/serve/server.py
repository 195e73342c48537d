"""`run_server`: the application behind uvicorn, in one process or several, which end when they have answered all."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from litebert.errors import LitebertError
from litebert.runtime import num_cores
from litebert.serve.app import create_app
from litebert.serve.service import Service
from litebert.serve.settings import ServeSettings

__all__ = ["BoundedProtocol", "run_server"]

_SLOW_HEAD = 15.0  # seconds in which the first head of a connection has to come
_MOST_HEAD_BYTES = 64_000
_DRAIN = 25  # seconds in which requests that were taken are answered, after the server was told to end


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's quick protocol, which by itself waits for the head of a request for ever, however long it gets."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._waits_for_head = True
        self._too_late = self.loop.call_later(_SLOW_HEAD, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Count what comes before a head is complete."""
        if self._waits_for_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES + len(data):  # the rest of this part may be a body
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Another request on the same connection."""
        super().on_message_begin()
        self._waits_for_head = True

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._waits_for_head, self._head_bytes = False, 0
        self._too_late.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._too_late.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self.transport.abort()


def run_server(
    settings: ServeSettings,
    host: str,
    port: int,
    workers: int,
    access_log: bool,
    on_ready: Callable[[], None],
    on_end: Callable[[int, int], None],
) -> None:
    """Serve until a signal comes; what was taken by then is answered.

    `on_end` hears how many requests one process took, and how many clients hung up before their answer.
    """
    import uvicorn

    _check_port(host, port)
    service = Service(settings)
    service.open()
    # Raised by uvicorn again once it has ended as it should: that is no failure.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    how = {
        "host": host,
        "port": port,
        "log_level": "info" if access_log else "warning",
        "access_log": access_log,
        "server_header": False,
        "proxy_headers": False,
        "timeout_graceful_shutdown": _DRAIN,
        "timeout_keep_alive": 30,
        "http": BoundedProtocol,
    }
    with contextlib.suppress(KeyboardInterrupt):
        if workers == 1:
            app = create_app(service, on_ready)
            try:
                uvicorn.run(app, **how)  # type: ignore[arg-type]
            finally:
                on_end(app.num_taken, app.num_lost)
            return
        service.close()  # it was opened to see that it can be
        settings.to_environment()
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, num_cores() // workers)))
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder = tempfile.mkdtemp(prefix="litebert-metrics-")
        try:
            on_ready()
            uvicorn.run("litebert.serve.app:create_app_from_environment", factory=True, workers=workers, **how)  # type: ignore[arg-type]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _check_port(host: str, port: int) -> None:
    """Say in a sentence that the port is taken."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LitebertError(f"cannot listen on {host}:{port} ({reason}): choose another --port or --host") from None
