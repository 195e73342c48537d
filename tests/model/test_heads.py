"""Shapes and meanings of what the heads return."""

import pytest
import torch

from litebert.model.model import Model
from tests.conftest import small_config, small_inputs


def test_regression_has_one_output() -> None:
    config = small_config(labels=("score",), problem_type="regression")
    assert Model(config, "sequence-classification")(**small_inputs(config)).logits.shape == (3, 1)


def test_any_number_of_choices() -> None:
    config = small_config()
    model = Model(config, "multiple-choice").eval()
    inputs = small_inputs(config, batch=5)
    asked = {name: x[None] for name, x in inputs.items()}
    output = model(**asked)
    assert output.logits.shape == (1, 5)
    fewer = model(**{name: x[:, :3] for name, x in asked.items()}).logits
    torch.testing.assert_close(fewer, output.logits[:, :3], atol=1e-5, rtol=0)


def test_answerable_spans() -> None:
    config = small_config()
    model = Model(config, "answerable-question-answering").eval()
    inputs = small_inputs(config)
    output = model(**inputs)
    assert output.answerable_logits.shape == (3,)
    beam = output.beam
    assert beam.starts.shape == (3, 5)
    assert beam.ends.shape == beam.end_log_probs.shape == (3, 5, 5)
    assert (beam.start_log_probs[:, :-1] >= beam.start_log_probs[:, 1:]).all()
    lengths = inputs["attention_mask"].sum(1)
    assert (beam.starts < lengths[:, None]).all()
    likely = beam.end_log_probs > -1e9
    assert likely[:, :, 0].all()
    assert (beam.ends < lengths[:, None, None])[likely].all()
    assert (beam.ends >= beam.starts[:, :, None])[likely].all()
    # The beam's first start with its ends is what a call with that start as the gold one says of positions from it on.
    given = model(**inputs, start_positions=beam.starts[:, 0])
    assert given.beam is None
    is_before = torch.arange(given.end_logits.shape[1]) < beam.starts[:, :1]
    best = given.end_logits.masked_fill(is_before, torch.finfo().min).log_softmax(-1).topk(5)
    first = likely[:, 0]
    torch.testing.assert_close(best.values[first], beam.end_log_probs[:, 0][first], atol=1e-5, rtol=0)
    assert torch.equal(best.indices[first], beam.ends[:, 0][first])


def test_answer_mask_restricts_spans() -> None:
    config = small_config()
    model = Model(config, "answerable-question-answering").eval()
    inputs = small_inputs(config)
    allowed = torch.zeros_like(inputs["input_ids"])
    allowed[:, 4:7] = 1  # fewer positions than the beam is wide
    output = model(**inputs, answer_mask=allowed)
    likely = output.beam.start_log_probs > -1e9
    assert likely.sum(1).tolist() == [3, 3, 3]
    assert ((output.beam.starts >= 4) & (output.beam.starts < 7))[likely].all()
    ends, certain = output.beam.ends, (output.beam.end_log_probs > -1e9) & likely[:, :, None]
    assert ((ends >= 4) & (ends < 7))[certain].all()
    assert output.end_logits.argmax(-1).ge(4).all()


@pytest.mark.parametrize("head", ["pretraining", "masked-lm"])
def test_word_scores_use_the_word_table(head: str) -> None:
    config = small_config()
    model = Model(config, head)  # type: ignore[arg-type]
    names = [name for name, _ in model.named_parameters() if "words" in name or "decoder" in name]
    assert names == ["encoder.embeddings.words.weight"]
    before = model(**small_inputs(config)).prediction_logits
    with torch.no_grad():
        model.encoder.embeddings.words.weight[96] += torch.arange(12)
    changed = (model(**small_inputs(config)).prediction_logits - before).abs().amax((0, 1)) > 1e-6
    assert changed[96]
