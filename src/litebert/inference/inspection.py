"""What happens to a text inside an encoder: its tokens, how far each layer moves their states, and who looks at whom.

The two measures are those of Figure 1 of the ALBERT paper, for one text: the distance between what goes into a layer
and what comes out, and the cosine of the two, as means over the tokens.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.config import ModelConfig
from litebert.inference.early_exit import find_exits
from litebert.inference.engine import Engine
from litebert.inference.load import Pipeline
from litebert.model.sharing import layer_plan
from litebert.tasks.kinds.kind import probabilities

__all__ = ["Inspection", "PassAnswer", "inspect_text"]

Array = NDArray[Any]
_ONE_LABEL = "single_label_classification"


@dataclass(frozen=True)
class Inspection:
    """What was seen; layers in the order in which they run."""

    tokens: list[str]
    blocks: list[tuple[int, int]]
    """The attention block and the feed-forward block of each layer: the same numbers mean the same weights."""
    distances: list[float]
    cosines: list[float]
    attention: Array
    """(layers, heads, tokens, tokens): how much of a row's token comes from each column's."""
    truncated: bool
    answers: list["PassAnswer"]
    """Classifiers: what the model would say after each pass."""
    exit: int | None
    """Classifiers that may answer early: after which pass the answer is given."""


@dataclass(frozen=True)
class PassAnswer:
    """The likeliest label after a pass."""

    label: str
    probability: float


def inspect_text(pipeline: Pipeline, text: str, max_tokens: int = 128) -> Inspection:
    """Look into the first model of a pipeline while it reads a text, or its beginning."""
    engine, tokenizer = pipeline.members[0].engine, pipeline.tokenizer
    limit = min(max_tokens, pipeline.members[0].max_length)
    encoded = tokenizer.encode([text], None, max_length=max(4, limit))
    states = engine.states(encoded.arrays())
    plan = layer_plan(engine.config)
    moves = [after[0] - before[0] for before, after in itertools.pairwise(states)]
    cosines = [_cosines(before[0], after[0]) for before, after in itertools.pairwise(states)]
    maps = [
        _attend(engine.config, engine.weights, block, before[0])
        for (block, _), before in zip(plan, states[:-1], strict=True)
    ]
    return Inspection(
        tokens=[tokenizer.piece(int(one)) for one in encoded.input_ids[0]],
        blocks=plan,
        distances=[float(np.linalg.norm(move, axis=-1).mean()) for move in moves],
        cosines=[float(one.mean()) for one in cosines],
        attention=np.stack(maps),
        truncated=bool(encoded.cut),
        **_follow_answer(engine, encoded.arrays()),
    )


def _follow_answer(engine: Engine, inputs: dict[str, Array]) -> dict[str, Any]:
    """What a classifier of single labels says after each pass, and after which one it answers."""
    config = engine.config
    if engine.head != "sequence-classification" or (config.problem_type or _ONE_LABEL) != _ONE_LABEL:
        return {"answers": [], "exit": None}
    trace = engine.trace(inputs)
    shares = [probabilities(one["logits"][0]) for one in trace]
    labels = config.labels or ("LABEL_0", "LABEL_1")
    answers = [PassAnswer(labels[int(one.argmax())], float(one.max())) for one in shares]
    if engine.exits is None:
        return {"answers": answers, "exit": None}
    exits = find_exits(trace, engine.exits, engine.head, config.problem_type, inputs["attention_mask"])
    return {"answers": answers, "exit": int(exits[0])}


def _cosines(before: Array, after: Array) -> Array:
    """Of each token's states."""
    lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    cosines: Array = (before * after).sum(-1) / np.maximum(lengths, 1e-12)
    return cosines


def _attend(config: ModelConfig, weights: dict[str, Array], block: int, states: Array) -> Array:
    """Attention of one layer, from what goes into it: (heads, tokens, tokens)."""
    name = f"encoder.attention.{block}.qkv"
    both = states @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]  # (tokens, 3 × attention)
    query, key, _ = np.split(both, 3, axis=-1)
    size = config.attention_size // config.num_heads
    query, key = (one.reshape(len(states), config.num_heads, size).transpose(1, 0, 2) for one in (query, key))
    return probabilities(query @ key.transpose(0, 2, 1) / np.sqrt(size))
