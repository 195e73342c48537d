"""The training loop: one for pretraining and for every task, for one process and for many.

A step takes rows, adds up the gradients of their pieces, and moves the weights, unless something is wrong with it. What
is trained, on what, comes as a `Job`. All processes take every decision alike, because they decide on the same sums.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from litebert.batch import Batch
from litebert.errors import LitebertError, RequestError
from litebert.model.model import Model
from litebert.training.config import TrainConfig
from litebert.training.distributed import (
    World,
    accumulating,
    clip_gradients,
    copy_into,
    gather,
    like_parameter,
    spread,
)
from litebert.training.health import BAD_STEPS, MOST_ROLLBACKS, Health
from litebert.training.interruption import Interruption
from litebert.training.job import Job, News, Outcome
from litebert.training.logbook import Logbook
from litebert.training.meter import Meter
from litebert.training.optim import learning_rate, make_optimizer
from litebert.training.state import Checkpoint, CheckpointStore, TrainingState

__all__ = ["Trainer", "describe_differences", "find_checkpoint", "mix_seed"]


class Trainer:
    """One run of one job. `run` takes it from where it stands to its end."""

    def __init__(
        self,
        job: Job,
        config: TrainConfig,
        identity: dict[str, Any],
        store: CheckpointStore,
        book: Logbook,
        world: World,
        *,
        hardware_rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` is all that makes this run what it is; a checkpoint of another run is refused."""
        self.job, self.config, self.store, self.book, self.world = job, config, store, book, world
        self.clock = clock
        self.model = job.model.train()
        self.model.encoder.recompute = config.recompute
        depth_varies = any(stage.depth is not None for stage in config.stages)
        self.spread_model = spread(self.model, world, config.parallel, depth_varies)
        self.optimizer = make_optimizer(self.model, config.optim)
        self.state = TrainingState(config=identity)
        self.health = Health()
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in self.model.named_parameters()}
        self.meter = Meter(job.losses, hardware_rate)
        self.gradient_norm = 0.0
        self._saved_at, self._saved_step = 0.0, -1

    # --- where the run stands -----------------------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """The share of the run that is done."""
        done = self.state.step if self.config.steps is not None else self.state.seconds
        total = self.config.steps or self.config.seconds
        assert total is not None
        return min(1.0, done / total)

    def load(self, checkpoint: Checkpoint) -> None:
        """Take weights, optimiser and position from a checkpoint."""
        state = checkpoint.read_state()
        if state.config != self.state.config:
            differences = describe_differences(state.config, self.state.config)
            raise RequestError(
                f"{checkpoint.folder} is of a run with {differences}: repeat its settings, or choose another --out"
            )
        self._load_tensors(checkpoint)
        self.state = state
        self.health = Health(**state.health)
        self.meter.sums = dict(state.window)
        self._saved_at, self._saved_step = state.seconds, state.step

    def _load_tensors(self, checkpoint: Checkpoint) -> None:
        stored = Model.from_pretrained(checkpoint.model).state_dict()
        for name, target in self.model.state_dict().items():
            copy_into(target, stored[name])
        tensors = checkpoint.read_tensors()
        parameters = {name: parameter for parameter, name in self._names.items()}
        self.optimizer.state.clear()
        for place, tensor in tensors.items():
            name, _, slot = place.partition("/")
            parameter = parameters[name]
            fits = tensor.shape == parameter.shape and tensor.dim() > 0
            self.optimizer.state[parameter][slot] = (
                like_parameter(parameter, tensor) if fits else tensor.to(parameter.device)
            )

    def save(self) -> None:
        """Write a checkpoint, unless the last one is of this step; every process takes part, the main one writes."""
        if self._saved_step == self.state.step:
            return
        self.state.health, self.state.window = self.health.as_json(), dict(self.meter.sums)
        model: dict[str, Tensor] = {}
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.model.state_dict().items():
            self._collect(model, name, tensor)
        for parameter, slots in self.optimizer.state.items():
            for slot, value in slots.items():
                self._collect(tensors, f"{self._names[parameter]}/{slot}", value)
        if self.world.is_main:
            self.store.save(self.state, tensors, lambda folder: self.job.write_model(folder, model, self.state))
            self.tell("saved", f"checkpoint at step {self.state.step:,}")
        self._saved_at, self._saved_step = self.state.seconds, self.state.step
        self.world.wait()

    def _collect(self, collection: dict[str, Tensor], name: str, tensor: Tensor) -> None:
        """Gather a tensor from all processes; only the main one, which writes, keeps it."""
        whole = gather(tensor)
        if self.world.is_main:
            collection[name] = whole

    def tell(self, what: str, words: str, ahead: int = 0) -> None:
        """Note an event in the logbook, for the step that was taken last or for one that is ahead."""
        self.book.write("event", self.state.step + ahead, seconds=self.state.seconds, what=what, words=words)

    # --- the loop -----------------------------------------------------------------------------------------------

    def run(self, interruption: Interruption | None = None, on_step: Callable[[News], None] | None = None) -> Outcome:
        """Train until the run is done, or until somebody asks to stop."""
        interruption = interruption or Interruption()
        begun = self.clock() - self.state.seconds
        if self.state.step == 0:
            self.save()  # there is always something to go back to
        steps: Iterator[tuple[list[Batch], list[int]]] | None = None
        while self.progress < 1 and not self._is_out_of_patience:
            before = self.clock()
            stage = self.config.stage_at(self.progress)
            if stage != self.state.stage:
                self._enter(stage)
                steps = None
            if steps is None:
                steps = self.job.steps(stage, self.state.cursor)
            batches, cursor = next(steps)
            losses = self._step(batches, stage)
            tokens, operations, asked, signals, seconds = self.world.add(
                [
                    float(sum(batch.num_tokens for batch in batches)),
                    sum(self.job.operations(batch, stage) for batch in batches),
                    float(interruption.signal is not None),
                    float(interruption.signal or 0),
                    self.clock() - begun if self.world.is_main else 0.0,
                ]
            )
            state = self.state
            state.cursor, state.step, state.tokens = cursor, state.step + 1, state.tokens + int(tokens)
            self.meter.add(losses, tokens, operations, self.clock() - before)
            state.seconds = seconds
            went_back = self.health.bad_in_a_row >= BAD_STEPS
            if went_back:
                self._go_back()
            self._write_when_due(stage)
            is_best = self._evaluate_when_due()
            if on_step is not None:
                on_step(News(state.step, self.progress, state.seconds, state.tokens, self.meter.latest, state.scores))
            if asked:
                self.tell("interrupted", f"asked to stop at step {state.step:,}")
                self.save()
                return Outcome("interrupted", state, interruption.signal or int(signals / asked))
            self._save_when_due(
                now=went_back or is_best
            )  # whoever goes on from here must go on with the weights of before
        self.save()
        early = f"no better score in {self.state.unimproved} evaluations: " if self.progress < 1 else ""
        self.tell("finished", f"{early}{self.state.step:,} steps, {self.state.tokens:,} tokens")
        return Outcome("finished", self.state)

    def _enter(self, stage: int) -> None:
        """Begin another stage; rows of another length are other rows, so that the data begin anew."""
        after = self.config.stages[stage]
        if any(passed.length != after.length for passed in self.config.stages[self.state.stage : stage]):
            self.state.cursor = None
        self.state.stage = stage
        self.health.forget()
        changes = after.model_dump(exclude={"until"}, exclude_none=True)
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changes.items())
        self.tell("stage", f"stage {stage + 1} of {len(self.config.stages)}: {words or 'all as the model has it'}", 1)

    def _step(self, batches: list[Batch], stage: int) -> list[float] | None:
        """Take one step on this process's pieces; return the parts of the loss over all, or None if it was skipped."""
        config = self.config
        torch.manual_seed(mix_seed(config.seed, self.state.step, self.world.rank))
        totals = self.world.add([float(sum(counts)) for counts in zip(*map(self.job.count, batches), strict=True)])
        self.optimizer.zero_grad()
        sums = torch.zeros(len(totals), device=self.world.device)
        for number, batch in enumerate(batches):
            with accumulating(self.spread_model, more_to_come=number < len(batches) - 1):
                parts = torch.stack(self._measure(batch, totals, stage))
                # Processes average their gradients, but the parts are already divided by the counts of all.
                parts.sum().mul(self.world.size).backward()  # type: ignore[no-untyped-call]
            sums += parts.detach()
        losses = self.world.add(sums.tolist())
        self.gradient_norm = clip_gradients(self.model, config.optim.clip)
        fault = self.health.examine(sum(losses), self.gradient_norm, self.job.fears_leaps)
        if fault is not None:
            self.tell("skipped", f"step {self.state.step + 1:,} was skipped: {fault}", ahead=1)
            return None
        share = 1 / config.steps if config.steps is not None else 0.0
        rate = learning_rate(self.progress, config.optim, share) * self.health.rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return losses

    def _measure(self, batch: Batch, totals: list[float], stage: int) -> list[Tensor]:
        device = self.world.device.type
        with torch.autocast(device, torch.bfloat16) if self.config.precision == "bf16" else nullcontext():
            batch = batch if device == "cpu" else batch.to(self.world.device)
            return self.job.measure(self.spread_model, batch, totals, stage)

    def _go_back(self) -> None:
        """Return to the weights of the last good checkpoint, with a lower rate; the data go on, the steps count on."""
        self.health.go_back()
        if self.health.rollbacks > MOST_ROLLBACKS:
            raise LitebertError(
                f"the loss broke down again after going back {MOST_ROLLBACKS} times (step {self.state.step:,}): "
                "begin again with a lower --lr"
            )
        checkpoint = find_checkpoint(self.store, self.world, lambda words: self.tell("damaged", words))
        if checkpoint is None:
            raise LitebertError(f"{self.store.folder} has no whole checkpoint to go back to: begin again")
        self._load_tensors(checkpoint)
        self.tell(
            "rolled back",
            f"{BAD_STEPS} bad steps in a row: back to the weights of step {checkpoint.step:,}, "
            f"with {self.health.rate:g} of the learning rate",
        )
        self.world.wait()  # nobody may prune what another still reads

    # --- now and then ---------------------------------------------------------------------------------------------

    def _write_when_due(self, stage: int) -> None:
        if self.state.step % self.config.log_steps and self.progress < 1:
            return
        self.book.write(
            "step",
            self.state.step,
            progress=self.progress,
            seconds=self.state.seconds,
            tokens=self.state.tokens,
            **self.meter.read(),
            learning_rate=self.optimizer.param_groups[0]["lr"],
            gradient_norm=self.gradient_norm,
            **self.job.describe(stage),
            batch_size=self.config.batch_size_of(stage),
        )

    def _evaluate_when_due(self) -> bool:
        """Score held-out data now and then; say whether these weights are the best so far."""
        self.state.score = None
        count = self.config.evaluations
        if int(self.progress * count) <= int(self.state.evaluated * count):
            return False
        self.state.evaluated = self.progress
        self.model.eval()
        self.state.scores, samples = self.job.evaluate()
        self.model.train()
        score = self.state.score = self.state.scores.get(self.job.score)
        where = {"progress": self.progress, "seconds": self.state.seconds, "tokens": self.state.tokens}
        self.book.write("evaluation", self.state.step, **where, **self.state.scores)
        if samples:
            self.book.write("samples", self.state.step, seconds=self.state.seconds, samples=samples)
        is_best = score is not None and (self.state.best is None or score > self.state.best)
        if is_best:
            self.state.best, self.state.unimproved = score, 0
        elif score is not None:  # without one there is nothing to wait for
            self.state.unimproved += 1
        return is_best

    @property
    def _is_out_of_patience(self) -> bool:
        return self.config.patience is not None and self.state.unimproved >= self.config.patience

    def _save_when_due(self, now: bool) -> None:
        if self.health.bad_in_a_row and not now:
            return  # nothing to go back to
        by_steps = self.config.save_steps is not None and self.state.step % self.config.save_steps == 0
        waited = self.state.seconds - self._saved_at
        if now or by_steps or (self.config.save_seconds is not None and waited >= self.config.save_seconds):
            self.save()


def find_checkpoint(store: CheckpointStore, world: World, on_damage: Callable[[str], None]) -> Checkpoint | None:
    """The newest whole checkpoint; the main process looks, and all take the one that it found."""
    found = store.newest(on_damage) if world.is_main else None
    (step,) = world.add([float(found.step if found else -1) if world.is_main else 0.0])
    return None if step < 0 else store.at(int(step))


def mix_seed(*numbers: int) -> int:
    """One seed from several numbers, all of whose bits depend on all of them: generators may look at some bits only."""
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest(), "little") >> 1


def describe_differences(stored: dict[str, Any], wanted: dict[str, Any], prefix: str = "") -> str:
    """Name the settings that differ."""
    names = []
    for name in sorted({*stored, *wanted}):
        old, new = stored.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            if old != new:
                names.append(describe_differences(old, new, f"{prefix}{name}."))
        elif _is_hash(old) and _is_hash(new):
            if old != new:
                names.append(f"other {name}")
        elif old != new:
            names.append(f"{prefix}{name} {old} instead of {new}")
    return ", ".join(names)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
