"""What a step costs on many workers, by arithmetic: computing, exchanging gradients, and what of that is hidden.

Data-parallel training as DDP does it: each worker computes the gradient of its share of the batch, and a ring adds the
gradients up. DDP sends a gradient as soon as it is complete, while the backward pass goes on. A block that one layer
uses is complete after that layer. A block that all layers share is complete only at the end, because every layer adds
to it: ALBERT sends far less than BERT, but can hide almost nothing of it. Both follow from the plan of
`litebert/model/sharing.py`.

The few constants are measured: `benchmarks/ddp_link.py` fits them, and says how far off the model is where it was not
fitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.cost import (
    FLOAT_BYTES,
    MASKED_SHARE,
    count_parameters,
    count_pretraining_parameters,
    forward_flops,
    training_flops,
)
from litebert.model.sharing import block_counts, layer_plan, without_sharing
from litebert.presets import PRESETS, preset_config

__all__ = [
    "PAPER_BATCH",
    "PAPER_LENGTH",
    "PAPER_SPEEDUPS",
    "Link",
    "StepCost",
    "Worker",
    "bucket_gradients",
    "check_shares",
    "compare_presets",
    "exchange_seconds",
    "gradient_bytes",
    "gradient_schedule",
    "step_cost",
]

PAPER_BATCH, PAPER_LENGTH = 4096, 512
"""The paper's step."""
PAPER_SPEEDUPS = {
    "bert-base": 4.7,
    "bert-large": 1.0,
    "albert-base": 5.6,
    "albert-large": 1.7,
    "albert-xlarge": 0.6,
    "albert-xxlarge": 0.3,
}
"""Table 2: how much faster than BERT-large each model trains, on 64 to 512 TPUs v3."""
BACKWARD_SHARE = 2 / 3
"""Of the operations of a step."""
FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20
"""Bytes of gradients that DDP collects before it sends them."""
EFFICIENCY, OVERLAP, LATENCY, COPYING = 0.91, 1.0, 2.4e-4, 3.4e-10
"""Of a link between CPUs (gloo over TCP), as fitted: `benchmarks/results/2026-11-17-ddp-link.md`."""
UPDATE, FIXED = 2.4e-9, 0.033
"""Of a worker with one core, fitted there too."""


@dataclass(frozen=True)
class Worker:
    """One process of many: how fast it computes, and what each step costs it besides."""

    rate: float
    """Floating-point operations a second, as training reaches them."""
    update: float = 0.0
    """Seconds a parameter: clipping the gradient and moving the weight."""
    fixed: float = 0.0
    """Seconds a step, whatever its size."""


@dataclass(frozen=True)
class Link:
    """What joins the workers. The defaults are those of a perfect link; what was measured stands above."""

    bandwidth: float
    """Bits a second, each way, as it is sold."""
    efficiency: float = 1.0
    """The share of the bandwidth that gradients get."""
    latency: float = 0.0
    """Seconds from one worker to the next, for the smallest message."""
    copying: float = 0.0
    """Seconds a byte for what the CPU does: into buffers, through the socket, adding up, and back."""
    overlap: float = 1.0
    """What is really hidden behind the backward pass, as a share of what could be."""


@dataclass(frozen=True)
class StepCost:
    """Seconds of one step of one worker, by what they are for."""

    workers: int
    tokens: int
    compute: float
    update: float
    fixed: float
    communication: float
    """All of the exchange, hidden or not."""
    hidden: float
    """The part of it that passes while the backward pass goes on."""

    @property
    def exposed(self) -> float:
        """The part of the exchange that the step waits for."""
        return self.communication - self.hidden

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.compute + self.update + self.fixed + self.exposed

    @property
    def tokens_per_second(self) -> float:
        """Of all workers together."""
        return self.tokens / self.seconds

    @property
    def communication_share(self) -> float:
        """The share of the step that waits for the link."""
        return self.exposed / self.seconds


def gradient_bytes(config: ModelConfig) -> int:
    """What a worker has to say in each step: a number for each parameter, in fp32.

    >>> gradient_bytes(ModelConfig())  # ALBERT base
    47255240
    """
    return FLOAT_BYTES * count_pretraining_parameters(config)


def gradient_schedule(config: ModelConfig, length: int, lean: bool = False) -> list[tuple[float, int]]:
    """When gradients are complete: (share of the backward pass, number of parameters), in order.

    The heads come first, the embeddings last (the word table is also the masked-LM head's). `lean` is the step of
    `litebert/model/lean`, which hands over the gradients of all layers together at its end.

    >>> from litebert.presets import preset_config
    >>> [round(ready, 2) for ready, _ in gradient_schedule(preset_config("albert-base"), 512)]
    [0.01, 0.97, 1.0, 1.0]
    """
    parts = count_parameters(config)
    num_attention, num_feed_forward = block_counts(config)
    head = 3 * MASKED_SHARE * 2 * config.embedding_size * (config.hidden_size + config.vocab_size)
    begin = head / training_flops(config, length)
    plan = layer_plan(config)
    layer = (1 - begin) / len(plan)
    in_attention = _attention_share(config, length)
    ready: dict[tuple[str, int], float] = {}
    for passed, (attention, feed_forward) in enumerate(reversed(plan)):  # a later entry replaces: complete at the last
        after = begin + passed * layer
        ready["feed-forward", feed_forward] = 1.0 if lean else after + (1 - in_attention) * layer
        ready["attention", attention] = 1.0 if lean else after + layer
    sizes = {
        "attention": parts["attention"] // num_attention,
        "feed-forward": parts["feed-forward"] // num_feed_forward,
    }
    blocks = [(min(when, 1.0), sizes[kind]) for (kind, _), when in ready.items()]
    embeddings = parts["words"] + parts["positions"] + parts["projection"]
    heads = count_pretraining_parameters(config) - embeddings - parts["attention"] - parts["feed-forward"]
    return [(begin, heads), *sorted(blocks, key=lambda block: block[0]), (1.0, embeddings)]


