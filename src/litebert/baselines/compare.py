"""The comparison: what the field used before BERT, an encoder without pretraining, and ours, on the same examples.

Every rung learns from the same training examples (an encoder sets some of them aside to choose its checkpoint by, where
it must) and is measured on the same others by the same metrics. A practitioner should know which rung is enough; a
paper should say how far above the others it stands.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from litebert.baselines.fit import FITTED, write_fitted
from litebert.baselines.ladder import EXPLANATIONS, LADDER, make_rung
from litebert.baselines.tf_idf import learn_tf_idf
from litebert.baselines.vectors import EncoderVectors, make_frozen
from litebert.errors import RequestError
from litebert.folders import copy_files, read_json, replace_folder, write_json
from litebert.inference.load import Pipeline, load
from litebert.tasks.config import FinetuneConfig, choose_length, configure, measure_volume
from litebert.tasks.finetune import finetune, open_encoder
from litebert.tasks.kinds import kind_of
from litebert.tasks.metrics import compute_metrics, explain_metric, has_learnt, measure_majority, summarize_seeds
from litebert.tasks.outputs import score_tf_idf
from litebert.tasks.readers.sources import hold_out, is_official
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Dataset, Example, Predictions, Task
from litebert.tasks.tf_idf import TF_IDF_WEIGHT, TfIdf
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import OnStep, RunResult
from litebert.training.run_folder import RunFolder

__all__ = [
    "BESIDE",
    "FROZEN",
    "MAJORITY",
    "MIXED",
    "PRETRAINED",
    "SCRATCH",
    "Comparison",
    "compare",
    "run_encoder",
    "run_majority",
    "run_rung",
]

MAJORITY, SCRATCH, PRETRAINED = "majority", "encoder from scratch", "pretrained encoder"
FROZEN, MIXED, BESIDE = "vectors", "vectors+tf-idf", "pretrained encoder+tf-idf"
_EXPLANATIONS = {
    **EXPLANATIONS,
    MAJORITY: "the answer that is most often right, whatever is asked",
    FROZEN: "a linear model on what the encoder that was named makes of a text and of its words, as it is",
    MIXED: "a linear model on these vectors and on tf-idf",
    SCRATCH: "the same encoder and recipe, begun with random weights",
    PRETRAINED: "fine-tuned from the model that was named",
    BESIDE: "the same, and what tf-idf says added to what it says",
}
ResultRow = dict[str, Any]
"""A rung in the table: `name`, `explanation`, `score` (the value of the metric that decides) and all `metrics`; what it
took: `train_seconds`, `size_bytes`, `texts_per_second`. Encoders also have `seeds`, `score_low` and `score_high` over
them, and `only_majority`: whether they found no more than the majority. One that is kept as a model has its `folder`.
One that could not be run has a `note`."""


@dataclass(frozen=True)
class Comparison:
    """What the rungs are compared on: a task's examples, and the encoder's part."""

    data: Dataset
    split: str
    encoder: str
    config: FinetuneConfig
    tokenizer: Tokenizer
    out: Path
    num_seeds: int = 1
    depth: int | None = None

    @classmethod
    def plan(
        cls,
        data: Dataset,
        model: str,
        out: Path,
        *,
        split: str | None = None,
        num_seeds: int = 1,
        max_length: int | None = None,
        depth: int | None = None,
        **settings: Any,
    ) -> "Comparison":
        """Choose the split and the settings of the encoder, a run, a model folder or a hub name; see `configure`.

        With `depth` its vectors and what is fine-tuned are of so many of its layers.
        """
        chosen = _choose_split(data, split)
        shape, tokenizer, source = open_encoder(model, depth)
        length = choose_length(data.task, shape, max_length)
        volume = measure_volume(data.task, data.splits.get("train", ()), tokenizer, length)
        config = configure(data.task, volume, shape, source, max_length=max_length, **settings)
        return cls(data, chosen, model, config, tokenizer, out, num_seeds, depth)

    @property
    def task(self) -> Task:
        """What is asked."""
        return self.data.task

    @property
    def train(self) -> Sequence[Example]:
        """The examples to learn from."""
        return self.data.splits["train"]

    @property
    def examples(self) -> Sequence[Example]:
        """The examples that the metrics are computed on."""
        return self.data.splits[self.split]

    @property
    def rungs(self) -> list[str]:
        """The names of all rungs, from the simplest upwards."""
        answer_type = kind_of(self.task).answer_type
        frozen = (FROZEN, MIXED) if answer_type in (*FITTED, "option") else ()
        beside = (BESIDE,) if answer_type in ("label", "labels", "span") else ()
        return [MAJORITY, *LADDER[answer_type], *frozen, SCRATCH, PRETRAINED, *beside]

    @cached_property
    def vectors(self) -> EncoderVectors:
        """Of the encoder, as it is."""
        return EncoderVectors.of(load(self.config.begin_from or self.encoder, optimized=False), depth=self.depth)

    def describe(self, rows: Sequence[ResultRow]) -> dict[str, Any]:
        """The comparison as it is saved: what was asked, with which settings, and the rows of the table."""
        train = self.config.train
        epochs = None if train.steps is None else round(train.steps * train.batch_size / max(1, len(self.train)), 3)
        return {
            "task": self.task.name,
            "split": self.split,
            "metric": self.task.metric,
            "metric_says": explain_metric(self.task.metric, self.task),
            "num_examples": {"train": len(self.train), self.split: len(self.examples)},
            "settings": {
                "encoder": self.encoder,
                "steps": train.steps,
                "epochs": epochs,
                "seconds": train.seconds,
                "learning_rate": train.optim.lr,
                "batch_size": train.batch_size,
                "max_length": self.config.max_length,
                **({} if self.depth is None else {"depth": self.depth}),
                "seeds": list(range(self.num_seeds)),
            },
            "rows": list(rows),
        }


def compare(
    comparison: Comparison,
    rungs: Sequence[str] | None = None,
    on_row: Callable[[ResultRow], None] = lambda row: None,
    on_message: Callable[[str], None] = lambda message: None,
    on_step: OnStep | None = None,
    train: Callable[..., RunResult] = finetune,
) -> dict[str, Any]:
    """Run the ladder from the bottom to the top, into `compare.json`; give what that file holds.

    All rungs are run, or those that are named. A rung that cannot be run says why. `train` fine-tunes the encoder into
    a run folder; give another function with `finetune`'s parameters to leave more than that there.
    """
    unknown = sorted(set(rungs or ()) - set(comparison.rungs))
    if unknown:
        raise RequestError(f"the ladder has no rung {unknown[0]!r}: choose from {', '.join(comparison.rungs)}")
    comparison.out.mkdir(parents=True, exist_ok=True)
    rows: list[ResultRow] = []
    result = comparison.describe(rows)
    _refuse_another(comparison.out / "compare.json", result)
    for name in comparison.rungs:
        if rungs is not None and name not in rungs:
            continue
        on_message(f"{name} …")
        if name == MAJORITY:
            row = run_majority(comparison)
        elif name in (SCRATCH, PRETRAINED, BESIDE):
            row = run_encoder(comparison, name, on_step, train)
        else:
            try:
                row = run_rung(comparison, name)
            except RequestError as error:  # a library that is not installed
                row = {"name": name, "score": None, "note": str(error)}
        rows.append(row)
        on_row(row)
        result = comparison.describe(rows)
        write_json(comparison.out / "compare.json", result)
    return result


def _refuse_another(file: Path, result: dict[str, Any]) -> None:
    """Refuse a folder with the models of another task, or of other examples."""
    if not file.is_file():
        return
    there = read_json(file)
    if any(there.get(name) != result[name] for name in ("task", "num_examples")):
        raise RequestError(f"{file.parent} holds a comparison of {there.get('task')}: choose another --out")


def run_majority(comparison: Comparison) -> ResultRow:
    """Measure the answer that is most often right."""
    begun = time.perf_counter()
    metrics = measure_majority(comparison.task, comparison.train, comparison.examples)
    seconds = time.perf_counter() - begun
    return _make_row(comparison, MAJORITY, metrics, seconds, 0, len(comparison.examples) / max(seconds, 1e-9))


def run_rung(comparison: Comparison, name: str, seed: int = 0) -> ResultRow:
    """Train and measure one of the baselines."""
    kind = kind_of(comparison.task)
    is_frozen = name in (FROZEN, MIXED)
    rung = (
        make_frozen(comparison.vectors, kind.answer_type, name == MIXED, seed)
        if is_frozen
        else make_rung(name, kind.answer_type, seed)
    )

    def clock() -> float:
        return time.perf_counter() + (comparison.vectors.saved_seconds if is_frozen else 0.0)

    begun = clock()
    targets = [kind.baseline_target(example) for example in comparison.train]
    rung.fit([kind.inputs(example) for example in comparison.train], targets)
    trained = clock()
    answers = rung.predict([kind.inputs(example) for example in comparison.examples])
    rate = len(answers) / max(clock() - trained, 1e-9)
    predictions = Predictions(tuple(map(kind.read_baseline, answers)))
    metrics = compute_metrics(comparison.task, comparison.examples, predictions)
    row = _make_row(comparison, name, metrics, trained - begun, rung.size_bytes, rate)
    if not is_frozen or kind.answer_type not in FITTED:
        return row
    folder = comparison.out / name
    write_fitted(folder, rung, comparison.vectors, comparison.data, comparison.encoder, comparison.depth)
    return row | {"folder": str(folder)}


def run_encoder(
    comparison: Comparison,
    name: str,
    on_step: OnStep | None = None,
    train: Callable[..., RunResult] = finetune,
) -> ResultRow:
    """Fine-tune and measure with each seed; the row has the median, and the spread beside it.

    With words beside it, it is the pretrained one's runs that answer, and nothing is trained twice.

    Where the metrics are computed on development examples, the encoder chooses its checkpoint (and threshold) on a
    tenth of its training examples instead, which it does not learn from. The other rungs choose nothing, and learn
    from all; so do words beside it, once their weight is chosen.
    """
    task, data = comparison.task, comparison.data
    if comparison.split == "dev":
        learnt, dev = hold_out(task, comparison.train)
        data = Dataset(task, {"train": learnt, "dev": dev}, data.num_skipped)
    metrics: dict[int, dict[str, float]] = {}
    saved: dict[int, SavedTask] = {}
    seconds, rates, size = [], [], 0
    words: tuple[TfIdf, TfIdf] | None = None
    words_seconds = 0.0
    if name == BESIDE:
        begun = time.perf_counter()
        whole = learn_tf_idf(task, comparison.train)
        words = whole if data is comparison.data else learn_tf_idf(task, data.splits["train"]), whole
        words_seconds = time.perf_counter() - begun
    for seed in range(comparison.num_seeds):
        folder = _folder_of(comparison, name, seed)
        config = _with_seed(comparison.config, seed, None if name == SCRATCH else comparison.config.begin_from)
        resume = RunFolder(folder).exists
        outcome = train(data, folder, config, comparison.tokenizer, resume=resume, on_step=on_step)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        pipeline = load(folder) if words is None else _open_beside(folder, words, data.splits.get("dev"))
        saved[seed] = pipeline.members[0].task
        begun = time.perf_counter()
        metrics[seed] = pipeline.evaluate(comparison.examples).metrics
        rates.append(len(comparison.examples) / max(time.perf_counter() - begun, 1e-9))
        seconds.append(outcome.seconds + words_seconds)
        size = (RunFolder(folder).model / "model.safetensors").stat().st_size
        size += 0 if words is None else len(words[1].to_bytes())
    values = {seed: found[task.metric] for seed, found in metrics.items()}
    summary = summarize_seeds(values, None)
    middle = min(values, key=lambda seed: abs(values[seed] - summary["median"]))
    row = _make_row(comparison, name, metrics[middle], statistics.median(seconds), size, statistics.median(rates))
    folder = _folder_of(comparison, name, middle)
    if words is not None:
        folder = _keep(RunFolder(folder).model, saved[middle], comparison.out / BESIDE.replace(" ", "-"))
    majority = measure_majority(task, comparison.train, comparison.examples)[task.metric]
    return row | {
        "score": summary["median"],
        "seeds": summary["seeds"],
        "score_low": summary["lowest"] if comparison.num_seeds > 1 else None,
        "score_high": summary["highest"] if comparison.num_seeds > 1 else None,
        "only_majority": not has_learnt(summary["median"], majority),
        "folder": str(folder),
    }


def _folder_of(comparison: Comparison, name: str, seed: int) -> Path:
    """The run of an encoder; words stand beside the pretrained one's."""
    return comparison.out / (SCRATCH if name == SCRATCH else PRETRAINED).replace(" ", "-") / f"seed-{seed}"


