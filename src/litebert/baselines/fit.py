"""Fitting: an encoder as it is, and labelled examples, become a model that answers, in seconds.

The encoder is not trained. A linear model learns from its vectors, and from tf-idf beside them; both are kept in files
beside the weights (`litebert.tasks.linear`, `litebert.tasks.tf_idf`). The folder has the form of a run's.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from litebert.baselines.bag_of_words import list_singles
from litebert.baselines.ladder import Baseline
from litebert.baselines.vectors import EncoderVectors, keep_frozen, make_frozen
from litebert.errors import RequestError
from litebert.folders import model_name, new_folder
from litebert.hub import resolve
from litebert.inference.engine import VECTORS
from litebert.inference.load import Pipeline, load
from litebert.inference.optimization import OPTIMIZED_FILE
from litebert.model.hf.checkpoint import is_half, is_int8, write_folder
from litebert.model.model import Model, to_arrays
from litebert.tasks.finetune import list_labelled, open_encoder, write_evaluation
from litebert.tasks.kinds import kind_of
from litebert.tasks.linear import LINEAR_FILE
from litebert.tasks.metrics import Evaluation, measure_majority
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Dataset, hash_examples
from litebert.training.logbook import Logbook
from litebert.training.run_folder import RunFolder

__all__ = ["FITTED", "KIND", "FitResult", "fit", "write_fitted"]

KIND = "fitting"
"""What run.json calls it."""
FITTED = ("label", "labels", "number")
"""The types of answers that a linear model gives."""
_MOST_NAMED = 20  # labels, on a card
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False)
class FitResult:
    """A fitted model: metrics on the development set, on every split, and the model that answers."""

    folder: Path
    seconds: float
    metrics: dict[str, float]
    splits: dict[str, dict[str, float]] = field(default_factory=dict)
    baselines: dict[str, Any] = field(default_factory=dict)
    """What simple means get on the same data."""
    report: Path | None = None
    """The page about the model, if one was written."""

    @property
    def model(self) -> Path:
        """The model folder."""
        return RunFolder(self.folder).model

    @cached_property
    def pipeline(self) -> Pipeline:
        """The model, opened."""
        return load(self.folder)

    def predict(self, inputs: Any, pairs: Any = None) -> Any:
        """Answer a text, a pair, a dictionary with the task's columns, or a list of these."""
        return self.pipeline.predict(inputs, pairs)

    def __repr__(self) -> str:
        shown = [f"{name} {value:.4g}" for name, value in self.metrics.items()]
        return f"<{type(self).__name__} {str(self.folder)!r}: {', '.join([f'{self.seconds:.0f} s', *shown])}>"


def fit(
    data: Dataset,
    model: str,
    out: Path,
    *,
    depth: int | None = None,
    tf_idf: bool = True,
    balanced: bool = False,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
    on_evaluation: Callable[[Path, Mapping[str, Evaluation]], Path | None] = lambda folder, evaluations: None,
) -> FitResult:
    """Learn a linear model on an encoder's vectors into a new folder, and measure it on every labelled split.

    The folder appears when it is complete. `on_progress` is told how many texts have been read, and of how many;
    `on_evaluation` the folder that is being made, with metrics and predictions: it may write a report and give its
    path.
    """
    begun, task, kind = time.monotonic(), data.task, kind_of(data.task)
    if kind.answer_type not in FITTED:
        raise RequestError(f"fit is for classes and numbers, not for {task.kind}: use finetune")
    if balanced and kind.answer_type != "label":
        raise RequestError(f"--balanced is for one class of several, not for {task.kind}: leave it out")
    if out.exists():
        raise RequestError(f"{out} is there already: choose another --out")
    train, dev = list_labelled(data), data.splits.get("dev")
    open_encoder(model, depth)  # says what is wrong with it, before the work begins
    inputs = [kind.inputs(example) for example in train]
    num_texts = len(set(list_singles(inputs, task.is_pair)))
    vectors = EncoderVectors.of(
        load(model, optimized=False), depth=depth, on_progress=lambda done: on_progress(done, num_texts)
    )
    learnt = make_frozen(vectors, kind.answer_type, tf_idf, seed, balanced)
    learnt.fit(inputs, [kind.baseline_target(example) for example in train])
    baselines = {"majority": measure_majority(task, train, dev) if dev else {}}
    with new_folder(out) as staging:
        folder = RunFolder(staging)
        write_fitted(folder.model, learnt, vectors, data, model, depth)
        pipeline = load(folder.model)
        evaluations = {
            split: pipeline.evaluate(examples)
            for split, examples in data.splits.items()
            if split != "train" and examples and all(kind.gold(example) is not None for example in examples)
        }
        write_evaluation(folder, data, evaluations)
        report = on_evaluation(staging, evaluations)
        seconds = time.monotonic() - begun
        folder.write_about({"format": 1, "kind": f"litebert {KIND}", "task": task.name, "baselines": baselines})
        Logbook(staging).write("event", 0, what="finished", message=f"fitted in {seconds:.0f} s", seconds=seconds)
    metrics = {split: evaluation.metrics for split, evaluation in evaluations.items()}
    page = None if report is None else out / report.name
    return FitResult(out, seconds, metrics.get("dev", {}), metrics, baselines, page)


def write_fitted(
    folder: Path, learnt: Baseline, vectors: EncoderVectors, data: Dataset, model: str, depth: int | None = None
) -> None:
    """Write a model folder: the encoder, with so many of its layers, and what was learnt on its vectors.

    An earlier one in its place is replaced, anything else refused.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / LINEAR_FILE).is_file():
        raise RequestError(f"{folder} holds something else than a fitted model: choose another --out")
    (folder / OPTIMIZED_FILE).unlink(missing_ok=True)  # it was measured for the earlier one
    task, dev = data.task, data.splits.get("dev")
    shape, tokenizer, location = open_encoder(model, depth)
    source = Model.from_pretrained(location, VECTORS)
    encoder = Model(shape, VECTORS)
    encoder.encoder.begin_with(source.encoder)
    scale = kind_of(task).target_scale(data.splits["train"])
    linear, tf_idf = keep_frozen(learnt, vectors, task.labels, scale)
    saved = SavedTask(
        task=task,
        max_length=vectors.max_length,
        scale=scale,
        dev=hash_examples(dev) if dev else None,
        has_tf_idf=True if tf_idf is not None else None,
        tf_idf=tf_idf,
        has_linear=True,
        linear=linear,
    )
    rows = {
        "task": f"{task.name}: {kind_of(task).purpose}",
        "labels": ", ".join(task.labels[:_MOST_NAMED]) + (" …" if len(task.labels) > _MOST_NAMED else "") or "numbers",
        "examples": f"{len(data.splits['train']):,}",
        "encoder": f"{model_name(model)}, {shape.num_layers} layers, as it is",
        "its vectors": f"the mean of the last states ({shape.hidden_size}) and of the words ({shape.embedding_size})",
        "on them": "a linear model",
        **({} if tf_idf is None else {"beside them": f"tf-idf of {len(tf_idf.terms):,} words and pairs of words"}),
    }
    lines = ["## Fitting", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
    lines += [
        "",
        "`litebert.load(folder)` answers with all of it. transformers and `litebert.Model` open the encoder alone.",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers cannot open is on the card
        write_folder(
            folder,
            shape,
            VECTORS,
            to_arrays(encoder.state_dict()),
            tokenizer,
            about="\n".join(lines) + "\n",
            extra_files=saved.as_files(),
            half=is_half(resolve(location)),
            int8=is_int8(resolve(location)),
        )
