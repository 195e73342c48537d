"""The installation: kernels are compiled where there is a compiler, and nothing fails where there is none."""

import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from litebert.inference.native import encoder as native
from tests.conftest import need

need("hatchling")
ROOT = Path(__file__).parents[1]


class Terminal:
    """What hatchling would show."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, message: str) -> None:
        self.warnings.append(message)


@pytest.fixture(scope="module")
def hatch_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install(
    hatch_build: ModuleType, folder: Path, source: str | None = None, kept: bytes | None = None
) -> tuple[Path, dict[str, Any], list[str]]:
    """Run the hook on a copy of the source: the folder of the kernels, what the wheel is told, warnings."""
    native_folder = folder / hatch_build.NATIVE
    native_folder.mkdir(parents=True)
    text = (ROOT / hatch_build.NATIVE / "encoder.c").read_text(encoding="utf-8") if source is None else source
    (native_folder / "encoder.c").write_text(text, encoding="utf-8")
    (native_folder / "encoder-old.kernels").write_bytes(b"of another source")
    if kept is not None:
        (native_folder / native.library_name(text.encode())).write_bytes(kept)
    terminal, told = Terminal(), {"artifacts": [], "pure_python": True}
    hook = hatch_build.CompileKernels(str(folder), {}, None, None, str(folder / "dist"), "wheel", app=terminal)
    hook.initialize("standard", told)
    return native_folder, told, terminal.warnings


def test_without_a_compiler_the_package_is_plain_python(
    hatch_build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    folder, told, warnings = install(hatch_build, tmp_path)
    assert told == {"artifacts": [], "pure_python": True}
    assert [path.name for path in folder.iterdir()] == ["encoder.c"]
    assert len(warnings) == 1


def test_a_library_that_fits_is_kept_where_none_can_be_made(
    hatch_build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    folder, told, warnings = install(hatch_build, tmp_path, kept=b"a library")
    assert (folder / native.library_name((folder / "encoder.c").read_bytes())).read_bytes() == b"a library"
    assert len(list(folder.iterdir())) == 2
    assert told["pure_python"] is False
    assert len(warnings) == 1


needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("cc") is None,
    reason="needs a C compiler on Linux, x86-64",
)


@needs_compiler
def test_with_a_compiler_the_wheel_is_for_this_machine(hatch_build: ModuleType, tmp_path: Path) -> None:
    folder, told, warnings = install(hatch_build, tmp_path)
    expected = native.library_name((folder / "encoder.c").read_bytes())
    assert {path.name for path in folder.iterdir()} == {"encoder.c", expected}
    assert told["pure_python"] is False
    assert told["tag"] in ("py3-none-manylinux_2_17_x86_64", "py3-none-linux_x86_64")
    assert not warnings
    if (nm := shutil.which("nm")) is not None:
        done = subprocess.run([nm, "-D", "--undefined-only", folder / expected], capture_output=True, text=True)
        needed = {line.split()[1].partition("@")[0] for line in done.stdout.splitlines() if line.split()[0] == "U"}
        assert needed <= {"memmove", "memcpy", "memset"}


@needs_compiler
def test_a_source_that_does_not_compile_is_said_and_passed_over(hatch_build: ModuleType, tmp_path: Path) -> None:
    folder, told, warnings = install(hatch_build, tmp_path, "int litebert(")
    assert [path.name for path in folder.iterdir()] == ["encoder.c"]
    assert told == {"artifacts": [], "pure_python": True}
    assert "encoder.c" in warnings[0]
