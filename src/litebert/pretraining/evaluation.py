"""How good is it? Masked tokens and sentence order on held-out text, and a look at what the model says."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import HELD_OUT, Corpus
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer

__all__ = ["complete_samples", "evaluate_held_out", "held_out_batches"]

_ROWS = 32  # evaluated together
_CONTEXT = 12  # tokens shown on each side of a sample's gap
_GUESSES = 3


def held_out_batches(corpus: Corpus, config: StreamConfig, num_rows: int) -> list[Batch]:
    """The first rows of held-out text, always the same."""
    return list(islice(BatchStream(corpus, config, HELD_OUT).epoch(_ROWS), max(1, num_rows // _ROWS)))


@torch.no_grad()
def evaluate_held_out(model: Model, batches: Iterable[Batch], depth: int | None = None) -> dict[str, float]:
    """Loss and accuracy on masked tokens, and on sentence order where it is asked; at full depth if none is named."""
    num_masked = num_pairs = 0
    sums = torch.zeros(4, dtype=torch.float64)  # loss and hits of masked tokens, then of pairs
    for batch in batches:
        batch = batch.to(next(model.parameters()).device)
        output = model(**batch.inputs(), depth=depth)
        assert batch.masked_labels is not None
        assert output.prediction_logits is not None
        labels = batch.masked_labels[batch.masked_labels != NO_LABEL]
        num_masked += len(labels)
        sums[:2] += _loss_and_hits(output.prediction_logits, labels)
        if batch.sentence_labels is not None and output.sop_logits is not None:
            asked = batch.sentence_labels.flatten() != NO_LABEL
            num_pairs += int(asked.sum())
            sums[2:] += _loss_and_hits(output.sop_logits.flatten(0, -2)[asked], batch.sentence_labels.flatten()[asked])
    metrics = {
        "num_masked": float(num_masked),
        "mlm_loss": float(sums[0]) / max(num_masked, 1),
        "mlm_accuracy": float(sums[1]) / max(num_masked, 1),
    }
    if num_pairs:
        metrics |= {"sop_loss": float(sums[2]) / num_pairs, "sop_accuracy": float(sums[3]) / num_pairs}
    return metrics


def _loss_and_hits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(logits.float(), labels, reduction="sum")
    return torch.stack([loss.double(), (logits.argmax(-1) == labels).sum().double()]).cpu()


@torch.no_grad()
def complete_samples(model: Model, batches: list[Batch], tokenizer: Tokenizer, count: int = 6) -> list[dict[str, Any]]:
    """Some gaps in held-out text, what stood there, and what the model would put there."""
    found = _find_gaps(batches[0], tokenizer.mask_id, count)
    if not found:
        return []
    batch = batches[0].to(next(model.parameters()).device)
    output = model(**batch.inputs())
    assert output.prediction_logits is not None
    probabilities = output.prediction_logits[torch.tensor([index for index, _, _ in found])].float().softmax(-1).cpu()
    samples = []
    for (_, row, column), probability in zip(found, probabilities, strict=True):
        best = probability.topk(_GUESSES)
        guesses = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        label = _label_at(batches[0], row, column)
        samples.append(
            {
                "text": _show_around(batches[0], row, column, tokenizer),
                "answer": _show(label, tokenizer),
                "guesses": [[_show(token, tokenizer), round(share, 4)] for token, share in guesses],
            }
        )
    return samples


def _find_gaps(batch: Batch, mask_id: int, count: int) -> list[tuple[int, int, int]]:
    """Gaps of a single token, one per row: their index among all masked tokens, row and column."""
    assert batch.masked_positions is not None
    ids = F.pad(batch.input_ids, (1, 1), value=mask_id)
    found: list[tuple[int, int, int]] = []
    index = 0
    for row, positions in enumerate(batch.masked_positions.tolist()):
        gap = None
        for column in positions:
            if column < 0:
                continue
            around = ids[row, column : column + 3].tolist()
            if gap is None and around[1] == mask_id and mask_id not in (around[0], around[2]) and column > _CONTEXT:
                gap = (index, row, column)
            index += 1
        if gap is not None and len(found) < count:
            found.append(gap)
    return found


def _label_at(batch: Batch, row: int, column: int) -> int:
    assert batch.masked_positions is not None
    assert batch.masked_labels is not None
    (indices,) = (batch.masked_positions[row] == column).nonzero(as_tuple=True)
    return int(batch.masked_labels[row, indices[0]])


def _show_around(batch: Batch, row: int, column: int, tokenizer: Tokenizer) -> str:
    """The text around a gap; other gaps are shown as dots."""
    begin = max(0, column - _CONTEXT)
    window = batch.input_ids[row, begin : column + _CONTEXT + 1].tolist()
    shown = [
        f" {tokenizer.mask_token} " if index == column - begin else _show(token, tokenizer)
        for index, token in enumerate(window)
    ]
    return " ".join("".join(shown).split())


def _show(token: int, tokenizer: Tokenizer) -> str:
    if token in tokenizer.special_ids:
        return " … " if token == tokenizer.mask_id else " | "
    piece = tokenizer.piece(token)
    if tokenizer.continues:
        return piece.removeprefix(tokenizer.continues) if piece.startswith(tokenizer.continues) else f" {piece}"
    return piece.replace("▁", " ")
