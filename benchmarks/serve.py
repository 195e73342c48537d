"""A server under load: litebert's against a plain one of FastAPI and transformers' pipeline, in turns.

Both serve the same encoder on one core, and another process on another core asks for the vector of one sentence a
request. Open loop: requests come at their own pace, faster and faster, as long as 99 of 100 answers come within 200 ms
and none is refused. Closed loop: so many clients ask again as soon as they are answered. Vectors are compared first.

    python benchmarks/serve.py --sentences reviews.jsonl.gz --cores 0,1
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.load import Load, free_port, make_body, run_closed, run_open, wait_until_ready

from compress import read_sentences
from harness import machine, record
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.inference.load import load
from litebert.serve.batching import QueueLimits
from litebert.serve.models import ServedModel

LIMIT = 0.2  # seconds, for 99 of 100
STEP = 1.15  # how much faster each time
OURS, PEER = "litebert serve", "FastAPI and pipeline"
PLAIN_SERVER = """
import sys, numpy, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline
extract = pipeline("feature-extraction", model=sys.argv[1])
app = FastAPI()
class Given(BaseModel):
    input: str
@app.get("/ready")
def ready(): return {}
@app.post("/v1/embeddings")
def embed(given: Given):
    states = numpy.array(extract(given.input, truncation=True, max_length=256)[0])
    vector = states.mean(0)
    return {"data": [{"embedding": (vector / numpy.linalg.norm(vector)).tolist()}]}
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


