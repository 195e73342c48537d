"""The planner's tables on a terminal."""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from litebert.model.cost import (
    checkpoint_bytes,
    count_encoder_parameters,
    count_pretraining_parameters,
    forward_flops,
)
from litebert.planning.planner import Plan, Recommendation
from litebert.presets import PRESETS
from litebert.quantities import format_bytes, format_count, format_duration
from litebert.runtime import available_memory

__all__ = ["family", "print_cluster", "print_family", "print_plan", "print_recommendation", "print_run_plan"]


def family() -> list[dict[str, Any]]:
    """Every preset as a row of plain values."""
    rows = []
    for name, preset in PRESETS.items():
        config = preset.config
        rows.append(
            {
                "name": name,
                "encoder_parameters": count_encoder_parameters(config),
                "pretraining_parameters": count_pretraining_parameters(config),
                "paper_parameters": preset.paper_parameters or None,
                "paper_table": preset.paper_table or None,
                "layers": config.num_layers,
                "hidden_size": config.hidden_size,
                "embedding_size": config.embedding_size,
                "sharing": config.sharing,
                "flops_per_token": forward_flops(config, 128),
                "checkpoint_bytes": checkpoint_bytes(config),
            }
        )
    return rows


# What the family's table shows, the most important first: a narrow terminal drops columns from the end.
_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "preset": lambda row: row["name"],
    "encoder": lambda row: f"{row['encoder_parameters']:,}",
    "paper": lambda row: row["paper_parameters"] or "",
    "layers": lambda row: str(row["layers"]),
    "H": lambda row: str(row["hidden_size"]),
    "E": lambda row: str(row["embedding_size"]),
    "shared": lambda row: row["sharing"],
    "with heads": lambda row: f"{row['pretraining_parameters']:,}",
    "FLOPs": lambda row: format_count(row["flops_per_token"]),
    "file": lambda row: format_bytes(row["checkpoint_bytes"]),
    "table": lambda row: row["paper_table"] or "",
}


def print_family(rows: list[dict[str, Any]]) -> None:
    """Print the family as a table, as many columns as fit."""
    _print_rows(
        rows, _COLUMNS, caption="FLOPs: forward, per token of a sequence of 128. File: the pretraining model in fp32."
    )


def _print_rows(
    rows: list[dict[str, Any]], columns: dict[str, Callable[[dict[str, Any]], str]], **options: str
) -> None:
    """Print rows as a table; a narrow terminal drops columns from the end."""
    for count in range(len(columns), 1, -1):
        table = Table(title=options.get("title"), caption=options.get("caption"))
        shown = dict(list(columns.items())[:count])
        for title in shown:
            table.add_column(title, justify="left" if title == "preset" else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(cell(row) for cell in shown.values()))
        console = Console()
        width = Console(width=1000).measure(table).maximum
        if not console.is_terminal:
            console = Console(width=max(console.width, width))
        if width <= console.width:
            break
    console.print(table)


def print_plan(plan: Plan, tokens: int | None) -> None:
    """Print what a plan needs."""
    table = Table(title=f"{plan.preset}, {plan.batch} × {plan.length} tokens a step", show_header=True)
    table.add_column("memory in training")
    table.add_column("as it is", justify="right")
    table.add_column("recomputing", justify="right")
    for part in ("weights", "gradients", "optimizer", "activations", "total", "process"):
        table.add_row(
            part, format_bytes(getattr(plan.memory, part)), format_bytes(getattr(plan.memory_recomputing, part))
        )
    console = Console()
    console.print(table)
    console.print(
        f"parameters   {plan.encoder_parameters:,} in the encoder, {plan.pretraining_parameters:,} with heads"
    )
    console.print(f"operations   {format_count(plan.flops_per_token)} per trained token")
    if plan.memory.process > available_memory():
        console.print(f"[yellow]memory       only {format_bytes(available_memory())} are free here now[/yellow]")
    if plan.tokens_per_second is None:
        console.print("speed        not measured")
        return
    rate = plan.tokens_per_second * plan.flops_per_token
    console.print(f"speed        {plan.tokens_per_second:,.0f} tokens/s here ({rate / 1e9:,.0f} GFLOP/s)")
    for count in [tokens] if tokens else [10**6, 10**8]:
        seconds = plan.seconds(count)
        assert seconds is not None
        console.print(f"time         {format_duration(seconds)} for {format_count(count)} tokens")


def print_cluster(plan: dict[str, Any]) -> None:
    """Print what a step takes on many workers, one row a preset, as many columns as fit."""
    has_paper = any(row["paper_speedup"] is not None for row in plan["rows"])
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "preset": lambda row: row["name"],
        "step": lambda row: f"{row['seconds']:.3g} s" if row["seconds"] < 100 else f"{row['seconds']:,.0f} s",
        "× bert-large" if has_paper else "× BERT": lambda row: f"{row['speed_over_bert']:.2f}",
        **({"paper": lambda row: f"{row['paper_speedup']:g}"} if has_paper else {}),
        "waits for link": lambda row: f"{row['communication_share']:.0%}",
        "× one worker": lambda row: f"{row['speedup']:.3g}",
        "efficiency": lambda row: f"{row['efficiency']:.0%}",
        "tokens/s": lambda row: f"{row['tokens_per_second']:,.0f}",
        "gradients": lambda row: format_bytes(row["gradient_bytes"]),
    }
    link, rate = (format_count(plan[name]).replace("B", "G") for name in ("link_bits", "rate"))
    title = f"{plan['workers']:,} workers at {link}bit/s, {plan['batch']:,} × {plan['length']} tokens a step"
    _print_rows(plan["rows"], columns, title=title)
    console = Console()
    how = "measured here" if plan["measured"] else "as given"
    console.print(f"a worker     {rate}FLOP/s, {how}", highlight=False)
    left_out = "input, memory" if plan["measured"] else "latency, the optimiser, input, memory"
    console.print(f"left out     {left_out}", highlight=False)


def print_recommendation(advice: Recommendation) -> None:
    """Print a recommendation and why it was made."""
    console = Console()
    console.print(
        f"[bold]{advice.preset}[/bold], batch {advice.batch} × length {advice.length}, {advice.steps:,} steps"
    )
    console.print(f"tokens       {format_count(advice.tokens)}, {advice.epochs:.1f} times your corpus")
    console.print(f"time         about {format_duration(advice.seconds)}")
    console.print(f"memory       {format_bytes(advice.memory)} for {advice.sequences_at_once} sequences at once")
    console.print(f"why          {advice.reason}")


def print_run_plan(plan: dict[str, Any], corpus_tokens: int) -> None:
    """Print the stages of a run, and what it takes in all."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("share", "depth", "length", "batch", "micro-batch", "memory", "tokens/s", "tokens"):
        table.add_column(name, justify="right")
    for stage in plan["stages"]:
        speed, tokens = stage["tokens_per_second"], stage["tokens"]
        table.add_row(
            f"{stage['share']:.0%}",
            str(stage["depth"]),
            str(stage["length"]),
            str(stage["batch_size"]),
            str(stage["micro_batch_size"]),
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
