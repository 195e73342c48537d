"""Exact search in a million vectors: litebert's index, plain NumPy and faiss, each in a process of its own, in turns.

The vectors are made: those of real sentences with noise around them, so many for each sentence. The questions are
vectors of other real sentences. What is timed is the way from vectors of questions to the numbers of the ten nearest.

    python benchmarks/search.py
    python benchmarks/search.py --stream --texts 100000   # also the memory of `litebert embed` over so many texts
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from compress import read_sentences
from harness import Contestant, interleave, machine, median_ratio, record, serve_steps
from litebert.inference.index import Index
from litebert.inference.nearest import find_nearest
from litebert.runtime import num_cores

OURS = ("float16", "int8", "float32")
NUMPY, FAISS = "numpy, float32", "faiss, IndexFlatIP"
NAMES = (*(f"litebert, {precision}" for precision in OURS), NUMPY, FAISS)
TOGETHER = (1, 32)
TOP = 10
NOISE = 0.5  # its length beside that of a sentence's vector, which is 1
MARKS = (0.1, 0.5, 1.0)


@dataclass(frozen=True)
class Made(litebert.Pipeline):
    """An encoder that gives made vectors, the same each time."""

    base: Any = None

    def embed_stream(self, texts: Iterable[str], *, window: int = 4096, **how: Any) -> Iterator[Any]:
        random = np.random.default_rng(0)
        stream = iter(texts)
        while count := sum(1 for _ in zip(range(window), stream, strict=False)):
            noise = random.standard_normal((count, self.base.shape[1]), np.float32) * NOISE / self.base.shape[1] ** 0.5
            yield self.base[random.integers(0, len(self.base), count)] + noise


def make_indexes(folder: Path, count: int, num_sentences: int) -> None:
    """An index in each precision, and the vectors of questions."""
    encoder = litebert.load()
    sentences = read_sentences("builtin:documentation", num_sentences + max(TOGETHER))
    vectors = encoder.embed(sentences)
    np.save(folder / "questions.npy", vectors[num_sentences:])
    made = Made(encoder.members, base=vectors[:num_sentences])
    for precision in OURS:
        texts = (f"{sentences[number % num_sentences]} ({number})" for number in range(count))
        Index.build(made, texts, folder / precision, precision=precision)  # type: ignore[arg-type]
        print(f"made the index in {precision}", flush=True)


def contend(name: str, folder: Path, together: int) -> None:
    """Be a contestant: open the vectors, then search whenever told to; the answers are left in a file."""
    torch.set_num_threads(1)
    questions = np.load(folder / "questions.npy")[:together]
    status = Path("/proc/self/status")
    mapped = read_status(status.read_text(encoding="ascii"), "RssFile")  # by the libraries

    def build() -> Callable[[], float]:
        begin = time.perf_counter()
        search = open_contestant(name, folder)
        seconds = time.perf_counter() - begin

        def step() -> float:
            numbers = search(questions)
            more = read_status(status.read_text(encoding="ascii"), "RssFile") - mapped
            facts = {"numbers": numbers, "open_seconds": seconds, "mapped_bytes": more}
            (folder / f"{name}-{together}.json").write_text(json.dumps(facts), encoding="utf-8")
            return 0.0

        return step

    serve_steps(build)


def open_contestant(name: str, folder: Path) -> Callable[[Any], list[list[int]]]:
    """From vectors of questions to the numbers of the nearest, the best first."""
    if name.startswith("litebert"):
        index = Index.open(folder / name.removeprefix("litebert, "))
        return lambda asked: [[n for n, _ in row] for row in find_nearest(asked, index.vectors, TOP, index.scales)]
    file = folder / "float32" / "vectors.npy"
    if name == NUMPY:
        vectors = np.load(file)

        def search(asked: Any) -> list[list[int]]:
            products = asked @ vectors.T
            some = np.argpartition(-products, TOP, axis=1)[:, :TOP]
            order = np.argsort(-np.take_along_axis(products, some, axis=1), axis=1)
            return np.take_along_axis(some, order, axis=1).tolist()

        return search
    import faiss

    faiss.omp_set_num_threads(1)
    num_rows, width = np.load(file, mmap_mode="r").shape
    index = faiss.IndexFlatIP(width)
    with file.open("rb") as stream:
        stream.seek(-4 * num_rows * width, 2)
        while len(block := np.fromfile(stream, np.float32, 10_000 * width)):  # not mapped: that would count twice
            index.add(block.reshape(-1, width))
    return lambda asked: index.search(asked, TOP)[1].tolist()


def compare(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds, memory and answers of all contestants, for one question and for several together."""
    results: dict[str, Any] = {name: {} for name in NAMES}
    for together in TOGETHER:
        command = [sys.executable, __file__, "--folder", str(folder), "--together", str(together), "--contestant"]
        running = {name: Contestant([*command, name]) for name in NAMES}
        seconds = interleave({name: one.step for name, one in running.items()}, rounds, 1)
        peaks = {name: one.finish() for name, one in running.items()}
        facts = {name: json.loads((folder / f"{name}-{together}.json").read_text(encoding="utf-8")) for name in NAMES}
        exact = facts[NUMPY]["numbers"]
        for name in NAMES:
            same = [len(set(a) & set(b)) / TOP for a, b in zip(facts[name]["numbers"], exact, strict=True)]
            results[name][str(together)] = {
                "seconds": statistics.median(seconds[name]),
                "beside_faiss": median_ratio(seconds[FAISS], seconds[name]),
                "peak_bytes": peaks[name],
                "mapped_bytes": facts[name]["mapped_bytes"],
                "open_seconds": facts[name]["open_seconds"],
                "same_numbers": facts[name]["numbers"] == exact,
                "shared_with_numpy": statistics.mean(same),
            }
    return results


