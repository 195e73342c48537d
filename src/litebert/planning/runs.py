"""What a run will do, before it does it: its stages with memory and speed on this machine."""

from typing import Any

from litebert.config import ModelConfig
from litebert.model.cost import count_encoder_parameters, training_memory
from litebert.planning.planner import measure_speed
from litebert.quantities import format_bytes, format_count, format_duration
from litebert.training.config import TrainConfig, num_micro_batches

__all__ = ["plan_run", "print_run_plan"]


def plan_run(model: ModelConfig, train: TrainConfig, length: int) -> dict[str, Any]:
    """Stages with their share, shape, speed and tokens; the memory of the largest; how long it takes in all."""
    stages: list[dict[str, Any]] = []
    begun = 0.0
    for number, stage in enumerate(train.stages):
        depth, tokens_of_row = stage.depth or model.num_layers, stage.length or length
        rows = train.batch_size_of(number)
        at_once = rows // num_micro_batches(rows, 1, train.micro_batch_size)
        shape = model.updated(num_layers=depth, num_groups=min(depth, model.num_groups))
        speed = measure_speed(shape, at_once, tokens_of_row, train.recompute)
        share = stage.until - begun
        begun = stage.until
        entry: dict[str, Any] = {
            "share": share,
            "depth": depth,
            "length": tokens_of_row,
            "batch_size": rows,
            "rows_at_once": at_once,
        }
        entry["memory"] = training_memory(shape, at_once, tokens_of_row, train.recompute).process
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


def _extent(train: TrainConfig, share: float, tokens_of_step: int, speed: float | None) -> dict[str, Any]:
    """Tokens and seconds of a stage; None where they cannot be known."""
    if train.seconds is not None:
        seconds = share * train.seconds
        return {"tokens": None if speed is None else int(speed * seconds), "seconds": seconds}
    assert train.steps is not None
    tokens = int(share * train.steps) * tokens_of_step
    return {"tokens": tokens, "seconds": None if speed is None else tokens / speed}


def print_run_plan(plan: dict[str, Any], corpus_tokens: int) -> None:
    """Show it as a table."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("share", "depth", "length", "batch", "at once", "memory", "tokens/s", "tokens"):
        table.add_column(name, justify="right")
    for stage in plan["stages"]:
        speed, tokens = stage["tokens_per_second"], stage["tokens"]
        table.add_row(
            f"{stage['share']:.0%}",
            str(stage["depth"]),
            str(stage["length"]),
            str(stage["batch_size"]),
            str(stage["rows_at_once"]),
            format_bytes(stage["memory"]),
            "does not fit" if speed is None else f"{speed:,.0f}",
            "?" if tokens is None else format_count(tokens),
        )
    console.print(table)
    optimizer = plan["optimizer"]
    epochs = plan["tokens"] / max(corpus_tokens, 1)
    console.print(
        f"\n{format_count(plan['encoder_parameters'])} parameters, {optimizer['optimizer']} at {optimizer['lr']:g}; "
        f"{format_count(plan['tokens'])} tokens, {epochs:.1f} passes over the corpus, in "
        f"{format_duration(plan['seconds'])}; {format_bytes(plan['memory'])} of memory. Nothing was trained.",
        highlight=False,
    )
