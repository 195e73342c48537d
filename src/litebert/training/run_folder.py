"""The folder of a run: its layout, which no other module knows, and how it is read, finished or not.

RUN/run.json                    what the run is: configuration, data, machine
RUN/metrics.jsonl               what happened, line by line (`litebert.training.logbook` writes it)
RUN/tensorboard/                the same for TensorBoard, where it is installed
RUN/checkpoints/                the last few states, and the best
RUN/model/                      the final model, once the run is finished
RUN/report.html                 a page about the run
RUN/corpus/                     distillation: the text, prepared, where it was not a corpus already
RUN/evaluation.json             fine-tuning: metrics of the final model on each split
RUN/predictions-SPLIT.jsonl     fine-tuning: its answers
RUN/seeds.json, RUN/seed-0/…    fine-tuning with several seeds: a summary, and a run folder for each of them

Nothing that is read is trusted: values that are no finite numbers are left out, what is missing is empty. Files of
earlier versions are read by the names of today.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from litebert.config import explain
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import PARTIAL, RUN_FILE, RUN_MODEL, lock_folder, read_json, write_json
from litebert.quantities import finite_numbers

if TYPE_CHECKING:
    from litebert.training.config import RunConfig

__all__ = [
    "Run",
    "RunFolder",
    "find_runs",
    "name_run",
    "read_kind",
    "read_run",
    "rename_old_metrics",
]

Config = TypeVar("Config", bound="RunConfig")
Row = dict[str, float]

_SEED = "seed-"
_MOST_STEPS = 2000  # what charts can show
_STATES = {
    "began": "running or cut off",
    "resumed": "running or cut off",
    "interrupted": "interrupted",
    "finished": "finished",
}

_OLD_METRICS = {
    "num_words": "num_masked",
    "words_loss": "mlm_loss",
    "words_accuracy": "mlm_accuracy",
    "sentence_loss": "sop_loss",
    "sentence_accuracy": "sop_accuracy",
}


@dataclass(frozen=True)
class RunFolder:
    """The files of a run, by what they are for.

    >>> RunFolder("my-run").predictions_file("dev").name
    'predictions-dev.jsonl'
    """

    path: Path

    def __init__(self, path: Path | str) -> None:
        object.__setattr__(self, "path", Path(path))

    @property
    def run_file(self) -> Path:
        """What the run is."""
        return self.path / RUN_FILE

    @property
    def metrics_file(self) -> Path:
        """What happened, line by line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """The same for TensorBoard."""
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        """States to go on from."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The final model."""
        return self.path / RUN_MODEL

    @property
    def corpus(self) -> Path:
        """The text of a distillation that was not given as a corpus."""
        return self.path / "corpus"

    @property
    def report(self) -> Path:
        """The page about the run."""
        return self.path / "report.html"

    @property
    def evaluation_file(self) -> Path:
        """Metrics of the final model on each split."""
        return self.path / "evaluation.json"

    def predictions_file(self, split: str) -> Path:
        """Answers of the final model on a split."""
        return self.path / f"predictions-{split}.jsonl"

    @property
    def seeds_file(self) -> Path:
        """A summary of runs with several seeds."""
        return self.path / "seeds.json"

    def seed(self, number: int) -> "RunFolder":
        """The run with one of several seeds."""
        return RunFolder(self.path / f"{_SEED}{number}")

    def seeds(self) -> list["RunFolder"]:
        """The runs with several seeds that are there, by their number."""
        found = [path for path in self.path.glob(f"{_SEED}*") if path.name.removeprefix(_SEED).isdigit()]
        return [RunFolder(path) for path in sorted(found, key=lambda path: int(path.name.removeprefix(_SEED)))]

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.run_file.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether there is a final model."""
        return self.exists and self.model.is_dir()

    # --- writing --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, resume: bool) -> Iterator[None]:
        """Keep the folder for this process while the block runs; refuse one that holds something else."""
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = lock_folder(self.path, "run")
        try:
            with self.writing():
                self._refuse_what_is_there(resume)
            yield
        finally:
            os.close(lock)

    def _refuse_what_is_there(self, resume: bool) -> None:
        from litebert.training.state import CheckpointStore  # who only reads needs no torch

        begun = CheckpointStore(self.checkpoints, 1).all()
        if begun and not resume:
            raise RequestError(
                f"{self.path} already holds a run at step {begun[-1].step:,}: go on with --resume, or choose another "
                "--out"
            )
        self.refuse_foreign()

    def refuse_run(self) -> None:
        """Refuse to put something else into the folder of a run."""
        if self.exists:
            raise RequestError(f"{self.path} is the folder of a run: choose another --out")

    def refuse_foreign(self) -> None:
        """Refuse a folder that holds something else than a run, or the text of one that is to begin."""
        if self.run_file.exists() or not self.path.is_dir():
            return
        if any(path.name not in (RUN_FILE + PARTIAL, self.corpus.name) for path in self.path.iterdir()):
            raise RequestError(f"{self.path} is not empty and holds no run: choose another --out")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Say in a sentence that the folder cannot be written to."""
        try:
            yield
        except OSError as error:
            message = f"cannot write to {self.path} ({error.strerror or error}): choose another --out"
            raise LitebertError(message) from error

    def write_about(self, content: dict[str, Any]) -> None:
        """Say what the run is."""
        write_json(self.run_file, content)

    # --- reading --------------------------------------------------------------------------------------------------

    def read_about(self) -> dict[str, Any]:
        """What the run is, with the names of today."""
        about = read_json(self.run_file)
        if isinstance(about.get("baselines"), dict):
            about["baselines"] = rename_old_metrics(about["baselines"])
        return about

    def read_config(self, kind: type[Config]) -> Config:
        """The configuration that the run was begun with."""
        if not self.run_file.is_file():
            raise FolderError(f"{self.path} holds no run: it has no {RUN_FILE}; leave --resume away to begin one")
        content = read_json(self.run_file)
        try:
            return kind.parse(content.get("config", {}))
        except ValidationError as error:
            raise FolderError(f"{self.run_file} is not of this version of litebert ({explain(error)})") from None


