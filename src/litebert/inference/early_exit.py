"""Early exit: an answer that is certain after a few passes is given then, and the rest of the batch goes on without it.

After each pass the head looks at the states as if they were the last. A row leaves when its answer is certain enough,
or has been the same for some passes. What is left of the batch closes up, so that fewer tokens run through the layers
that follow. `litebert finetune --elastic` teaches a model to answer on the way; `litebert optimize` finds, on examples
whose labels are known, how early is early enough.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from litebert.config import Head, ModelConfig
from litebert.inference.native.encoder import TokenStates
from litebert.inference.onnx_graph import OUTPUTS
from litebert.model.sharing import LayerPlan
from litebert.tasks.kinds.kind import probabilities

__all__ = ["ExitPolicy", "ExitWatch", "find_exits", "run_with_exits", "trace_passes"]

Array = NDArray[Any]
_NEVER = -1e30  # a logit of what cannot be
RunPart = Callable[[Any, Mapping[str, Any]], list[Any]]
"""Runs the embeddings, a layer (by its two blocks) or the head on arrays by name, and on states of its own kind."""


class ExitPolicy(BaseModel):
    """When an answer is given before the last pass. As it comes, never."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: float = 2.0
    """Leave when the answer has this probability; of a number, when the last pass changed it by less than
    `1 - confidence` of `spread`."""
    patience: int | None = Field(default=None, ge=1)
    """Leave when so many passes after the first one have given the same answer."""
    last: int | None = Field(default=None, ge=1)
    """No pass after this one runs."""
    spread: float = Field(default=1.0, gt=0)
    """Numbers: how far answers lie apart, their standard deviation."""

    @property
    def may_leave(self) -> bool:
        """Whether any answer can be given before the last pass."""
        return self.confidence <= 1 or self.patience is not None or self.last is not None


class ExitWatch:
    """Looks at what the head says after each pass, and tells which rows leave."""

    def __init__(self, policy: ExitPolicy, head: Head, problem_type: str | None) -> None:
        self.policy, self.head, self.problem_type = policy, head, problem_type
        self.answers: Array | None = None
        self.streak: NDArray[np.int64] = np.zeros(0, np.int64)

    def look(self, outputs: Mapping[str, Array], mask: Array) -> NDArray[np.bool_]:
        """Which items leave now; `mask` is their attention mask: what stands in a batch for its shape has no say."""
        answers, certainty = self._read(outputs, mask)
        if self.answers is None:
            self.streak = np.zeros(len(answers), np.int64)
        else:
            self.streak = np.where((answers == self.answers).all(-1), self.streak + 1, 0)
        self.answers = answers
        leaves: NDArray[np.bool_] = certainty >= self.policy.confidence
        if self.policy.patience is not None:
            leaves |= self.streak >= self.policy.patience
        return leaves

    def keep(self, stays: NDArray[np.bool_]) -> None:
        """Forget the rows that have left."""
        assert self.answers is not None
        self.answers, self.streak = self.answers[stays], self.streak[stays]

    def _read(self, outputs: Mapping[str, Array], mask: Array) -> tuple[Array, NDArray[np.float64]]:
        """The answer of each item (items, numbers), and how certain it is (items,)."""
        if self.head == "question-answering":
            ends = [probabilities(np.where(mask, outputs[name], _NEVER)) for name in ("start_logits", "end_logits")]
            return np.stack([one.argmax(-1) for one in ends], 1), np.multiply(*(one.max(-1) for one in ends))
        logits = outputs["logits"]
        if self.head == "multiple-choice":  # where a question has fewer options than others, empty ones stand in
            logits = np.where(mask.sum(-1) > 1, logits, _NEVER)
        if self.problem_type == "regression":
            before = np.full_like(logits, np.inf) if self.answers is None else self.answers
            return logits, 1 - np.abs(logits - before).max(-1).astype(np.float64) / self.policy.spread
        if self.problem_type == "multi_label_classification":  # certain of every label
            return logits > 0, (1 / (1 + np.exp(-np.abs(logits.astype(np.float64))))).min(-1)
        return logits.argmax(-1)[:, None], probabilities(logits).max(-1)


def find_exits(
    trace: Sequence[Mapping[str, Array]], policy: ExitPolicy, head: Head, problem_type: str | None, mask: Array
) -> Array:
    """After which pass each row would leave, from what the head says after all of them: 1 for the first."""
    watch = ExitWatch(policy, head, problem_type)
    last = min(policy.last or len(trace), len(trace))
    exits = np.full(len(next(iter(trace[0].values()))), last)
    for number, outputs in enumerate(trace[:last], start=1):
        exits = np.where(watch.look(outputs, mask), np.minimum(exits, number), exits)
    return exits


def run_with_exits(
    run_part: RunPart,
    config: ModelConfig,
    head: Head,
    plan: LayerPlan,
    inputs: Mapping[str, Array],
    policy: ExitPolicy,
    seen: Counter[int],
) -> dict[str, Array]:
    """The outputs of the head, each row's from the pass after which it left; `seen` counts these passes."""
    shape = inputs["input_ids"].shape
    group = shape[1] if head == "multiple-choice" else 1  # the options of a question leave together
    rows = {name: array.reshape(-1, shape[-1]) for name, array in inputs.items()}
    (states,) = run_part("embeddings", rows)
    mask, watch = rows["attention_mask"], ExitWatch(policy, head, config.problem_type)
    items = np.arange(shape[0])
    found: dict[str, Array] = {}
    last = min(policy.last or len(plan), len(plan))
    for number, blocks in enumerate(plan[:last], start=1):
        given = {"states": states, "attention_mask": mask}
        (given["states"],) = (states,) = run_part(blocks, given)
        said = run_part("head", given)
        outputs = {name: _by_item(one, group) for name, one in zip(OUTPUTS[head], said, strict=True)}
        leaves = (
            np.ones(len(items), bool)
            if number == last
            else watch.look(outputs, mask.reshape(-1, *shape[1:-1], mask.shape[-1]))
        )
        for name, one in outputs.items():
            found.setdefault(name, np.empty((shape[0], *one.shape[1:]), one.dtype))[items[leaves]] = one[leaves]
        if not leaves.any():
            continue
        seen[number] += int(leaves.sum())
        if leaves.all():
            break
        stays = np.repeat(~leaves, group)
        items, mask = items[~leaves], mask[stays]
        watch.keep(~leaves)
        if isinstance(states, TokenStates):
            states = states.keep(stays)
        elif head == "question-answering":  # whose outputs are as long as its rows
            states = states[stays]
        else:
            longest = int(np.flatnonzero(mask.any(0))[-1]) + 1
            states, mask = np.ascontiguousarray(states[stays, :longest]), mask[:, :longest]
    return found


def trace_passes(run_part: RunPart, head: Head, plan: LayerPlan, inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """The outputs of the head after each pass, of all rows."""
    shape = inputs["input_ids"].shape
    rows = {name: array.reshape(-1, shape[-1]) for name, array in inputs.items()}
    (states,) = run_part("embeddings", rows)
    found = []
    for blocks in plan:
        (states,) = run_part(blocks, {"states": states, **rows})
        said = run_part("head", {"states": states, **rows})
        group = shape[1] if head == "multiple-choice" else 1
        found.append({name: _by_item(one, group) for name, one in zip(OUTPUTS[head], said, strict=True)})
    return found


def _by_item(output: Array, group: int) -> Array:
    """Outputs of rows as those of items: the options of a question stand side by side."""
    return output.reshape(-1, group) if group > 1 else output