def _open_beside(folder: Path, words: tuple[TfIdf, TfIdf], dev: Sequence[Example] | None) -> Pipeline:
    """A fine-tuned model with words beside it.

    How much words weigh is chosen on development examples, which the first of `words` has not seen, as fine-tuning with
    words would. The second has learnt from all that there is, and answers.
    """
    pipeline = load(folder)
    task, kind, weight = pipeline.task, kind_of(pipeline.task), TF_IDF_WEIGHT
    partial, whole = words
    if dev:
        outputs, _ = _add_words(pipeline, partial.scaled(0.0)).run(dev)
        said = score_tf_idf(partial, task, dev)
        weight = kind.weigh_words(task, dev, outputs, said)
        outputs = [kind.add_words(output, one, weight) for output, one in zip(outputs, said, strict=True)]
        pipeline = replace(pipeline, threshold=kind.choose_threshold(task, dev, outputs))
    return _add_words(pipeline, whole.scaled(weight))


def _add_words(pipeline: Pipeline, words: TfIdf) -> Pipeline:
    (member,) = pipeline.members
    kept = {"tf_idf": words, "has_tf_idf": True, "threshold": pipeline.threshold}
    saved = member.task.model_copy(update=kept)
    return replace(pipeline, members=(replace(member, saved=saved),))


