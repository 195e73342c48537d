"""What the server promises under load, faults and hostile input, with the numbers of the list of faults.

Each test prints its number. The long forms run in `make soak`; short forms stand in the other files of this folder.
"""

import asyncio
import base64
import json
import os
import random
import re
import shutil
import signal
import socket
import string
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.inference.load import load
from tests.conftest import make_sentences, need, soak_count
from tests.serve.load import Load, ask_together, make_body, run_closed, run_open, run_paced
from tests.serve.test_server import post, serving

need("uvicorn")
pytestmark = pytest.mark.soak

GOOD: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": ["a", "b"], "model": "vectors"},
    "/v1/similarity": {"texts": ["a", "b"], "others": "c"},
    "/v1/search": {"query": "a", "texts": ["b", "c"]},
    "/v1/rerank": {"query": "a", "documents": ["b", {"text": "c"}], "return_documents": True},
    "/v2/rerank": {"query": "a", "documents": ["b", "c"], "top_n": 1},
    "/rerank": {"query": "a", "texts": ["b", "c"], "return_text": True},
    "/v1/classify": {"input": ["a", "b"]},
    "/v1/tag": {"input": "a b c"},
    "/v1/answer": {"question": "a", "context": "b c d"},
    "/v1/choose": {"passage": "a", "question": "b", "options": ["c", "d"]},
    "/v1/predict": {"input": ["a"], "model": "regression"},
    "/v1/fill-mask": {"input": "a [MASK]"},
    "/v1/order": {"first": "a", "second": "b"},
    "/v1/inspect": {"input": "a"},
}
FIELDS = (
    *("input", "model", "encoding_format", "dimensions", "depth", "texts", "others", "query", "documents", "top_n"),
    *("return_documents", "index", "top", "pairs", "question", "context", "passage", "options", "first", "second"),
)
ODD = (
    *(
        "",
        " ",
        "\x00",
        "\ud800",
        "\udfff\ud800",
        "ﷺ" * 50,
        "a" * 5000,
        "\u202e",
        "🙂" * 100,
        "[MASK]",
        "[CLS][SEP]",
        "é" * 99,
    ),
    *(
        "NaN",
        "' OR 1=1 --",
        "../../etc/passwd",
        "<script>",
        "{{7*7}}",
        "%00",
        "null",
        "\r\nx: y",
        "今天" * 40,
        "vectors",
    ),
)


def draw_value(generator: random.Random, depth: int = 0) -> Any:
    """Any JSON value, mostly texts."""
    kind = generator.randrange(12 if depth < 3 else 8)
    match kind:
        case 0:
            return generator.choice([None, True, False])
        case 1:
            return generator.choice([0, -1, 1, 5, 10**20, 2**63, 1.5, -0.0, 1e308, float("nan"), float("inf")])
        case 2 | 3:
            return generator.choice(ODD)
        case 4 | 5 | 6 | 7:
            return "".join(generator.choices(string.printable + "éß한国🙂", k=generator.randrange(40)))
        case 8 | 9 | 10:
            return [draw_value(generator, depth + 1) for _ in range(generator.randrange(5))]
    return {generator.choice([*FIELDS, *ODD]): draw_value(generator, depth + 1) for _ in range(generator.randrange(4))}


def vary(value: Any, generator: random.Random) -> Any:
    """A value of the same form with other texts."""
    match value:
        case str():
            return generator.choice(ODD) + ("[MASK]" if "[MASK]" in value else "")
        case list():
            return [vary(one, generator) for one in value] * generator.choice([1, 1, 1, 9])
        case dict():
            return {name: vary(one, generator) for name, one in value.items()}
    return value


def draw_request(generator: random.Random) -> bytes:
    """A request that may be good, nearly good, or none at all."""
    path, content = generator.choice(list(GOOD.items()))
    content = {name: vary(value, generator) if name != "model" else value for name, value in content.items()}
    for _ in range(generator.choice([0, 0, 1, 2])):
        content[generator.choice([*content, *FIELDS])] = draw_value(generator)
    body = json.dumps(content).encode()
    if generator.random() < 0.1:  # damaged on the way
        cut = generator.randrange(len(body) + 1)
        body = body[:cut] + bytes(generator.randrange(256) for _ in range(generator.randrange(4))) + body[cut + 1 :]
    if generator.random() < 0.01:
        body = b"[" * generator.randrange(100, 100_000)
    kind = generator.choice(["application/json"] * 9 + ["text/plain"])
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_memory(pid: int) -> int:
    """Bytes that a process holds."""
    process = need("psutil").Process(pid)
    return int(process.memory_info().rss) + sum(one.memory_info().rss for one in process.children(recursive=True))


