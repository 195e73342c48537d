"""Scores on held-out text beside a plain computation, and samples that show what they say they show."""

import pytest
import torch
import torch.nn.functional as F

from litebert.batch import NO_LABEL
from litebert.corpus.corpus import HELD_OUT, Corpus
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.model.model import Model
from litebert.pretraining.evaluation import complete_samples, evaluate_held_out, held_out_batches
from tests.conftest import small_config


def make_model(head: str = "pretraining") -> Model:
    torch.manual_seed(3)
    return Model(small_config(vocab_size=400), head).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("pairs", ["sop", "none"])
@torch.no_grad()
def test_scores_are_those_of_a_plain_computation(small_corpus: Corpus, pairs: str, packing: bool) -> None:
    config = StreamConfig(length=32, pairs=pairs, packing=packing)  # type: ignore[arg-type]
    model = make_model("pretraining" if pairs == "sop" else "masked-lm")
    batches = held_out_batches(small_corpus, config, 96)
    assert len(batches) == 3
    losses, hits, sentence_losses, sentence_hits = [], [], [], []
    for batch in batches:
        for row in range(len(batch.input_ids)):  # one row at a time, all positions, labels as transformers takes them
            inputs = {name: tensor[row : row + 1] for name, tensor in batch.inputs().items()}
            del inputs["masked_positions"]
            output = model(**inputs)
            labels = batch.token_labels()[row]
            asked = labels != NO_LABEL
            logits = output.prediction_logits[0][asked].double()
            losses += F.cross_entropy(logits, labels[asked], reduction="none").tolist()
            hits += (logits.argmax(-1) == labels[asked]).tolist()
            if batch.sentence_labels is not None:
                truth = batch.sentence_labels[row].flatten()
                said = output.sop_logits.reshape(-1, 2)[truth != NO_LABEL].double()
                truth = truth[truth != NO_LABEL]
                sentence_losses += F.cross_entropy(said, truth, reduction="none").tolist()
                sentence_hits += (said.argmax(-1) == truth).tolist()
    expected = {"num_masked": len(hits), "mlm_loss": sum(losses) / len(losses)}
    expected["mlm_accuracy"] = sum(hits) / len(hits)
    if pairs == "sop":
        expected["sop_loss"] = sum(sentence_losses) / len(sentence_losses)
        expected["sop_accuracy"] = sum(sentence_hits) / len(sentence_hits)
    assert evaluate_held_out(model, batches) == pytest.approx(expected, rel=1e-5)


def test_held_out_rows_are_always_the_same_and_never_trained_on(small_corpus: Corpus) -> None:
    config = StreamConfig(length=32)
    first, second = (held_out_batches(small_corpus, config, 64) for _ in range(2))
    assert all(torch.equal(a.input_ids, b.input_ids) for a, b in zip(first, second, strict=True))
    everything = list(BatchStream(small_corpus, config, HELD_OUT).epoch(32))
    assert torch.equal(everything[1].input_ids, first[1].input_ids)
    assert len(held_out_batches(small_corpus, config, 10**9)) == len(everything)


def test_samples_show_the_gap_the_answer_and_the_guesses(small_corpus: Corpus) -> None:
    model, tokenizer = make_model(), small_corpus.tokenizer
    batches = held_out_batches(small_corpus, StreamConfig(length=32), 32)
    with torch.no_grad():
        model.heads["masked_lm"].bias[77] = 100.0  # it says the same everywhere
    samples = complete_samples(model, batches, tokenizer, count=4)
    assert len(samples) == 4
    answers = {tokenizer.piece(int(label)) for label in batches[0].masked_labels[batches[0].masked_labels >= 0]}  # type: ignore[index]
    for sample in samples:
        assert sample["text"].count(tokenizer.mask_token) == 1
        assert sample["answer"].replace(" ", "▁") in answers
        guesses = sample["guesses"]
        assert guesses[0] == [tokenizer.piece(77).replace("▁", " "), 1.0]
        assert [share for _, share in guesses] == sorted((share for _, share in guesses), reverse=True)


def test_a_model_that_knows_the_text_guesses_right(small_corpus: Corpus) -> None:
    """The logits of a sample belong to its gap: a model that is told the labels in their order is right everywhere."""
    batches = held_out_batches(small_corpus, StreamConfig(length=32), 32)
    labels = batches[0].masked_labels[batches[0].masked_labels >= 0]  # type: ignore[index]

    class Knowing(Model):
        def forward(self, *inputs: object, **named: object):  # type: ignore[no-untyped-def, override]
            output = super().forward(*inputs, **named)  # type: ignore[arg-type]
            output.prediction_logits.copy_(F.one_hot(labels, 400) * 50.0)
            return output

    model = Knowing(small_config(vocab_size=400), "pretraining").eval()
    samples = complete_samples(model, batches, small_corpus.tokenizer)
    assert samples
    assert all(sample["guesses"][0] == [sample["answer"], 1.0] for sample in samples)
    assert evaluate_held_out(model, batches)["mlm_accuracy"] == 1.0


def test_metrics_at_another_depth_are_those_of_a_shallower_model(small_corpus: Corpus) -> None:
    deep, shallow = (Model(small_config(vocab_size=400, num_layers=layers), "pretraining").eval() for layers in (4, 2))
    shallow.load_state_dict(deep.state_dict())
    batches = held_out_batches(small_corpus, StreamConfig(length=32), 32)
    assert evaluate_held_out(deep, batches, depth=2) == evaluate_held_out(shallow, batches)
    assert evaluate_held_out(deep, batches) != evaluate_held_out(shallow, batches)
