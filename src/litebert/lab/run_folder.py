"""What the folder of a run tells: `run.json` and `metrics.jsonl`, also while the run goes on or after it was killed.

Nothing in these files is trusted: numbers are looked at, what is missing is left out.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.errors import FolderError
from litebert.folders import read_json
from litebert.quantities import finite_numbers

__all__ = ["RUN_FILE", "Run", "name_run", "read_kind", "read_run"]

RUN_FILE = "run.json"
Row = dict[str, float]

_MOST_STEPS = 2000  # what charts can show
_STATES = {"began": "running or cut off", "resumed": "running or cut off"} | {s: s for s in ("interrupted", "finished")}
_OLD_METRICS: dict[Any, str] = {
    "words_loss": "mlm_loss",
    "words_accuracy": "mlm_accuracy",
    "sentence_loss": "sop_loss",
    "sentence_accuracy": "sop_accuracy",
    "num_words": "num_masked",
}


@dataclass
class Run:
    """What a folder tells of a run; rows hold finite numbers only, so that a value that is no number is missing."""

    folder: Path
    about: dict[str, Any]
    steps: list[Row] = field(default_factory=list)
    evaluations: list[Row] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    last: Row = field(default_factory=dict)
    num_damaged: int = 0
    num_without_loss: int = 0

    @property
    def state(self) -> str:
        """`finished`, `interrupted`, or `running or cut off`: a killed run cannot say that it was."""
        return ["running or cut off", *(_STATES[it["what"]] for it in self.events if it["what"] in _STATES)][-1]

    def part(self, *names: str) -> dict[str, Any]:
        """A part of `run.json`; empty if there is none."""
        part: Any = self.about
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part if isinstance(part, dict) else {}


def read_kind(folder: Path) -> str:
    """What kind of run a folder holds: `pretraining` or `fine-tuning`; nothing if it does not say."""
    path = folder / RUN_FILE
    kind = read_json(path).get("kind") if path.exists() else None
    return str(kind or "").removeprefix("litebert ")


def read_run(folder: Path, kind: str, *commands: str) -> Run:
    """Read the folder of a run, finished or not; steps that were done again after a resumption replace the old ones.

    A folder of another kind of run is refused, and the commands named that write the wanted kind.
    """
    advice = f"name a folder that {' or '.join(f'`{command}`' for command in commands)} wrote"
    if not (folder / RUN_FILE).exists():
        inner = sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}"))
        if inner:
            raise FolderError(f"{folder} has no {RUN_FILE} but holds runs in folders; name one, such as {inner[0]}")
        problem = f"has no {RUN_FILE}" if folder.is_dir() else "is no folder"
        raise FolderError(f"{folder} {problem}; {advice}")
    run = Run(folder, read_json(folder / RUN_FILE))
    if run.about.get("kind", f"litebert {kind}") != f"litebert {kind}":
        raise FolderError(f"{folder} is not a {kind} run; {advice}")
    stride, count, latest = 1, 0, Row()
    for line in _read_lines(run, folder / "metrics.jsonl"):
        row, what = finite_numbers(line), line.get("kind")
        if what == "step":
            if row.get("step", math.inf) <= latest.get("step", -math.inf):
                _forget_from(run, row["step"])
            run.num_without_loss += "loss" in line and "loss" not in row
            latest, count = row, count + 1
            run.steps += [row] if count % stride == 0 else []
            if len(run.steps) >= _MOST_STEPS:
                del run.steps[::2]
                stride *= 2
        elif what == "evaluation":
            run.evaluations.append(row)
        elif what == "samples":
            run.samples.append({**row, "samples": line.get("samples")})
        elif what == "event":
            run.events.append({**row, "what": str(line.get("what", "")), "words": str(line.get("words", ""))})
        else:
            continue
        run.last.update(row)
    run.steps += [latest] if latest and run.steps[-1:] != [latest] else []
    if run.last.get("seconds") and "tokens" in run.last:
        run.last["speed"] = run.last["tokens"] / run.last["seconds"]
    return run


def _read_lines(run: Run, path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines one by one; what cannot be read is counted, unless it is a last line that was cut off."""
    if path.exists() and not path.is_file():
        raise FolderError(f"{path} is not an ordinary file; restore it, or move it out of the folder")
    try:
        with path.open("rb") as file:
            while line := file.readline(1 << 24):  # a longer line is none of ours
                try:
                    content = json.loads(line) if line.strip() else {}
                except (ValueError, RecursionError):
                    content = None
                if isinstance(content, dict):
                    yield {_OLD_METRICS.get(key) or key: value for key, value in content.items()}
                else:
                    run.num_damaged += line.endswith(b"\n")
    except FileNotFoundError:
        return  # a run that has just begun
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror}); check its permissions") from None


def _forget_from(run: Run, step: float) -> None:
    """Drop what was recorded of a step and those after it, because the run went back and did them again."""
    rows: list[Any]
    for rows in (run.steps, run.evaluations, run.samples):
        while rows and rows[-1].get("step", -math.inf) >= step:
            rows.pop()


def name_run(folder: Path) -> str:
    """What to call a run: its folder, or the one above if that is just called `run`."""
    place = folder.resolve()
    return place.parent.name if place.name == "run" else place.name
