"""Compiles the kernels of `litebert.inference.native` when the package is built or installed.

Where there is no compiler, there are no kernels, and onnxruntime runs everything.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/litebert/inference/native")
SUFFIX = ".kernels"
FLAGS = "-std=c11 -O2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -shared -fPIC"


class CompileKernels(BuildHookInterface):  # type: ignore[misc]
    """The library goes into the wheel, which then is for one kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not."""
        folder = Path(self.root, NATIVE)
        for old in folder.glob(f"*{SUFFIX}"):
            old.unlink()
        source = folder / "encoder.c"
        compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), "cc", "gcc", "clang"))), None)
        if sys.platform != "linux" or platform.machine() != "x86_64" or compiler is None:
            self.app.display_warning("no kernels of litebert's own: they need Linux on x86-64 and a C compiler")
            return
        path = folder / library_name(source.read_bytes())
        draft = path.with_suffix(".draft")
        done = subprocess.run([compiler, *FLAGS.split(), str(source), "-o", str(draft)], capture_output=True, text=True)
        if done.returncode:
            draft.unlink(missing_ok=True)
            self.app.display_warning(f"no kernels of litebert's own: {compiler} said: {done.stderr.strip()[-500:]}")
            return
        draft.replace(path)
        build_data["artifacts"].append(f"{NATIVE}/*{SUFFIX}")
        # Of the C library it needs memmove alone, which every Linux that pip knows by this name has.
        build_data["tag"] = f"py3-none-{'manylinux_2_17' if platform.libc_ver()[0] == 'glibc' else 'linux'}_x86_64"
        build_data["pure_python"] = False


def library_name(source: bytes) -> str:
    """As `litebert.inference.native.encoder` looks for it."""
    return f"encoder-{hashlib.sha256(source).hexdigest()[:16]}{SUFFIX}"
