"""What a model is asked to minimise: functions from its outputs and a batch to one number.

Each loss is a mean over what is asked: masked words, sentence pairs. A step that is spread over several batches or
processes passes the count of all of them as `total`, so that its pieces add up to the loss of the whole.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import NO_LABEL, Batch
from litebert.model.model import ModelOutput

__all__ = ["count_pairs", "count_words", "masked_lm_loss", "pretraining_loss", "sentence_loss"]


def count_words(batch: Batch) -> int:
    """Masked words of a batch."""
    return 0 if batch.masked_positions is None else int((batch.masked_positions >= 0).sum())


def count_pairs(batch: Batch) -> int:
    """Sentence pairs of a batch about which something is asked."""
    return 0 if batch.sentence_labels is None else int((batch.sentence_labels != NO_LABEL).sum())


def masked_lm_loss(output: ModelOutput, batch: Batch, total: float | None = None) -> Tensor:
    """Cross-entropy of the masked words, averaged over them; 0 where no word is masked."""
    assert output.prediction_logits is not None
    assert batch.masked_positions is not None
    assert batch.masked_labels is not None
    labels = batch.masked_labels[batch.masked_positions >= 0]
    count = len(labels) if total is None else total
    return F.cross_entropy(output.prediction_logits.float(), labels, reduction="sum") / max(count, 1)


def sentence_loss(output: ModelOutput, batch: Batch, total: float | None = None) -> Tensor:
    """Cross-entropy of the sentence task (order, or next sentence), averaged over the pairs; 0 where there is none."""
    assert output.sop_logits is not None
    assert batch.sentence_labels is not None
    labels = batch.sentence_labels.flatten()
    logits = output.sop_logits.flatten(0, -2).float()
    count = count_pairs(batch) if total is None else total
    return F.cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum") / max(count, 1)


def pretraining_loss(model: nn.Module, batch: Batch, depth: int | None = None) -> Tensor:
    """The paper's objective: masked words plus sentence order, where the batch has labels for it."""
    output: ModelOutput = model(**batch.inputs(), depth=depth)
    loss = masked_lm_loss(output, batch)
    return loss if batch.sentence_labels is None else loss + sentence_loss(output, batch)
