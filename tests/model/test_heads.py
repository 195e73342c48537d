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


@pytest.mark.parametrize("normalize", [False, True])
def test_packed_vectors_are_those_of_each_text_alone(normalize: bool) -> None:
    model = Model(small_config(embedding_normalize=normalize), "sentence-embedding").eval()
    texts = [[2, 9, 8, 3], [2, 40, 41, 42, 3], [2, 3], [2, *range(10, 18), 3]]
    rows = [[texts[0], texts[1], texts[2]], [texts[3]]]
    ids = torch.zeros(2, 12, dtype=torch.long)
    numbers = torch.zeros_like(ids)
    for row, members in enumerate(rows):
        tokens = [(token, number) for number, text in enumerate(members, start=1) for token in text]
        ids[row, : len(tokens)] = torch.tensor([token for token, _ in tokens])
        numbers[row, : len(tokens)] = torch.tensor([number for _, number in tokens])
    starts = torch.tensor([[0, 4, 9, -1], [0, -1, -1, -1]])
    with torch.inference_mode():
        packed = model(ids, sequence_ids=numbers, sequence_starts=starts).embedding
        assert packed.shape == (2, 4, 24)  # as many as the starts have room for
        assert not packed[starts < 0].any()
        for found, text in zip(packed[starts >= 0], texts, strict=True):
            torch.testing.assert_close(found, model(torch.tensor([text])).embedding[0], atol=1e-5, rtol=0)
        without = model(ids, sequence_ids=numbers).embedding
        torch.testing.assert_close(without, packed[:, :3], atol=0, rtol=0)
    assert packed.isfinite().all()


def test_gradients_of_packed_vectors_stay_in_their_text() -> None:
    head = Model(small_config(), "sentence-embedding").heads["embedding"]
    states = torch.randn(1, 6, 24, requires_grad=True)
    head.embed_packed(states, torch.tensor([[1, 1, 2, 2, 2, 0]]), 3)[0, 1].sum().backward()  # type: ignore[operator]
    assert states.grad is not None
    assert states.grad[0].ne(0).any(1).tolist() == [False, False, True, True, True, False]
    torch.testing.assert_close(states.grad[0, 2:5], torch.full((3, 24), 1 / 3))


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
