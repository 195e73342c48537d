"""The server as a process: it ends when all is answered, several workers count together, and load changes no answer."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.inference.load import load
from tests.conftest import make_sentences, need
from tests.serve.load import free_port, wait_until_ready

need("uvicorn")


@contextmanager
def serving(*arguments: str, cwd: Path | None = None, **environment: str) -> Iterator[tuple[str, Any]]:
    """A server in a process of its own, when it is ready: its address, and the process."""
    port = free_port()
    command = [sys.executable, "-m", "litebert", "serve", *arguments, "--port", str(port)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    process = subprocess.Popen(command, env=env, cwd=cwd, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(address, process)
        yield address, process
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def post(address: str, path: str, **body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_load_changes_no_answer_and_what_was_taken_is_answered_before_the_end(model_folders: dict[str, Path]) -> None:
    texts = [*make_sentences(60), "the river " * 100, "", "nobody"]
    expected = [load(model_folders["vectors"]).encode([text]) for text in texts]
    pipeline = load(model_folders["vectors"])
    vectors = [pipeline.embed_features(features)[0] for features in expected]
    wrong: list[str] = []
    statuses: list[int] = []
    ended = threading.Event()

    def keep_asking(address: str, number: int) -> None:
        generator = np.random.default_rng(number)
        while not ended.is_set():
            chosen = generator.integers(0, len(texts), int(generator.integers(1, 12))).tolist()
            try:
                status, answer = post(address, "/v1/embeddings", input=[texts[one] for one in chosen], model="vectors")
            except OSError:  # it takes nothing any more
                return
            statuses.append(status)
            if status == 200:
                found = [np.array(one["embedding"], np.float32) for one in answer["data"]]
                wrong.extend(
                    texts[one] for one, vector in zip(chosen, found, strict=True) if not (vector == vectors[one]).all()
                )

    with serving(str(model_folders["vectors"]), str(model_folders["classification"])) as (address, process):
        threads = [threading.Thread(target=keep_asking, args=(address, number)) for number in range(6)]
        for thread in threads:
            thread.start()
        while len(statuses) < 60:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        ended.set()
        for thread in threads:
            thread.join(60)
    assert not wrong
    assert set(statuses) <= {200, 429}


def test_two_workers_count_together_and_one_that_dies_is_replaced(model_folders: dict[str, Path]) -> None:
    with serving(str(model_folders["vectors"]), "--workers", "2") as (address, process):
        asked = 20
        for _ in range(asked):
            assert post(address, "/v1/embeddings", input="nobody")[0] == 200
        text = urllib.request.urlopen(f"{address}/metrics", timeout=60).read().decode()
        counts = [line for line in text.splitlines() if 'path="/v1/embeddings",status="200"' in line]
        assert float(counts[0].split()[-1]) == asked
        children = need("psutil").Process(process.pid).children()
        workers = [one for one in children if "spawn_main" in " ".join(one.cmdline())]
        assert len(workers) == 2
        workers[0].kill()
        for _ in range(20):
            while True:
                try:
                    assert post(address, "/v1/embeddings", input="nobody")[0] == 200
                    break
                except OSError:  # it was the dead one's: nothing wrong was said
                    time.sleep(0.05)
        children = [one for one in need("psutil").Process(process.pid).children() if one.is_running()]
        process.kill()
        for one in children:
            one.wait(60)  # nobody is left behind


def test_a_head_without_end_and_one_that_never_comes_are_hung_up_on(model_folders: dict[str, Path]) -> None:
    import asyncio

    from litebert.serve import server

    class Transport(asyncio.Transport):
        was_aborted = False

        def abort(self) -> None:
            self.was_aborted = True

        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return default

        def is_closing(self) -> bool:
            return self.was_aborted

        def write(self, data: Any) -> None: ...

        def close(self) -> None: ...

        def pause_reading(self) -> None: ...

        def resume_reading(self) -> None: ...

    async def talk(*parts: bytes) -> bool:
        from uvicorn.config import Config
        from uvicorn.server import ServerState

        async def app(scope: Any, receive: Any, send: Any) -> None: ...

        config = Config(app, log_level="critical")
        config.load()
        protocol = server.BoundedProtocol(config, ServerState(), {})
        transport = Transport()
        protocol.connection_made(transport)
        for part in parts:
            if not transport.was_aborted:
                protocol.data_received(part)
        await asyncio.sleep(0.1)
        protocol.connection_lost(None)
        return transport.was_aborted

    head = b"POST / HTTP/1.1\r\nhost: x\r\n"
    original, server._SLOW_HEAD = server._SLOW_HEAD, 0.05
    try:
        assert asyncio.run(talk(head, *[b"x-a: " + b"y" * 9000 + b"\r\n"] * 20))
        assert asyncio.run(talk(b"POST"))
        assert not asyncio.run(talk(head + b"content-length: 200000\r\n\r\n", *[b"z" * 50_000] * 4))
        assert not asyncio.run(talk(head + b"x-a: " + b"y" * 9000 + b"\r\n\r\n"))
    finally:
        server._SLOW_HEAD = original


def test_a_server_outlives_the_shell_that_started_it(model_folders: dict[str, Path], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    log.touch()
    command = f"{sys.executable} -m litebert serve {model_folders['vectors']} --port {port} --reload-every 0.1"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        ["sh", "-c", f"setsid {command} > {log} 2>&1 & echo $! > {tmp_path}/pid"], env=environment, check=True
    )
    pid = int((tmp_path / "pid").read_text())
    try:
        while "Ctrl-C" not in log.read_text():
            os.kill(pid, 0)  # it lives
            time.sleep(0.05)
        time.sleep(0.5)
        assert post(f"http://127.0.0.1:{port}", "/v1/embeddings", input="nobody")[0] == 200
    finally:
        os.kill(pid, signal.SIGTERM)


def test_the_command_says_what_is_wrong(model_folders: dict[str, Path], tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "litebert", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    assert "there is no folder" in run(str(tmp_path / "none"))
    assert "--runs names a folder" in run(str(model_folders["vectors"]), "--runs", str(tmp_path / "none"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in run(str(model_folders["vectors"]), "--port", str(taken.getsockname()[1]))


def test_settings_come_from_the_environment_and_nothing_named_serves_the_newest_run(
    model_folders: dict[str, Path],
) -> None:
    home = model_folders["classification"].parent
    environment = {"LITEBERT_API_KEY": "sesame", "LITEBERT_MAX_INPUTS": "2"}
    with serving(cwd=home, **environment) as (address, _):
        assert post(address, "/v1/embeddings", input="a")[0] == 401
        headers = {"authorization": "Bearer sesame", "content-type": "application/json"}
        listed = urllib.request.urlopen(urllib.request.Request(f"{address}/v1/models", headers=headers), timeout=60)
        names = [one["id"] for one in json.load(listed)["data"]]
        assert names[0] == "litebert-en"
        assert len(names) == 2
        assert names[1] in model_folders
        body = json.dumps({"input": ["a"] * 3}).encode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{address}/v1/embeddings", body, headers), timeout=60)
        assert refused.value.code == 422
        refused.value.close()
