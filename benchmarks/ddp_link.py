"""How much of ALBERT's speed-up is communication: DDP between two network namespaces whose link is limited by `tc`.

ALBERT and BERT of the same shape compute the same, but BERT has several times the gradients. Two processes, each on
a core and in a network namespace of its own, train them by litebert's own step over gloo; a veth pair joins the
namespaces, and a token bucket (`tbf`) on both ends limits it. Contestants and links take turns, and so does the same
step without exchanging gradients ("apart"). Each runs twice: by the lean step (without dropout), which hands over all
gradients of the encoder at its end, and by the plain modules (with dropout), which hand them over layer by layer.

A cost model (`litebert/planning/cluster.py`) is fitted on some of these points and tried on the others, and then asked
about the paper's runs. Needs root and iproute2; all namespaces are the script's own, and removed at the end.

    python benchmarks/ddp_link.py                      # all parts, half an hour on two cores; then the report
    python benchmarks/ddp_link.py --parts mini         # one part; points that are there are not measured again
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from scipy.optimize import least_squares, nnls

from harness import Contestant, interleave, machine, median_ratio, record, serve_steps
from litebert.batch import Batch
from litebert.config import ModelConfig
from litebert.model.cost import count_pretraining_parameters, training_flops
from litebert.model.model import Model
from litebert.planning import cluster
from litebert.presets import PRESETS
from litebert.runtime import describe_machine, keep_freed_memory
from litebert.training.config import TrainConfig
from litebert.training.distributed import World, join_world
from litebert.training.logbook import Logbook
from litebert.training.loop import Trainer
from litebert.training.objectives import count_masked, count_pairs, masked_lm_loss, sentence_order_loss
from litebert.training.state import CheckpointStore
from train_step import make_batches, read_text, token_stream

ALBERT = {name: PRESETS[f"albert-{name}"].config for name in ("mini", "base", "large")}
MEDIUM = ALBERT["base"].updated(hidden_size=512, num_heads=8, intermediate_size=2048, num_layers=8)
DEEP = ALBERT["base"].updated(hidden_size=384, num_heads=6, intermediate_size=1536)
# Shape of the model, sequences of each process, their length.
SHAPES: dict[str, tuple[ModelConfig, int, int]] = {
    "mini": (ALBERT["mini"], 8, 128),
    "medium": (MEDIUM, 4, 128),
    "base": (ALBERT["base"], 2, 64),
    "deep": (DEEP, 4, 128),
}
LINKS = {"mini": "10G 1G 300M 100M", "medium": "10G 1G 300M 100M", "base": "10G 1G 300M", "deep": "5G 2G 500M"}
ROUNDS = {"mini": 7, "medium": 5, "base": 5, "deep": 7}
BITS = {"M": 10**6, "G": 10**9}
SPEEDS = {"speed-mini": ("mini", 32, 9), "speed-base": ("base", 8, 5), "speed-large": ("large", 4, 3)}
KINDS = ("albert lean", "bert lean", "albert plain", "bert plain")
DROPOUT = 0.1
BUCKET = 25 * 2**20
ADDRESSES = ("10.199.77.1", "10.199.77.2")
FIRST_PORT = 29610


# --- a step ---------------------------------------------------------------------------------------------------------


class ReadyBatches:
    """A job for the training loop whose batches lie ready."""

    kind, metric, keeps_best, skip_loss_spikes, spares_weights, step_seed = "pretraining", "", False, False, False, 0
    losses = ("mlm_loss", "sop_loss")

    def __init__(self, config: ModelConfig) -> None:
        torch.manual_seed(0)
        self.model = Model(config, "pretraining")

    def count(self, batch: Batch) -> list[int]:
        return [count_masked(batch), count_pairs(batch)]

    def measure(self, model: Any, batch: Batch, totals: list[float], stage: int) -> list[torch.Tensor]:
        output = model(**batch.inputs())
        return [masked_lm_loss(output, batch, totals[0]), sentence_order_loss(output, batch, totals[1])]


def make_trainer(config: ModelConfig, world: World, folder: Path) -> Trainer:
    """The training loop, of which the step is timed; nothing is written."""
    train = TrainConfig(steps=10**9, precision="fp32")
    store, book = CheckpointStore(folder / "none", 1), Logbook(folder / "none", writes=False)
    return Trainer(ReadyBatches(config), train, {}, store, book, world)


def configure(shape: str, kind: str) -> ModelConfig:
    """ALBERT of a shape, or BERT of the same: all but the sharing is equal, so that both compute the same."""
    family, step = kind.split()
    changes = {} if family == "albert" else {"sharing": "none"}
    dropout = DROPOUT if step == "plain" else 0.0
    return SHAPES[shape][0].updated(**changes, hidden_dropout=dropout, attention_dropout=dropout)


def run_worker(shape: str, kind: str, folder: Path) -> None:
    """One of two processes: does what stands in stdin, and says how many seconds it took."""
    keep_freed_memory()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["RANK"]) % len(cores)]})  # one core each, gloo's threads included
    _, batch, length = SHAPES[shape]
    with join_world() as world:
        batches = make_batches(torch.from_numpy(np.load(folder / f"{shape}.npy")), batch, length, count=8)[
            world.rank :: 2
        ]
        trainer = make_trainer(configure(shape, kind), world, folder)
        joined, apart = trainer.spread_model, trainer.model
        load = torch.zeros(BUCKET // 4)
        counter = iter(range(10**9))
        deeds: dict[str, Callable[[], object]] = {
            "step": lambda: trainer._step([batches[next(counter) % len(batches)]], 0),
            "all-reduce": lambda: dist.all_reduce(load),
            "message": lambda: dist.all_reduce(load[:1]),
        }
        print(json.dumps({"parameters": sum(it.numel() for it in trainer.model.parameters())}), flush=True)
        for line in sys.stdin:
            deed = line.strip()
            trainer.spread_model = apart if deed == "apart" else joined
            world.wait()
            begin = time.perf_counter()
            deeds["step" if deed == "apart" else deed]()
            print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
        del joined
        trainer.release()


# --- the link -------------------------------------------------------------------------------------------------------


def call(*words: str) -> None:
    subprocess.run(words, check=True)


class Link:
    """Two namespaces and the cable between them."""

    def __init__(self) -> None:
        self.sides = [f"litebert-{os.getpid()}-{side}" for side in "ab"]

    def __enter__(self) -> "Link":
        try:
            self._join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self) -> None:
        for side in self.sides:
            call("ip", "netns", "add", side)
            call("ip", "-n", side, "link", "set", "lo", "up")
        first, second = self.sides
        call("ip", "-n", first, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", second)
        for side, address in zip(self.sides, ADDRESSES, strict=True):
            call("ip", "-n", side, "address", "add", f"{address}/24", "dev", "cable")
            call("ip", "-n", side, "link", "set", "cable", "up")

    def __exit__(self, *_: object) -> None:
        for side in self.sides:
            subprocess.run(["ip", "netns", "delete", side], check=False)

    def limit(self, bits: float) -> None:
        """Let so many bits a second through, each way; a burst is what passes in a millisecond."""
        burst = max(64_000, int(bits / 8 / 1000))
        for side in self.sides:
            rule = ["rate", f"{bits:.0f}bit", "burst", f"{burst}b", "latency", "100ms"]
            call("tc", "-n", side, "qdisc", "replace", "dev", "cable", "root", "tbf", *rule)


class Pair:
    """Two processes that train one model, each in its namespace."""

    def __init__(self, link: Link, shape: str, kind: str, folder: Path, port: int) -> None:
        command = [sys.executable, __file__, "--worker", kind, "--shape", shape, "--folder", str(folder)]
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
        common |= {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "cable"}
        common["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # it looks for names of hosts, which the namespaces do not have
        self.processes = [
            subprocess.Popen(
                ["ip", "netns", "exec", side, *command],
                env=os.environ | common | {"RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank, side in enumerate(link.sides)
        ]

    def read(self) -> list[dict[str, Any]]:
        lines = [process.stdout.readline() for process in self.processes if process.stdout is not None]
        if not all(lines):
            raise RuntimeError("a worker stopped; its message is above")
        return [json.loads(line) for line in lines]

    def run(self, deed: str) -> float:
        """Seconds of the slower one."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(deed + "\n")
            process.stdin.flush()
        return max(float(answer["seconds"]) for answer in self.read())

    def dismiss(self) -> None:
        """Let both end by themselves."""
        for process in self.processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def stop(self) -> None:
        """Wait for the end of both; whoever waits for a step that never comes is ended."""
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def start_pairs(shape: str, folder: Path) -> Iterator[tuple[Link, dict[str, Pair]]]:
    with Link() as link:
        pairs: dict[str, Pair] = {}
        try:
            for number, kind in enumerate(KINDS):
                pairs[kind] = Pair(link, shape, kind, folder, FIRST_PORT + number)
            yield link, pairs
        finally:
            for pair in pairs.values():
                pair.dismiss()
            for pair in pairs.values():
                pair.stop()


