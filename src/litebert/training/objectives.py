"""What a model is asked to minimise: functions from its outputs and a batch to one number."""

import torch.nn.functional as F
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.model.model import Model, ModelOutput

__all__ = ["masked_lm_loss", "pretraining_loss", "sentence_loss"]


def masked_lm_loss(output: ModelOutput, batch: Batch) -> Tensor:
    """Cross-entropy of the masked words, averaged over them; 0 where no word is masked."""
    assert output.prediction_logits is not None
    assert batch.masked_positions is not None
    assert batch.masked_labels is not None
    labels = batch.masked_labels[batch.masked_positions >= 0]
    return F.cross_entropy(output.prediction_logits, labels, reduction="sum") / max(len(labels), 1)


def sentence_loss(output: ModelOutput, batch: Batch) -> Tensor:
    """Cross-entropy of the sentence task (order, or next sentence), averaged over the pairs; 0 where there is none."""
    assert output.sop_logits is not None
    assert batch.sentence_labels is not None
    labels = batch.sentence_labels.flatten()
    total = F.cross_entropy(output.sop_logits.flatten(0, -2), labels, ignore_index=NO_LABEL, reduction="sum")
    return total / (labels != NO_LABEL).sum().clamp(min=1)


def pretraining_loss(model: Model, batch: Batch, depth: int | None = None) -> Tensor:
    """The paper's objective: masked words plus sentence order, where the batch has labels for it."""
    output: ModelOutput = model(**batch.inputs(), depth=depth)
    loss = masked_lm_loss(output, batch)
    return loss if batch.sentence_labels is None else loss + sentence_loss(output, batch)
