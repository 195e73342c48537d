"""The house keeps its order: rooms import leftwards only, and nothing heavy is imported on the way.

Every check looks at all modules, and reports all that it finds at once.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "litebert"

# The rooms from left to right, and what each may import. A room may always import itself.
FOUNDATION = {"errors", "config", "runtime", "batch", "folders", "hub", "presets", "quantities"}
TO_TRAINING = FOUNDATION | {"text", "model", "training"}
TO_BASELINES = TO_TRAINING | {"corpus", "pretraining", "distillation", "tasks", "inference", "baselines"}
TO_LAB = TO_BASELINES | {"planning", "reports", "lab"}
ALLOWED: dict[str, set[str]] = {
    **{name: {"errors"} for name in FOUNDATION},
    "errors": set(),
    "presets": {"config", "errors"},
    "hub": {"errors", "folders"},
    "text": FOUNDATION,
    "corpus": FOUNDATION | {"text"},
    "model": FOUNDATION,
    "training": FOUNDATION | {"model"},
    "pretraining": TO_TRAINING | {"corpus"},
    "distillation": TO_TRAINING | {"corpus", "pretraining"},
    "tasks": TO_TRAINING,
    "inference": TO_TRAINING | {"tasks"},
    "baselines": TO_TRAINING | {"tasks", "inference"},
    "planning": TO_BASELINES,
    "reports": TO_BASELINES,
    "lab": TO_LAB,
    "serve": TO_BASELINES,
    "api": TO_LAB,
    "cli": TO_LAB | {"api", "serve"},
    "__main__": {"cli"},
    "__init__": TO_LAB | {"api"},
}
# Heavy libraries, and the modules or rooms that may import them. LAZY are those that come with an extra, or that few
# files need: they are imported inside the function that uses them.
LAZY: dict[str, tuple[str, ...]] = {
    "dask": ("corpus/runners.py",),
    "distributed": ("corpus/runners.py",),
    "pyarrow": ("text/",),
    "datasets": ("text/", "tasks/readers/"),
    "pandas": ("text/", "tasks/readers/"),
    "zstandard": ("text/blocks.py",),
    "gensim": ("baselines/word2vec.py",),
    "tensorboard": ("training/logbook.py",),
    "onnx": ("inference/onnx_graph.py",),
    "onnxruntime": ("inference/",),
}
HEAVY: dict[str, tuple[str, ...]] = {
    "sentencepiece": ("text/",),
    "matplotlib": ("lab/", "reports/"),
    "jinja2": ("reports/",),
    "sklearn": ("tasks/", "baselines/"),
    "scipy": ("tasks/", "baselines/", "pretraining/counts.py", "lab/findings.py"),
    "ijson": ("text/",),
    **dict.fromkeys(("fastapi", "starlette", "uvicorn", "orjson", "prometheus_client"), ("serve/",)),
    "transformers": ("nowhere",),
    **LAZY,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}
KINDS_OF_TASK = {"classification", "multi-label", "regression", "tagging", "questions", "choice", "similarity"}

# What the house still has too much of. These numbers may fall, and never rise.
MOST_BRANCHES_ON_KIND = 0
MOST_MODULES_THAT_SPELL_RUN_JSON = 1


def modules() -> dict[str, ast.Module]:
    """Every module as it lies in src/litebert, read once."""
    return {path.relative_to(SOURCE).as_posix(): _parse(path) for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Every module that is imported at run time: its name, the line, and whether this happens inside a function."""
    skipped: set[ast.AST] = set()
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(ast.walk(node))
        elif isinstance(node, FUNCTIONS):
            inside.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, node in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((f"{module}.{alias.name}", node.lineno, node in inside) for alias in node.names)


def report(violations: list[str]) -> str:
    return "\n".join([f"{len(violations)} violations", *violations])


def test_rooms_import_leftwards() -> None:
    violations = []
    for name, tree in modules().items():
        room = name.split("/")[0].removesuffix(".py")
        if room not in ALLOWED:
            violations.append(f"{name}: {room} is a new room, say in this test what it may import")
            continue
        for imported, line, _ in imports(tree):
            parts = imported.split(".")
            if imported.startswith("."):
                violations.append(f"{name}:{line} has a relative import")
            elif parts[0] == "litebert" and len(parts) > 1 and parts[1] not in {room, "__version__", *ALLOWED[room]}:
                violations.append(f"{name}:{line} imports {imported}")
    assert not violations, report(violations)