def parse_bits(link: str) -> int:
    return int(link[:-1]) * BITS[link[-1]]


def measure_shape(shape: str, links: list[str], rounds: int, points: dict[str, Any], save: Callable[[], None]) -> None:
    """Rounds of every kind at every link, and apart; what is there counts."""
    entry = points.setdefault(shape, {"parameters": {}, "seconds": {}, "all-reduce": {}, "message": {}})
    seconds = entry["seconds"]
    done = min((len(seconds.get(f"{kind} {link}", [])) for kind in KINDS for link in links), default=0)
    if done >= rounds:
        return
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc"))):
        sys.exit("network namespaces need root, and `ip` and `tc` of iproute2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stream(folder, shape, SHAPES[shape][0].vocab_size)
        with start_pairs(shape, folder) as (link, pairs):
            for kind, pair in pairs.items():
                entry["parameters"][kind] = pair.read()[0]["parameters"]
            link.limit(parse_bits("10G"))
            for _ in range(3):  # DDP orders its buckets after the first step
                for pair in pairs.values():
                    pair.run("step")
            for number in range(done, rounds):
                begun = time.monotonic()
                for kind, pair in pairs.items():
                    seconds.setdefault(f"{kind} apart", []).append(pair.run("apart"))
                for speed in links:
                    link.limit(parse_bits(speed))
                    for deed in ("message", "all-reduce"):
                        entry[deed].setdefault(speed, []).append(pairs[KINDS[0]].run(deed))
                    for kind, pair in pairs.items():
                        seconds.setdefault(f"{kind} {speed}", []).append(pair.run("step"))
                save()
                print(f"{shape}: round {number + 1} of {rounds}, {time.monotonic() - begun:.0f} s", flush=True)
    show = {name: round(statistics.median(times), 3) for name, times in seconds.items()}
    print(
        json.dumps(show | {"all-reduce": {k: statistics.median(v) for k, v in entry["all-reduce"].items()}}, indent=1)
    )


def write_stream(folder: Path, name: str, vocab_size: int) -> None:
    np.save(folder / f"{name}.npy", token_stream(read_text(None), vocab_size).numpy())


# --- one process ----------------------------------------------------------------------------------------------------


def speed_kinds(size: str) -> dict[str, ModelConfig]:
    """ALBERT, BERT as its preset is (with dropout), and BERT without dropout, by the lean step as ALBERT."""
    bert = PRESETS[f"bert-{size}"].config
    kinds = {f"albert-{size}": ALBERT[size], f"bert-{size}": bert}
    # A third model of the large kind needs more memory than a small machine has.
    plain = bert.updated(hidden_dropout=0.0, attention_dropout=0.0)
    return kinds if size == "large" else kinds | {f"bert-{size} without dropout": plain}


def run_alone(size: str, name: str, folder: Path) -> None:
    keep_freed_memory()
    _, batch, _ = SPEEDS[f"speed-{size}"]
    batches = make_batches(torch.from_numpy(np.load(folder / f"{size}.npy")), batch, 128, count=4)

    def build() -> Callable[[], float]:
        trainer = make_trainer(speed_kinds(size)[name], World(), folder)
        counter = iter(range(10**9))
        return lambda: sum(trainer._step([batches[next(counter) % len(batches)]], 0) or [])

    serve_steps(build)


def measure_speeds(part: str, points: dict[str, Any]) -> None:
    """Tokens a second of the presets, one process with all cores."""
    if part in points:
        return
    size, batch, rounds = SPEEDS[part]
    with tempfile.TemporaryDirectory() as folder:
        write_stream(Path(folder), size, ALBERT[size].vocab_size)
        command = [sys.executable, __file__, "--shape", size, "--folder", folder, "--alone"]
        running = {name: Contestant([*command, name]) for name in speed_kinds(size)}
        times = interleave({name: it.step for name, it in running.items()}, rounds, warmups=1)
        peaks = {name: it.finish() for name, it in running.items()}
    points[part] = {"batch": batch, "length": 128, "seconds": times, "peak_bytes": peaks}
    print({name: round(batch * 128 / statistics.median(found)) for name, found in times.items()}, flush=True)


# --- the model against the points -----------------------------------------------------------------------------------

HELD_OUT_SHAPES, HELD_OUT_LINK = ("base", "deep"), "300M"


def read_points(points: dict[str, Any]) -> list[dict[str, Any]]:
    """Every kind at every link: its median, and that of the same step apart."""
    found = []
    for shape in SHAPES:
        seconds = {name: statistics.median(times) for name, times in points[shape]["seconds"].items()}
        for kind in KINDS:
            assert points[shape]["parameters"][kind] == count_pretraining_parameters(configure(shape, kind))
            for link in LINKS[shape].split():
                point = {"shape": shape, "kind": kind, "link": link, "seconds": seconds[f"{kind} {link}"]}
                held_out = shape in HELD_OUT_SHAPES or link == HELD_OUT_LINK
                found.append(point | {"apart": seconds[f"{kind} apart"], "held_out": held_out})
    return found


def work_of(shape: str, kind: str) -> tuple[float, int]:
    """Operations of one process in a step, and parameters."""
    config, (_, batch, length) = configure(shape, kind), SHAPES[shape]
    return batch * length * training_flops(config, length), count_pretraining_parameters(config)


def fit_workers(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Rate of the lean and of the plain step, cost of an update and of a step, by the smallest relative errors."""
    apart = {(it["shape"], it["kind"]): it["apart"] for it in points if it["shape"] not in HELD_OUT_SHAPES}
    rows, ones = [], []
    for (shape, kind), seconds in apart.items():
        operations, parameters = work_of(shape, kind)
        lean = kind.endswith("lean")
        rows.append([operations * lean / seconds, operations * (not lean) / seconds, parameters / seconds, 1 / seconds])
        ones.append(1.0)
    scale = np.array([1e-11, 1e-11, 1e-9, 1e-3])
    found = nnls(np.array(rows) * scale, np.array(ones))[0] * scale
    return {"rates": {"lean": 1 / found[0], "plain": 1 / found[1]}, "update": found[2], "fixed": found[3]}


def predict(point: dict[str, Any], fitted: dict[str, Any], knows_compute: bool) -> float:
    """Seconds of a step by the cost model; its computing is that of the same step apart, or follows from the fit."""
    shape, kind = point["shape"], point["kind"]
    operations, parameters = work_of(shape, kind)
    step = kind.split()[1]
    rate = fitted["rates"][step]
    if knows_compute:
        rate = operations / (point["apart"] - fitted["update"] * parameters - fitted["fixed"])
    worker = cluster.Worker(rate, fitted["update"], fitted["fixed"])
    link = cluster.Link(
        parse_bits(point["link"]), fitted["efficiency"], fitted["latency"], fitted["copying"], fitted["overlap"]
    )
    _, batch, length = SHAPES[shape]
    return cluster.step_cost(configure(shape, kind), 2 * batch, length, 2, worker, link, step == "lean").seconds


def fit_link(points: list[dict[str, Any]], fitted: dict[str, Any]) -> dict[str, float]:
    """Efficiency of the link, cost of copying and overlap, by the smallest relative errors of the points for it."""
    names = ("efficiency", "copying", "overlap")
    scale = np.array([1.0, 1e-9, 1.0])

    def errors(values: Any) -> list[float]:
        constants = fitted | dict(zip(names, values * scale, strict=True))
        return [predict(it, constants, True) / it["seconds"] - 1 for it in points if not it["held_out"]]

    found = least_squares(errors, [0.95, 1.0, 0.5], bounds=([0.3, 0.0, 0.0], [1.0, 50.0, 1.0]))
    return dict(zip(names, map(float, found.x * scale), strict=True))


def fit_model(points: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    observed = read_points(points)
    messages = [t for shape in SHAPES for times in points[shape]["message"].values() for t in times]
    fitted = fit_workers(observed) | {"latency": statistics.median(messages) / 2}  # two hops between two workers
    fitted |= fit_link(observed, fitted)
    for point in observed:
        point["predicted"], point["by_arithmetic"] = (predict(point, fitted, knows) for knows in (True, False))
    return fitted, observed


GROUPS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "fitted": lambda it: not it["held_out"],
    "held out: mini and medium at 300M": lambda it: it["held_out"] and it["shape"] not in HELD_OUT_SHAPES,
    "held out: base": lambda it: it["shape"] == "base",
    "held out: deep": lambda it: it["shape"] == "deep",
    "all held out": lambda it: it["held_out"],
}


def summarise(observed: list[dict[str, Any]], name: str) -> dict[str, dict[str, float]]:
    """Relative errors of a prediction, group by group."""
    found = {}
    for group, belongs in GROUPS.items():
        errors = [float(abs(it[name] / it["seconds"] - 1)) for it in observed if belongs(it)]
        found[group] = {"points": len(errors), "mean": statistics.mean(errors), "largest": max(errors)}
    return found


# --- the paper's runs -----------------------------------------------------------------------------------------------

# A chip of TPU v3: 123 TFLOP/s in bf16, and 340 TB/s of all-reduce for 1,024 of them (cloud.google.com/tpu/docs/v3).
CHIP_RATE, ASSUMED_SHARE, CHIP_LINK = 123e12, 0.4, 340e12 / 1024 * 8
WORKERS = (8, 16, 32, 64, 128, 256, 512)
FAR_LINKS = {"10 Gbit": 1e10, "25 Gbit": 2.5e10, "100 Gbit": 1e11, "400 Gbit": 4e11, "TPU v3, 2.7 Tbit": CHIP_LINK}


def speedups(workers: int, bandwidth: float, fitted: dict[str, Any], overlap: float | None = None) -> dict[str, float]:
    """Speed of the paper's models over BERT-large at its batch, by the cost model; copies and latency left out."""
    hides = fitted["overlap"] if overlap is None else overlap
    link = cluster.Link(bandwidth, fitted["efficiency"], overlap=hides)
    worker = cluster.Worker(CHIP_RATE * ASSUMED_SHARE)
    seconds = {
        name: cluster.step_cost(
            PRESETS[name].config, cluster.PAPER_BATCH, cluster.PAPER_LENGTH, workers, worker, link
        ).seconds
        for name in cluster.PAPER_SPEEDUPS
    }
    return {name: seconds["bert-large"] / value for name, value in seconds.items()}


def needed_link(workers: int, fitted: dict[str, Any], overlap: float | None = None) -> float:
    """The bandwidth at which ALBERT-large trains 1.7 times as fast as BERT-large."""
    low, high = 1e8, 1e15
    for _ in range(100):
        middle = (low * high) ** 0.5
        if speedups(workers, middle, fitted, overlap)["albert-large"] > cluster.PAPER_SPEEDUPS["albert-large"]:
            low = middle
        else:
            high = middle
    return high


# --- the report -----------------------------------------------------------------------------------------------------


def render(points: dict[str, Any], fitted: dict[str, Any], observed: list[dict[str, Any]]) -> str:
    sections = [*render_speeds(points), *render_links(points), *render_fit(fitted, observed), *render_paper(fitted)]
    return "\n".join(sections)


def render_speeds(points: dict[str, Any]) -> list[str]:
    lines = [
        "## One process",
        "",
        "A whole step of litebert's training loop (loss, gradient, clipping, LAMB) on both cores, length 128. BERT's",
        "preset has dropout, so that the plain modules run; without it BERT takes the lean step, as ALBERT does.",
        "",
        "| preset | batch | seconds a step | tokens/s | × bert (spread) |",
        "|-|-|-|-|-|",
    ]
    for part, (size, batch, _) in SPEEDS.items():
        if part not in points:
            continue
        seconds = points[part]["seconds"]
        for name, times in seconds.items():
            ratio = median_ratio(seconds[f"bert-{size}"], times)
            middle = statistics.median(times)
            lines.append(
                f"| {name} | {batch} | {middle:.2f} | {batch * 128 / middle:,.0f} "
                f"| {ratio['ratio']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f}) |"
            )
    return lines


def render_links(points: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## Two processes and a link",
        "",
        "Medians of the rounds. `apart`: the same step, without exchanging gradients. `BERT / ALBERT`: how many times",
        "as long BERT of the same shape takes (spread of the rounds). Link: the limit that `tc` sets, each way.",
        "",
        "| shape | link | ALBERT lean | BERT lean | BERT / ALBERT | ALBERT plain | BERT plain | BERT / ALBERT |",
        "|-|-|-|-|-|-|-|-|",
    ]
    for shape, (config, batch, length) in SHAPES.items():
        seconds = points[shape]["seconds"]
        megabytes = [4e-6 * points[shape]["parameters"][f"{family} lean"] for family in ("albert", "bert")]
        about = f"{shape}, H {config.hidden_size}, L {config.num_layers}, {batch} × {length} each; "
        about += f"{megabytes[0]:.0f} and {megabytes[1]:.0f} MB of gradients"
        for link in ("apart", *LINKS[shape].split()):
            cells = [about, link if link == "apart" else link + "bit/s"]
            for step in ("lean", "plain"):
                albert, bert = (seconds[f"{family} {step} {link}"] for family in ("albert", "bert"))
                rounds = min(len(albert), len(bert))
                ratio = median_ratio(bert[:rounds], albert[:rounds])
                cells += [f"{statistics.median(albert):.2f} s", f"{statistics.median(bert):.2f} s"]
                cells += [f"{ratio['ratio']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"]
            lines.append("| " + " | ".join(cells) + " |")
            about = ""
    lines += ["", "A bare all-reduce of 25 MiB in the same rounds, as a share of the limit, and one of 4 bytes:", ""]
    lines += ["| shape | link | 25 MiB | of the limit | 4 bytes |", "|-|-|-|-|-|"]
    for shape in SHAPES:
        for link in LINKS[shape].split():
            seconds = statistics.median(points[shape]["all-reduce"][link])
            message = statistics.median(points[shape]["message"][link])
            share = BUCKET * 8 / seconds / parse_bits(link)
            lines.append(f"| {shape} | {link}bit/s | {seconds:.3f} s | {share:.0%} | {1000 * message:.2f} ms |")
    return lines


def render_fit(fitted: dict[str, Any], observed: list[dict[str, Any]]) -> list[str]:
    rates = ", ".join(f"{rate / 1e9:.1f} GFLOP/s {step}" for step, rate in fitted["rates"].items())
    lines = [
        "",
        "## The cost model",
        "",
        "`litebert/planning/cluster.py`. Fitted on the shapes mini and medium at 10G, 1G and 100M; held out: 300M, and",
        "the shapes base and deep. `computing known` takes the time of the same step apart and predicts what the link",
        "adds; `by arithmetic` predicts all of it from operations, parameters and bytes.",
        "",
        f"A worker of one core: {rates}, {fitted['update'] * 1e9:.2f} ns a parameter for the update, "
        f"{fitted['fixed'] * 1000:.0f} ms a step. The link: {fitted['efficiency']:.1%} of its limit, "
        f"{fitted['copying'] * 1e9:.2f} ns a byte for copies, "
        f"{fitted['latency'] * 1e6:.0f} µs a hop (from the 4 bytes), "
        f"{fitted['overlap']:.0%} of what could be hidden is hidden.",
        "",
        "| points | number | computing known: mean, largest error | by arithmetic: mean, largest error |",
        "|-|-|-|-|",
    ]
    known, arithmetic = (summarise(observed, name) for name in ("predicted", "by_arithmetic"))
    for group, errors in known.items():
        cells = [f"{it['mean']:.1%}, {it['largest']:.1%}" for it in (errors, arithmetic[group])]
        lines.append(f"| {group} | {errors['points']} | {cells[0]} | {cells[1]} |")
    lines += [
        "",
        "Points of base had been seen when the model got its last form; those of deep had not, and nothing was fitted",
        "at their links (`docs/planner.md`).",
    ]
    lines += ["", "Points held out:", ""]
    lines += ["| shape | link | model | measured | computing known | by arithmetic |", "|-|-|-|-|-|-|"]
    for it in observed:
        if it["held_out"]:
            cells = [f"{it[key]:.2f} s ({it[key] / it['seconds'] - 1:+.0%})" for key in ("predicted", "by_arithmetic")]
            about = f"{it['shape']} | {it['link']}bit/s | {it['kind']} | {it['seconds']:.2f} s"
            lines.append(f"| {about} | {' | '.join(cells)} |")
    return lines


def render_paper(fitted: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## The paper's runs",
        "",
        "By the cost model with the fitted efficiency and overlap: "
        f"batch {cluster.PAPER_BATCH:,} × {cluster.PAPER_LENGTH}, fp32 gradients, "
        f"and workers that compute {CHIP_RATE * ASSUMED_SHARE / 1e12:.0f} TFLOP/s, which assumes "
        f"{ASSUMED_SHARE:.0%} of the peak of a TPU v3 chip. Copies, latency, optimiser and input are left out.",
        "",
        "ALBERT-large over BERT-large (the paper: 1.7):",
        "",
        "| workers | " + " | ".join(FAR_LINKS) + " | link for 1.7 | without overlap |",
        "|-|" + "-|" * (len(FAR_LINKS) + 2),
    ]
    for workers in WORKERS:
        cells = [f"{speedups(workers, bits, fitted)['albert-large']:.2f}" for bits in FAR_LINKS.values()]
        needed = [needed_link(workers, fitted, overlap) / 1e9 for overlap in (None, 0.0)]
        cells += [f"{bits:.0f} Gbit/s" for bits in needed]
        lines.append(f"| {workers} | " + " | ".join(cells) + " |")
    lines += ["", "All of Table 2's column at the link that gives 1.7, and at a TPU's own:", ""]
    lines += ["| model | paper | 64 workers, link for 1.7 | 512, link for 1.7 | 64, TPU v3 | 512, TPU v3 |"]
    lines += ["|-|-|-|-|-|-|"]
    fitting = [speedups(n, needed_link(n, fitted), fitted) for n in (64, 512)]
    theirs = [speedups(n, CHIP_LINK, fitted) for n in (64, 512)]
    for name, known in cluster.PAPER_SPEEDUPS.items():
        cells = " | ".join(f"{found[name]:.2f}" for found in (*fitting, *theirs))
        lines.append(f"| {name} | {known:g} | {cells} |")
    return [
        *lines,
        "",
        "Where it fails: at the interconnect that a TPU v3 has, gradients cost next to nothing, and the model gives",
        "ALBERT-large no gain. A link slow enough for 1.7 makes BERT-base too slow: base has more gradients for its",
        "operations than large, so that sharing should gain more there, but the paper's base models are closer to each",
        "other than its large ones. The wide models come out too slow as well: one rate serves all widths here, and",
        "larger products may run faster on a TPU. Memory (smaller batches a core), the optimiser, the input and the",
        "program of 2019 are not in the model; which of them made up the rest of the 1.7 cannot be told from here.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=[*SPEEDS, *SHAPES], default=[*SPEEDS, *SHAPES])
    parser.add_argument("--rounds", type=int, help="of the shapes; 7, 5, 5 and 7 if not given")
    parser.add_argument("--points", type=Path, default=Path("ddp-link-points.json"), help="what was measured so far")
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        run_worker(options.shape, options.worker, options.folder)
        return
    if options.alone:
        run_alone(options.shape, options.alone, options.folder)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that namespaces are removed
    points = json.loads(options.points.read_text(encoding="utf-8")) if options.points.exists() else {}

    def save() -> None:
        options.points.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")

    if options.parts:
        points["nice"] = os.nice(0)  # others may work on the machine
    for part in options.parts:
        if part in SPEEDS:
            measure_speeds(part, points)
        else:
            measure_shape(part, LINKS[part].split(), options.rounds or ROUNDS[part], points, save)
        save()
    if not all(part in points for part in SHAPES):
        print("the report needs all shapes: run the others too")
        return
    fitted, observed = fit_model(points)
    table = render(points, fitted, observed)
    print(table)
    facts = machine() | {"cores": describe_machine()["cores"], "kernel": platform.release(), "limit": "tc tbf on veth"}
    facts["nice"] = points["nice"]
    facts["command"] = "python benchmarks/ddp_link.py"  # also where parts were run one by one
    data = {"machine": facts, "fitted": fitted, "observed": observed, "points": points}
    print(record("ddp-link", "ALBERT and BERT over a limited link", table, data))


if __name__ == "__main__":
    main()
