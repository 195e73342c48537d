"""The command line as a user meets it: in a process of its own, in one forked from one with torch in it, or in this."""

import contextlib
import functools
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

from click.testing import Result

from litebert.errors import LitebertError
from tests.pretraining.runs import shared_nursery

__all__ = ["fails", "run", "run_fresh", "run_here", "start"]


def start(*arguments: object, **options: Any) -> "subprocess.Popen[str]":
    """Begin a command in a fresh process; its output can be read."""
    command = [sys.executable, "-m", "litebert", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def run_fresh(*arguments: object, input: str | None = None, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command in a fresh process: for what depends on imports, streams or the environment."""
    process = start(*arguments, stdin=subprocess.PIPE, encoding="utf-8", **options)
    out, errors = process.communicate(input, timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def run(*arguments: object, input: str | bytes = b"", cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process that need not import torch again: seconds sooner than a fresh one."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "errors")]
        streams[0].write_bytes(input.encode() if isinstance(input, str) else input)
        job = {"call": "tests.commands:perform", "words": words, "streams": [str(stream) for stream in streams]}
        (code,) = shared_nursery().run({**job, "cwd": str(cwd or Path.cwd()), "log": os.devnull})
        out, errors = (stream.read_text(encoding="utf-8") for stream in streams[1:])
    return subprocess.CompletedProcess(words, code, out, errors)


def run_here(*arguments: object, input: str | None = None) -> Result:
    """Run a command in this process, whose torch keeps its threads."""
    import torch
    from typer.testing import CliRunner

    from litebert.cli import app

    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
    torch.set_num_threads(threads)
    return result


def fails(*arguments: object, input: str | None = None) -> str:
    """The sentence with which a command fails, in this process."""
    result = run_here(*arguments, input=input)
    assert result.exit_code != 0
    if isinstance(result.exception, LitebertError):
        return str(result.exception)
    assert isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.output.replace("│", " ").split())


@functools.cache
def warm_up() -> None:
    """Do once what every command would do: ask the machine what it can, and import what is imported late."""
    import torch

    import litebert
    from litebert.runtime import prepare_process, probe_bfloat16

    prepare_process()
    probe_bfloat16()
    for module in pkgutil.walk_packages(litebert.__path__, "litebert."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.utils.tensorboard")


def perform(job: dict[str, Any]) -> None:
    """Become the command that a job describes; called in the forked process."""
    from litebert.cli import main

    os.chdir(job["cwd"])
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (stream, mode) in enumerate(zip(job["streams"], modes, strict=True)):
        os.dup2(os.open(stream, mode), number)
    sys.stdin = os.fdopen(0, closefd=False)  # without what the nursery's has read
    sys.modules["__main__"] = types.ModuleType("__main__")  # so that its workers do not import the nursery
    sys.argv = ["litebert", *job["words"]]
    main()
