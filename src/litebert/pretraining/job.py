"""`Pretraining`: masked words and sentence order on a corpus, as a job for the training loop."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from litebert.batch import Batch
from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import BatchStream, Cursor, StreamConfig
from litebert.model.cost import training_flops
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, ModelOutput
from litebert.pretraining.card import describe_training
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import complete_samples, held_out_batches, score_held_out
from litebert.training.distributed import World
from litebert.training.job import num_pieces
from litebert.training.objectives import count_pairs, count_words, masked_lm_loss, sentence_loss
from litebert.training.state import TrainingState

__all__ = ["Pretraining"]


class Pretraining:
    """The job of a pretraining run, for one of its processes."""

    score = "words_accuracy"
    fears_leaps = True

    def __init__(self, model: Model, corpus: Corpus, config: PretrainConfig, world: World) -> None:
        self.model, self.corpus, self.config, self.world = model, corpus, config, world
        self.asks_about_sentences = config.stream.pairs != "none"
        self.losses: tuple[str, ...] = ("words_loss", "sentence_loss") if self.asks_about_sentences else ("words_loss",)
        self.held_out = held_out_batches(corpus, config.stream, config.held_out_rows)

    def stream_config(self, stage: int) -> StreamConfig:
        """How the text is cut and masked in a stage. Rows of another length come in another order."""
        stages = self.config.train.stages
        length = stages[stage].length
        first = next(i for i in range(stage + 1) if all(s.length == length for s in stages[i : stage + 1]))
        changes = {"length": length, "mask_rate": stages[stage].mask_rate}
        given = {name: value for name, value in changes.items() if value is not None}
        return self.config.stream.model_copy(update={**given, "seed": self.config.stream.seed + first})

    def steps(self, stage: int, cursor: list[int] | None) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's rows of each step, as micro-batches."""
        stream = BatchStream(self.corpus, self.stream_config(stage))
        size = self.config.train.batch_size_of(stage)
        count = num_pieces(size, self.world.size, self.config.train.rows_at_once)
        start = None if cursor is None else Cursor(*cursor)
        batches = stream.batches(size // count, start, self.world.rank, self.world.size)
        while True:
            taken = [next(batches) for _ in range(count)]
            yield [batch for batch, _ in taken], list(taken[-1][1])

    def count(self, batch: Batch) -> list[int]:
        """Masked words, and pairs where they are asked about."""
        return [count_words(batch), count_pairs(batch)] if self.asks_about_sentences else [count_words(batch)]

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """The loss of the words and of the sentences."""
        output: ModelOutput = model(**batch.inputs(), depth=self.config.train.stages[stage].depth)
        words = masked_lm_loss(output, batch, totals[0])
        return [words, sentence_loss(output, batch, totals[1])] if self.asks_about_sentences else [words]

    def evaluate(self) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Score held-out text, and complete some of it."""
        scores = score_held_out(self.model, self.held_out)
        return scores, complete_samples(self.model, self.held_out, self.corpus.tokenizer)

    def operations(self, batch: Batch, stage: int) -> float:
        """Operations of a step on a batch, at the depth of the stage, padding included."""
        depth = self.config.train.stages[stage].depth or self.config.model.num_layers
        length = batch.input_ids.shape[1]
        return training_flops(self.config.model, length, depth=depth) * batch.input_ids.numel()

    def describe(self, stage: int) -> dict[str, Any]:
        """Depth and length of a stage."""
        depth = self.config.train.stages[stage].depth or self.config.model.num_layers
        return {"depth": depth, "length": self.stream_config(stage).length}

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights stay as they are."""
        return tensors

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder with the corpus' tokenizer, and a card that says where the weights come from."""
        about = describe_training(self.config, self.corpus, state)
        write_folder(folder, self.config.model, self.config.head, tensors, self.corpus.tokenizer, about=about)
