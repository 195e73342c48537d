"""`litebert optimize`: how much faster a model may run before it gets worse than its owner allows. The accuracy gate.

Measured on examples whose labels are known: the model as it is, then with whole numbers of 8 bits, then with answers
that leave early. Where 8 bits lose too much, the maps that suffer most stay as they are, one after the other; where
that does not help, nothing is changed. A weight that several layers share is rounded once and used in each of them, so
its error comes back with every pass: that is why nothing here is taken on trust.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.folders import copy_files, locate_model, replace_folder
from litebert.inference.early_exit import ExitPolicy, find_exits
from litebert.inference.engine import VECTORS, Engine
from litebert.inference.int8 import choose_int8
from litebert.inference.load import Member, Pipeline, load
from litebert.inference.optimization import Optimization, write_optimization
from litebert.model.head_kinds import EXIT_HEADS
from litebert.model.hf.checkpoint import hash_weights
from litebert.model.sharing import layer_plan
from litebert.tasks.features import Features, part_by_length
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import Outputs
from litebert.tasks.metrics import LOWER_IS_BETTER, evaluate_outputs
from litebert.tasks.outputs import Runner, run_saved
from litebert.tasks.readers.known import read_rated_examples, read_task_examples
from litebert.tasks.readers.tables import list_columns
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Example, Task

__all__ = ["OptimizeResult", "Variant", "find_fastest", "optimize"]

AS_IT_IS = "fp32"
_CONFIDENCES = (0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
_PATIENCES = (1, 2, 3)
_MOST_TIMED = 200  # examples
_ROUNDS = 3
_MOST_COMPARED = 64  # examples on which maps are compared with one another
_LEAST = 20
_TOKENS_AT_ONCE = (256, 512, 1024, 2048)
_WORTH_IT = 1.05  # times as fast, by which another number of tokens is taken than the usual one
_NEVER = -1e30  # below stand logits of what cannot be

Array = NDArray[Any]


@dataclass(frozen=True)
class Variant:
    """One way to run the model, and what it is worth."""

    name: str
    int8: tuple[str, ...]
    exits: ExitPolicy | None
    metric: float
    drop: float
    """Points of the metric (hundredths) below the model as it is; negative if it is better."""
    agreement: float
    """The share of answers that are those of the model as it is; of numbers, their correlation."""
    passes: float
    """Through how many layers an example runs on average."""
    depth: int | None = None
    """Vectors: after how many passes, if not after all."""
    speed: float | None = None
    """Times as fast as the model as it is, where that was timed."""


@dataclass(frozen=True)
class OptimizeResult:
    """All that was tried, what was chosen, and what to write down."""

    metric: str
    num_examples: int
    variants: tuple[Variant, ...]
    chosen: Variant
    optimization: Optimization
    is_native: bool
    """Whether kernels of our own ran the layers, here."""


class _Trial:
    """Measures engines on the same examples."""

    def __init__(self, member: Member, examples: Sequence[Example], threshold: float | None) -> None:
        self.member, self.examples, self.threshold = member, examples, threshold
        self.saved: SavedTask = member.task
        self.task: Task = self.saved.task
        self.features: Features = member.encode(examples)
        self.outputs = self.run(member.engine)
        self.metric, self.answers = self._measure(self.outputs)

    def run(self, runner: Runner) -> list[Any]:
        return run_saved(runner, self.saved, self.examples, self.features)

    def judge(self, name: str, runner: Runner, int8: Sequence[str], exits: ExitPolicy | None, passes: float) -> Variant:
        """What a runner says, beside what the model says as it is."""
        metric, answers = self._measure(self.run(runner))
        drop = 100 * (self.metric - metric)
        return Variant(name, tuple(int8), exits, metric, drop, self._agree(answers), passes)

    def _measure(self, outputs: list[Any]) -> tuple[float, tuple[Any, ...]]:
        metrics, predictions = evaluate_outputs(self.task, self.examples, outputs, self.threshold)
        return metrics[self.task.metric], predictions.answers

    def _agree(self, answers: tuple[Any, ...]) -> float:
        if kind_of(self.task).answer_type != "number":
            return statistics.fmean(one == other for one, other in zip(answers, self.answers, strict=True))
        pair = np.array([answers, self.answers], np.float64)
        return float(np.corrcoef(*pair).item(1)) if pair.std(axis=1).all() else float(np.array_equal(*pair))

    def time(self, engines: Sequence[Engine]) -> list[float]:
        """Seconds of each engine on some examples, in turns."""
        examples = self.examples[:_MOST_TIMED]
        features = self.member.encode(examples)
        seconds: list[list[float]] = [[] for _ in engines]
        for number in range(_ROUNDS + 1):
            for engine, found in zip(engines, seconds, strict=True):
                begun = time.perf_counter()
                run_saved(engine, self.saved, examples, features)
                if number:  # the first round warms up
                    found.append(time.perf_counter() - begun)
        return [statistics.median(found) for found in seconds]

    def distance(self, engine: Engine) -> float:
        """How far the outputs of an engine lie from the model's own, on some examples."""
        features = self.member.encode(self.examples[:_MOST_COMPARED])
        squares, count = 0.0, 0
        for group in part_by_length(features.lengths(), engine.batch_tokens, features.num_rows):
            inputs = features.collate_arrays(group, engine.config.pad_token_id)
            ours, theirs = (one.run(inputs) for one in (engine, self.member.engine))
            for name, found in ours.items():
                if np.issubdtype(found.dtype, np.floating):
                    can_be = (found > _NEVER) & (theirs[name] > _NEVER)
                    squares += float(np.square((found - theirs[name])[can_be], dtype=np.float64).sum())
                    count += int(can_be.sum())
        return squares / max(count, 1)