def test_fuzzed_requests_are_never_our_fault(model_folders: dict[str, Path]) -> None:
    count, generator = soak_count(10_000), random.Random(0)
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    with serving(*models) as (address, _):
        answers = asyncio.run(ask_together(address, [draw_request(generator) for _ in range(count)], clients=8))
    statuses = {status: sum(one == status for one, _ in answers) for status in sorted({one for one, _ in answers})}
    print(f"\nrow 12: {count:,} fuzzed requests, by status {statuses}")
    assert not [status for status in statuses if status >= 500 or status == 0]
    assert statuses.get(200, 0) > count / 5, "hardly any request was good: the others say little"


def test_schemathesis_finds_no_fault(model_folders: dict[str, Path], tmp_path: Path) -> None:
    """Requests that another tool makes of the schema, good and bad ones; answers have to be those that it promises.

    That a request of the right shape is answered cannot be promised: one without a mask, or with as many dimensions as
    the model was not taught, has it as well.
    """
    tool = os.environ.get("LITEBERT_SCHEMATHESIS") or shutil.which("schemathesis")
    if tool is None or shutil.which(tool) is None:
        pytest.skip("needs schemathesis: `make soak` installs it, or pip install schemathesis")
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    index = tmp_path / "places"
    load(model_folders["vectors"]).index(["the river crossed the city", "nobody measured the bridge"], index)
    runs = model_folders["classification"].parent
    with serving(*models, str(index), "--runs", str(runs)) as (address, _):
        command = [tool, "run", f"{address}/openapi.json", "--max-examples", str(soak_count(1000)), "--seed", "0"]
        command += ["--continue-on-failure", "--no-shrink", "--exclude-checks", "positive_data_acceptance"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        metrics = urllib.request.urlopen(f"{address}/metrics", timeout=60).read().decode()
    seen = re.findall(r'^litebert_requests_total\{.*status="(\d+)"\} ([\d.]+)', metrics, re.MULTILINE)
    statuses = Counter[int]()
    for status, count in seen:
        statuses[int(status)] += int(float(count))
    print(f"\nrow 12: {sum(statuses.values()):,} requests by schemathesis, by status {dict(sorted(statuses.items()))}")
    assert not [status for status in statuses if status >= 500]
    assert done.returncode == 0, done.stdout[-6000:]


def test_what_is_too_large_takes_no_memory(model_folders: dict[str, Path]) -> None:
    with serving(str(model_folders["vectors"])) as (address, process):
        post(address, "/v1/embeddings", input="a")
        before = read_memory(process.pid)
        large = make_body("/v1/embeddings", {"input": "x" * 3_000_000})
        many = make_body("/v1/embeddings", {"input": ["a"] * 5000})
        deep = b"[" * 900_000 + b"]" * 900_000
        head = "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(deep)}\r\n\r\n"
        for _ in range(5):
            answers = asyncio.run(ask_together(address, [large, many, head.encode() + deep] * 4, clients=4))
            # A client that is still sending may see the connection end instead of the 413.
            assert {status for status, _ in answers} <= {0, 400, 413, 422}
        grown = read_memory(process.pid) - before
        print(f"\nrow 13: 60 requests that are too large, memory grew by {grown / 1e6:.0f} MB")
        assert grown < 50_000_000
        assert post(address, "/v1/embeddings", input="a")[0] == 200


def test_ten_times_too_much(model_folders: dict[str, Path]) -> None:
    seconds, limit = soak_count(60), 1.0
    texts = list(make_sentences(200))
    requests = [
        make_body("/v1/embeddings", {"input": texts[one : one + 20], "model": "litebert-en"}) for one in range(180)
    ]
    with serving("litebert-en", "--max-wait", str(limit)) as (address, _):
        able = asyncio.run(run_closed(address, requests, clients=4, seconds=5)).rate
        seen = asyncio.run(run_open(address, requests, rate=10 * able, seconds=seconds))
    print(f"\nrow 14: {able:.0f} a second are possible, {10 * able:.0f} came for {seconds} s: {dict(seen.statuses)}, "
          f"p99 of the accepted {seen.quantile(0.99):.2f} s")  # fmt: skip
    assert set(seen.statuses) == {200, 429}
    assert seen.retry_after == seen.statuses[429]
    assert seen.quantile(0.99) <= 2 * limit
    assert seen.rate > able / 3


def test_a_server_that_is_told_to_end_answers_what_it_has_taken(model_folders: dict[str, Path]) -> None:
    count, slowest = soak_count(20), 0.0
    requests = [make_body("/v1/embeddings", {"input": [text] * 8}) for text in make_sentences(50)]
    for number in range(count):
        with serving(str(model_folders["vectors"])) as (address, process):
            loads: list[Any] = []
            thread = threading.Thread(
                target=lambda where=address, kept=loads: kept.append(asyncio.run(run_closed(where, requests, 8, 3)))
            )
            thread.start()
            time.sleep(0.5 + 0.05 * (number % 10))
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            slowest = max(slowest, time.monotonic() - begun)
            thread.join()
            said = process.stderr.read().splitlines()[-1]
            seen = loads[0].statuses
            assert seen[200] > 0
            assert set(seen) <= {200, 429, 0}
            # Those of `serving` itself are the looks at /ready.
            taken = int(
                re.fullmatch(r"ended; ([\d,]+) requests were taken, all were answered", said)[1].replace(",", "")
            )
            assert 0 <= taken - seen[200] - seen[429] <= 3
    print(f"\nrow 15: {count} of {count} ended well under load, the slowest in {slowest:.1f} s")
    assert slowest < 30


def test_slow_clients_and_those_who_hang_up_do_not_disturb_others(model_folders: dict[str, Path]) -> None:
    requests = [make_body("/v1/embeddings", {"input": text}) for text in make_sentences(100)]

    async def hang_up(address: str, until: float) -> None:
        host, port = address.removeprefix("http://").split(":")
        while time.monotonic() < until:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(make_body("/v1/embeddings", {"input": ["the river"] * 50}))
            await writer.drain()
            writer.close()
            await asyncio.sleep(0.5)

    async def measure(address: str) -> tuple[float, float]:
        quiet = await run_open(address, requests, rate=40, seconds=soak_count(10))
        host, port = address.removeprefix("http://").split(":")
        slow = []
        for _ in range(200):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
            slow.append(writer)
        gone = asyncio.create_task(hang_up(address, time.monotonic() + soak_count(10)))
        busy = await run_open(address, requests, rate=40, seconds=soak_count(10))
        await gone
        for writer in slow:
            writer.close()
        assert set(quiet.statuses) == set(busy.statuses) == {200}
        return quiet.quantile(0.99), busy.quantile(0.99)

    with serving(str(model_folders["vectors"])) as (address, _):
        quiet, busy = asyncio.run(measure(address))
        assert post(address, "/v1/embeddings", input="a")[0] == 200
    print(f"\nrow 16: p99 {1000 * quiet:.1f} ms, beside 200 slow clients and some who hang up {1000 * busy:.1f} ms")
    assert busy < 3 * quiet + 0.02, "others felt it"


def test_a_thousand_texts_have_the_same_vectors_whatever_is_in_flight() -> None:
    texts = [text * (1 + number % 4) for number, text in enumerate(make_sentences(1000))]
    encoder = load()
    expected = [encoder.embed_features(encoder.encode([text]))[0] for text in texts]
    generator = random.Random(0)
    order = generator.sample(range(1000), 1000)
    groups = [order[begin : begin + 1 + begin % 7] for begin in range(0, 1000, 7)]
    rest = sorted(set(range(1000)) - {one for group in groups for one in group})
    groups += [[one] for one in rest]
    bodies = [{"input": [texts[one] for one in group], "encoding_format": "base64"} for group in groups]
    with serving("litebert-en", "--max-wait", "60") as (address, _):
        answers = asyncio.run(ask_together(address, [make_body("/v1/embeddings", body) for body in bodies], clients=16))
    different = 0
    for group, (status, body) in zip(groups, answers, strict=True):
        assert status == 200
        found = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in json.loads(body)["data"]]
        different += sum((vector != expected[one]).any() for one, vector in zip(group, found, strict=True))
    print(f"\nrow 21: {different} of 1,000 texts had other bits under load than alone")
    assert different == 0


