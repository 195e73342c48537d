"""Recipes: a complete configuration from a few wishes.

`paper_run` is the paper's, at any batch. `budget_run` is for hours or minutes on the hardware at hand; its choices were
made by trials at equal time on held-out text (`benchmarks/recipe.py`; docs/LOG.md says what lost).
"""

from itertools import accumulate

from litebert.config import ModelConfig
from litebert.corpus.examples import Pairs
from litebert.corpus.stream import StreamConfig
from litebert.model.cost import forward_flops, training_memory
from litebert.pretraining.config import PretrainConfig
from litebert.training.config import Stage, TrainConfig
from litebert.training.optim import OptimConfig, paper_recipe

__all__ = ["budget_run", "paper_run"]

PAPER_BATCH, PAPER_STEPS, PAPER_LENGTH = 4096, 125_000, 512
BUDGET_LENGTH = 128
_TOKENS = 2048  # of a step in a run on a budget
_DEPTHS = (1, 2, 3, 6)  # of a model of six layers, a quarter of the time each
_PASS_SECONDS = 600.0  # that are enough for one pass, on two cores
_COMPARING_FROM = 0.9  # of a run
_MOST_ACTIVATIONS = 2_000_000_000  # bytes that a micro-batch may keep for its backward pass
_USUAL_RATE, _EVALUATION_SHARE = 1e11, 0.015  # operations per second of two cores, and what an evaluation may take
_COUNTED_PER_SECOND, _MOST_COUNTED = 15_000, 30_000_000  # tokens for word vectors: a twentieth of the time, about
_SHORT_RUN = 120.0  # seconds that a run of so many steps is taken for
_REPLACED_RATE = 0.12
_WORTH_REPLACING = 20 * 60.0  # seconds of a run in which telling replaced words apart repays its time
_WORTH_COMPILING = 1800.0  # seconds of a run in which kernels that are a tenth faster repay being compiled


def paper_run(
    model: ModelConfig,
    steps: int = PAPER_STEPS,
    batch_size: int = PAPER_BATCH,
    length: int | None = None,
    pairs: Pairs = "sop",
) -> PretrainConfig:
    """The paper's pretraining: LAMB, full depth from the first step; another batch size moves the learning rate."""
    length = length or min(PAPER_LENGTH, model.max_positions)
    return PretrainConfig(
        model=model,
        stream=StreamConfig(length=length, pairs=pairs),
        train=TrainConfig(
            steps=steps,
            batch_size=batch_size,
            micro_batch_size=rows_that_fit(model, length),
            optim=paper_recipe(batch_size),
        ),
    )


def budget_run(
    model: ModelConfig,
    seconds: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    length: int | None = None,
    pairs: Pairs = "nsp",
) -> PretrainConfig:
    """A run for a time (or a number of steps) that is short: a head start, few passes first, AdamW.

    Whether two segments go together is learnt in minutes, their order is not in 47: hence the pairs.
    """
    length = length or min(BUDGET_LENGTH, model.max_positions)
    model = model.updated(initializer_range=0.8 / model.hidden_size**0.5)
    rows = batch_size or max(1, _TOKENS // length)
    return PretrainConfig(
        model=model,
        stream=StreamConfig(length=length, pairs=pairs),
        train=TrainConfig(
            steps=steps,
            seconds=seconds,
            batch_size=rows,
            micro_batch_size=rows_that_fit(model, length),
            stages=_growing_stages(model, pairs, seconds),
            optim=OptimConfig(optimizer="adamw", lr=1e-3, warmup=0.05),
            compiled=seconds is not None and seconds >= _WORTH_COMPILING,
            evaluations=20 if seconds is None else min(20, max(4, round(seconds / 30))),
        ),
        head_start=True,
        replaced_rate=_REPLACED_RATE if seconds is not None and seconds >= _WORTH_REPLACING else 0.0,
        counted_tokens=min(_MOST_COUNTED, round(_COUNTED_PER_SECOND * (seconds or _SHORT_RUN))),
        held_out_rows=_choose_held_out_rows(model, length, seconds),
    )


def _choose_held_out_rows(model: ModelConfig, length: int, seconds: float | None) -> int:
    """Rows of held-out text: few where time is short, so that one evaluation takes a small share of it."""
    if seconds is None or seconds >= 600:
        return 256
    rows, cost = 128, forward_flops(model, length) * length / _USUAL_RATE
    while rows > 32 and rows * cost > _EVALUATION_SHARE * seconds:
        rows //= 2
    return rows


def _growing_stages(model: ModelConfig, pairs: Pairs, seconds: float | None) -> tuple[Stage, ...]:
    """Few passes first, where layers are shared or can be copied: more steps in a time, the plateau left sooner.

    All depths get the same time, but a pass that has learnt what it can for ten minutes goes on to the next.

    Where there are pairs, the last steps, whose rate is low, begin with a head that compares the segments: before, it
    would be forgotten.
    """
    stages: tuple[Stage, ...] = (Stage(),)
    if model.sharing in ("all", "none"):
        depths = sorted({max(1, round(depth * model.num_layers / 6)) for depth in _DEPTHS})
        longest = [depth * _PASS_SECONDS / seconds if seconds else 1.0 for depth in depths]
        shares = [min(1 / len(depths), share) for share in longest[:-1]]
        ends = [*accumulate(shares), 1.0]
        stages = tuple(Stage(until=end, depth=depth) for end, depth in zip(ends, depths, strict=True))
    if pairs == "none":
        return stages
    last = stages[-1].model_copy(update={"until": _COMPARING_FROM})
    return (*stages[:-1], last, Stage(depth=last.depth, matching_head=True))


def rows_that_fit(model: ModelConfig, length: int) -> int:
    """Rows whose backward pass keeps at most 2 GB, a power of two; the same on every machine, so that runs repeat."""
    rows = 1
    while rows < 65536 and training_memory(model, 2 * rows, length).activations <= _MOST_ACTIVATIONS:
        rows *= 2
    return rows