class _Recorder:
    """Runs an engine to the end, and keeps what the head said on the way."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.config, self.batch_tokens = engine, engine.config, engine.batch_tokens
        self.most_padding = engine.most_padding
        self.traces: list[list[dict[str, Array]]] = []

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """What the head says in the end."""
        self.traces.append(self.engine.trace(inputs))
        return self.traces[-1][-1]


class _Replay:
    """Says again what was recorded, batch by batch, as if answers had left early."""

    def __init__(self, recorder: _Recorder, policy: ExitPolicy) -> None:
        self.config, self.batch_tokens = recorder.config, recorder.batch_tokens
        self.most_padding = recorder.most_padding
        self._traces, self._policy, self._head = iter(recorder.traces), policy, recorder.engine.head
        self._exits: list[Array] = []

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """What the head said of each row after its last pass."""
        trace = next(self._traces)
        exits = find_exits(trace, self._policy, self._head, self.config.problem_type, inputs["attention_mask"])
        self._exits.append(exits)
        return {name: np.stack([one[name] for one in trace])[exits - 1, np.arange(len(exits))] for name in trace[0]}

    @property
    def passes(self) -> float:
        """Through how many layers a row ran on average."""
        return float(np.concatenate(self._exits).mean())


def optimize(
    model: str | Path,
    data: str | Path | Sequence[Example],
    *,
    max_drop: float = 0.5,
    out: str | Path | None = None,
    exits: bool = True,
    split: str = "dev",
    skip_bad: bool = False,
    format: str | None = None,
    header: bool = True,
    on_variant: Callable[[Variant], None] = lambda variant: None,
) -> OptimizeResult:
    """Find out how fast a model may run before it loses more than `max_drop` points on examples with labels.

    What was found goes into `optimized.json` beside the weights, or into a copy of the model at `out`; `load` follows
    it. An encoder that was not fine-tuned is measured on pairs of texts with scores, by the cosines of their vectors.
    """
    pipeline = load(model, optimized=False)
    folder = pipeline.members[0].folder
    if out is None and not Path(locate_model(model)).is_dir():
        raise RequestError(f"{model} is not a folder of yours: name one for the optimized copy with --out")
    if out is None and not os.access(folder, os.W_OK):
        raise RequestError(f"{folder} cannot be written to: name a folder for the optimized copy with --out")
    if out is not None and Path(out).exists():
        raise RequestError(f"{out} is there already: name a new folder")
    if isinstance(data, str | Path):
        how = {"skip_bad": skip_bad, "format": format, "header": header}
        pipeline, data = _read_measured(pipeline, Path(data), split, how)
    found = find_fastest(pipeline, data, max_drop, exits=exits, on_variant=on_variant)
    if out is not None:
        with replace_folder(Path(out)) as staging:
            copy_files(folder, staging)
            write_optimization(staging, found.optimization)
    else:
        write_optimization(folder, found.optimization)
    return found


def _read_measured(
    pipeline: Pipeline, data: Path, split: str, how: dict[str, Any]
) -> tuple[Pipeline, Sequence[Example]]:
    """Examples to measure a model by; and the model with the task that they are of."""
    member = pipeline.members[0]
    if member.saved is None and pipeline.head == "sentence-embedding":
        task = Task(name="similarity", kind="similarity", metrics=("pearson", "spearman"), is_pair=True)
        saved = SavedTask(task=task, max_length=member.max_length)
        return replace(pipeline, members=(replace(member, saved=saved),)), read_rated_examples(data, split, **how)
    if member.saved is None and pipeline.head == "sequence-classification":
        pipeline = pipeline.as_classifier(is_pair=data.is_file() and "pair" in list_columns(data))
    return pipeline, read_task_examples(pipeline.task, data, split, **how).examples


def find_fastest(
    pipeline: Pipeline,
    examples: Sequence[Example],
    max_drop: float = 0.5,
    *,
    exits: bool = True,
    on_variant: Callable[[Variant], None] = lambda variant: None,
) -> OptimizeResult:
    """Find the fastest way to run a model that loses at most `max_drop` points of its metric on these examples."""
    if len(pipeline.members) > 1:
        raise RequestError("an ensemble cannot be optimized as a whole: optimize its models")
    if pipeline.task.metric in LOWER_IS_BETTER:
        raise RequestError(
            f"{pipeline.task.metric} falls as a model gets better: optimize one that was judged by pearson"
        )
    if len(examples) < _LEAST:
        raise RequestError(f"{len(examples)} examples say too little: give at least {_LEAST} with labels")
    member = replace(pipeline.members[0], engine=pipeline.members[0].engine.configured())
    engine = member.engine
    if engine.uses_torch:
        raise RequestError(
            "optimize is for onnxruntime on a CPU; here torch runs this model, so there is nothing to gain"
        )
    trial = _Trial(member, examples, pipeline.threshold)
    passes = float(engine.num_passes)
    variants = [Variant(AS_IT_IS, (), None, trial.metric, 0.0, 1.0, passes, speed=1.0)]
    on_variant(variants[0])

    def keep(variant: Variant) -> Variant:
        variants.append(variant)
        on_variant(variant)
        return variant

    chosen = variants[0]
    for name, maps in _list_int8(trial):
        found = trial.judge(name, engine.configured(maps), maps, None, passes)
        (before, after) = trial.time([engine, engine.configured(maps)])
        found = keep(replace(found, speed=before / after))
        if found.drop <= max_drop:
            chosen = found if before > after else chosen  # 8 bits are slower on some machines
            break
    if exits and engine.head in EXIT_HEADS and passes > 1:
        chosen = _choose_exit(trial, engine.configured(chosen.int8), chosen, max_drop, keep)
    if exits and engine.head == VECTORS:
        chosen = _choose_depth(trial, chosen, max_drop, keep)
    tokens_at_once = _choose_tokens(trial, chosen)
    measured = {
        "metric": trial.task.metric,
        "examples": len(examples),
        "max_drop": max_drop,
        AS_IT_IS: trial.metric,
        "optimized": chosen.metric,
        "agreement": chosen.agreement,
        "passes": chosen.passes,
    }
    optimization = Optimization(
        weights=hash_weights(member.folder),
        int8=chosen.int8,
        exits=chosen.exits,
        depth=chosen.depth,
        tokens_at_once=tokens_at_once,
        measured=measured,
    )
    return OptimizeResult(trial.task.metric, len(examples), tuple(variants), chosen, optimization, engine.is_native)


def _choose_tokens(trial: _Trial, chosen: Variant) -> int | None:
    """How many tokens to run together on this machine, if not the usual number; no answer depends on it."""
    if trial.member.engine.is_native:
        return None
    usual, *others = (
        trial.member.engine.configured(chosen.int8, chosen.exits, chosen.depth, tokens)
        for tokens in (None, *_TOKENS_AT_ONCE)
    )
    before, *seconds = trial.time([usual, *others])
    best = min(range(len(others)), key=seconds.__getitem__)
    return _TOKENS_AT_ONCE[best] if before > _WORTH_IT * seconds[best] else None


def _list_int8(trial: _Trial) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Sets of maps to run with 8 bits: all of them; if that is too much, without those that suffer most."""
    engine = trial.member.engine
    maps = engine.int8_maps
    if choose_int8(frozenset(maps)) is None:
        return  # this machine does not multiply them right
    yield "int8", tuple(maps)
    worst = sorted(maps, key=lambda name: -trial.distance(engine.configured([name])))
    spared = 1
    while spared < len(maps):
        yield f"int8 but for {spared} of {len(maps)} maps", tuple(sorted(worst[spared:]))
        spared *= 2


