"""A fine-tuning run: examples, an encoder to begin with, a configuration; `litebert.training.run` does the rest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.folders import locate_model
from litebert.model.cost import forward_flops
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.encoding import encode
from litebert.tasks.job import Finetuning, Split
from litebert.tasks.metrics import gold_answer, majority_score
from litebert.tasks.saved import hash_examples
from litebert.tasks.scale import ScoreScale
from litebert.tasks.task import ChoiceExample, Dataset, Example, Recipe, Task
from litebert.tasks.windows import WindowConfig
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import TrainConfig
from litebert.training.distributed import World
from litebert.training.job import OnMessage, OnStep, RunResult
from litebert.training.optim import OptimConfig
from litebert.training.run import train as train_job

__all__ = [
    "Volume",
    "choose_length",
    "configure",
    "finetune",
    "make_model",
    "measure_volume",
    "open_encoder",
]

_TOKENS_AT_ONCE = 16_384  # of a step that a process runs together, if all rows were of full length
_MOST_EVALUATIONS = 10
_WORTH_COMPILING = 2e14  # operations of a run in which kernels that are a tenth faster repay being compiled
_SAMPLE = 256  # examples that say how long rows are
_USUAL_SIZE = 768


@dataclass(frozen=True)
class Volume:
    """How much there is to learn from."""

    num_items: int
    rows_per_item: int = 1
    """Of a multiple choice, the options."""
    tokens_per_row: float | None = None
    """On average; full rows are assumed if it is not known."""


def configure(
    task: Task,
    volume: Volume | int,
    shape: ModelConfig,
    begin_from: str | None,
    *,
    steps: int | None = None,
    epochs: float | None = None,
    seconds: float | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    max_length: int | None = None,
    seed: int = 0,
    frozen: bool = False,
    patience: int | None = None,
    answerability: bool = True,
) -> FinetuneConfig:
    """A complete configuration from a task's recipe and a few wishes.

    The recipes of official tasks are the paper's, as they stand. Others' learning rate follows the size of the encoder:
    5e-5 at a hidden size of 768, as is usual, and 3e-4 at 256, as small encoders want it.

    Of `steps`, `epochs` and `seconds` the one that is given decides how long to train; otherwise the recipe does. An
    epoch is `volume`: what `measure_volume` counts, or a number of examples of one row each.
    """
    recipe = task.recipe
    volume = Volume(volume) if isinstance(volume, int) else volume
    size = batch_size or recipe.batch_size
    per_epoch = max(1, -(-volume.num_items // size))
    if epochs is None and steps is None and seconds is None:
        steps, epochs = recipe.steps, None if recipe.steps is not None else recipe.epochs
    if epochs is not None:
        steps = max(1, round(epochs * per_epoch))
    warmup = 0.1
    if recipe.warmup_steps is not None and recipe.steps is not None:
        warmup = recipe.warmup_steps / recipe.steps
    length = choose_length(task, shape, max_length)
    model = shape.updated(
        labels=("score",) if task.kind == "regression" else task.labels,
        problem_type=task.problem_type,
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.dropout,
    )
    return FinetuneConfig(
        model=model,
        task=task,
        begin_from=begin_from,
        frozen=frozen,
        max_length=length,
        windows=_fit_windows(length) if task.kind == "questions" else None,
        learns_answerability=answerability,
        train=TrainConfig(
            steps=None if seconds is not None else steps,
            seconds=seconds,
            batch_size=size,
            micro_batch_size=max(1, _TOKENS_AT_ONCE // (length * volume.rows_per_item)),
            optim=OptimConfig(optimizer="adamw", lr=_usual_rate(recipe, shape) if lr is None else lr, warmup=warmup),
            compiled=steps is not None and steps * size * _operations(model, volume, length) >= _WORTH_COMPILING,
            seed=seed,
            evaluations=_choose_evaluations(steps / per_epoch if steps is not None else None, seconds),
            patience=patience,
            keep=1,
        ),
    )


def _choose_evaluations(epochs: float | None, seconds: float | None) -> int:
    """How often to score the development set: twice an epoch, or once in half a minute; between 2 and 10 times.

    >>> _choose_evaluations(3.0, None), _choose_evaluations(50.0, None), _choose_evaluations(None, 45.0)
    (6, 10, 2)
    """
    times = seconds / 30 if seconds is not None else 2 * (epochs or 1.0)
    return int(min(_MOST_EVALUATIONS, max(2, round(times))))


def choose_length(task: Task, shape: ModelConfig, wanted: int | None = None) -> int:
    """Tokens of a row: what is wanted, or the recipe's as far as the encoder goes."""
    if wanted is not None and wanted > shape.max_positions:
        raise RequestError(f"rows of {wanted} tokens do not fit: this encoder has {shape.max_positions} positions")
    return wanted or min(task.recipe.max_length, shape.max_positions)


