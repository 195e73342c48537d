"""Options that say how long and how to fine-tune, for the commands that do."""

from typing import Annotated

import typer

__all__ = ["Batch", "Budget", "Epochs", "MaxLength", "Rate", "Steps", "check_duration_options"]

Epochs = Annotated[float | None, typer.Option(min=0.001, help="How often the encoder sees each example.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Train for so many steps instead.")]
Budget = Annotated[str | None, typer.Option(help="Train for this time instead, such as 90s or 2h.")]
Rate = Annotated[float | None, typer.Option(min=1e-9, max=1, help="Peak of the learning rate.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Examples in a step.")]
MaxLength = Annotated[int | None, typer.Option(min=8, help="Tokens of a row.")]


def check_duration_options(epochs: float | None, steps: int | None, budget: str | None) -> None:
    """Refuse two answers to the question how long to train."""
    given = [name for name, value in (("epochs", epochs), ("steps", steps), ("budget", budget)) if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"--{given[0]} and --{given[1]} both say how long to train: leave one out")