def test_heavy_libraries_are_imported_where_they_belong() -> None:
    violations = []
    for name, tree in modules().items():
        for imported, line, is_inside in imports(tree):
            library = imported.split(".")[0]
            if library in HEAVY and not name.startswith(HEAVY[library]):
                violations.append(f"{name}:{line} imports {imported}, which belongs to {HEAVY[library]}")
            elif library in LAZY and not is_inside:
                violations.append(f"{name}:{line} imports {imported} outside of a function")
    assert not violations, report(violations)


def test_modules_introduce_themselves_and_do_no_work() -> None:
    plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.If, ast.For, ast.ClassDef, *FUNCTIONS)
    violations = []
    for name, tree in modules().items():
        if not ast.get_docstring(tree):
            violations.append(f"{name} has no docstring")
        if Path(name).stem in NAMES_THAT_SAY_NOTHING:
            violations.append(f"{name}: this name does not say what the module is for")
        for node in tree.body:
            is_string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not is_string and not isinstance(node, plain) and name != "__main__.py":
                violations.append(f"{name}:{node.lineno} does work when imported")
    assert not violations, report(violations)


def _names_a_kind(node: ast.AST) -> bool:
    """Whether an expression is a kind by its name: `kind`, `task.kind`, `data["kind"]`, `data.get("kind")`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "kind" or name.endswith("_kind")
        case ast.Subscript(slice=ast.Constant(value="kind")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="kind"), *_]):
            return True
    return False


def _holds_a_kind(node: ast.AST) -> bool:
    """Whether a literal is one of the kinds of task, or a list, set or tuple with one."""
    return any(isinstance(it, ast.Constant) and it.value in KINDS_OF_TASK for it in ast.walk(node))


def branches_on_kind(tree: ast.Module) -> Iterator[int]:
    """The lines that compare a kind of task with the name of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_names_a_kind(side) for side in sides) and any(_holds_a_kind(side) for side in sides):
                yield node.lineno
        elif isinstance(node, ast.Match) and _names_a_kind(node.subject):
            yield from (case.pattern.lineno for case in node.cases if _holds_a_kind(case.pattern))


def test_only_the_kinds_know_what_kinds_there_are() -> None:
    """A kind of task is one module in tasks/kinds; nobody else asks which one it is."""
    found = [
        f"{name}:{line}"
        for name, tree in modules().items()
        if not name.startswith("tasks/kinds/")
        for line in branches_on_kind(tree)
    ]
    print(f"{len(found)} branches on a kind of task outside of tasks/kinds")
    assert len(found) <= MOST_BRANCHES_ON_KIND, report(found)


def test_the_check_of_branches_finds_them() -> None:
    source = """
if task.kind == "questions": pass
if kind not in ("choice", "tagging"): pass
if "regression" == raw["kind"] or raw.get("kind") == "choice": pass
match task_kind:
    case "choice": pass
    case "questions" | "tagging": pass
    case _: pass
if kind == "parquet" or task.kind == other.kind or label == "choice": pass
"""
    assert sorted(branches_on_kind(ast.parse(source))) == [2, 3, 4, 4, 6, 7]


def test_one_module_knows_the_names_in_a_run_folder() -> None:
    """Who wants to know what a run says asks training/run_folder.py. One module spells "run.json" (docstrings may)."""
    found = []
    for name, tree in modules().items():
        sentences = {it.value for it in ast.walk(tree) if isinstance(it, ast.Expr)}
        strings = [it for it in ast.walk(tree) if isinstance(it, ast.Constant) and it not in sentences]
        if any(isinstance(it.value, str) and it.value.split("/")[-1] == "run.json" for it in strings):
            found.append(name)
    print(f"{len(found)} modules spell run.json")
    assert len(found) <= MOST_MODULES_THAT_SPELL_RUN_JSON, report(found)


def test_importing_litebert_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pydantic", *HEAVY)
    code = f"import litebert, litebert.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_what_reads_folders_graphs_and_examples_needs_no_torch() -> None:
    modules = (
        "litebert.model.hf.checkpoint",
        "litebert.inference.onnx_graph",
        "litebert.text.tokenizer",
        "litebert.tasks.kinds",
        "litebert.tasks.metrics",
        "litebert.tasks.saved",
        "litebert.tasks.readers.sources",
        "litebert.inference.load",
        "litebert.inference.search",
        "litebert.inference.index",
    )
    code = f"import importlib, sys; sys.modules['torch'] = None; [importlib.import_module(name) for name in {modules}]"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_every_public_name_exists() -> None:
    import litebert

    for name in litebert.__all__:
        assert getattr(litebert, name) is not None