@contextmanager
def serving(command: list[str], port: int, core: int) -> Iterator[str]:
    """A server on a core of its own, when it is ready."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(["taskset", "-c", str(core), *command], env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(address, process)
        yield address
    finally:
        process.terminate()
        process.wait()


def describe(folder: Path) -> str:
    """How an optimized model runs."""
    engine = load(folder).members[0].engine
    return ("8 bits" if engine.has_int8 else "32 bits") + (f", depth {engine.depth}" if engine.depth else "")


def read_vector(address: str, text: str) -> Any:
    """What a server says to one text."""
    request = urllib.request.Request(
        f"{address}/v1/embeddings", json.dumps({"input": text}).encode(), {"content-type": "application/json"}
    )
    return np.array(json.load(urllib.request.urlopen(request, timeout=60))["data"][0]["embedding"])


def find_rate(address: str, requests: list[bytes], begin: float, seconds: float) -> tuple[float, Load]:
    """The highest rate at which 99 of 100 answers come in time, and what was seen there."""
    best: tuple[float, Load] = (0.0, Load())
    rate = begin
    while True:
        seen = asyncio.run(run_open(address, requests, rate, seconds))
        if seen.quantile(0.99) > LIMIT or set(seen.statuses) != {200}:
            if best[0] or rate < 1:
                return best
            rate /= 4  # it began too fast
            continue
        best = (seen.rate, seen)
        rate *= STEP


def measure_queue(folder: Path, text: str, count: int = 300) -> dict[str, float]:
    """What the queue adds to a lone request: milliseconds with it and without, in turns."""
    model = ServedModel("model", str(folder), QueueLimits())
    times: dict[str, list[float]] = {"with the queue": [], "without": []}

    async def run() -> None:
        for _ in range(count):
            begun = time.perf_counter()
            await model.embed([text])
            times["with the queue"].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            model._run((model.version, "embed", None), [text])
            times["without"].append(time.perf_counter() - begun)

    asyncio.run(run())
    model.queue.close()
    return {name: 1000 * statistics.median(values[20:]) for name, values in times.items()}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_ENCODER)
    parser.add_argument("--sentences", default="builtin:python", help="text whose sentences are asked about")
    parser.add_argument(
        "--optimized", nargs="*", default=[], help="the same model in folders that `litebert optimize` has measured"
    )
    parser.add_argument("--cores", default="0,1", help="of the clients, and of the server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="at each rate")
    options = parser.parse_args()
    client_core, server_core = map(int, options.cores.split(","))
    os.sched_setaffinity(0, {client_core})
    folder = resolve(options.model)
    texts = read_sentences(options.sentences, 500)
    requests = [make_body("/v1/embeddings", {"input": text}) for text in texts]
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        script = Path(home) / "plain.py"
        script.write_text(PLAIN_SERVER, encoding="utf-8")
        folders = {OURS: folder} | {f"{OURS}, {describe(Path(one))}": Path(one) for one in options.optimized}
        addresses = {}
        for name in (*folders, PEER):
            port = free_port()
            command = [sys.executable, "-m", "litebert", "serve", str(folders.get(name)), "--port", str(port)]
            if name == PEER:
                command = [sys.executable, str(script), str(folder), str(port)]
            addresses[name] = stack.enter_context(serving(command, port, server_core))
        pairs = [(read_vector(addresses[OURS], text), read_vector(addresses[PEER], text)) for text in texts[:20]]
        apart = max(float(np.abs(one - other).max()) for one, other in pairs)
        print(f"largest difference of a number: {apart:.1e}", flush=True)
        assert apart < 1e-4
        results: dict[str, Any] = {name: {"rates": [], "closed": {}, "p50": [], "p99": []} for name in addresses}
        for round_ in range(options.rounds):
            for name, address in addresses.items():
                begin = 0.6 * results[name]["rates"][-1] if results[name]["rates"] else 40.0
                rate, seen = find_rate(address, requests, begin, options.seconds)
                results[name]["rates"].append(rate)
                results[name]["p50"].append(1000 * seen.quantile(0.5))
                results[name]["p99"].append(1000 * seen.quantile(0.99))
                print(f"round {round_ + 1}, {name}: {rate:.0f} a second", flush=True)
            for clients in (1, 8, 32):
                for name, address in addresses.items():
                    found = asyncio.run(run_closed(address, requests, clients, options.seconds))
                    kept = results[name]["closed"].setdefault(str(clients), [])
                    kept.append([found.rate, 1000 * found.quantile(0.5), 1000 * found.quantile(0.99)])
    os.sched_setaffinity(0, {server_core})
    os.environ["OMP_NUM_THREADS"] = "1"
    queue = measure_queue(folder, texts[0])
    table = render(results, queue, apart)
    print(table)
    print(record("serve", "A server under load", table, {"machine": machine(), "queue": queue, **results}))


def render(results: dict[str, Any], queue: dict[str, float], apart: float) -> str:
    """Tables to read."""
    middle = {name: statistics.median(one["rates"]) for name, one in results.items()}
    lines = [
        f"One sentence a request; vectors with 32 bits differ by {apart:.0e} at most.",
        "",
        "| answers a second, 99 % within 200 ms, none refused | median of rounds | all rounds | p50, ms | p99, ms |",
        "|-|-|-|-|-|",
    ]
    for name, one in results.items():
        rounds = ", ".join(f"{rate:.0f}" for rate in one["rates"])
        p50, p99 = statistics.median(one["p50"]), statistics.median(one["p99"])
        lines.append(f"| {name} | {middle[name]:.0f} | {rounds} | {p50:.0f} | {p99:.0f} |")
    ratios = ", ".join(f"{name} {rate / middle[PEER]:.1f} ×" for name, rate in middle.items() if name != PEER)
    lines += ["", f"Beside {PEER}: {ratios}.", ""]
    lines += ["| clients that ask again at once | answers a second | p50, ms | p99, ms |", "|-|-|-|-|"]
    for clients in ("1", "8", "32"):
        for name, one in results.items():
            rate, p50, p99 = (statistics.median(values) for values in zip(*one["closed"][clients], strict=True))
            lines.append(f"| {clients}, {name} | {rate:.0f} | {p50:.1f} | {p99:.1f} |")
    added = queue["with the queue"] - queue["without"]
    lines += ["", f"A lone request: {queue['without']:.2f} ms without the queue, {added:+.2f} ms with it."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
