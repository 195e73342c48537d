"""From features to what a model says: one way to run it, for fine-tuning, evaluation, inference and ensembles."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from litebert.model.model import Model
from litebert.tasks.features import Features, part_by_length
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import EncodeOptions
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Example, Task

__all__ = ["run_model", "run_saved"]

_BATCH_TOKENS = 8192


@torch.inference_mode()
def run_model(
    model: Model,
    task: Task,
    examples: Sequence[Example],
    features: Features,
    options: EncodeOptions,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Any]:
    """What the model says about each example: its logits, or candidates for an answer.

    Items run in batches of like length, which changes nothing but the time: each is answered on its own.
    """
    kind = kind_of(task)
    was_training = model.training
    model.eval()
    found: list[Any] = [None] * features.num_items
    device = next(model.parameters()).device
    done = 0
    try:
        for group in part_by_length(features.lengths(), _BATCH_TOKENS, features.num_rows):
            batch = features.collate(group, model.config.pad_token_id).to(device)
            inputs = {name: value for name, value in batch.inputs().items() if name != "start_positions"}
            outputs = model(**inputs).arrays()
            items = group.tolist()
            for item, value in zip(items, kind.read_output(task, outputs, features, items, options), strict=True):
                found[item] = value
            done += len(group)
            on_progress(done)
    finally:
        model.train(was_training)
    return kind.join(task, examples, features, found, options)


def run_saved(
    model: Model,
    saved: SavedTask,
    examples: Sequence[Example],
    features: Features,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Any]:
    """What a finished model says about each example, numbers as they are."""
    outputs = run_model(model, saved.task, examples, features, saved.options, on_progress)
    return outputs if saved.scale is None else [saved.scale.stretch(output) for output in outputs]
