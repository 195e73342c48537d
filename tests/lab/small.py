"""A small experiment whose cells train in a second."""

from pathlib import Path
from typing import Any

from litebert.lab.experiment import Experiment
from litebert.lab.grid import Grid, GridOptions, plan_grid

SMALL: dict[str, Any] = {
    "model.hidden_size": 24,
    "model.num_heads": 3,
    "model.intermediate_size": 40,
    "model.embedding_size": 12,
    "model.num_layers": 2,
    "stream.length": 32,
    "train.batch_size": 4,
    "train.evaluations": 2,
    "train.save_seconds": None,
    "train.save_steps": 3,
    "held_out_rows": 32,
}


def small_experiment(**changes: Any) -> Experiment:
    """Two strategies of sharing, and a deeper model that begins from the first."""
    content: dict[str, Any] = {
        "title": "Table 0: small",
        "about": "Something to try.",
        "settings": SMALL,
        "cells": [
            {"name": "shared", "paper": {"Avg": 80.1}},
            {"name": "apart", "settings": {"model.sharing": "none"}, "paper": {"Avg": 81.6}},
            {"name": "deeper", "begin_from": "shared", "steps": 0.5, "settings": {"model.num_layers": 4}},
        ],
        "columns": [
            {"metric": "parameters", "title": "parameters", "form": "count"},
            {"metric": "mlm_loss", "title": "loss", "form": "number"},
        ],
        "findings": [
            {"claim": "apart is better", "metric": "mlm_loss", "contrast": {"shared": 1.0, "apart": -1.0}, "above": 0.0}
        ],
        "plots": [
            {"kind": "spread", "metric": "mlm_loss", "title": "Loss", "form": "number"},
            {"kind": "curves", "metric": "curve_mlm_accuracy", "title": "Curves"},
        ],
    }
    return Experiment.model_validate({**content, **changes})


def small_grid(
    corpus: Path, out: Path, experiment: Experiment | None = None, name: str = "table0", **options: Any
) -> Grid:
    """The plan of such a grid."""
    given = {"corpus": corpus, "steps": 6, "seeds": 2, "workers": 1, **options}
    return plan_grid({name: experiment or small_experiment()}, out, GridOptions(**given))