def test_memory_stays_flat_under_texts_of_all_lengths(model_folders: dict[str, Path]) -> None:
    """Four clients who ask without a pause; LITEBERT_SOAK_RATE asks so many times a second instead."""
    seconds = float(os.environ.get("LITEBERT_SOAK_SECONDS", soak_count(3600)))
    rate = float(os.environ.get("LITEBERT_SOAK_RATE", "0"))
    generator = random.Random(0)
    sentences = list(make_sentences(300))
    texts = [
        *(" ".join(generator.choices(sentences, k=generator.randrange(1, 60))) for _ in range(100)),
        *("x" * 10**power for power in range(6)),
        *sentences,
    ]
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    requests = [
        make_body("/v1/embeddings", {"input": generator.choices(texts, k=generator.randrange(1, 9))})
        for _ in range(300)
    ]
    requests += [make_body("/v1/classify", {"input": generator.choice(texts)}) for _ in range(100)]
    requests += [make_body("/v1/answer", {"question": "when", "context": generator.choice(texts)}) for _ in range(30)]
    requests += [make_body("/v1/rerank", {"query": "a", "documents": generator.choices(texts, k=5)}) for _ in range(50)]
    generator.shuffle(requests)
    statuses, memory = Counter[int](), list[int]()

    def ask(seconds: float) -> Load:
        if rate:
            return asyncio.run(run_paced(address, requests, rate, max(1, round(rate * seconds)), len(memory)))
        return asyncio.run(run_closed(address, requests, clients=4, seconds=seconds))

    with serving("litebert-en", *models) as (address, process):
        asyncio.run(run_closed(address, requests, clients=4, seconds=min(60.0, seconds / 4)))
        memory.append(read_memory(process.pid))
        for part in range(12):
            statuses += ask(seconds / 12).statuses
            memory.append(read_memory(process.pid))
            print(f"\nrow 23, part {part + 1} of 12: {dict(statuses)}, {memory[-1] / 1e6:.1f} MB", end="")
    grown = max(memory) - memory[0]
    print(f"\nrow 23: {seconds / 60:.0f} minutes, {sum(statuses.values()):,} requests {dict(statuses)}, "
          f"memory grew by at most {grown / 1e6:.1f} MB from {memory[0] / 1e6:.0f}")  # fmt: skip
    assert set(statuses) <= {200, 429}
    assert grown < 50_000_000


