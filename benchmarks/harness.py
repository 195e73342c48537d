"""What every benchmark needs: interleaved rounds, the machine's own rate, peak memory, and a dated record."""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def interleave(contestants: dict[str, Callable[[], object]], rounds: int, warmups: int = 2) -> dict[str, list[float]]:
    """Seconds of each contestant, A, B, C, A, B, C, …: noise of the machine meets all of them alike."""
    for _ in range(warmups):
        for run in contestants.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return times


def median_ratio(slow: list[float], fast: list[float]) -> dict[str, float]:
    """How many times faster `fast` is: the ratio of medians, and the spread of the rounds' own ratios."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return {"ratio": statistics.median(slow) / statistics.median(fast), "low": ratios[0], "high": ratios[-1]}


def gemm(rows: int, inner: int, columns: int, repeats: int = 5) -> tuple[Callable[[], None], float]:
    """A product of the shape that dominates the step, and its floating-point operations."""
    a, b, out = torch.randn(rows, inner), torch.randn(columns, inner), torch.empty(rows, columns)

    def run() -> None:
        for _ in range(repeats):
            torch.mm(a, b.T, out=out)

    return run, 2.0 * rows * inner * columns * repeats


def resident_bytes() -> int:
    """Memory that this process holds now."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most that this process ever held."""
    return _status("VmHWM")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def machine() -> dict[str, Any]:
    """What ran this."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    packages = {name: version(name) for name in ("torch", "transformers", "litebert")}
    return {
        "cpu": model,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **packages,
        "command": " ".join(["python", *sys.argv]),
        "date": date.today().isoformat(),
    }


def record(name: str, title: str, table: str, data: dict[str, Any]) -> Path:
    """Write the results as Markdown to read and JSON to compare."""
    RESULTS.mkdir(exist_ok=True)
    facts = data["machine"]
    path = RESULTS / f"{facts['date']}-{name}.md"
    about = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in ("command", "date"))
    path.write_text(f"# {title}\n\n{facts['date']}, `{facts['command']}`. {about}.\n\n{table}\n", encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return path