@dataclass
class Run:
    """What a folder tells of a run; rows hold finite numbers only, so that a value that is no number is missing."""

    folder: Path
    about: dict[str, Any]
    steps: list[Row] = field(default_factory=list)
    evaluations: list[Row] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    """Each with `what` (a word), `message` (a sentence), and step and seconds where they are known."""
    last: Row = field(default_factory=dict)
    """The last known value of everything, and `speed` in tokens per second."""
    num_damaged: int = 0
    num_without_loss: int = 0

    @property
    def state(self) -> str:
        """`finished`, `interrupted`, or `running or cut off`: a killed run cannot say that it was."""
        return ["running or cut off", *(_STATES[it["what"]] for it in self.events if it["what"] in _STATES)][-1]

    def part(self, *names: str) -> dict[str, Any]:
        """A part of run.json; empty if there is none."""
        part: Any = self.about
        for name in names:
            part = part.get(name) if isinstance(part, dict) else None
        return part if isinstance(part, dict) else {}


def find_runs(root: Path) -> list[Path]:
    """Runs in a folder, or in folders of it; those of several seeds too."""
    return sorted({path.parent for depth in ("*/", "*/*/") for path in root.glob(depth + RUN_FILE)})


def read_kind(folder: Path) -> str:
    """What kind of run a folder holds: `pretraining` or `fine-tuning`; nothing if it does not say."""
    file = RunFolder(folder).run_file
    kind = read_json(file).get("kind") if file.exists() else None
    return str(kind or "").removeprefix("litebert ")


def read_run(folder: Path, kind: str, *commands: str) -> Run:
    """Read the folder of a run, finished or not; steps that were done again after a resumption replace the old ones.

    A folder of another kind of run is refused, and the commands named that write the wanted kind.
    """
    files = RunFolder(folder)
    advice = f"name a folder that {' or '.join(f'`{command}`' for command in commands)} wrote"
    if not files.run_file.exists():
        inner = sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}"))
        if inner:
            raise FolderError(f"{folder} has no {RUN_FILE} but holds runs in folders; name one, such as {inner[0]}")
        problem = f"has no {RUN_FILE}" if folder.is_dir() else "is no folder"
        raise FolderError(f"{folder} {problem}; {advice}")
    run = Run(folder, files.read_about())
    if run.about.get("kind", f"litebert {kind}") != f"litebert {kind}":
        raise FolderError(f"{folder} is not a {kind} run; {advice}")
    stride, count, latest = 1, 0, Row()
    for line in _read_lines(run, files.metrics_file):
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
            message = line.get("message", line.get("words", ""))  # its name before
            run.events.append({**row, "what": str(line.get("what", "")), "message": str(message)})
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
                    yield rename_old_metrics(content)
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
    path = folder.resolve()
    return path.parent.name if path.name == "run" else path.name


def rename_old_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics by their names of today, from files of any version.

    >>> rename_old_metrics({"step": 3, "words_accuracy": 0.5})
    {'step': 3, 'mlm_accuracy': 0.5}
    """
    return {_OLD_METRICS.get(name, name): value for name, value in metrics.items()}
