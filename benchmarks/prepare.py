"""Preparation with 1, 2 and 4 workers: speed, memory, the same bytes, and what 64 workers would do.

`litebert prepare` runs as a user runs it, its start included, interleaved: 1, 2, 4, 1, 2, 4, … The sources are read as
they are given (compressed files are unpacked by the process that merges) and once more as one plain file of JSON lines
(of which workers read slices). All shards and manifests are compared by their hashes.

What 64 workers would do is a model: they read, split and encode side by side, each at the rate of one worker; one
process hands out the units and takes, merges and writes the results, at the rate that is measured for it alone, with
results that another process made before and sends again. Both rates are those of processor time. The set of hashes
is measured for itself up to many documents.

    python benchmarks/prepare.py --text wiki.jsonl.gz books.jsonl.gz --tokenizer spiece.model
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import litebert.corpus.prepare as preparation
from harness import machine, median_ratio, record
from litebert.corpus.duplicates import DigestSet
from litebert.text.blocks import split_lines
from litebert.text.records import RecordReader
from litebert.text.sources import Reader, ReadOptions, find_sources
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary

MEGABYTE = 1_000_000
COLUMNS = ("text", "paras")
MODELLED = 64
SAMPLE_BYTES = 40 * MEGABYTE  # of the plain file, for the rates of the two sides


def fingerprint(folder: Path) -> str:
    """One hash of all files."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def run_command(sources: list[str], tokenizer: Path, workers: int) -> dict[str, Any]:
    """Run `litebert prepare`, and watch all of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        columns = [word for column in COLUMNS for word in ("--column", column)]
        options = ["--tokenizer", str(tokenizer), "--out", f"{folder}/corpus", "--workers", str(workers), *columns]
        begin = time.perf_counter()
        process = psutil.Popen([sys.executable, "-m", "litebert", "prepare", *sources, *options], stdout=-3, stderr=-3)
        peak, cpu = 0, {}
        while process.poll() is None:
            try:
                tree = [process, *process.children(recursive=True)]
                peak = max(peak, sum(part.memory_info().rss for part in tree))
                cpu |= {part.pid: sum(part.cpu_times()[:2]) for part in tree}
            except psutil.Error:
                pass
            time.sleep(0.02)
        wall = time.perf_counter() - begin
        if process.returncode:
            raise SystemExit("preparation failed")
        return {
            "seconds": wall,
            "cpu_seconds": sum(cpu.values()),
            "main_cpu_seconds": cpu[process.pid],
            "peak_megabytes": peak / MEGABYTE,
            "bytes": fingerprint(Path(folder) / "corpus"),
        }


def run_apart(sources: list[str], tokenizer: Path, count: int) -> float:
    """Seconds for each of some preparations that run at the same time, apart from each other: the machine's limit."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda _: run_command(sources, tokenizer, 1), range(count)))
    return (time.perf_counter() - begin) / count


