"""What a model is asked to minimise: functions from its outputs and a batch to one number.

Each loss is a mean over its targets: masked tokens, sentence pairs. A step that is spread over several micro-batches or
processes passes the count of all of them as `total`, so that the parts add up to the loss of the whole.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import NO_LABEL, Batch
from litebert.model.model import ModelOutput

__all__ = [
    "answerable_loss",
    "class_loss",
    "count_labels",
    "count_masked",
    "count_pairs",
    "count_replaceable",
    "masked_lm_loss",
    "pretraining_loss",
    "replaced_token_loss",
    "score_loss",
    "sentence_order_loss",
    "span_loss",
    "yes_no_loss",
]


def count_masked(batch: Batch) -> int:
    """Masked tokens of a batch."""
    return 0 if batch.masked_positions is None else int((batch.masked_positions >= 0).sum())


def count_pairs(batch: Batch) -> int:
    """Sentence pairs of a batch about which something is asked."""
    return 0 if batch.sentence_labels is None else int((batch.sentence_labels != NO_LABEL).sum())


def count_replaceable(batch: Batch) -> int:
    """Tokens of a batch of which is asked whether they were replaced."""
    return 0 if batch.replaced_labels is None else int((batch.replaced_labels != NO_LABEL).sum())


def count_labels(batch: Batch) -> int:
    """Labels of a task: texts, tags, questions; of texts with several classes, each class is asked about."""
    labels = batch.start_positions if batch.labels is None else batch.labels
    if labels is None:
        return 0
    return labels.numel() if labels.is_floating_point() else int((labels != NO_LABEL).sum())


def masked_lm_loss(output: ModelOutput, batch: Batch, total: float | None = None) -> Tensor:
    """Cross-entropy of the masked tokens, averaged over them; 0 where none is masked."""
    assert output.prediction_logits is not None
    assert batch.masked_positions is not None
    assert batch.masked_labels is not None
    labels = batch.masked_labels[batch.masked_positions >= 0]
    count = len(labels) if total is None else total
    return F.cross_entropy(output.prediction_logits.float(), labels, reduction="sum") / max(count, 1)


def sentence_order_loss(output: ModelOutput, batch: Batch, total: float | None = None) -> Tensor:
    """Cross-entropy of the sentence task (order, or next sentence), averaged over the pairs; 0 where there is none."""
    assert output.sop_logits is not None
    assert batch.sentence_labels is not None
    labels = batch.sentence_labels.flatten()
    logits = output.sop_logits.flatten(0, -2).float()
    count = count_pairs(batch) if total is None else total
    return F.cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum") / max(count, 1)


def replaced_token_loss(output: ModelOutput, batch: Batch, total: float | None = None) -> Tensor:
    """Binary cross-entropy of whether a token was replaced, averaged over those that might have been."""
    assert output.replaced_logits is not None
    assert batch.replaced_labels is not None
    asked = batch.replaced_labels != NO_LABEL
    count = count_replaceable(batch) if total is None else total
    logits, labels = output.replaced_logits.float(), batch.replaced_labels.clamp(min=0).float()
    return F.binary_cross_entropy_with_logits(logits, labels, asked.float(), reduction="sum") / max(count, 1)


def pretraining_loss(model: nn.Module, batch: Batch, depth: int | None = None) -> Tensor:
    """The paper's objective: masked tokens plus sentence order, where the batch has labels for it."""
    output: ModelOutput = model(**batch.inputs(), depth=depth)
    loss = masked_lm_loss(output, batch)
    return loss if batch.sentence_labels is None else loss + sentence_order_loss(output, batch)


def class_loss(logits: Tensor, labels: Tensor, total: float, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of classes, of tags, or of the options of a question: (…, classes) against (…).

    Labels may also be shares of the classes, (…, classes), as a teacher gives them; `total` then counts each share.
    """
    flat = logits.float().flatten(0, -2)
    if labels.is_floating_point():
        soft = F.cross_entropy(flat, labels.flatten(0, -2), weights, reduction="sum")
        return soft * labels.shape[-1] / max(total, 1)
    loss = F.cross_entropy(flat, labels.flatten(), weights, ignore_index=NO_LABEL, reduction="sum")
    return loss / max(total, 1)


def yes_no_loss(logits: Tensor, labels: Tensor, total: float) -> Tensor:
    """Binary cross-entropy of each class of a text that may have several."""
    return F.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="sum") / max(total, 1)


def score_loss(logits: Tensor, labels: Tensor, total: float) -> Tensor:
    """Squared error of the one number that a head gives: (batch, 1) against (batch,)."""
    return F.mse_loss(logits.float().squeeze(-1), labels.float(), reduction="sum") / max(total, 1)


def span_loss(output: ModelOutput, batch: Batch, total: float) -> Tensor:
    """Half the cross-entropy of the answer's first token plus half of that of its last.

    Padding can hold no answer; without that, a row's loss would depend on the rows that it is batched with.
    """
    assert output.start_logits is not None
    assert output.end_logits is not None
    assert batch.start_positions is not None
    assert batch.end_positions is not None
    start, end = (_without_padding(logits, batch) for logits in (output.start_logits, output.end_logits))
    return (class_loss(start, batch.start_positions, total) + class_loss(end, batch.end_positions, total)) / 2


def _without_padding(logits: Tensor, batch: Batch) -> Tensor:
    mask = batch.attention_mask
    return logits if mask is None else logits.masked_fill(mask == 0, torch.finfo(logits.dtype).min)


def answerable_loss(output: ModelOutput, batch: Batch, total: float) -> Tensor:
    """Half the binary cross-entropy of whether the text holds an answer at all."""
    assert output.answerable_logits is not None
    assert batch.start_positions is not None
    known = batch.start_positions != NO_LABEL
    return yes_no_loss(output.answerable_logits[known], batch.start_positions[known] > 0, total) / 2
