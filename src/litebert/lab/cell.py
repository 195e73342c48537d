"""`run_cell`: one cell for one seed, from its configuration to its measured numbers; killed, the same call goes on."""

import json
import platform
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from litebert.errors import LitebertError
from litebert.folders import read_json, remove_folder, write_json
from litebert.training.run_folder import RunFolder

__all__ = ["CellRun", "CellStatus", "is_measured", "read_result", "run_cell"]

RESULT = "result.json"


@dataclass(frozen=True)
class CellRun:
    """All that a process needs to know, as plain values that go to any machine of a cluster."""

    folder: str
    config: dict[str, Any]
    """Of pretraining."""
    corpus: str
    held_out: str
    """The corpus whose held-out text is looked at, the same for all cells."""
    measures: tuple[str, ...]
    tasks: tuple[str, ...]
    scale: str
    seed: int
    begin_from: str | None = None
    needs_model: bool = False
    """Whether other cells are going to begin from this one: numbers alone are then not enough."""
    threads: int = 1


@dataclass(frozen=True)
class CellStatus:
    """How a call ended: done (now or before), interrupted by a signal, or failed with a reason."""

    folder: str
    status: str
    message: str = ""


def read_result(folder: Path) -> dict[str, Any] | None:
    """What was measured, if the cell is done."""
    return read_json(folder / RESULT) if (folder / RESULT).is_file() else None


def is_measured(run: CellRun) -> bool:
    """Whether all that is asked of a cell is known; what was measured on other tasks is measured again."""
    result = read_result(Path(run.folder))
    if result is None or not {*run.measures} <= {*result["measures"]}:
        return False
    if run.needs_model and not RunFolder(run.folder).is_finished:
        return False
    return "tasks" not in run.measures or result["tasks"] == list(run.tasks)


def run_cell(run: CellRun) -> CellStatus:
    """Train and measure a cell, unless that was done before. What goes wrong is the answer, not an error."""
    folder = Path(run.folder)
    try:
        return CellStatus(run.folder, "done") if is_measured(run) else _run(run, folder)
    except Exception as error:  # the other cells shall go on, whatever it is
        known = isinstance(error, LitebertError | OSError)
        said = str(error).partition("\n")[0]
        return CellStatus(run.folder, "failed", said if known and said else f"{type(error).__name__}: {said}")


def _run(run: CellRun, folder: Path) -> CellStatus:
    from litebert.runtime import describe_machine, prepare_process

    prepare_process()
    import torch

    from litebert.corpus.corpus import Corpus
    from litebert.lab.scales import find_scale
    from litebert.model.model import Model
    from litebert.pretraining.config import PretrainConfig
    from litebert.pretraining.job import pretrain

    torch.set_num_threads(run.threads)
    begun = time.monotonic()
    config = PretrainConfig.parse(run.config)
    if run.begin_from is not None:
        config = config.model_copy(update={"begin_from": run.begin_from, "head_start": False, "segment_heads": False})
    corpus = Corpus.open(Path(run.corpus), verify=False)
    held_out = corpus if run.held_out == run.corpus else Corpus.open(Path(run.held_out), verify=False)
    kept = RunFolder(folder)
    if not kept.is_finished:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists:
            (folder / RESULT).unlink(missing_ok=True)  # numbers whose model is gone are made again
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "transformers cannot hold")  # what the lab keeps, litebert opens
            result = pretrain(corpus, folder, config, resume=kept.exists, held_out=held_out, guessers=False)
        if result.status == "interrupted":
            return CellStatus(run.folder, "interrupted", f"at step {result.step:,}")
    model = Model.from_pretrained(kept.model).eval()
    found = _measure(run, kept, model, held_out, config, find_scale(run.scale))
    write_json(
        folder / RESULT,
        {
            **found,
            "measures": list(run.measures),
            "tasks": list(run.tasks),
            "seed": run.seed,
            "steps": config.train.steps,
            "seconds": round(time.monotonic() - begun, 1),
            "versions": {name: version(name) for name in ("litebert", "torch", "numpy")} | {"python": _python()},
            "machine": describe_machine()["cpu"],
            "threads": run.threads,
            "precision": kept.read_config(PretrainConfig).train.precision,
        },
    )
    if kept.checkpoints.is_dir():
        remove_folder(kept.checkpoints)  # the model is all that later cells need
    return CellStatus(run.folder, "done")


def _measure(run: CellRun, kept: RunFolder, model: Any, held_out: Any, config: Any, scale: Any) -> dict[str, Any]:
    from litebert.lab import measures

    parts = [measures.Measured()]
    if "masked" in run.measures:
        parts.append(measures.measure_masked(model, held_out, config.stream, scale))
    if "probes" in run.measures:
        parts.append(measures.measure_probes(model, held_out, config.stream, scale))
    if "layers" in run.measures:
        parts.append(measures.measure_layers(model, held_out, config.stream))
    if "tasks" in run.measures and run.tasks:
        parts.append(measures.measure_tasks(kept.model, run.tasks, scale, run.seed))
    metrics = {name: value for part in parts for name, value in part.metrics.items()}
    series = {name: rows for part in parts for name, rows in part.series.items()}
    return {"metrics": metrics, "series": series | _read_curves(kept)}


def _read_curves(kept: RunFolder) -> dict[str, list[list[float]]]:
    """How held-out metrics went over the steps."""
    curves: dict[str, list[list[float]]] = {}
    for line in kept.metrics_file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("kind") != "evaluation":
            continue
        for name in ("mlm_accuracy", "sop_accuracy"):
            if isinstance(row.get(name), float):
                curve = [point for point in curves.get(name, []) if point[0] < row["step"]]  # of before a rollback
                curves[name] = [*curve, [float(row["step"]), row[name]]]
    return {f"curve_{name}": curve for name, curve in curves.items()}


def _python() -> str:
    return platform.python_version()
