"""Twenty steps from the same weights on the same batches: the same losses as transformers, within 1e-4."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from litebert.batch import NO_LABEL, Batch
from litebert.config import ModelConfig
from litebert.model.model import Model
from litebert.training.objectives import pretraining_loss
from tests.conftest import small_config, small_inputs
from tests.parity.peers import open_in_transformers

CONFIGS: dict[str, ModelConfig] = {
    # transformers applies the classifier's dropout to the sentence head, ours (as the original) does not
    "albert": small_config(classifier_dropout=0.0),
    "albert without sharing": small_config(classifier_dropout=0.0, sharing="none"),
    "bert": small_config(classifier_dropout=0.0, family="bert", sharing="none", embedding_size=24, activation="gelu"),
}
NUM_STEPS = 20


def make_batch(config: ModelConfig, step: int) -> Batch:
    inputs = small_inputs(config, batch=4, tokens=20, seed=step)
    generator = torch.Generator().manual_seed(1000 + step)
    positions = torch.full((4, 5), -1)
    for row in range(4):
        length = int(inputs["attention_mask"][row].sum())
        count = 5 if row % 2 else 3
        positions[row, :count] = torch.randperm(length, generator=generator)[:count].sort().values
    labels = inputs["input_ids"].gather(1, positions.clamp(min=0)).masked_fill(positions < 0, NO_LABEL)
    sentences = torch.randint(2, (4,), generator=generator)
    return Batch(**inputs, masked_positions=positions, masked_labels=labels, sentence_labels=sentences)


@pytest.mark.parametrize("recompute", [False, True], ids=["plain", "recomputing"])
@pytest.mark.parametrize("name", CONFIGS)
def test_losses_are_equal(name: str, recompute: bool, tmp_path: Path) -> None:
    config = CONFIGS[name]
    torch.manual_seed(0)
    ours = Model(config, "pretraining").train()
    ours.encoder.recompute = recompute
    ours.save_pretrained(tmp_path)
    theirs = open_in_transformers(tmp_path).train()
    sentence_argument = "sentence_order_label" if config.family == "albert" else "next_sentence_label"
    optimizers = [torch.optim.AdamW(model.parameters(), lr=3e-3) for model in (ours, theirs)]
    losses: list[tuple[float, float]] = []
    for step in range(NUM_STEPS):
        batch = make_batch(config, step % 3)
        masked = {"input_ids": batch.input_ids, "token_type_ids": batch.token_type_ids}
        foreign = theirs(
            **masked,
            attention_mask=batch.attention_mask,
            labels=batch.token_labels(),
            **{sentence_argument: batch.sentence_labels},
        ).loss
        own = pretraining_loss(ours, batch)
        losses.append((own.item(), foreign.item()))
        for optimizer, loss in zip(optimizers, (own, foreign), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert max(abs(a - b) for a, b in losses) <= 1e-4
    assert losses[-1][0] < losses[0][0] - 0.1  # and it learned


def test_fine_tuning_losses_are_equal(tmp_path: Path) -> None:
    config = small_config(classifier_dropout=0.0, labels=("a", "b", "c"))
    ours = Model(config, "sequence-classification").train()
    ours.save_pretrained(tmp_path)
    theirs = open_in_transformers(tmp_path).train()
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (ours, theirs)]
    for step in range(NUM_STEPS):
        inputs = small_inputs(config, seed=step)
        labels = torch.tensor([0, 1, 2])
        own = F.cross_entropy(ours(**inputs).logits, labels)
        foreign = theirs(**inputs, labels=labels).loss
        assert abs(own.item() - foreign.item()) <= 1e-4
        for optimizer, loss in zip(optimizers, (own, foreign), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
