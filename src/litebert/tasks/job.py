"""`Finetuning`: a task as a job for the training loop."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.model.cost import training_flops
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, ModelOutput
from litebert.tasks.card import describe_task
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.encoding import Encoded
from litebert.tasks.outputs import Outputs, predict
from litebert.tasks.rows import order_epoch
from litebert.tasks.saved import SavedTask, hash_examples
from litebert.tasks.scoring import score_outputs
from litebert.tasks.task import Example
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import num_micro_batches
from litebert.training.distributed import World
from litebert.training.loop import mix_seed
from litebert.training.objectives import (
    answerable_loss,
    class_loss,
    count_labels,
    score_loss,
    span_loss,
    yes_no_loss,
)
from litebert.training.state import TrainingState

__all__ = ["Finetuning", "Split"]


@dataclass(frozen=True)
class Split:
    """Examples and their rows."""

    examples: Sequence[Example]
    encoded: Encoded


class Finetuning:
    """The job of a fine-tuning run, for one of its processes."""

    kind = "fine-tuning"
    keeps_best = True
    skip_loss_spikes = False  # rare classes make them

    def __init__(
        self, model: Model, tokenizer: Tokenizer, config: FinetuneConfig, world: World, train: Split, dev: Split | None
    ) -> None:
        self.model, self.tokenizer, self.config, self.world = model, tokenizer, config, world
        self.task, self.train, self.dev = config.task, train, dev
        self.metric = self.task.score
        has_two = config.head == "answerable-question-answering"
        self.losses: tuple[str, ...] = ("span_loss", "answerable_loss") if has_two else ("loss",)
        self._dev_hash = None if dev is None else hash_examples(dev.examples)
        if config.frozen:
            model.encoder.requires_grad_(False)
            if model.encoder.pooler is not None:  # it stands on the encoder, and may be as fresh as the head
                model.encoder.pooler.requires_grad_(True)

    def steps(self, stage: int, cursor: list[int] | None) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's items of each step, as micro-batches; the longest items first, so that these are alike."""
        rows, train = self.train.encoded.rows, self.config.train
        size = train.batch_size_of(stage)
        count = num_micro_batches(size, self.world.size, train.micro_batch_size)
        share = size // self.world.size
        lengths = rows.lengths()
        epoch, begin = cursor or (0, 0)
        while True:
            order = order_epoch(lengths, size, mix_seed(train.seed, epoch))
            for number in range(begin, len(order)):
                step = order[number][lengths[order[number]].argsort(kind="stable")[::-1]]
                own = step[self.world.rank :: self.world.size]
                is_last = number + 1 == len(order)
                after = [epoch + 1, 0] if is_last else [epoch, number + 1]
                parts = [own[index * share // count : (index + 1) * share // count] for index in range(count)]
                yield [rows.collate(part, self.model.config.pad_token_id) for part in parts], after
            epoch, begin = epoch + 1, 0

    def count(self, batch: Batch) -> list[int]:
        """Labels that are asked for; the same for each part of the loss."""
        return [count_labels(batch)] * len(self.losses)

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """The loss of the task, in its parts."""
        if self.config.frozen:
            self.model.encoder.eval()  # what stays as it is needs no dropout
        output: ModelOutput = model(**batch.inputs())
        if self.task.kind == "questions":
            spans = span_loss(output, batch, totals[0])
            return [spans, answerable_loss(output, batch, totals[1])] if len(self.losses) > 1 else [spans]
        assert output.logits is not None
        assert batch.labels is not None
        match self.task.kind:
            case "regression":
                return [score_loss(output.logits, batch.labels, totals[0])]
            case "multi-label":
                return [yes_no_loss(output.logits, batch.labels, totals[0])]
            case "choice":
                assert batch.attention_mask is not None
                is_there = batch.attention_mask.sum(-1) > 1
                lowest = torch.finfo(output.logits.dtype).min
                return [class_loss(output.logits.masked_fill(~is_there, lowest), batch.labels, totals[0])]
            case _:
                return [class_loss(output.logits, batch.labels, totals[0])]

    def evaluate(self, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Score the development examples, if there are any; what the main process finds counts for all."""
        if self.dev is None:
            return {}, []
        outputs = predict(self.model, self.task, self.dev.examples, self.dev.encoded, self.config.windows)
        if self.config.scale is not None:
            outputs = Outputs([self.config.scale.stretch(scores) for scores in outputs.scores])
        scores, _ = score_outputs(self.task, self.dev.examples, outputs)
        shared = self.world.add([value if self.world.is_main else 0.0 for value in scores.values()])
        return dict(zip(scores, shared, strict=True)), []

    def operations(self, batch: Batch, stage: int) -> float:
        """Operations of a step on a batch, padding included; a frozen encoder only runs forward."""
        share = 1 / 3 if self.config.frozen else 1.0
        return share * training_flops(self.config.model, batch.input_ids.shape[-1]) * batch.input_ids.numel()

    def describe_stage(self, stage: int) -> dict[str, Any]:
        """Nothing changes from stage to stage."""
        return {}

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """A model of scores says them as they are, not as it has learnt them."""
        if self.config.scale is None:
            return tensors
        names = [f"heads.classifier.linear.{part}" for part in ("weight", "bias")]
        stretched = self.config.scale.stretch_head(*(tensors[name] for name in names))
        return tensors | dict(zip(names, stretched, strict=True))

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder that remembers its task."""
        config = self.config
        saved = SavedTask(
            task=self.task,
            max_length=config.max_length,
            windows=config.windows,
            threshold=state.metrics.get("threshold"),
            dev=self._dev_hash,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what transformers cannot open is on the card; once is enough
            write_folder(
                folder,
                config.model,
                config.head,
                tensors,
                self.tokenizer,
                about=describe_task(config, state, self.train.encoded.rows.num_items),
                extra_files=saved.as_files(),
            )
