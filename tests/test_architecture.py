"""The house keeps its order: rooms import leftwards only, and nothing heavy is imported on the way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "litebert"

# Each room, and what it may know. A room may always know itself.
FOUNDATION = {"errors", "config", "runtime", "batch", "folders", "hub", "presets"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "runtime": {"errors"},
    "batch": {"errors"},
    "folders": {"errors"},
    "hub": {"errors"},
    "presets": {"config", "errors"},
    "text": FOUNDATION,
    "corpus": FOUNDATION | {"text"},
    "model": FOUNDATION,
    "training": FOUNDATION | {"model"},
    "pretraining": FOUNDATION | {"text", "corpus", "model", "training"},
    "tasks": FOUNDATION | {"text", "model", "training"},
    "inference": FOUNDATION | {"text", "model", "training", "tasks"},
    "baselines": FOUNDATION | {"text", "model", "training", "tasks", "inference"},
    "lab": FOUNDATION | {"text", "model", "training", "tasks", "baselines", "inference"},
    "cli": FOUNDATION
    | {"text", "corpus", "model", "training", "pretraining", "tasks", "inference", "baselines", "lab"},
    "__main__": {"cli"},
    "__init__": FOUNDATION | {"text", "corpus", "model", "inference"},
}
# Heavy libraries, and the modules or rooms that may import each, inside a function if it comes with an extra.
EXTRA = {"datasets": ("text/sources.py",), "gensim": ("baselines/word2vec.py",)}
HEAVY: dict[str, tuple[str, ...]] = {
    "dask": ("corpus/runners.py",),
    "distributed": ("corpus/runners.py",),
    "pyarrow": ("text/formats.py",),
    "zstandard": ("text/compression.py",),
    "sentencepiece": ("text/",),
    "matplotlib": ("lab/charts.py", "lab/task_charts.py"),
    "sklearn": ("tasks/metrics.py", "baselines/"),
    "scipy": ("tasks/metrics.py", "baselines/"),
    # Those that no module needs yet.
    **dict.fromkeys(("fastapi", "onnx", "onnxruntime", "transformers"), ("nowhere",)),
    **EXTRA,
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path, at_run_time: bool) -> list[str]:
    """Names of imported modules; without those under `if TYPE_CHECKING` when `at_run_time`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    if at_run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                skipped.update(ast.walk(node))
    names = []
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_import_leftwards(path: Path) -> None:
    room = room_of(path)
    assert room in ALLOWED, f"{room} is a new room: say here what it may know"
    for name in imports(path, at_run_time=True):
        parts = name.split(".")
        if parts[0] == "litebert" and len(parts) > 1 and parts[1] not in (room, "__version__"):
            assert parts[1] in ALLOWED[room], f"{path} imports {name}"
        home = HEAVY.get(parts[0])
        assert home is None or path.relative_to(SOURCE).as_posix().startswith(home), f"{path} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_introduce_themselves_and_do_no_work(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{path} has no docstring"
    if path.name == "__main__.py":
        return
    plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef, ast.If, ast.For)
    for node in tree.body:
        is_string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert is_string or isinstance(node, plain), f"{path}:{node.lineno} does work when imported"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_can_be_held_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350
    assert path.stem not in {"utils", "util", "common", "helpers", "helper", "misc"}


def test_extras_are_imported_when_they_are_used() -> None:
    modules = "litebert.text.sources, litebert.baselines.word2vec"
    code = f"import {modules}, sys; print([name for name in {list(EXTRA)} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_importing_litebert_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pydantic")
    code = f"import litebert, litebert.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    import litebert

    for name in litebert.__all__:
        assert getattr(litebert, name) is not None
