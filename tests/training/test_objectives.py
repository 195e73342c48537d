"""Losses count what they should, packed or not."""

import pytest
import torch
import torch.nn.functional as F

from litebert.batch import NO_LABEL, Batch
from litebert.model.model import Model
from litebert.training.objectives import masked_lm_loss, pretraining_loss, sentence_order_loss
from tests.conftest import small_config, small_inputs


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model(small_config(), "pretraining").eval()


def test_masked_words_are_averaged_over_all_of_them(model: Model) -> None:
    inputs = small_inputs(model.config)
    positions = torch.tensor([[1, 2, 3], [4, -1, -1], [-1, -1, -1]])
    labels = torch.tensor([[10, 11, 12], [13, NO_LABEL, NO_LABEL], [NO_LABEL] * 3])
    batch = Batch(**inputs, masked_positions=positions, masked_labels=labels)
    every = model(**inputs).prediction_logits
    expected = F.cross_entropy(torch.stack([every[0, 1], every[0, 2], every[0, 3], every[1, 4]]), torch.arange(10, 14))
    assert pretraining_loss(model, batch).item() == pytest.approx(expected.item(), abs=1e-5)


def test_packed_sentences_without_label_do_not_count(model: Model) -> None:
    ids = torch.tensor([[2, 9, 3, 2, 8, 7, 3], [2, 5, 6, 7, 8, 9, 3]])
    packed = Batch(
        ids,
        sequence_ids=torch.tensor([[1, 1, 1, 2, 2, 2, 2], [1] * 7]),
        sequence_starts=torch.tensor([[0, 3], [0, -1]]),
        masked_positions=torch.tensor([[1], [2]]),
        masked_labels=torch.tensor([[9], [6]]),
        sentence_labels=torch.tensor([[1, 0], [1, NO_LABEL]]),
    )
    output = model(**packed.inputs())
    alone = [model(torch.tensor([row])).sop_logits[0] for row in ([2, 9, 3], [2, 8, 7, 3], ids[1].tolist())]
    expected = F.cross_entropy(torch.stack(alone), torch.tensor([1, 0, 1]))
    assert sentence_order_loss(output, packed).item() == pytest.approx(expected.item(), abs=1e-5)
    both = masked_lm_loss(output, packed) + expected
    assert pretraining_loss(model, packed).item() == pytest.approx(both.item(), abs=1e-5)


def test_a_batch_with_nothing_masked_costs_nothing(model: Model) -> None:
    nothing = torch.full((3, 2), -1)
    batch = Batch(**small_inputs(model.config), masked_positions=nothing, masked_labels=nothing)
    loss = pretraining_loss(model, batch)
    assert loss.item() == 0
    loss.backward()


def test_a_batch_knows_its_tokens_and_moves() -> None:
    inputs = small_inputs(small_config())
    batch = Batch(**inputs)
    assert batch.num_tokens == int(inputs["attention_mask"].sum())
    assert Batch(inputs["input_ids"]).num_tokens == inputs["input_ids"].numel()
    assert Batch(inputs["input_ids"], sequence_ids=torch.tensor([[1, 2, 0]])).num_tokens == 2
    assert batch.to("meta").input_ids.device.type == "meta"
    assert set(batch.inputs()) == {"input_ids", "attention_mask", "token_type_ids"}