def _choose_exit(
    trial: _Trial, engine: Engine, chosen: Variant, max_drop: float, keep: Callable[[Variant], Variant]
) -> Variant:
    """Try when answers may leave; take what runs the fewest passes and loses no more than is allowed."""
    recorder = _Recorder(engine)
    trial.run(recorder)
    best = chosen
    for name, policy in _list_policies(trial, engine).items():
        replay = _Replay(recorder, policy)
        found = trial.judge(f"{chosen.name}, {name}", replay, chosen.int8, policy, 0.0)
        found = keep(replace(found, passes=replay.passes))
        if found.drop <= max_drop and found.passes < best.passes:
            best = found
    if best is chosen:
        return chosen
    before, after = trial.time([trial.member.engine, engine.configured(best.int8, best.exits)])
    best = replace(best, speed=before / after)
    return best if before / after > (chosen.speed or 1) else chosen


def _choose_depth(trial: _Trial, chosen: Variant, max_drop: float, keep: Callable[[Variant], Variant]) -> Variant:
    """Try vectors after fewer passes, one fewer each time, until they have lost too much."""
    plain = trial.member.engine
    best, depths = chosen, plain.config.num_layers
    for depth in range(depths - 1, 0, -1):
        engine = plain.configured(chosen.int8, depth=depth)
        passes = len(layer_plan(plain.config, depth))
        found = trial.judge(f"{chosen.name}, depth {depth} of {depths}", engine, chosen.int8, None, passes)
        before, after = trial.time([plain, engine])
        found = keep(replace(found, depth=depth, speed=before / after))
        if found.drop > max_drop:
            break
        best = found
    return best


def _list_policies(trial: _Trial, engine: Engine) -> dict[str, ExitPolicy]:
    passes = engine.num_passes
    fixed = {f"{last} of {passes} passes": ExitPolicy(last=last) for last in range(1, passes)}
    if engine.config.problem_type == "regression":
        spread = max(float(np.std(np.asarray(trial.outputs, np.float64))), 1e-6)
        return fixed | {f"leave at {one:g}": ExitPolicy(confidence=one, spread=spread) for one in _CONFIDENCES}
    alike = {f"leave after {one + 1} alike": ExitPolicy(patience=one) for one in _PATIENCES if one + 1 < passes}
    return fixed | alike | {f"leave at {one:g}": ExitPolicy(confidence=one) for one in _CONFIDENCES}