def _attention_share(config: ModelConfig, length: int) -> float:
    """Of the operations of a layer."""
    one = config.updated(num_layers=1, sharing="all", num_groups=1, num_inner_layers=1)
    projection = 2 * config.embedding_size * config.hidden_size if config.projects_embeddings else 0
    feed_forward = 4 * config.hidden_size * config.intermediate_size
    return 1 - feed_forward / (forward_flops(one, length) - projection)


def bucket_gradients(schedule: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Collect gradients as DDP does: (share of the backward pass after which a bucket is full, its bytes)."""
    buckets: list[tuple[float, int]] = []
    size, limit = 0, FIRST_BUCKET
    for number, (ready, parameters) in enumerate(schedule, 1):
        size += FLOAT_BYTES * parameters
        if size >= limit or number == len(schedule):
            buckets.append((ready, size))
            size, limit = 0, BUCKET
    return buckets


def exchange_seconds(size: int, workers: int, link: Link) -> float:
    """Seconds in which a ring adds up `size` bytes of all workers: each sends 2(n-1)/n of them, in 2(n-1) hops.

    What the CPU does for it (`Link.copying`) is not in it.

    >>> exchange_seconds(10**9, 4, Link(bandwidth=8e9))
    1.5
    """
    hops = 2 * (workers - 1)
    return hops * link.latency + hops / workers * size * 8 / (link.bandwidth * link.efficiency)


def step_cost(
    config: ModelConfig, batch: int, length: int, workers: int, worker: Worker, link: Link, lean: bool = False
) -> StepCost:
    """Seconds of a step of `batch` sequences over all workers."""
    check_shares(batch, workers)
    parameters = count_pretraining_parameters(config)
    tokens = batch * length
    compute = tokens / workers * training_flops(config, length) / worker.rate
    backward = BACKWARD_SHARE * compute
    total = free_at = 0.0
    for ready, size in bucket_gradients(gradient_schedule(config, length, lean)):
        seconds = exchange_seconds(size, workers, link)
        total += seconds
        free_at = max(free_at, ready * backward) + seconds
    could_hide = total - max(0.0, free_at - backward) if workers > 1 else 0.0
    # Copies are the CPU's work, as the backward pass is: they cannot hide behind it.
    copying = gradient_bytes(config) * link.copying if workers > 1 else 0.0
    return StepCost(
        workers=workers,
        tokens=tokens,
        compute=compute,
        update=parameters * worker.update,
        fixed=worker.fixed,
        communication=total + copying,
        hidden=link.overlap * could_hide,
    )


def check_shares(batch: int, workers: int) -> None:
    """Refuse a batch of which not every worker gets the same share."""
    if workers < 1:
        raise RequestError(f"a step needs at least 1 worker, not {workers}")
    if batch % workers:
        raise RequestError(f"a batch of {batch:,} cannot be divided among {workers:,} workers: choose another --batch")


def compare_presets(
    names: Sequence[str], batch: int, length: int, workers: int, worker: Worker, link: Link, lean: bool = False
) -> list[dict[str, Any]]:
    """Each preset on many workers, as plain values; a preset alone is compared with the other family at its shape.

    `speed_over_bert` compares with BERT-large, as the paper does, or with BERT of the same shape.
    """
    rows: list[dict[str, Any]] = []
    for name, config in _with_twin(names):
        cost = step_cost(config, batch, length, workers, worker, link, lean)
        alone = step_cost(config, batch, length, 1, worker, link, lean)
        speedup = alone.seconds / cost.seconds
        rows.append(
            {
                "name": name,
                "parameters": count_pretraining_parameters(config),
                "gradient_bytes": gradient_bytes(config),
                "seconds": cost.seconds,
                "compute": cost.compute,
                "update": cost.update,
                "fixed": cost.fixed,
                "communication": cost.communication,
                "hidden": cost.hidden,
                "communication_share": cost.communication_share,
                "tokens_per_second": cost.tokens_per_second,
                "speedup": speedup,
                "efficiency": speedup / workers,
                "paper_speedup": PAPER_SPEEDUPS.get(name) if len(names) > 1 else None,
            }
        )
    large = [row["seconds"] for row in rows if row["name"] == "bert-large" and len(names) > 1]
    reference = large[0] if large else max(rows, key=lambda row: int(row["parameters"]))["seconds"]
    return [row | {"speed_over_bert": reference / row["seconds"]} for row in rows]


def _with_twin(names: Sequence[str]) -> list[tuple[str, ModelConfig]]:
    """The presets by name; a single one with BERT of its shape, or a BERT with ALBERT of its shape."""
    chosen = [(name, preset_config(name)) for name in names]
    if len(chosen) > 1:
        return chosen
    config = chosen[0][1]
    twin = without_sharing(config)
    if count_pretraining_parameters(twin) == count_pretraining_parameters(config):
        twin = config.updated(family="albert", sharing="all", embedding_size=min(128, config.hidden_size))
    known = (other for other, preset in PRESETS.items() if _same_shape(preset.config, twin))
    family = "ALBERT" if twin.family == "albert" else "BERT"
    return [*chosen, (next(known, f"{family} of its shape"), twin)]


def _same_shape(first: ModelConfig, second: ModelConfig) -> bool:
    style = ("activation", "hidden_dropout", "attention_dropout", "bos_token_id", "eos_token_id")
    return first.updated(**{name: getattr(second, name) for name in style}) == second
