"""From features to what a model says: one way to run it, for fine-tuning, evaluation, inference and ensembles."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from litebert.config import ModelConfig
from litebert.tasks.features import Features, encode_apart, part_by_length
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import EncodeOptions, Outputs
from litebert.tasks.linear import LinearHead
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Example, Task
from litebert.tasks.tf_idf import TfIdf
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from litebert.model.model import Model

__all__ = ["Runner", "TorchRunner", "add_tf_idf", "encode_saved", "run_model", "run_saved", "score_tf_idf"]

_BLOCK = 1024  # examples whose features are held at once
_TARGETS = ("labels", "start_positions", "end_positions")


class Runner(Protocol):
    """What answers: a model behind one call on arrays."""

    config: ModelConfig

    @property
    def batch_tokens(self) -> int:
        """How many tokens to give it at once."""

    @property
    def most_padding(self) -> int | None:
        """How many of them may be padding; any number if None."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Outputs:
        """The outputs of the head."""


class TorchRunner:
    """A torch module that answers while it is being trained: without dropout or gradients, and left as it was."""

    def __init__(self, model: "Model") -> None:
        self.model, self.config = model, model.config

    @property
    def batch_tokens(self) -> int:
        """How many tokens to give it at once: on a CPU so few that what a layer makes of them stays in the cache."""
        return 1024 if next(self.model.parameters()).device.type == "cpu" else 8192

    most_padding = None

    def run(self, inputs: Mapping[str, NDArray[Any]], depth: int | None = None) -> Outputs:
        """The outputs of the head."""
        import torch

        was_training, device = self.model.training, next(self.model.parameters()).device
        self.model.eval()
        try:
            with torch.inference_mode():
                tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
                outputs: Outputs = self.model(**tensors, depth=depth).arrays()
                return outputs
        finally:
            self.model.train(was_training)


def run_model(
    runner: Runner,
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

    def read(outputs: Outputs, items: list[int]) -> Sequence[Any]:
        return kind.read_output(task, outputs, features, items, options)

    return kind.join(task, examples, features, _run_items(runner, features, read, on_progress), options)


def _run_items(
    runner: Runner,
    features: Features,
    read: Callable[[Outputs, list[int]], Sequence[Any]],
    on_progress: Callable[[int], None],
) -> list[Any]:
    """What is read of each item's outputs."""
    found: list[Any] = [None] * features.num_items
    done = 0
    lengths, padding = features.lengths(), runner.most_padding
    for group in part_by_length(lengths, runner.batch_tokens, features.num_rows, most_padding=padding):
        arrays = features.collate_arrays(group, runner.config.pad_token_id)
        outputs = runner.run({name: array for name, array in arrays.items() if name not in _TARGETS})
        items = group.tolist()
        for item, value in zip(items, read(outputs, items), strict=True):
            found[item] = value
        done += len(group)
        on_progress(done)
    return found


def encode_saved(saved: SavedTask, examples: Sequence[Example], tokenizer: Tokenizer) -> Features:
    """Encode examples as a finished model learnt them."""
    kind = kind_of(saved.task)
    if saved.linear is not None:
        return encode_apart(tokenizer, _list_texts(saved.task, examples), saved.max_length)
    return kind.encode(saved.task, examples, tokenizer, saved.options)


def _list_texts(task: Task, examples: Sequence[Example]) -> list[tuple[str, ...]]:
    """The text of each example, or its two."""
    inputs = [kind_of(task).inputs(example) for example in examples]
    return [(one,) if isinstance(one, str) else one for one in inputs]


def run_saved(
    runner: Runner,
    saved: SavedTask,
    examples: Sequence[Example],
    features: Features,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Any]:
    """What a finished model says about each example: numbers as they are, and with the words that are counted."""
    if saved.linear is None:
        outputs = run_model(runner, saved.task, examples, features, saved.options, on_progress)
    else:
        outputs = _run_linear(runner, saved.linear, _list_texts(saved.task, examples), features, on_progress)
    if saved.tf_idf is not None:
        outputs = add_tf_idf(saved.tf_idf, saved.task, examples, outputs)
    if saved.linear is not None:
        outputs = [saved.linear.limit(output) for output in outputs]
    return outputs if saved.scale is None else [saved.scale.stretch(output) for output in outputs]


def _run_linear(
    runner: Runner,
    linear: LinearHead,
    texts: Sequence[tuple[str, ...]],
    features: Features,
    on_progress: Callable[[int], None],
) -> list[Any]:
    """What a linear model says about the mean states of each example's texts."""

    def read(outputs: Outputs, items: list[int]) -> Sequence[Any]:
        return list(outputs["sentence_embedding"].reshape(len(items), -1, runner.config.hidden_size))

    states = _run_items(runner, features, read, on_progress)
    found: list[Any] = []
    for begin in range(0, len(states), _BLOCK):
        found += linear.score(np.stack(states[begin : begin + _BLOCK]), texts[begin : begin + _BLOCK])
    return found


def score_tf_idf(tf_idf: TfIdf, task: Task, examples: Sequence[Example]) -> list[NDArray[Any]]:
    """What counted words say about each example."""
    kind = kind_of(task)
    return [kind.score_words(tf_idf, example) for example in examples]


def add_tf_idf(tf_idf: TfIdf, task: Task, examples: Sequence[Example], outputs: Sequence[Any]) -> list[Any]:
    """What a model and counted words say, together."""
    kind, scores = kind_of(task), score_tf_idf(tf_idf, task, examples)
    return [kind.add_words(output, score) for output, score in zip(outputs, scores, strict=True)]
