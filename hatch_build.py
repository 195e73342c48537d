"""Compiles the kernels of `litebert.inference.native` when the package is built or installed.

Where there is no compiler, there are no kernels, and onnxruntime runs everything.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/litebert/inference/native")
SUFFIX = ".kernels"
FLAGS = (
    "-std=c11 -O2 -fno-math-errno -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -shared -fPIC "
    "-Wl,-z,defs"  # nothing may be left for others to bring
)


class CompileKernels(BuildHookInterface):  # type: ignore[misc]
    """The library goes into the wheel, which then is for one kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not; a library that fits the source is kept where nothing better can be made."""
        folder = Path(self.root, NATIVE)
        source = folder / "encoder.c"
        path = folder / library_name(source.read_bytes())
        problem = self._compile(source, path)
        for other in folder.glob(f"*{SUFFIX}"):
            if other != path:
                other.unlink()
        if problem is not None:
            self.app.display_warning(f"no new kernels of litebert's own: {problem}")
        if not path.is_file():
            return
        build_data["artifacts"].append(f"{NATIVE}/*{SUFFIX}")
        # Of the C library it needs memmove alone, which every Linux that pip knows by this name has.
        build_data["tag"] = f"py3-none-{'manylinux_2_17' if platform.libc_ver()[0] == 'glibc' else 'linux'}_x86_64"
        build_data["pure_python"] = False

    def _compile(self, source: Path, path: Path) -> str | None:
        """Make the library; what kept it from being made, if anything did."""
        if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 2**32:
            return "they are for Linux on x86-64"
        wanted = [shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]]
        compiler = next((words for words in wanted if words and shutil.which(words[0])), None)
        if compiler is None:
            return "there is no C compiler"
        draft = path.with_name(f"{path.stem}-{os.getpid()}.draft")
        command = [*compiler, *FLAGS.split(), str(source), "-o", str(draft)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return f"{compiler[0]} said: {done.stderr.strip()[-500:]}"
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return None


def library_name(source: bytes) -> str:
    """As `litebert.inference.native.encoder` looks for it."""
    return f"encoder-{hashlib.sha256(source).hexdigest()[:16]}{SUFFIX}"