def read_status(text: str, field: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(field))


def watch_stream(folder: Path, count: int) -> dict[str, Any]:
    """The memory of `litebert embed` at some shares of its work."""
    sentences = [one[:60] for one in read_sentences("builtin:documentation", 2000)]
    texts, out = folder / "texts.txt", folder / "vectors.npy"
    with texts.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{number} {sentences[number % len(sentences)]}\n" for number in range(count))
    note = folder / "vectors.npy.partial.json"
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "litebert", "embed", "--file", str(texts), "--out", str(out)], stdout=subprocess.DEVNULL
    )
    rss: dict[str, int] = {}
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            now, peak = read_status(status, "VmRSS"), max(peak, read_status(status, "VmHWM"))
            done = json.loads(note.read_text(encoding="utf-8"))["num_vectors"]
        except (OSError, StopIteration):
            done = 0
        for mark in MARKS:
            if done >= mark * count:
                rss.setdefault(f"{mark:.0%}", now)
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit("litebert embed failed; its message is above")
    seconds = time.monotonic() - begin
    rss.setdefault("100%", now)  # where the note was gone before it was seen
    return {
        "num_texts": count,
        "seconds": seconds,
        "rss_bytes": rss,
        "peak_bytes": peak,
        "file_bytes": out.stat().st_size,
    }


def render(results: dict[str, Any]) -> str:
    """A row for each contestant."""
    lines = [
        "| | one question | beside faiss (rounds) | 32 together | beside faiss (rounds) | peak memory "
        "| of which is the mapped file | opened in | of the top 10, the same as NumPy's |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for name, found in results["contestants"].items():
        one, many = (found[str(together)] for together in TOGETHER)
        cells = [name]
        for part in (one, many):
            ratio = part["beside_faiss"]
            cells.append(f"{1000 * part['seconds']:,.0f} ms")
            cells.append(f"{ratio['ratio']:.2f} × ({ratio['low']:.2f} to {ratio['high']:.2f})")
        mapped = f"{many['mapped_bytes'] / 1e6:,.0f} MB" if name.startswith("litebert") else "–"
        same = ", in the same order" if many["same_numbers"] else ""
        cells += [f"{many['peak_bytes'] / 1e6:,.0f} MB", mapped, f"{1000 * one['open_seconds']:,.0f} ms"]
        cells.append(f"{many['shared_with_numpy']:.1%}{same}")
        lines.append(f"| {' | '.join(cells)} |")
    about = (
        f"{results['num_vectors']:,} vectors of {results['size']} numbers: those of {results['num_sentences']:,} real "
        f"sentences with noise of length {NOISE} around them, not vectors of a million real texts. One core, which "
        "other work shares. Memory is that of 32 questions together, above the bare libraries; pages of a mapped file "
        f"are the system's, which takes them back when others need them. faiss {results['faiss']}."
    )
    text = "\n".join(lines) + "\n\n" + about
    if (stream := results.get("stream")) is not None:
        marks = ", ".join(f"{size / 1e6:,.0f} MB at {mark}" for mark, size in stream["rss_bytes"].items())
        text += (
            f"\n\n`litebert embed` over {stream['num_texts']:,} short texts in {stream['seconds']:,.0f} s "
            f"({stream['num_texts'] / stream['seconds']:,.0f} texts/s): resident memory {marks}, peak "
            f"{stream['peak_bytes'] / 1e6:,.0f} MB; the file of vectors has {stream['file_bytes'] / 1e6:,.0f} MB."
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--sentences", type=int, default=8000, help="real sentences that vectors are made around")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stream", action="store_true", help="also the memory of `litebert embed`")
    parser.add_argument("--texts", type=int, default=1_000_000, help="how many texts that embeds")
    for hidden in ("--contestant", "--folder", "--together"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        contend(options.contestant, Path(options.folder), int(options.together))
        return
    torch.set_num_threads(num_cores())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_indexes(folder, options.vectors, options.sentences)
        results: dict[str, Any] = {
            "num_vectors": options.vectors,
            "size": litebert.load().config.hidden_size,
            "num_sentences": options.sentences,
            "faiss": version("faiss-cpu"),
            "contestants": compare(folder, options.rounds),
        }
        if options.stream:
            results["stream"] = watch_stream(folder, options.texts)
    table = render(results)
    print(table)
    print(record("search", "Exact search", table, {"machine": machine(), **results}))


if __name__ == "__main__":
    main()
