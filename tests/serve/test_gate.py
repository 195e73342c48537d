"""What every request passes: its key, its size, its name; and that a client who hangs up takes its work along."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need

need("fastapi")

from litebert.serve.gate import Gate  # noqa: E402
from litebert.serve.metrics import Metrics  # noqa: E402
from litebert.serve.settings import ServeSettings  # noqa: E402


def make_gate(app: Any, **settings: Any) -> Gate:
    return Gate(app, ServeSettings(models={}, **settings), Metrics(), frozenset({"/v1/embeddings"}))


async def echo(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def ask(
    gate: Gate, *bodies: bytes, path: str = "/v1/embeddings", headers: dict[str, str] | None = None, gone: bool = False
) -> tuple[int | None, dict[str, str], bytes]:
    """Status, headers and body of the answer to a request that comes in parts."""
    sent: list[dict[str, Any]] = []

    async def messages() -> AsyncIterator[dict[str, Any]]:
        for number, body in enumerate(bodies):
            yield {"type": "http.request", "body": body, "more_body": number + 1 < len(bodies)}
        if not gone:
            await asyncio.sleep(30)
        yield {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        given = messages()
        scope = {
            "type": "http",
            "path": path,
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        await gate(scope, given.__anext__, send)

    asyncio.run(run())
    if not sent:
        return None, {}, b""
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message["body"] for message in sent[1:])


def test_a_body_comes_through_whole_and_the_answer_has_a_name() -> None:
    status, headers, body = ask(make_gate(echo), b"ab", b"", b"c")
    assert (status, body) == (200, b"abc")
    assert len(headers["x-request-id"]) == 32
    assert headers["x-content-type-options"] == "nosniff"
    assert ask(make_gate(echo), b"", headers={"x-request-id": "mine-1"})[1]["x-request-id"] == "mine-1"
    assert (
        ask(make_gate(echo), b"", headers={"x-request-id": "a\nb" + "x" * 99})[1]["x-request-id"] != "a\nb" + "x" * 99
    )


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    gate = make_gate(echo, max_body=10)
    assert ask(gate, b"x" * 10)[0] == 200
    status, headers, body = ask(gate, b"x" * 6, b"x" * 6)
    assert (status, headers["connection"]) == (413, "close")
    assert b"10 bytes" in body
    assert ask(gate, headers={"content-length": "11"})[0] == 413
    assert ask(gate, headers={"content-length": "9" * 5000})[0] == 413
    assert ask(gate, b"x", headers={"content-length": "nonsense"})[0] == 200


def test_unfinished_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from litebert.serve import gate as module

    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    gate = make_gate(echo, max_body=90)
    assert ask(gate, b"x" * 80)[0] == 200
    assert gate.num_bytes == 0
    gate.num_bytes = 50  # of others
    assert ask(gate, b"x" * 40, b"x" * 40)[0] == 429
    assert gate.num_bytes == 50


def test_a_key_is_asked_for_where_it_matters() -> None:
    gate = make_gate(echo, api_key="sesame")
    assert ask(gate, b"")[0] == 401
    assert ask(gate, b"", headers={"authorization": "Bearer sesam"})[0] == 401
    assert ask(gate, b"", headers={"authorization": "Bearer sésame"})[0] == 401
    assert ask(gate, b"", headers={"authorization": "Bearer sesame"})[0] == 200
    assert ask(gate, b"", headers={"authorization": "bearer  sesame"})[0] == 200
    assert ask(gate, b"", headers={"authorization": "Basic sesame"})[0] == 401
    assert ask(gate, b"", headers={"x-api-key": "sesame"})[0] == 200
    assert ask(gate, b"", path="/health")[0] == 200
    assert ask(gate, b"", path="/page/app.js")[0] == 200
    assert ask(gate, b"", path="/metrics")[0] == 401


def test_who_hangs_up_takes_the_work_along() -> None:
    state: list[str] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        state.append("began")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            state.append("cancelled")
            raise

    gate = make_gate(slow)
    assert ask(gate, b"{}", gone=True)[0] is None
    assert state == ["began", "cancelled"]
    assert gate.num_in_flight == 0
    text = gate.metrics.render()[0].decode()
    assert 'litebert_requests_total{path="/v1/embeddings",status="499"} 1.0' in text
    assert 'litebert_refusals_total{reason="disconnected"} 1.0' in text


def test_who_hangs_up_in_the_middle_of_a_body_is_forgotten() -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it was let in")

    async def hang_up() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    gate = make_gate(never)
    asyncio.run(gate({"type": "http", "path": "/x", "headers": []}, hang_up, None))  # type: ignore[arg-type]
    assert gate.num_in_flight == 0


def test_too_many_at_once_are_told_to_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    from litebert.serve import gate as module

    monkeypatch.setattr(module, "_MOST_IN_FLIGHT", 0)
    status, headers, _ = ask(make_gate(echo), b"{}")
    assert (status, headers["retry-after"]) == (429, "1")
    assert ask(make_gate(echo), b"", path="/health")[0] == 200


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from litebert.serve import gate as module

    monkeypatch.setattr(module, "_SLOW_BODY", 0.01)
    sent: list[Any] = []

    async def wait() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(make_gate(echo)({"type": "http", "path": "/x", "headers": []}, wait, send))
    assert sent[0]["status"] == 408


def test_the_page_and_its_files_come_from_the_package(client: Any, tmp_path: Path) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "litebert" in page.text
    for name in ("app.js", "style.css"):
        assert client.get(f"/page/{name}").status_code == 200
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/page/%2e%2e%2fapp.py").status_code == 404
    assert client.get("/docs", follow_redirects=False).headers["location"] == "/#/api"