def _keep(model: Path, saved: SavedTask, folder: Path) -> Path:
    """Write a run's model again, with words beside it."""
    with replace_folder(folder) as staging:
        copy_files(model, staging)
        for name, content in saved.as_files().items():
            (staging / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def _make_row(
    comparison: Comparison, name: str, metrics: dict[str, float], seconds: float, size: int, rate: float
) -> ResultRow:
    return {
        "name": name,
        "explanation": _EXPLANATIONS[name],
        "score": metrics[comparison.task.metric],
        "metrics": metrics,
        "train_seconds": seconds,
        "size_bytes": size,
        "texts_per_second": rate,
    }


def _with_seed(config: FinetuneConfig, seed: int, begin_from: str | None) -> FinetuneConfig:
    train = config.train.model_copy(update={"seed": seed})
    return config.model_copy(update={"train": train, "begin_from": begin_from})


def _choose_split(data: Dataset, wanted: str | None) -> str:
    """The split to measure on: one that was named; of a user's own data the test file if there is one; else dev."""
    own_test = not is_official(data.task) and "test" in data.splits
    split = wanted or ("test" if own_test else "dev")
    examples = data.splits.get(split)
    if not examples:
        there = ", ".join(data.splits)
        raise RequestError(f"{data.task.name} has no split {split!r} here: there are {there}")
    if any(kind_of(data.task).gold(example) is None for example in examples):
        raise RequestError(f"the answers of {data.task.name}'s split {split!r} are not known: choose another --split")
    return split
