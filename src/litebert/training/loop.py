"""The training loop: one for pretraining and for every task, for one process and for many.

A step takes a batch, adds up the gradients of its micro-batches, and moves the weights, unless something is wrong with
it. What is trained, on what, comes as a `Job`. All processes take every decision alike, because they decide on the same
sums, and on the main process's clock.
"""

import gc
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
from litebert.training.config import TrainConfig, describe_differences
from litebert.training.distributed import (
    World,
    accumulating,
    clip_gradients,
    copy_into,
    gather,
    like_parameter,
    spread,
)
from litebert.training.job import Job, OnStep, ProgressEvent
from litebert.training.logbook import Logbook
from litebert.training.monitoring import BAD_STEPS, MOST_ROLLBACKS, Health, Interruption, Meter
from litebert.training.optim import learning_rate, make_optimizer
from litebert.training.state import Checkpoint, CheckpointStore, TrainingState

__all__ = ["Trainer", "find_checkpoint", "mix_seed"]

_LEAST_TRAINING = 0.5  # of a time budget, however long start and end take
_MOST_EVALUATING = 0.05  # of a time budget


class Trainer:
    """One run of one job. `run` takes it from where it stands to its end."""

    def __init__(
        self,
        job: Job[Any],
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
        self.spread_model = spread(self.model, world, config.parallel, job.spares_weights)
        self.optimizer = make_optimizer(self.model, config.optim)
        self.state = TrainingState(config=identity)
        self.health = Health()
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in self.model.named_parameters()}
        self.meter = Meter(job.losses, hardware_rate)
        self.gradient_norm = 0.0
        self._saved_at, self._saved_step = 0.0, -1
        self._saving_cost = self._evaluation_cost = 0.0  # seconds of the longest so far

    # --- where the run stands -----------------------------------------------------------------------------------

    @property
    def progress(self) -> float:
        """The share of the run that is done."""
        if self.config.steps is not None:
            return min(1.0, self.state.step / self.config.steps)
        budget = self.config.seconds
        assert budget is not None
        # A budget is for all of the run, so that its start and its end are taken off.
        left = max(budget - self.state.startup - self.state.reserve, _LEAST_TRAINING * budget)
        return min(1.0, self.state.seconds / left)

    def load(self, checkpoint: Checkpoint) -> None:
        """Take weights, optimiser and position from a checkpoint."""
        state = checkpoint.read_state()
        if differences := describe_differences(state.config, self.state.config):
            raise RequestError(
                f"{checkpoint.folder} is of a run with {differences}: repeat its settings, or choose another --out"
            )
        self._load_tensors(checkpoint)
        self.state = state
        self.health = Health(**state.health)
        self.meter.sums = dict(state.window)
        self._saved_at, self._saved_step = state.seconds, state.step

    def _load_tensors(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.read_tensors()
        stored = Model.from_pretrained(checkpoint.model).state_dict()
        stored |= {name: tensors.pop(name) for name in self.model.training_tensors}
        for name, target in self.model.state_dict().items():
            copy_into(target, stored[name])
        parameters = {name: parameter for parameter, name in self._names.items()}
        self.optimizer.state.clear()
        for key, tensor in tensors.items():
            name, _, slot = key.partition("/")
            parameter = parameters[name]
            fits = tensor.shape == parameter.shape and tensor.dim() > 0
            self.optimizer.state[parameter][slot] = (
                like_parameter(parameter, tensor) if fits else tensor.to(parameter.device)
            )

    def save(self) -> None:
        """Write a checkpoint, unless the last one is of this step; every process takes part, the main one writes."""
        if self._saved_step == self.state.step:
            return
        begun = self.clock()
        self.state.health, self.state.window = self.health.as_json(), dict(self.meter.sums)
        model: dict[str, Tensor] = {}
        tensors: dict[str, Tensor] = {}
        unwritten = self.model.training_tensors
        for name, tensor in self.model.state_dict().items():
            self._collect(tensors if name in unwritten else model, name, tensor)
        for parameter, slots in self.optimizer.state.items():
            for slot, value in slots.items():
                self._collect(tensors, f"{self._names[parameter]}/{slot}", value)
        if self.world.is_main:
            self.store.save(self.state, tensors, lambda folder: self.job.write_model(folder, model, self.state))
            self.tell("saved", f"checkpoint at step {self.state.step:,}")
        self._saved_at, self._saved_step = self.state.seconds, self.state.step
        self._saving_cost = max(self._saving_cost, self._share_seconds(since=begun))  # all wait here for the main one

    def _collect(self, collection: dict[str, Tensor], name: str, tensor: Tensor) -> None:
        """Gather a tensor from all processes; only the main one, which writes, keeps it."""
        whole = gather(tensor)
        if self.world.is_main:
            collection[name] = whole

    def _share_seconds(self, since: float) -> float:
        """How long it took by the clock of the main process."""
        (seconds,) = self.world.add([self.clock() - since if self.world.is_main else 0.0])
        return seconds

    def tell(self, what: str, message: str, ahead: int = 0) -> None:
        """Note an event in the logbook, for the step that was taken last or for one that is ahead."""
        self.book.write("event", self.state.step + ahead, seconds=self.state.seconds, what=what, message=message)

    # --- the loop -----------------------------------------------------------------------------------------------

    def run(
        self, interruption: Interruption | None = None, on_step: OnStep | None = None, called: float | None = None
    ) -> int | None:
        """Train until the run is done, or until a signal asks to stop; return that signal.

        `called` is the time on the clock at which the whole run was asked for: a time budget counts from then on.
        """
        interruption = interruption or Interruption()
        if self.state.step == 0:
            self.state.startup = 0.0 if called is None else self._share_seconds(since=called)
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
            micro_batches, cursor = next(steps)
            losses = self._step(micro_batches, stage)
            tokens, operations, asked, signals, seconds = self.world.add(
                [
                    float(sum(batch.num_tokens for batch in micro_batches)),
                    sum(self.job.operations(batch, stage) for batch in micro_batches),
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
                recent, metrics = self.meter.latest, state.metrics
                on_step(ProgressEvent(state.step, self.progress, state.seconds, state.tokens, recent, metrics))
            if asked:
                self.tell("interrupted", f"asked to stop at step {state.step:,}")
                self.save()
                return interruption.signal or int(signals / asked)
            # Whoever goes on after a rollback must go on with the weights of before.
            self._save_when_due(now=went_back or is_best)
        self.save()
        early = f"no better {self.job.metric} in {self.state.unimproved} evaluations: " if self.progress < 1 else ""
        self.tell("finished", f"{early}{self.state.step:,} steps, {self.state.tokens:,} tokens")
        return None

    def release(self) -> None:
        """Let go of what binds the processes together, while they are still bound.

        If the wrapper of the model outlives the group, it ends the group's threads when it is deleted, which may wait
        for each other forever.
        """
        if self.world.size > 1:
            self.spread_model = self.model
            gc.collect()

    def _enter(self, stage: int) -> None:
        """Begin another stage; rows of another length are other rows, so that the data begin anew."""
        after = self.config.stages[stage]
        if any(passed.length != after.length for passed in self.config.stages[self.state.stage : stage]):
            self.state.cursor = None
        for entered in range(self.state.stage + 1, stage + 1):  # a short one may have passed between two steps
            self.job.enter(entered)
        self.state.stage = stage
        self.health.forget()
        changes = after.model_dump(exclude={"until"}, exclude_none=True)
        shown = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changes.items())
        self.tell("stage", f"stage {stage + 1} of {len(self.config.stages)}: {shown or 'all as the model has it'}", 1)

    def _step(self, micro_batches: list[Batch], stage: int) -> list[float] | None:
        """Take one step on this process's micro-batches; return the parts of the loss over all, or None if skipped."""
        config = self.config
        torch.manual_seed(mix_seed(config.seed, self.state.step, self.world.rank))
        self.job.step_seed = mix_seed(config.seed, self.state.step, 0)
        counts = zip(*map(self.job.count, micro_batches), strict=True)
        totals = self.world.add([float(sum(count)) for count in counts])
        self.optimizer.zero_grad()
        sums = torch.zeros(len(totals), device=self.world.device)
        for number, batch in enumerate(micro_batches):
            with accumulating(self.spread_model, more_to_come=number < len(micro_batches) - 1):
                parts = torch.stack(self._measure(batch, totals, stage))
                # Processes average their gradients, but the parts are already divided by the counts of all.
                parts.sum().mul(self.world.size).backward()  # type: ignore[no-untyped-call]
            sums += parts.detach()
        losses = self.world.add(sums.tolist())
        self.gradient_norm = clip_gradients(self.model, config.optim.clip)
        fault = self.health.examine(sum(losses), self.gradient_norm, self.job.skip_loss_spikes)
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
        checkpoint = find_checkpoint(self.store, self.world, lambda message: self.tell("damaged", message))
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
            **self.job.describe_stage(stage),
            batch_size=self.config.batch_size_of(stage),
        )

    def _evaluate_when_due(self) -> bool:
        """Evaluate held-out data now and then; say whether these weights are the best so far."""
        state = self.state
        state.metric = None
        if not self._is_evaluation_due:
            return False
        state.evaluated = self.progress
        begun = self.clock()
        self.model.eval()
        state.metrics, samples = self.job.evaluate(state.stage)
        self.model.train()
        where = {"progress": self.progress, "seconds": state.seconds, "tokens": state.tokens}
        self.book.write("evaluation", state.step, **where, **state.metrics)
        if samples:
            self.book.write("samples", state.step, seconds=state.seconds, samples=samples)
        self._plan_the_end(self._share_seconds(since=begun))
        metric = state.metric = state.metrics.get(self.job.metric)
        is_best = metric is not None and (state.best is None or metric > state.best)
        if is_best:
            state.best, state.unimproved = metric, 0
        elif metric is not None:  # without one there is nothing to wait for
            state.unimproved += 1
        return is_best

    @property
    def _is_evaluation_due(self) -> bool:
        """Whether it is time for an evaluation, and whether a time budget has room for it beside the last one."""
        count = self.config.evaluations
        if int(self.progress * count) <= int(self.state.evaluated * count):
            return False
        if self.config.seconds is None or self.progress >= 1:
            return True
        room = _MOST_EVALUATING * self.config.seconds - self._evaluation_cost
        return self.state.evaluating + self._evaluation_cost <= room * self.progress or self.state.evaluating == 0

    def _plan_the_end(self, evaluation_seconds: float) -> None:
        """Set time aside for what comes after the last step: an evaluation, a checkpoint, the final model."""
        self.state.evaluating += evaluation_seconds
        self._evaluation_cost = max(self._evaluation_cost, evaluation_seconds)
        self.state.reserve = max(self.state.reserve, self._evaluation_cost + 2 * self._saving_cost)

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
