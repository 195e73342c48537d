"""The machine: what it really has, and how to use it well.

Call `prepare_process()` before torch is imported: nothing else changes the process as a whole.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

__all__ = [
    "AMX",
    "advertises",
    "available_memory",
    "describe_machine",
    "keep_freed_memory",
    "num_cores",
    "prepare_process",
    "probe_bfloat16",
    "probe_matrix_instructions",
    "run_in_child",
    "without_main",
]

_PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum().item()"
_SPEED_PROBE = """
import time, torch
def seconds(dtype):
    x = torch.ones(1024, 1024, dtype=dtype)
    x @ x
    begun = time.perf_counter()
    for _ in range(5):
        x @ x
    return time.perf_counter() - begun
print(min(seconds(torch.float32) for _ in range(3)) / min(seconds(torch.bfloat16) for _ in range(3)))
"""
_WORTH_IT = 1.3  # autocast converts back and forth, which costs a part of the gain
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_SAFE_ISA = "AVX512_CORE_BF16"
AMX = ("amx_tile", "amx_bf16", "amx_int8")
"""Instruction sets that some machines claim and cannot run."""


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Processes that are spawned here do not run the user's script once more, as Python would have them do.

    Otherwise a script that calls litebert outside of `if __name__ == "__main__":` would begin anew in each of them.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def keep_freed_memory() -> bool:
    """Ask glibc to keep freed blocks for the next step instead of giving them back; say whether it could be asked.

    A training step frees and takes the same hundreds of megabytes again and again. By default each large block is a
    fresh mapping that the kernel must fill with zeros, page by page. Elsewhere than on glibc nothing changes.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        return bool(libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30) and libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1))
    return False


def num_cores() -> int:
    """Cores that this process may use: those that it was given, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that this process may still take: what the machine has free, or what a container leaves of its limit."""
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        free.append(next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        free.append(max(limit - used, 0))
    return min(free)


@functools.cache
def probe_matrix_instructions() -> bool:
    """Say whether a bf16 matrix product survives here, by trying it in a child process.

    Some virtual machines advertise AMX, but executing it kills the process, so a child process tries it.
    """
    if not advertises(*AMX):
        return True  # oneDNN will not pick what the CPU does not claim to have
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    return run_in_child(_PROBE, environment) is not None


@functools.cache
def probe_bfloat16() -> bool:
    """Say whether bf16 products survive here and are clearly faster than fp32, by timing both in a child process.

    Many CPUs have bf16 only by name: they compute it at a fraction of the speed of fp32, or crash.
    """
    if not advertises("avx512_bf16", "amx_bf16"):
        return False
    environment = dict(os.environ) if probe_matrix_instructions() else {**os.environ, "ONEDNN_MAX_CPU_ISA": _SAFE_ISA}
    with contextlib.suppress(ValueError):
        return float(run_in_child(_SPEED_PROBE, environment) or 0) > _WORTH_IT
    return False


def run_in_child(program: str, environment: dict[str, str] | None = None) -> str | None:
    """What a program prints in a process of its own, or None if it dies.

    Importing torch takes that process seconds, so its output is cached until the machine restarts.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "litebert", "machine.json")
    key = hashlib.sha256(program.encode()).hexdigest()
    machine, answers = _identify_machine(), {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        notes = json.loads(cache.read_text(encoding="utf-8"))
        answers = dict(notes["answers"]) if notes["machine"] == machine else {}
        if key in answers:
            return None if answers[key] is None else str(answers[key])
    try:
        child = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None  # says nothing about the next time
    if child.returncode > 0:
        return None  # it failed, but not because the machine killed it
    answer = None if child.returncode else child.stdout.decode(errors="replace").strip()
    if machine is not None and cache.is_absolute():  # it is not where there is no home folder
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            draft = cache.with_name(f".machine-{os.getpid()}.json")
            notes = {"machine": machine, "answers": {**answers, key: answer}}
            draft.write_text(json.dumps(notes), encoding="utf-8")
            draft.replace(cache)
    return answer


def _identify_machine() -> str | None:
    """A text that changes when the machine restarts, or what computes changes; None where that cannot be seen."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        return None
    parts = [start.strip(), str(describe_machine()["cpu"])]
    for name in ("torch", "onnxruntime"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            parts.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(parts)


def advertises(*flags: str) -> bool:
    """Whether the CPU claims to have one of these instruction sets."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return any(flag in line.split() for line in file if line.startswith("flags") for flag in flags)
    return False


def describe_machine() -> dict[str, str | int]:
    """CPU, cores and memory, for the record."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": name, "cores": num_cores(), "memory_bytes": memory}


def prepare_process(keeps_memory: bool = True) -> None:
    """Prepare this process for heavy work: keep freed memory, and keep oneDNN from broken instructions.

    A process that runs for weeks, beside others, gives back what it does not need.
    """
    if keeps_memory:
        keep_freed_memory()
    if "ONEDNN_MAX_CPU_ISA" not in os.environ and not probe_matrix_instructions():
        os.environ["ONEDNN_MAX_CPU_ISA"] = _SAFE_ISA
