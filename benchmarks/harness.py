"""What every benchmark needs: interleaved rounds, the machine's own rate, peak memory, and a dated record."""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from litebert.runtime import describe_machine

RESULTS = Path(__file__).parent / "results"
TURN_SECONDS = 30.0


class Contestant:
    """A program that does one step whenever it is told to, in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self._ask("step")  # also waits until the model is built

    def step(self) -> float:
        """Seconds of one step."""
        return float(self._ask("step")["seconds"])

    def finish(self) -> int:
        """Stop the process and return its peak memory in bytes, above the bare libraries."""
        peak = int(self._ask("peak")["bytes"])
        self._process.communicate()
        return peak

    def _ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a contestant stopped; its message is above")
        return dict(json.loads(answer))


def serve_steps(build: Callable[[], Callable[[], float]]) -> None:
    """The other side of `Contestant`: build a step, then run it on demand and say what it took and returned."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak of the preparation
    before = _status("VmRSS")
    step = build()
    for line in sys.stdin:
        if line.strip() == "peak":
            print(json.dumps({"bytes": _status("VmHWM") - before}), flush=True)
            return
        begin = time.perf_counter()
        value = step()
        print(json.dumps({"seconds": time.perf_counter() - begin, "value": value}), flush=True)


def interleave(contestants: dict[str, Callable[[], float]], rounds: int, warmups: int = 3) -> dict[str, list[float]]:
    """Seconds of each contestant, A, B, C, A, B, C, …: noise of the machine meets all of them alike."""
    for _ in range(warmups):
        for run in contestants.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            times[name].append(run())
    return times


class Turns:
    """A contestant's side: it works while it is its turn, and its clock stands still while it is not."""

    def __init__(self) -> None:
        self._paused = 0.0
        self._wait()
        self._turn_ends = self.clock() + TURN_SECONDS

    def clock(self) -> float:
        """Seconds of my own turns, from some moment on."""
        return time.monotonic() - self._paused

    def check(self) -> None:
        """Give way if my turn is over."""
        if self.clock() >= self._turn_ends:
            print("turn", flush=True)
            self._wait()
            self._turn_ends = self.clock() + TURN_SECONDS

    def _wait(self) -> None:
        before = time.monotonic()
        if not sys.stdin.readline():
            sys.exit(1)
        self._paused += time.monotonic() - before


def name_contestants(
    script: str, names: list[str], corpus: Path | str, folder: Path, minutes: Callable[[str], float]
) -> dict[str, list[str]]:
    """The commands by which a script calls itself, once for each contestant, with a folder for each."""
    commands = {}
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        command = [sys.executable, script, "--contestant", name, "--corpus", str(corpus)]
        commands[name] = [*command, "--folder", str(folder / name), "--minutes", str(minutes(name))]
    return commands


def take_turns(commands: dict[str, list[str]]) -> None:
    """Let programs that use `Turns` work one after the other, again and again, until all are done."""
    running = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name, command in commands.items()
    }
    begun = time.monotonic()
    while running:
        for name, process in list(running.items()):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            while (line := process.stdout.readline()) and line.strip() != "turn":
                pass
            if not line:
                if process.wait():
                    raise RuntimeError(f"{name} failed; its message is above")
                del running[name]
        print(f"{(time.monotonic() - begun) / 60:.1f} minutes; still running: {', '.join(running)}", flush=True)


def median_ratio(slow: list[float], fast: list[float]) -> dict[str, float]:
    """How many times faster `fast` is: the ratio of medians, and the spread of the rounds' own ratios."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    return {"ratio": statistics.median(slow) / statistics.median(fast), "low": ratios[0], "high": ratios[-1]}


def gemm_step(rows: int, inner: int, columns: int, repeats: int = 5) -> Callable[[], float]:
    """A bare fp32 product of the shape that dominates a step; returns the floating-point operations it ran."""
    a, b, out = torch.randn(rows, inner), torch.randn(columns, inner), torch.empty(rows, columns)

    def run() -> float:
        for _ in range(repeats):
            torch.mm(a, b.T, out=out)
        return 2.0 * rows * inner * columns * repeats

    return run


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def machine() -> dict[str, Any]:
    """What ran this."""
    packages = {name: version(name) for name in ("torch", "transformers", "litebert")}
    return {
        "cpu": describe_machine()["cpu"],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **packages,
        # Where files lay is nobody's business but this machine's.
        "command": " ".join(
            [
                f"python benchmarks/{Path(sys.argv[0]).name}",
                *map(_hide_folder, sys.argv[1:]),
            ]
        ),
        "date": date.today().isoformat(),
    }


def _hide_folder(word: str) -> str:
    """An argument with the last part of an absolute path alone; also of NAME=PATH."""
    name, sign, path = word.rpartition("=")
    return name + sign + (Path(path).name if Path(path).is_absolute() else path)


def record(name: str, title: str, table: str, data: dict[str, Any]) -> Path:
    """Write the results as Markdown to read and JSON to compare."""
    RESULTS.mkdir(exist_ok=True)
    facts = data["machine"]
    path = RESULTS / f"{facts['date']}-{name}.md"
    about = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in ("command", "date"))
    path.write_text(f"# {title}\n\n{facts['date']}, `{facts['command']}`. {about}.\n\n{table}\n", encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return path
