"""`pretrain`: masked language modelling and sentence order on a corpus, as a job for the training loop.

Where it is asked for, a part of the other tokens is replaced, and the model says of each whether it was.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.replacement import Replacements
from litebert.corpus.stream import BatchStream, Cursor, StreamConfig
from litebert.errors import RequestError
from litebert.folders import MANIFEST, hash_file
from litebert.model.cost import training_flops
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, ModelOutput, to_arrays
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.counts import count_vectors
from litebert.pretraining.evaluation import complete_samples, evaluate_held_out, held_out_batches
from litebert.pretraining.guessers import Guessers
from litebert.pretraining.headstart import give_head_start, stack_layers, write_matching_head, write_segment_heads
from litebert.training.config import TrainConfig, num_micro_batches
from litebert.training.distributed import World
from litebert.training.job import OnMessage, OnStep, RunResult
from litebert.training.objectives import (
    count_masked,
    count_pairs,
    count_replaceable,
    masked_lm_loss,
    replaced_token_loss,
    sentence_order_loss,
)
from litebert.training.run import train
from litebert.training.state import TrainingState

__all__ = ["Pretraining", "count_frequencies", "pretrain", "read_steps", "stage_stream"]

_COUNTED_TOKENS = 10_000_000  # by the guessers
_COUNTED_AT_ONCE = 10_000_000
_TASKS = {"sop": "masked words and sentence order", "nsp": "masked words and next sentence", "none": "masked words"}


def pretrain(
    corpus: Corpus,
    out: Path,
    config: PretrainConfig,
    *,
    resume: bool = False,
    held_out: Corpus | None = None,
    guessers: bool = True,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Train an encoder on a corpus, into a run folder; with `resume`, from its newest whole checkpoint on.

    It is evaluated on the corpus' own held-out text, or on that of another corpus with the same tokenizer. Without
    `guessers` nobody counts what simple means get right there. Under torchrun every process calls this alike. After an
    elastic restart it goes on by itself.
    """
    if config.model.vocab_size != corpus.tokenizer.vocab_size:
        raise RequestError(
            f"the model has a vocabulary of {config.model.vocab_size:,}, the corpus one of "
            f"{corpus.tokenizer.vocab_size:,}: they must be the same"
        )
    job = Pretraining(corpus, config, held_out, guessers)
    return train(job, config, out, resume=resume, on_step=on_step, on_message=on_message, clock=clock)


