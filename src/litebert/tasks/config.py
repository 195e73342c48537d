"""`FinetuneConfig`: all that decides what a fine-tuning run does, in one record that is saved with it.

`configure` makes one from a task's recipe and a few wishes. `SavedTask` is what a finished model remembers of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from litebert.config import Head, ModelConfig
from litebert.errors import RequestError
from litebert.model.cost import forward_flops
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import EncodeOptions, TargetScale, WindowConfig
from litebert.tasks.task import ChoiceExample, Example, Recipe, Task
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import RunConfig, TrainConfig
from litebert.training.optim import OptimConfig

__all__ = [
    "FinetuneConfig",
    "Volume",
    "choose_length",
    "configure",
    "measure_volume",
]

_MOST_EVALUATIONS = 10
_WORTH_COMPILING = 2e14  # operations of a run in which kernels that are a tenth faster repay being compiled
_SAMPLE = 256  # examples that say how long rows are
_USUAL_SIZE = 768
_LEAST_STEPS = 150  # of a run whose length nobody named


class FinetuneConfig(RunConfig):
    """A model, a task, and how the one is trained for the other."""

    task: Task
    begin_from: str | None = None
    """The folder or hub model whose encoder to begin with; None for random weights."""
    frozen: bool = False
    """Leave embeddings and layers as they are, and train what stands on them alone."""
    elastic: bool = False
    """Learn to answer after every pass, not after the last one alone."""
    max_length: Annotated[int, Field(ge=4, le=65536)] = 512
    """Tokens of a row."""
    windows: WindowConfig | None = None
    """Questions: how contexts are cut."""
    teacher: str | None = None
    """A model that was fine-tuned for the task: what it says about the examples is learnt, beside their labels."""
    scale: TargetScale | None = None
    """Numbers: what they are like, so that they can be learnt as numbers about 0."""
    learns_answerability: bool = True
    """Questions that may have no answer: with a head of their own (the paper's), or with the plain one."""
    tf_idf: bool = False
    """Classes and questions: count words beside the encoder, and add what they say to what it says."""
    class_weights: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    """What each label counts in the loss; None if all count alike."""

    lengths_vary: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits_together(self) -> "FinetuneConfig":
        longest = max(self.max_length, self.windows.max_length if self.windows else 0)
        if longest > self.model.max_positions:
            raise ValueError(f"max_length {longest} is beyond the model's {self.model.max_positions} positions")
        if any(stage.depth is not None for stage in self.train.stages):
            raise ValueError("fine-tuning runs at the model's own depth: leave the depth of stages out")
        if self.class_weights is not None and len(self.class_weights) != len(self.task.labels):
            raise ValueError(f"there are {len(self.class_weights)} class weights for {len(self.task.labels)} labels")
        return self

    @property
    def head(self) -> Head:
        """What stands on the encoder."""
        return kind_of(self.task).head(self.task, plain=not self.learns_answerability)

    @property
    def output_scale(self) -> TargetScale | None:
        """How the finished model's outputs become targets; None where its head says them as they are."""
        return None if self.head == "sequence-classification" else self.scale

    @property
    def options(self) -> EncodeOptions:
        """How texts are encoded."""
        options = EncodeOptions(self.max_length, self.windows)
        return options.beside_words() if self.tf_idf else options


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
    elastic: bool = False,
    patience: int | None = None,
    answerability: bool = True,
    class_weights: Sequence[float] | None = None,
    teacher: str | None = None,
    tf_idf: bool = False,
) -> FinetuneConfig:
    """A complete configuration from a task's recipe and a few wishes.

    The recipes of official tasks are the paper's, as they stand, for encoders of the paper's sizes. Smaller encoders,
    and all encoders on your own tables, train for three epochs (150 steps at least) at a rate that follows their size:
    5e-5 at a hidden size of 768, as is usual, and 3e-4 at 256, as small ones want it.

    Of `steps`, `epochs` and `seconds` the one that is given decides how long to train; otherwise the recipe does. An
    epoch is `volume`: what `measure_volume` counts, or a number of examples of one row each.
    """
    recipe, kind = _choose_recipe(task, shape), kind_of(task)
    volume = Volume(volume) if isinstance(volume, int) else volume
    size = batch_size or recipe.batch_size
    per_epoch = max(1, -(-volume.num_items // size))
    if epochs is None and steps is None and seconds is None:
        steps, epochs = recipe.steps, None if recipe.steps is not None else recipe.epochs
        if epochs is not None:  # few examples are seen more often
            steps, epochs = max(_LEAST_STEPS, round(epochs * per_epoch)), None
    if epochs is not None:
        steps = max(1, round(epochs * per_epoch))
    warmup = 0.1
    if recipe.warmup_steps is not None and recipe.steps is not None:
        warmup = recipe.warmup_steps / recipe.steps
    length = choose_length(task, shape, max_length)
    model = shape.updated(
        hidden_dropout=recipe.dropout, attention_dropout=recipe.dropout, **kind.model_settings(task, length)
    )
    return FinetuneConfig(
        model=model,
        task=task,
        begin_from=begin_from,
        frozen=frozen,
        elastic=elastic,
        max_length=length,
        windows=kind.options(length).windows,
        learns_answerability=answerability,
        class_weights=None if class_weights is None else tuple(class_weights),
        teacher=teacher,
        tf_idf=tf_idf,
        train=TrainConfig(
            steps=None if seconds is not None else steps,
            seconds=seconds,
            batch_size=size,
            optim=OptimConfig(optimizer="adamw", lr=_usual_rate(recipe, shape) if lr is None else lr, warmup=warmup),
            compiled=steps is not None and steps * size * _operations(model, volume, length) >= _WORTH_COMPILING,
            seed=seed,
            evaluations=_choose_evaluations(steps / per_epoch if steps is not None else None, seconds),
            patience=patience,
            keep=1,
        ),
    )


def _choose_evaluations(epochs: float | None, seconds: float | None) -> int:
    """How often to measure the development set: twice an epoch, or once in half a minute; between 2 and 10 times.

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
    kind = kind_of(task)
    looked_at = examples if kind.splits_rows else examples[:_SAMPLE]
    features = kind.encode(task, looked_at, tokenizer, kind.options(length))
    tokens = float(features.row_lengths.mean()) if len(features.ends) else None
    options = [len(example.options) for example in examples if isinstance(example, ChoiceExample)]
    return Volume(features.num_items if kind.splits_rows else len(examples), max(options, default=1), tokens)


def _operations(model: ModelConfig, volume: Volume, length: int) -> float:
    """What it takes to learn from one item, about."""
    tokens = min(volume.tokens_per_row or length, length)
    return 3 * forward_flops(model, max(1, round(tokens))) * tokens * volume.rows_per_item


def _choose_recipe(task: Task, shape: ModelConfig) -> Recipe:
    """The paper's for its tasks and sizes: 20,935 steps at 1e-5 teach a small encoder little in a long time."""
    if task.recipe.steps is None or shape.hidden_size >= _USUAL_SIZE:
        return task.recipe
    return Recipe(max_length=task.recipe.max_length)


def _usual_rate(recipe: Recipe, shape: ModelConfig) -> float:
    if recipe.steps is not None:
        return recipe.lr
    scale: float = (_USUAL_SIZE / shape.hidden_size) ** 1.6
    return float(f"{min(1e-3, recipe.lr * scale):.1g}")