def test_a_worker_that_is_killed_under_load_says_nothing_wrong(model_folders: dict[str, Path]) -> None:
    texts = list(make_sentences(40))
    pipeline = load(model_folders["vectors"])
    expected = [pipeline.embed_features(pipeline.encode([text]))[0] for text in texts]
    bodies = [make_body("/v1/embeddings", {"input": text, "encoding_format": "base64"}) for text in texts] * 50
    killed = 0
    with serving(str(model_folders["vectors"]), "--workers", "2") as (address, process):

        def kill_now_and_then() -> None:
            nonlocal killed
            for _ in range(3):
                time.sleep(0.7)
                children = need("psutil").Process(process.pid).children()
                workers = [one for one in children if "spawn_main" in " ".join(one.cmdline())]
                if len(workers) == 2:
                    workers[0].kill()
                    killed += 1

        thread = threading.Thread(target=kill_now_and_then)
        thread.start()
        answers = asyncio.run(ask_together(address, bodies, clients=8))
        thread.join()
    lost = sum(status == 0 for status, _ in answers)
    for number, (status, body) in enumerate(answers):
        assert status in (0, 200, 429)
        if status == 200:
            found = np.frombuffer(base64.b64decode(json.loads(body)["data"][0]["embedding"]), "<f4")
            np.testing.assert_array_equal(found, expected[number % len(texts)])
    print(
        f"\nkilled workers: {killed}; {lost} of {len(answers):,} requests were in flight there and lost, none was wrong"
    )
    assert killed
    assert lost <= 8 * killed + 8


def test_a_port_that_is_open_to_this_machine_alone() -> None:
    with serving("litebert-en") as (address, _):
        port = int(address.rpartition(":")[2])
        others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, family=socket.AF_INET)}
        for other in others - {"127.0.0.1", "127.0.1.1"}:
            with pytest.raises((ConnectionRefusedError, TimeoutError)):
                socket.create_connection((other, port), timeout=2).close()