def measure_volume(task: Task, examples: Sequence[Example], tokenizer: Tokenizer, length: int) -> Volume:
    """How many items the examples give: long contexts and long sentences are several."""
    if not examples:
        return Volume(0)
    windows = _fit_windows(length) if task.kind == "questions" else None
    has_more_rows = task.kind in ("questions", "tagging")
    rows = encode(task, examples if has_more_rows else examples[:_SAMPLE], tokenizer, length, windows).rows
    tokens = float(rows.row_lengths.mean()) if len(rows.ends) else None
    options = [len(example.options) for example in examples if isinstance(example, ChoiceExample)]
    return Volume(rows.num_items if has_more_rows else len(examples), max(options, default=1), tokens)


def _operations(model: ModelConfig, volume: Volume, length: int) -> float:
    """What it takes to learn from one item, about."""
    tokens = min(volume.tokens_per_row or length, length)
    return 3 * forward_flops(model, max(1, round(tokens))) * tokens * volume.rows_per_item


def _usual_rate(recipe: Recipe, shape: ModelConfig) -> float:
    if recipe.steps is not None:
        return recipe.lr
    scale: float = (_USUAL_SIZE / shape.hidden_size) ** 1.6
    return float(f"{min(1e-3, recipe.lr * scale):.1g}")


def _fit_windows(length: int) -> WindowConfig:
    """The paper's windows, smaller where rows are short."""
    query = min(64, max(1, (length - 3) // 3))
    return WindowConfig(max_length=length, max_query=query, stride=max(1, min(128, (length - query) // 2)))


def finetune(
    data: Dataset,
    out: Path,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    *,
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Train an encoder for a task, into a run folder; the best weights on the development set are its model.

    Under torchrun every process calls this alike. Without a development split the last weights are the model.
    """
    train = data.splits.get("train")
    if not train:
        raise RequestError(f"{config.task.name} has no training examples here: nothing can be learnt from them")
    unlabelled = next((example for example in train if gold_answer(example) is None), None)
    if unlabelled is not None:
        name = unlabelled.place or f"training example {unlabelled.id!r}"
        raise RequestError(f"{name} has no label to learn: add it, or leave such examples out")
    if config.task.kind == "regression":
        config = config.model_copy(update={"scale": ScoreScale.of(train)})
    job = _Job(data, config, tokenizer)
    return train_job(job, config, out, resume=resume, on_step=on_step, on_message=on_message, clock=clock)


class _Job(Finetuning):
    """A fine-tuning job that knows its data before it has a model."""

    def __init__(self, dataset: Dataset, config: FinetuneConfig, tokenizer: Tokenizer) -> None:
        self.dataset, self.config, self.tokenizer = dataset, config, tokenizer
        train, dev = dataset.splits["train"], dataset.splits.get("dev")
        self.data = {"examples": hash_examples(train), "dev": hash_examples(dev or ())}

    def describe_run(self) -> dict[str, Any]:
        """Sizes of the splits, and what always giving the most frequent answer gets."""
        splits = self.dataset.splits
        dev = splits.get("dev")
        return {
            "examples": {name: len(examples) for name, examples in splits.items()},
            "num_skipped": self.dataset.num_skipped,
            "baselines": {"majority": majority_score(self.config.task, splits["train"], dev) if dev else {}},
        }

    def setup(self, world: World, config: FinetuneConfig, fresh: bool, on_message: OnMessage) -> None:
        """Build the model, and encode the examples."""

        def split(examples: Sequence[Example]) -> Split:
            return Split(examples, encode(config.task, examples, self.tokenizer, config.max_length, config.windows))

        train, dev = self.dataset.splits["train"], self.dataset.splits.get("dev")
        model, learnt = make_model(config, fresh), split(train)
        if config.scale is not None and learnt.encoded.rows.labels is not None:
            labels = config.scale.shrink(learnt.encoded.rows.labels)
            learnt = Split(train, replace(learnt.encoded, rows=replace(learnt.encoded.rows, labels=labels)))
        super().__init__(model, self.tokenizer, config, world, learnt, split(dev) if dev else None)


def make_model(config: FinetuneConfig, fresh: bool = True) -> Model:
    """An encoder with the head of the task: pretrained and fresh on top, or all drawn; the same for the same seed."""
    torch.manual_seed(config.train.seed)
    if config.begin_from is None or not fresh:
        return Model(config.model, config.head)
    pretrained = Model.from_pretrained(config.begin_from, config.head, labels=config.model.labels)
    model = Model(config.model, config.head)  # dropout is the task's, and so is the head, whatever came before
    model.encoder.load_state_dict(pretrained.encoder.state_dict())
    return model


def open_encoder(name: str) -> tuple[ModelConfig, Tokenizer, str | None]:
    """Configuration, tokenizer and path or hub name of a pretrained encoder; a preset has no tokenizer: refused."""
    if name in PRESETS and not Path(name).is_dir():
        raise RequestError(f"{name} is a preset without a vocabulary: pretrain it first, or name a model folder")
    folder = locate_model(name)
    config = Model.read_config(folder)  # first, because what is missing is then called a model
    path = str(Path(folder).resolve()) if Path(folder).is_dir() else str(folder)
    return config, Tokenizer.from_pretrained(folder), path