class Recorder:
    """A runner that does all work here and keeps the results, as they would travel."""

    def __init__(self) -> None:
        self.results: list[bytes] = []
        self.seconds = 0.0

    def can_read(self, _: object) -> bool:
        """All is here."""
        return True

    def map_in_order(self, function: Callable[..., Any], shared: object, items: Iterable[Any]) -> Iterator[Any]:
        """Do the work, and measure it alone."""
        for item in items:
            begin = time.process_time()
            result = function(shared, item)
            self.results.append(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
            self.seconds += time.process_time() - begin
            yield result


class Player(Recorder):
    """A runner whose results come from another process, which has them all: what is left is the work of one."""

    def map_in_order(self, _: Callable[..., Any], __: object, items: Iterable[Any]) -> Iterator[Any]:
        """Hand out and take as with workers, and measure all of this process."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=play, args=(theirs, self.results), daemon=True)
        process.start()
        begin = time.process_time()
        for item in items:
            ours.send(item)
            yield ours.recv()
        self.seconds = time.process_time() - begin
        process.kill()


def play(connection: Any, results: list[bytes]) -> None:
    """Answer with what is there."""
    for result in results:
        connection.recv()
        connection.send_bytes(result)
    connection.recv()


def measure_sides(sources: list[str], tokenizer: Path, rounds: int) -> dict[str, float]:
    """Processor time of what workers do, and of what one process does for all of them."""
    parallel, serial = [], []
    recorder = Recorder()
    found = None
    for number in range(rounds + 1):
        runner: Recorder = recorder if number == 0 else Player()
        runner.results = recorder.results

        @preparation.contextlib.contextmanager
        def open_runner(*_: object, runner: Recorder = runner) -> Iterator[Recorder]:
            yield runner

        original, preparation.open_runner = preparation.open_runner, open_runner  # type: ignore[assignment]
        try:
            with tempfile.TemporaryDirectory() as folder:
                reader = Reader(find_sources(sources), ReadOptions(columns=COLUMNS))
                out = Path(folder) / "corpus"
                summary = preparation.prepare(reader, Tokenizer.from_pretrained(tokenizer), out, num_workers=2)
                assert found in (None, fingerprint(out))
                found = fingerprint(out)
        finally:
            preparation.open_runner = original
        (serial if number else parallel).append(runner.seconds)
    worker, merge = parallel[0], statistics.median(serial)
    return {
        "megacharacters": summary.characters / MEGABYTE,
        "documents": summary.documents_read,
        "worker_rate": summary.characters / MEGABYTE / worker,
        "serial_rate": summary.characters / MEGABYTE / merge,
        "serial_documents_per_second": summary.documents_read / merge,
        "serial_is_limit_at": worker / merge,
        "modelled_speedup": min(MODELLED, worker / merge),
        "results_megabytes": sum(map(len, recorder.results)) / MEGABYTE,
    }


def measure_digests(most: int) -> list[dict[str, float]]:
    """Documents a second that the set of hashes takes, when it has so many."""
    generator = np.random.default_rng(0)
    rows, size = [], 1_000_000
    while size <= most:
        digests = DigestSet()
        digests.add_all(generator.integers(0, 1 << 64, size, dtype=np.uint64))
        batches = [generator.integers(0, 1 << 64, 1000, dtype=np.uint64) for _ in range(300)]
        begin = time.process_time()
        for batch in batches:
            digests.add_all(batch)
        rows.append({"size": size, "documents_per_second": 300_000 / (time.process_time() - begin)})
        size *= 10
    return rows


def write_plain(sources: list[str], path: Path, limit: int) -> Path:
    """All lines of files of JSON lines in one plain file, or so many bytes of them from each."""
    with path.open("wb") as file:
        for source in sources:
            size = 0
            for line in split_lines(RecordReader(source).blocks(), 1 << 30):
                file.write(line or b"")
                size += len(line or b"")
                if size > limit:
                    break
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", help="files of JSON lines; without them, the documentation of Python")
    parser.add_argument("--tokenizer", type=Path, help="a spiece.model; if not given, one is trained")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--most-digests", type=int, default=10_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not arguments.text:
            arguments.text = [str(folder / "documentation.jsonl")]
            with Path(arguments.text[0]).open("w", encoding="utf-8") as file:
                for document in Reader(find_sources(["builtin:python"])):
                    file.write(json.dumps({"text": document.text}) + "\n")
        if arguments.tokenizer is None:
            texts = [document.text for document in Reader(find_sources(arguments.text), ReadOptions(columns=COLUMNS))]
            train_vocabulary(texts, VocabularyConfig(vocab_size=8000)).write_files(folder)
            arguments.tokenizer = folder / "spiece.model"
        plain = str(write_plain(arguments.text, folder / "all.jsonl", 1 << 40))
        sample = str(write_plain(arguments.text, folder / "sample.jsonl", SAMPLE_BYTES // len(arguments.text)))
        kinds = {"as given": arguments.text, "one plain file": [plain]}
        runs: dict[str, dict[int, list[dict[str, Any]]]] = {
            kind: {workers: [] for workers in arguments.workers} for kind in kinds
        }
        apart: list[float] = []
        for _ in range(arguments.rounds):
            for kind, sources in kinds.items():
                for workers in arguments.workers:
                    runs[kind][workers].append(run_command(sources, arguments.tokenizer, workers))
                    print(kind, workers, runs[kind][workers][-1], flush=True)
            apart.append(run_apart([plain], arguments.tokenizer, 2))
            print("two apart", apart[-1], flush=True)
        data = {
            "machine": machine() | {"cores": len(os.sched_getaffinity(0))},
            "megabytes": Path(plain).stat().st_size / MEGABYTE,
            "different_bytes": len({run["bytes"] for kind in runs.values() for rows in kind.values() for run in rows})
            - 1,
            "runs": runs,
            "two_apart_seconds_each": apart,
            "sides": measure_sides([sample], arguments.tokenizer, arguments.rounds),
            "digests": measure_digests(arguments.most_digests),
        }
    print(record("prepare", "Preparation with several workers", report(data), data))


def report(data: dict[str, Any]) -> str:
    sides = data["sides"]
    lines = [
        f"{data['megabytes']:.0f} MB of JSON lines. Preparations whose bytes differ from the first one's: "
        f"{data['different_bytes']}.",
        "",
        "| sources | workers | seconds, median | times one worker (spread) | processor seconds | of the first process "
        "| peak memory, MB |",
        "|-|-|-|-|-|-|-|",
    ]
    for kind, by_workers in data["runs"].items():
        first = next(iter(by_workers.values()))
        for workers, rows in by_workers.items():
            middle = {
                key: statistics.median(row[key] for row in rows)
                for key in ("seconds", "cpu_seconds", "main_cpu_seconds")
            }
            ratio = median_ratio([row["seconds"] for row in first], [row["seconds"] for row in rows])
            lines.append(
                f"| {kind} | {workers} | {middle['seconds']:.1f} | {ratio['ratio']:.2f} ({ratio['low']:.2f} to "
                f"{ratio['high']:.2f}) | {middle['cpu_seconds']:.1f} | {middle['main_cpu_seconds']:.1f} "
                f"| {max(row['peak_megabytes'] for row in rows):.0f} |"
            )
    alone = [run["seconds"] for run in data["runs"]["one plain file"][1]]
    limit = median_ratio(alone, data["two_apart_seconds_each"])
    lines += [
        "",
        f"Two preparations of the plain file with one worker each, at the same time, took {limit['ratio']:.2f} "
        f"({limit['low']:.2f} to {limit['high']:.2f}) times less for each than one alone: what this machine gives two "
        "processes that need nothing of one another.",
        "",
        f"The two sides alone ({sides['megacharacters']:.0f} M characters, {sides['documents']:,} documents of a plain "
        "file): a worker reads, splits and encodes "
        f"{sides['worker_rate']:.1f} M characters in a second of a core; one process hands out, takes, merges and "
        f"writes {sides['serial_rate']:.0f} ({sides['serial_documents_per_second']:,.0f} documents). So one process is "
        f"the limit from {sides['serial_is_limit_at']:.0f} workers on, and {MODELLED} workers are modelled to be "
        f"{sides['modelled_speedup']:.0f} times as fast as one.",
        "",
        "| hashes in the set | documents a second that it takes, 1,000 at a time |",
        "|-|-|",
    ]
    lines += [f"| {row['size']:,} | {row['documents_per_second']:,.0f} |" for row in data["digests"]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