class Pretraining:
    """The job of a pretraining run, for one of its processes."""

    kind = "pretraining"
    metric = "mlm_accuracy"
    keeps_best = False
    skip_loss_spikes = True
    step_seed = 0

    model: Model
    world: World
    held_out: list[Batch]
    replacements: Replacements | None = None

    def __init__(
        self, corpus: Corpus, config: PretrainConfig, held_out: Corpus | None = None, guessers: bool = True
    ) -> None:
        self.corpus, self.config = corpus, config
        self._evaluated, self._guessers = held_out or corpus, guessers
        self.data = {"corpus": hash_file(corpus.folder / MANIFEST)}
        self.has_pairs = config.stream.pairs != "none"
        asked = {"mlm_loss": True, "sop_loss": self.has_pairs, "replaced_loss": config.replaced_rate > 0}
        self.losses = tuple(name for name, is_asked in asked.items() if is_asked)
        grows = any(stage.depth is not None for stage in config.train.stages)
        asks_later = "replaced_loss" in self.losses and not all(
            map(config.replaces_at, range(len(config.train.stages)))
        )
        self.spares_weights = (grows and config.model.sharing != "all") or asks_later

    # --- before the first step ------------------------------------------------------------------------------------

    def describe_run(self) -> dict[str, Any]:
        """The corpus, and what counting alone gets right on the text that the run is evaluated on."""
        corpus, config = self.corpus, self.config
        about: dict[str, Any] = {
            "corpus": {
                "folder": str(corpus.folder),
                "train_tokens": corpus.num_tokens(TRAIN),
                "held_out_tokens": corpus.num_tokens(HELD_OUT),
                "sha256": self.data["corpus"],
            }
        }
        if self._guessers:
            batches = held_out_batches(self._evaluated, config.stream, config.held_out_rows)
            found = Guessers.count(corpus, _COUNTED_TOKENS).evaluate(batches)
            about["baselines"] = {"num_masked": found.num_masked, "unigram": found.unigram, "ngram": found.copying}
        return about

    def setup(self, world: World, config: PretrainConfig, fresh: bool, on_message: OnMessage) -> None:
        """Draw the weights, the same in every process, or read those of a folder; cut the held-out text.

        A run that goes on (not `fresh`) has its weights in a checkpoint, and needs that folder no more.
        """
        self.world, self.config = world, config
        torch.manual_seed(config.train.seed)
        if config.begin_from is not None and fresh:
            self.model = _open_model(config, config.begin_from, on_message)
        else:
            self.model = Model(config.model, config.head)
            if config.head_start and fresh:
                words = None
                if config.counted_tokens:
                    on_message(f"counting which words stand near which in {config.counted_tokens:,} tokens")
                    words = count_vectors(self.corpus, config.model.embedding_size, config.counted_tokens)
                frequencies = count_frequencies(self.corpus)
                give_head_start(self.model, frequencies, words)
                if config.segment_heads:
                    write_segment_heads(self.model, frequencies)
        if config.replaced_rate:
            on_message("learning which words stand beside which in a part of the text")
            self.replacements = Replacements.count(self.corpus, config.replaced_rate)
            self.model.add_replaced_head()
        self.held_out = held_out_batches(self._evaluated, config.stream, config.held_out_rows)

    # --- a step ---------------------------------------------------------------------------------------------------

    def steps(self, stage: int, cursor: list[int] | None) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's rows of each step, as micro-batches."""
        stream = stage_stream(self.config.stream, self.config.train, stage)
        replacements = self.replacements if self.config.replaces_at(stage) else None
        return read_steps(self.corpus, stream, self.config.train, stage, cursor, self.world, replacements)

    def enter(self, stage: int) -> None:
        """Give new layers the weights of trained ones, where they share none and a stage runs more of them.

        And write the head by which two segments are compared, where a stage says so: masked words alone forget it.
        Fresh weights without a head start have no head to spare for it.
        """
        before, depth = self._depth(stage - 1), self._depth(stage)
        if self.config.model.sharing == "none" and before < depth:
            stack_layers(self.model, before, depth)
        spared = self.config.head_start or self.config.begin_from is not None
        if spared and self.config.train.stages[stage].matching_head:
            write_matching_head(self.model)
            self.world.agree(self.model.encoder.attention[0].parameters())  # two machines may differ in a last digit

    def count(self, batch: Batch) -> list[int]:
        """Masked tokens, and pairs and replaceable tokens where they are asked about."""
        counts = {"mlm_loss": count_masked, "sop_loss": count_pairs, "replaced_loss": count_replaceable}
        return [counts[name](batch) for name in self.losses]

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """The loss of masked language modelling, and those of sentence order and replaced tokens if they are asked."""
        depth, replaces = self.config.train.stages[stage].depth, self.config.replaces_at(stage)
        output: ModelOutput = model(**batch.inputs(), find_replaced=replaces, depth=depth)
        total = dict(zip(self.losses, totals, strict=True))
        losses = [masked_lm_loss(output, batch, total["mlm_loss"])]
        if "sop_loss" in total:
            losses.append(sentence_order_loss(output, batch, total["sop_loss"]))
        if replaces:
            weight = self.config.replaced_weight
            losses.append(weight * replaced_token_loss(output, batch, total["replaced_loss"]))
        return [*losses, *(torch.zeros_like(losses[0]) for _ in self.losses[len(losses) :])]

    def operations(self, batch: Batch, stage: int) -> float:
        """Operations of a step on a batch, at the depth of the stage, padding included."""
        length, gathered = batch.input_ids.shape[1], not self.config.replaces_at(stage)
        return training_flops(self.config.model, length, gathered, self._depth(stage)) * batch.input_ids.numel()

    # --- now and then ---------------------------------------------------------------------------------------------

    def evaluate(self, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Metrics on held-out text, and some of it completed.

        They are taken at full depth, which the final model has. In a stage of another depth the loss and accuracy at
        that depth are added, under names that begin with `stage_`: full depth may be untrained until the last stage.
        """
        metrics = evaluate_held_out(self.model, self.held_out)
        samples = complete_samples(self.model, self.held_out, self.corpus.tokenizer)
        if self._depth(stage) != self.config.model.num_layers:
            found = evaluate_held_out(self.model, self.held_out, self._depth(stage))
            metrics |= {f"stage_{name}": value for name, value in found.items() if name != "num_masked"}
        return metrics, samples

    def describe_stage(self, stage: int) -> dict[str, Any]:
        """Depth and length of a stage."""
        return {
            "depth": self._depth(stage),
            "length": stage_stream(self.config.stream, self.config.train, stage).length,
        }

    def _depth(self, stage: int) -> int:
        return self.config.train.stages[stage].depth or self.config.model.num_layers

    # --- the model ------------------------------------------------------------------------------------------------

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights stay as they are."""
        return tensors

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder with the corpus' tokenizer, and a card that says where the weights come from."""
        about = self._describe_training(state)
        arrays, tokenizer = to_arrays(tensors), self.corpus.tokenizer
        write_folder(folder, self.config.model, self.config.head, arrays, tokenizer, about=about)

    def _describe_training(self, state: TrainingState) -> str:
        """The part of the model card that says how the weights were trained, and what they can do."""
        config, train, optim = self.config, self.config.train, self.config.train.optim
        text = self.corpus.num_tokens(TRAIN)
        stages = [f"{self._depth(i)} × {stage.length or config.stream.length}" for i, stage in enumerate(train.stages)]
        rows = {
            "task": _TASKS[config.stream.pairs],
            "text": f"{text:,} tokens, read {state.tokens / max(text, 1):.1f} times",
            "steps": f"{state.step:,}, {state.tokens:,} tokens in {state.seconds / 60:.1f} minutes",
            "batch": f"{train.batch_size_of(len(train.stages) - 1)} rows",
            "stages (depth × length)": " → ".join(stages),
            "optimiser": f"{optim.optimizer}, learning rate {optim.lr:g}, weight decay {optim.weight_decay:g}",
            "masked": f"{config.stream.mask_rate:.0%} of the tokens, up to {config.stream.max_ngram} words at a time",
        }
        if config.replaced_rate:
            rows["replaced"] = f"{config.replaced_rate:.0%} of the others, which the model told apart"
        lines = ["## Training", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
        if metrics := state.metrics:
            lines += ["", "## Evaluation", ""]
            lines += [f"On {metrics['num_masked']:,.0f} masked tokens in documents that training never saw:", ""]
            lines += ["| | |", "|-|-|", f"| masked words right | {metrics['mlm_accuracy']:.1%} |"]
            lines += [f"| their loss | {metrics['mlm_loss']:.3f} |"]
            if "sop_accuracy" in metrics:
                lines += [f"| sentence task right | {metrics['sop_accuracy']:.1%} (chance is 50 %) |"]
        return "\n".join(lines) + "\n"


def stage_stream(stream: StreamConfig, train: TrainConfig, stage: int) -> StreamConfig:
    """How the text is cut and masked in a stage. Rows of another length come in another order."""
    stages = train.stages
    length = stages[stage].length
    first = next(i for i in range(stage + 1) if all(s.length == length for s in stages[i : stage + 1]))
    changes = {"length": length, "mask_rate": stages[stage].mask_rate}
    given = {name: value for name, value in changes.items() if value is not None}
    return stream.model_copy(update={**given, "seed": stream.seed + first})


def read_steps(
    corpus: Corpus,
    stream: StreamConfig,
    train: TrainConfig,
    stage: int,
    cursor: list[int] | None,
    world: World,
    replacements: Replacements | None = None,
) -> Iterator[tuple[list[Batch], list[int]]]:
    """A process's rows of each step of a stage, as micro-batches, with the cursor after the step; without end."""
    size = train.batch_size_of(stage)
    count = num_micro_batches(size, world.size, train.micro_batch_size)
    start = None if cursor is None else Cursor(*cursor)
    rows = BatchStream(corpus, stream, replacements=replacements)
    batches = rows.batches(size // count, start, world.rank, world.size)
    while True:
        taken = [next(batches) for _ in range(count)]
        yield [batch for batch, _ in taken], list(taken[-1][1])


def _open_model(config: PretrainConfig, folder: str, on_message: OnMessage) -> Model:
    """The weights of a folder to begin with; they must have the shape of the run's model.

    Dropout may change, and where all layers share their weights, so may their number.
    """
    model = Model.from_pretrained(folder, config.head)
    may_change = {"initializer_range", "hidden_dropout", "attention_dropout", "classifier_dropout"}
    if config.model.sharing == "all":
        may_change |= {"num_layers"}
    if model.config.updated(**{name: getattr(config.model, name) for name in may_change}) != config.model:
        raise RequestError(f"{folder} has another shape than the run's model: leave out what changes it")
    if model.fresh_tensors:
        on_message(f"{folder} has no {', '.join(model.fresh_tensors)}: drawn afresh")
    if model.config == config.model:
        return model
    changed = Model(config.model, config.head)
    changed.load_state_dict(model.state_dict())
    return changed


def count_frequencies(corpus: Corpus) -> Tensor:
    """How frequent each id is in the training text."""
    counts = np.ones(corpus.tokenizer.vocab_size)
    for shard in corpus.shards[TRAIN]:
        for begin in range(0, shard.tokens.size, _COUNTED_AT_ONCE):
            counts += np.bincount(shard.tokens[begin : begin + _COUNTED_AT_ONCE], minlength=len(counts))
    counts[sorted(corpus.tokenizer.reserved_ids)] = 1e-3
    return torch.from_numpy(counts / counts.sum()).float()
