"""What a run will take, before it runs: memory by arithmetic, speed by a few real steps on this machine.

`make_plan` and `measure_plan` are about a preset at one shape, `recommend` chooses a preset for a time, and `plan_run`
goes through the stages of a run that is configured. `plan_cluster` is about many workers (`cluster.py`).
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.cost import (
    MASKED_SHARE,
    TrainingMemory,
    count_encoder_parameters,
    count_pretraining_parameters,
    training_flops,
    training_memory,
)
from litebert.planning import cluster
from litebert.presets import preset_config
from litebert.runtime import available_memory

if TYPE_CHECKING:
    from litebert.training.config import TrainConfig

__all__ = [
    "Plan",
    "Recommendation",
    "make_plan",
    "measure_plan",
    "measure_speed",
    "plan_cluster",
    "plan_run",
    "preset_config",
    "recommend",
]

LADDER = ("albert-mini", "albert-base", "albert-large", "albert-xlarge", "albert-xxlarge")
"""What `recommend` chooses from, small to large."""
FEWEST_STEPS = 5_000
"""A shared encoder needs some thousands of updates to predict more than frequent tokens."""
SMALLEST_BATCH = 4_096
"""Tokens in a step, at least."""
MEASURED_ROUNDS, MEASURED_SECONDS = 7, 10.0
"""How often each depth is timed, and when to stop earlier."""
MOST_EPOCHS = 40
"""Times that the same text is worth reading; each pass masks other tokens."""


@dataclass(frozen=True)
class Plan:
    """A preset at a shape: what it needs, and how fast this machine is at it (None where it was not measured)."""

    preset: str
    batch: int
    length: int
    recompute: bool
    encoder_parameters: int
    pretraining_parameters: int
    flops_per_token: float
    memory: TrainingMemory
    memory_recomputing: TrainingMemory
    tokens_per_second: float | None

    def seconds(self, tokens: int) -> float | None:
        """How long `tokens` tokens of pretraining take."""
        return None if self.tokens_per_second is None else tokens / self.tokens_per_second

    def as_json(self) -> dict[str, Any]:
        """The plan as plain numbers, sums included."""
        sums = {
            name: asdict(memory) | {"total": memory.total, "process": memory.process}
            for name, memory in (("memory", self.memory), ("memory_recomputing", self.memory_recomputing))
        }
        return asdict(self) | sums


@dataclass(frozen=True)
class Recommendation:
    """What to train in a given time on a given corpus, and why.

    A batch larger than `sequences_at_once` is accumulated from micro-batches of that size; `memory` is for one of them.
    """

    preset: str
    batch: int
    length: int
    steps: int
    tokens: int
    epochs: float
    seconds: float
    sequences_at_once: int
    memory: int
    reason: str


def make_plan(preset: str, batch: int, length: int, recompute: bool = False) -> Plan:
    """Say what pretraining `preset` at this shape takes, by arithmetic alone."""
    config = _config_for(preset, length)
    plain, recomputing = (training_memory(config, batch, length, choice) for choice in (False, True))
    return Plan(
        preset=preset,
        batch=batch,
        length=length,
        recompute=recompute,
        encoder_parameters=count_encoder_parameters(config),
        pretraining_parameters=count_pretraining_parameters(config),
        flops_per_token=training_flops(config, length),
        memory=plain,
        memory_recomputing=recomputing,
        tokens_per_second=None,
    )


def _config_for(preset: str, length: int) -> ModelConfig:
    config = preset_config(preset)
    if length > config.max_positions:
        raise RequestError(f"{preset} reads at most {config.max_positions} tokens, so length {length} cannot work")
    return config


def plan_cluster(
    preset: str | None,
    batch: int,
    length: int,
    workers: int,
    link_bits: float,
    rate: float | None = None,
    before_measuring: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """What a step takes on many workers: of a preset and its twin of the other family, or of the paper's models.

    `rate` is what one worker computes. Without it a worker is this machine, and updates, copies and latency cost what
    they do between two CPUs. With it a worker is an accelerator to which they are nothing.
    """
    names = list(cluster.PAPER_SPEEDUPS) if preset is None else [preset]
    config = [_config_for(name, length) for name in names][-1 if preset else names.index("albert-base")]
    cluster.check_shares(batch, workers)
    measured = rate is None
    if rate is None:
        before_measuring()
        rows = max(1, min(batch // workers, 2048 // length))
        speed = measure_speed(config, rows, length)
        if speed is None:
            raise RequestError("there is not enough free memory to measure this here: say what a worker does by --rate")
        rate = speed * training_flops(config, length)
    worker, link = cluster.Worker(rate), cluster.Link(link_bits, cluster.EFFICIENCY, overlap=cluster.OVERLAP)
    if measured:
        worker = replace(worker, update=cluster.UPDATE, fixed=cluster.FIXED)
        link = replace(link, latency=cluster.LATENCY, copying=cluster.COPYING)
    rows_of_table = cluster.compare_presets(names, batch, length, workers, worker, link, lean=measured)
    about = {"workers": workers, "link_bits": link_bits, "rate": rate, "measured": measured}
    return about | {"batch": batch, "length": length, "rows": rows_of_table}


def measure_plan(plan: Plan) -> Plan:
    """The same plan with the speed of this machine, from a few real steps."""
    speed = measure_speed(preset_config(plan.preset), plan.batch, plan.length, plan.recompute)
    return replace(plan, tokens_per_second=speed)


def measure_speed(config: ModelConfig, batch: int, length: int, recompute: bool = False) -> float | None:
    """Tokens per second of pretraining, from steps at one and at three layers; None where even those do not fit.

    Layers cost the same, so the time of L layers follows from that of a few: seconds suffice for the largest model.
    """
    few = min(3, config.num_layers)
    shallow = config.updated(num_layers=few, num_groups=min(few, config.num_groups))
    if training_memory(shallow, batch, length, recompute).process > 0.9 * available_memory():
        return None
    one, several = _time_steps(shallow, batch, length, recompute, depths=(1, few))
    per_layer = max(several - one, 0.0) / max(few - 1, 1)
    growth = count_pretraining_parameters(config) / count_pretraining_parameters(shallow)
    update = _time_update(shallow) * (growth - 1)
    return batch * length / (one + (config.num_layers - 1) * per_layer + update)


def _time_steps(
    config: ModelConfig, batch: int, length: int, recompute: bool, depths: tuple[int, ...]
) -> tuple[float, ...]:
    """Median seconds of real steps (loss, gradient, AdamW) at some depths, in turns, on random ids."""
    import torch

    from litebert.batch import Batch
    from litebert.model.model import Model
    from litebert.training.objectives import pretraining_loss

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (batch, length), generator=generator)
    num_masked = max(1, round(length * MASKED_SHARE))
    positions = torch.rand(batch, length, generator=generator).argsort(1)[:, :num_masked]
    sentences = torch.randint(2, (batch,), generator=generator)
    data = Batch(ids, masked_positions=positions, masked_labels=ids.gather(1, positions), sentence_labels=sentences)
    model = Model(config, "pretraining")
    model.encoder.recompute = recompute
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    times: dict[int, list[float]] = {depth: [] for depth in depths}
    begin_all = time.perf_counter()
    for round_ in range(1 + MEASURED_ROUNDS):
        for depth in depths:
            begin = time.perf_counter()
            optimizer.zero_grad()
            torch.autograd.backward(pretraining_loss(model, data, depth=depth))
            optimizer.step()
            if round_ > 0:  # the first one warms up
                times[depth].append(time.perf_counter() - begin)
        if round_ > 0 and time.perf_counter() - begin_all > MEASURED_SECONDS:
            break
    return tuple(statistics.median(times[depth]) for depth in depths)


def _time_update(config: ModelConfig) -> float:
    """Seconds that AdamW takes for the parameters of `config`."""
    import torch

    size = count_pretraining_parameters(config)
    weights = torch.zeros(size, requires_grad=True)
    weights.grad = torch.zeros(size)
    optimizer = torch.optim.AdamW([weights], fused=True)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def recommend(budget_seconds: float, corpus_tokens: int) -> Recommendation:
    """Choose preset, batch, length and steps for a time and a corpus, by measured speed.

    The rule: the largest preset that still gets enough steps of enough tokens and fits into memory; short sequences
    unless there is time for long ones; larger batches as there are more tokens; no more than `MOST_EPOCHS` passes.
    """
    length = 512 if budget_seconds >= 5 * 24 * 3600 else 128
    limit = MOST_EPOCHS * corpus_tokens
    chosen: Recommendation | None = None
    for preset in LADDER:
        config = preset_config(preset)
        need = training_memory(config, SMALLEST_BATCH // length, length).process
        speed = measure_speed(config, SMALLEST_BATCH // length, length) if need < 0.9 * available_memory() else None
        if speed is None:
            break
        tokens = int(min(speed * budget_seconds, limit))
        batch_tokens = _batch_tokens(tokens)
        batch = batch_tokens // length
        steps = max(1, tokens // batch_tokens)
        if chosen is not None and steps < FEWEST_STEPS:
            break
        chosen = Recommendation(
            preset=preset,
            batch=batch,
            length=length,
            steps=steps,
            tokens=tokens,
            epochs=tokens / corpus_tokens,
            seconds=tokens / speed,
            sequences_at_once=SMALLEST_BATCH // length,
            memory=need,
            reason=_reason(steps, limited_by_corpus=tokens == limit),
        )
    if chosen is None:
        raise RequestError("there is not enough free memory to train even the smallest preset")
    return chosen


def _reason(steps: int, limited_by_corpus: bool) -> str:
    if steps < FEWEST_STEPS:
        return f"even the smallest preset gets fewer than {FEWEST_STEPS:,} steps: give it more time or more text"
    limit = f"{MOST_EPOCHS} passes over the corpus are" if limited_by_corpus else "the time is"
    return f"the largest preset with at least {FEWEST_STEPS:,} steps of {SMALLEST_BATCH:,} tokens; {limit} the limit"


def _batch_tokens(tokens: int) -> int:
    """Tokens in a step: a power of two that gives about 20,000 steps, within the paper's 4096 × 512."""
    wanted = max(SMALLEST_BATCH, tokens // 20_000)
    return int(min(2 ** (wanted.bit_length() - 1), 4096 * 512))


def plan_run(
    model: ModelConfig, train: "TrainConfig", length: int, replaces_at: Callable[[int], bool] = lambda stage: False
) -> dict[str, Any]:
    """Stages with their share, shape, speed and tokens; the memory of the largest; how long it takes in all.

    In stages that replace words the last layer runs for all tokens; their speed is reckoned from the others'.
    """
    from litebert.training.config import num_micro_batches

    stages: list[dict[str, Any]] = []
    begun = 0.0
    for number, stage in enumerate(train.stages):
        depth, tokens_of_row = stage.depth or model.num_layers, stage.length or length
        rows = train.batch_size_of(number)
        at_once = rows // num_micro_batches(rows, 1, train.micro_batch_size)
        shape = model.updated(num_layers=depth, num_groups=min(depth, model.num_groups))
        speed = measure_speed(shape, at_once, tokens_of_row, train.recompute)
        gathered = not replaces_at(number)
        if not gathered and speed is not None:
            few, every = (training_flops(shape, tokens_of_row, kept) for kept in (True, False))
            speed *= few / every
        share = stage.until - begun
        begun = stage.until
        entry: dict[str, Any] = {
            "share": share,
            "depth": depth,
            "length": tokens_of_row,
            "batch_size": rows,
            "micro_batch_size": at_once,
        }
        entry["memory"] = training_memory(shape, at_once, tokens_of_row, train.recompute, gathered).process
        entry["tokens_per_second"] = speed
        stages.append(entry | _extent(train, share, rows * tokens_of_row, speed))
    return {
        "encoder_parameters": count_encoder_parameters(model),
        "memory": max(entry["memory"] for entry in stages),
        "tokens": sum(entry["tokens"] or 0 for entry in stages),
        "seconds": train.seconds or sum(entry["seconds"] or 0 for entry in stages),
        "optimizer": train.optim.model_dump(),
        "stages": stages,
    }


def _extent(train: "TrainConfig", share: float, tokens_of_step: int, speed: float | None) -> dict[str, Any]:
    """Tokens and seconds of a stage; None where they cannot be known."""
    if train.seconds is not None:
        seconds = share * train.seconds
        return {"tokens": None if speed is None else int(speed * seconds), "seconds": seconds}
    assert train.steps is not None
    tokens = int(share * train.steps) * tokens_of_step
    return {"tokens": tokens, "seconds": None if speed is None else tokens / speed}
