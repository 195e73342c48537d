"""Similarity: how alike two texts are, by the cosine of their vectors.

The encoder reads each text on its own (a bi-encoder), so that vectors can be kept and searched. The vector of a text is
the mean of its tokens' last states. The cosine is trained to be the given score, brought to 0 for the lowest and 1 for
the highest; where there are only these two (alike or not), halfway between them it says yes. Folders open in
sentence-transformers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from litebert.batch import Batch
from litebert.config import Head, ProblemType
from litebert.tasks.features import Features, encode_apart
from litebert.tasks.kinds.kind import Cells
from litebert.tasks.kinds.options import EncodeOptions, Outputs, TargetScale
from litebert.tasks.kinds.texts import Regression
from litebert.tasks.task import Columns, Example, Predictions, Task, TextExample
from litebert.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.model.model import ModelOutput

__all__ = ["Similarity"]


class Similarity(Regression):
    """How alike two texts are: a number for a pair, as for regression, but from two vectors."""

    name = "similarity"
    purpose = "how alike two texts are, by the cosine of their vectors"
    is_pair = True
    meanings: ClassVar[Mapping[str, str]] = {"f1": "harmonic mean of precision and recall of the pairs that are alike"}
    problem_type: ClassVar[ProblemType | None] = None

    def head(self, task: Task, plain: bool = False) -> Head:
        """The mean of the last states."""
        return "sentence-embedding"

    def model_settings(self, task: Task, max_length: int) -> dict[str, Any]:
        """A vector has no labels; others that open the folder cut texts where training did."""
        return {"labels": (), "problem_type": None, "embedding_max_length": max_length}

    def target_scale(self, examples: Sequence[Example]) -> TargetScale | None:
        """From 0 to 1, as a cosine of texts that have nothing in common, or everything."""
        return TargetScale.from_zero_to_one([self.gold(example) for example in examples])

    def parse(self, id_: str, cells: Cells, columns: Columns, with_labels: bool, location: str) -> TextExample:
        """Two texts and a score."""
        pair = columns if columns.pair is not None else columns.model_copy(update={"pair": "pair"})
        return super().parse(id_, cells, pair, with_labels, location)

    def wanted_columns(self, columns: Columns, with_labels: bool) -> tuple[str, ...]:
        """The second text as well."""
        return tuple(dict.fromkeys((*super().wanted_columns(columns, with_labels), columns.pair or "pair")))

    def encode(self, task: Task, examples: Sequence[Example], tokenizer: Tokenizer, options: EncodeOptions) -> Features:
        """Two rows for each pair, `[CLS] text [SEP]` each."""
        pairs = [example for example in examples if isinstance(example, TextExample)]
        features = encode_apart(tokenizer, [(one.text, one.pair or "") for one in pairs], options.max_length)
        has_labels = all(example.label is not None for example in pairs)
        return replace(features, labels=self.label_array(task, pairs) if has_labels else None)

    def loss(
        self, output: "ModelOutput", batch: Batch, totals: Sequence[float], weights: "Tensor | None" = None
    ) -> "list[Tensor]":
        """Squared error of the cosine."""
        from torch.nn.functional import cosine_similarity, mse_loss

        assert batch.labels is not None
        assert output.embedding is not None
        vectors = output.embedding.float()  # (pairs · 2, hidden)
        cosines = cosine_similarity(vectors[::2], vectors[1::2])
        return [mse_loss(cosines, batch.labels.float(), reduction="sum") / max(totals[0], 1)]

    def measure(
        self, task: Task, examples: Sequence[Example], golds: Sequence[Any], predictions: Predictions
    ) -> dict[str, float]:
        """Correlations and errors; of pairs that are alike or not, also how often that is told right."""
        metrics = super().measure(task, examples, golds, predictions)
        if len(scores := sorted(set(golds))) != 2:
            return metrics
        wanted, said = (np.asarray(values, np.float64) > sum(scores) / 2 for values in (golds, predictions.answers))
        f1 = 2 * np.sum(wanted & said) / (wanted.sum() + said.sum())
        return metrics | {"accuracy": float(np.mean(wanted == said)), "f1": float(f1)}

    def read_output(
        self, task: Task, outputs: Outputs, features: Features, items: Sequence[int], options: EncodeOptions
    ) -> list[Any]:
        """The cosine of each pair."""
        vectors = outputs["sentence_embedding"]
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-8)
        return list((vectors[::2] * vectors[1::2]).sum(1, keepdims=True))
