"""A distillation as it runs: what the student learns, and that every way there ends with the same bits."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.batch import Batch
from litebert.corpus.corpus import HELD_OUT, Corpus
from litebert.corpus.stream import BatchStream
from litebert.distillation.config import DistillConfig
from litebert.distillation.job import Distillation, RatedPairs
from litebert.errors import RequestError
from litebert.folders import hash_file
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import Stage
from litebert.training.job import ProgressEvent
from litebert.training.optim import OptimConfig
from litebert.training.state import CheckpointStore
from tests.corpus.conftest import make_documents, prepare_documents
from tests.distillation.runs import BERT, begin, distill_here, make_teacher, tiny_distillation
from tests.pretraining.runs import assert_same_end, entries, last_tensors

QUICKLY = OptimConfig(optimizer="adamw", lr=0.01, beta2=0.98, warmup=0.1)
GROWING = (Stage(until=0.4, depth=1, length=16, batch_size=16), Stage(until=0.7), Stage(length=48, batch_size=5))


@pytest.fixture(scope="module")
def finished(bert: Path, small_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert distill_here(small_corpus, out, tiny_distillation(bert)).status == "finished"
    return out


# --- what it learns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "depths"), [({}, (1, 2, 4)), ({"sharing": "groups", "num_inner_layers": 2}, (1, 2))])
def test_the_student_comes_nearer_to_its_teacher_at_every_depth(
    shape: dict[str, Any], depths: tuple[int, ...], bert: Path, small_corpus: Corpus, tmp_path: Path
) -> None:
    config = tiny_distillation(bert, shape, depths=depths, steps=160, evaluations=1, save_steps=None, optim=QUICKLY)
    before, _ = begin(small_corpus, config).evaluate(0)
    after = distill_here(small_corpus, tmp_path / "run", config).metrics
    assert after.keys() == before.keys()
    assert after["agreement_first_8"] > before["agreement_first_8"]
    for ending in ("", *(f"_depth_{depth}" for depth in depths[:-1])):
        assert after[f"agreement{ending}"] > max(0.6, before[f"agreement{ending}"] + 0.1), ending
        assert after[f"cosine{ending}"] > 0.95, ending


def test_an_albert_teaches_too(albert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    """A student of its teacher's shape knows all of it at the start, and need but learn to do with fewer passes."""
    config = tiny_distillation(albert, evaluations=1, save_steps=None, steps=40)
    before, _ = begin(small_corpus, config).evaluate(0)
    assert before["agreement"] == pytest.approx(1, abs=1e-5)
    assert before["cosine"] == pytest.approx(1, abs=1e-5)
    after = distill_here(small_corpus, tmp_path / "run", config).metrics
    assert after["agreement_depth_1"] > before["agreement_depth_1"]
    assert after["agreement"] > 0.9


def test_a_student_with_word_pieces_of_its_own_learns_from_the_text(
    bert: Path, other_corpus: Corpus, tmp_path: Path
) -> None:
    config = tiny_distillation(
        bert, {"vocab_size": 300}, steps=60, evaluations=1, save_steps=None, optim=QUICKLY, depths=(2,)
    )
    before, _ = begin(other_corpus, config).evaluate(0)
    messages: list[str] = []
    after = distill_here(other_corpus, tmp_path / "run", config, on_message=messages.append).metrics
    assert after["agreement"] > before["agreement"] + 0.05
    assert messages[0] == "the student has word pieces of its own: vectors are taught, states are not"
    assert messages[1].startswith("a student of ")


def test_the_teachers_vector_of_a_text_is_the_same_in_other_word_pieces(bert: Path, small_corpus: Corpus) -> None:
    """Read from packed rows of its own pieces, or from the text that they stand for."""
    job = begin(small_corpus, tiny_distillation(bert))
    batch = job.held_out[0]
    _, packed = job._teach(batch)
    texts = job._teach_texts(batch)
    assert packed.shape == texts.shape
    same = torch.cosine_similarity(packed, texts) > 1 - 1e-5
    assert same.float().mean() > 0.9  # a text that was cut within a word is read otherwise


@pytest.mark.parametrize(
    ("shape", "has_own_pieces", "parts"),
    [
        ({}, False, ["states", "vectors", "similarities"]),
        ({"vocab_size": 300}, True, ["vectors", "similarities"]),
        ({"hidden_size": 36}, False, ["similarities"]),
        ({"hidden_size": 36, "vocab_size": 300}, True, ["similarities"]),
    ],
)
def test_what_is_taught_depends_on_what_both_have_in_common(
    shape: dict[str, Any],
    has_own_pieces: bool,
    parts: list[str],
    bert: Path,
    small_corpus: Corpus,
    other_corpus: Corpus,
    tmp_path: Path,
) -> None:
    corpus = other_corpus if has_own_pieces else small_corpus
    result = distill_here(corpus, tmp_path / "run", tiny_distillation(bert, shape, steps=2, save_steps=None))
    names = [name for name in entries(tmp_path / "run", "step")[0] if name.endswith("_loss")]
    assert names == [f"{part}_loss" for part in parts]
    assert ("cosine" in result.metrics) == ("vectors" in parts)
    assert f"| taught | {', '.join(parts)} |" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_a_part_without_weight_is_not_taught(bert: Path, small_corpus: Corpus) -> None:
    nothing = {"states": 0.0, "vectors": 0.0, "similarities": 0.0}
    assert Distillation(small_corpus, tiny_distillation(bert, weights={"vectors": 0.0})).losses == (
        "states_loss",
        "similarities_loss",
    )
    with pytest.raises(RequestError, match="nothing is taught"):
        Distillation(small_corpus, tiny_distillation(bert, weights=nothing))


def test_rated_pairs_are_measured_at_every_depth(bert: Path, small_corpus: Corpus) -> None:
    texts = [f"{document} and more" for document in make_documents(9, seed=3)]
    model, tokenizer = Model.from_pretrained(bert, "sentence-embedding"), Tokenizer.from_pretrained(bert)
    encoded = tokenizer.encode(texts, max_length=48)
    with torch.inference_mode():
        vectors = model(torch.from_numpy(encoded.input_ids), torch.from_numpy(encoded.attention_mask)).embedding
    scores = torch.cosine_similarity(vectors[:-1], vectors[1:]).tolist()
    rated = RatedPairs(texts[:-1], texts[1:], scores)
    config = tiny_distillation(bert, {**BERT, "num_layers": 3}, depths=(1, 3))  # as its teacher
    found, _ = begin(small_corpus, config, rated).evaluate(0)
    assert found["sts"] == pytest.approx(1, abs=1e-4)
    assert found["teacher_sts"] == pytest.approx(1, abs=1e-4)
    assert found["sts_depth_1"] < 0.999


# --- a step -----------------------------------------------------------------------------------------------------------


def gradients(job: Distillation, batches: list[Batch], seed: int) -> dict[str, Tensor]:
    """The gradients of one step on these micro-batches, as the loop makes them."""
    totals = [float(sum(counts)) for counts in zip(*map(job.count, batches), strict=True)]
    job.model.zero_grad()
    torch.manual_seed(seed)
    job.step_seed = seed
    for batch in batches:
        torch.stack(job.measure(job.model.train(), batch, totals, 0)).sum().backward()
    return {
        name: parameter.grad.clone() for name, parameter in job.model.named_parameters() if parameter.grad is not None
    }


def halves(batch: Batch) -> list[Batch]:
    """The rows of a batch in two."""
    rows = len(batch.input_ids) // 2
    fields = {name: tensor for name, tensor in vars(batch).items() if tensor is not None}
    return [
        Batch(**{name: tensor[part] for name, tensor in fields.items()}) for part in (slice(rows), slice(rows, None))
    ]


def largest_difference(some: dict[str, Tensor], others: dict[str, Tensor]) -> float:
    assert some.keys() == others.keys()
    return max(float((some[name] - others[name]).abs().max()) for name in some)


@pytest.mark.parametrize("weights", [{"similarities": 0.0}, {"states": 0.0, "vectors": 0.0}])
def test_micro_batches_add_up_to_the_step(weights: dict[str, float], bert: Path, small_corpus: Corpus) -> None:
    """All of them run at one depth. Similarities are those within a micro-batch, so that theirs do not add up."""
    job = begin(small_corpus, tiny_distillation(bert, weights=weights, depths=(1, 2, 3, 4)))
    batch = next(BatchStream(small_corpus, job.config.stream).epoch(8))
    norms = set()
    for seed in (999, 1999, 2999, 3999):  # not of the share that runs at full depth
        whole, parts = gradients(job, [batch], seed), gradients(job, halves(batch), seed)
        norms.add(round(float(whole["encoder.embeddings.projection.weight"].norm()), 6))
        if "states" in job.parts:
            assert largest_difference(whole, parts) < 1e-5
        else:
            assert largest_difference(whole, parts) > 1e-5
    assert len(norms) == 4  # one for each depth


def test_packed_texts_teach_as_they_would_alone(bert: Path, small_corpus: Corpus) -> None:
    job = begin(small_corpus, tiny_distillation(bert))
    batch = job.held_out[0]
    assert batch.sequence_ids is not None
    _, packed = job._teach(batch)
    found = job._embed([batch])
    number = 0
    for ids, numbers in zip(batch.input_ids[:6], batch.sequence_ids[:6], strict=True):
        for each in range(1, int(numbers.max()) + 1):
            alone = ids[numbers == each][None]
            with torch.inference_mode():
                torch.testing.assert_close(packed[number], job.teacher(alone).embedding[0], atol=1e-5, rtol=0)
                for depth in (1, 2):
                    expected = job.model.eval()(alone, depth=depth).embedding[0]
                    torch.testing.assert_close(found[depth][number], expected, atol=1e-5, rtol=0)
            number += 1
    assert number > 6


def test_the_loss_of_a_student_that_says_what_its_teacher_says_is_nothing(albert: Path, small_corpus: Corpus) -> None:
    job = begin(small_corpus, tiny_distillation(albert, depths=(2,), dimensions=()))
    batch = job.held_out[0]
    losses = job.measure(job.model, batch, job.count(batch), 0)
    assert max(float(loss.detach()) for loss in losses) < 1e-5
    shallow = begin(small_corpus, tiny_distillation(albert, depths=(1,), dimensions=()))
    assert min(float(loss.detach()) for loss in shallow.measure(shallow.model, batch, job.count(batch), 0)) > 1e-4


# --- the same bits ----------------------------------------------------------------------------------------------------


def test_a_run_can_be_repeated_bit_by_bit(finished: Path, bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    distill_here(small_corpus, tmp_path / "again", tiny_distillation(bert))
    assert_same_end(tmp_path / "again", finished)
    distill_here(small_corpus, tmp_path / "other", tiny_distillation(bert, seed=1))
    some, others = last_tensors(finished), last_tensors(tmp_path / "other")
    assert any(not torch.equal(some[name], others[name]) for name in some)


@pytest.mark.parametrize("name", ["growing, in micro-batches", "own word pieces"])
def test_a_run_that_was_interrupted_goes_on_bit_by_bit(
    name: str, bert: Path, small_corpus: Corpus, other_corpus: Corpus, tmp_path: Path
) -> None:
    corpus, config = {
        "growing, in micro-batches": (
            small_corpus,
            tiny_distillation(bert, {"hidden_dropout": 0.1}, stages=GROWING, micro_batch_size=4, save_steps=None),
        ),
        "own word pieces": (other_corpus, tiny_distillation(bert, {"vocab_size": 300}, save_steps=None, steps=12)),
    }[name]
    distill_here(corpus, tmp_path / "expected", config)

    def stop(event: ProgressEvent) -> None:
        if event.step == 9:
            os.kill(os.getpid(), signal.SIGTERM)

    result = distill_here(corpus, tmp_path / "run", config, on_step=stop)
    assert (result.status, result.signal) == ("interrupted", signal.SIGTERM)
    assert 9 <= result.step < 12
    assert not (tmp_path / "run" / "model").exists()
    assert distill_here(corpus, tmp_path / "run", config, resume=True).status == "finished"
    assert_same_end(tmp_path / "run", tmp_path / "expected")


def refuse_resumption(corpus: Corpus, out: Path, config: DistillConfig, words: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    with pytest.raises(RequestError) as caught:
        distill_here(corpus, out, config, resume=True)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before


def test_another_teacher_or_other_text_is_refused(
    finished: Path, bert: Path, small_corpus: Corpus, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    other = make_teacher(tmp_path / "other", small_tokenizer, seed=9, num_layers=3, **BERT)
    refuse_resumption(small_corpus, finished, tiny_distillation(other), "of a run with other teacher")
    text = prepare_documents(tmp_path / "text", make_documents(300, seed=4), small_tokenizer, held_out=0.1)
    refuse_resumption(text, finished, tiny_distillation(bert), "of a run with other corpus")
    refuse_resumption(small_corpus, finished, tiny_distillation(bert, depths=(1,)), "depths")
    moved = shutil.copytree(bert, tmp_path / "moved")  # the same weights elsewhere
    assert distill_here(small_corpus, finished, tiny_distillation(moved), resume=True).status == "finished"


def test_a_run_goes_on_without_the_folder_that_it_began_with(
    bert: Path, albert: Path, small_corpus: Corpus, tmp_path: Path
) -> None:
    begun_with = shutil.copytree(albert, tmp_path / "begun-with")
    config = tiny_distillation(bert, {"initializer_range": 0.1}, begin_from=begun_with, steps=2, save_steps=None)
    distill_here(small_corpus, tmp_path / "run", config)
    shutil.rmtree(begun_with)
    shutil.rmtree(tmp_path / "run" / "model")
    assert distill_here(small_corpus, tmp_path / "run", config, resume=True).status == "finished"


# --- what it begins with, and what stays ------------------------------------------------------------------------------


def first_weights(out: Path) -> dict[str, Tensor]:
    return Model.from_pretrained(CheckpointStore(out / "checkpoints", 1).all()[0].model).state_dict()


@pytest.mark.parametrize("head", ["none", "sequence-classification", "sentence-embedding"])
def test_a_student_may_begin_with_the_weights_of_a_folder(
    head: Any, bert: Path, small_corpus: Corpus, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    labels = ("no", "yes") if head == "sequence-classification" else ()
    folder = make_teacher(tmp_path / "student", small_tokenizer, 5, head, num_layers=2, labels=labels)
    shape = {"initializer_range": 0.1}
    config = tiny_distillation(bert, shape, begin_from=folder, steps=2, save_steps=None, keep=5)
    distill_here(small_corpus, tmp_path / "run", config)
    begun = Model.from_pretrained(folder).encoder.state_dict()
    found = first_weights(tmp_path / "run")
    assert all(torch.equal(found[f"encoder.{name}"], tensor) for name, tensor in begun.items())
    other = tiny_distillation(bert, {**shape, "intermediate_size": 50}, begin_from=folder)
    with pytest.raises(RequestError, match="has another shape than the student"):
        distill_here(small_corpus, tmp_path / "other", other)


def test_the_teacher_does_not_change(bert: Path, small_corpus: Corpus) -> None:
    files = {path.name: hash_file(path) for path in bert.iterdir()}
    job = begin(small_corpus, tiny_distillation(bert))
    weights = {name: tensor.clone() for name, tensor in job.teacher.state_dict().items()}
    batch = job.held_out[0]
    torch.stack(job.measure(job.model.train(), batch, job.count(batch), 0)).sum().backward()
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in job.teacher.parameters())
    assert not job.teacher.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in job.teacher.state_dict().items())
    assert {path.name: hash_file(path) for path in bert.iterdir()} == files


def test_the_pooler_stays_as_the_teacher_has_it(finished: Path, bert: Path) -> None:
    """Nobody teaches it anything; whoever fine-tunes the student begins with the teacher's."""
    teacher, student = (Model.from_pretrained(folder, "none").encoder for folder in (bert, finished / "model"))
    for name in ("weight", "bias"):
        assert torch.equal(getattr(student.pooler, name), getattr(teacher.pooler, name))
    assert not torch.equal(student.attention[0].qkv.weight, teacher.attention[1].qkv.weight)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_student_must_know_the_word_pieces_of_the_text(bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="knows 399 pieces, the text is written in 400"):
        distill_here(small_corpus, tmp_path / "run", tiny_distillation(bert, {"vocab_size": 399}))
    assert not (tmp_path / "run").exists()


def test_rows_must_not_be_longer_than_the_teacher_reads(
    small_corpus: Corpus, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """That is said at the beginning, not when the stage of long rows comes."""
    teacher = make_teacher(tmp_path / "short", small_tokenizer, max_positions=24, **BERT)
    late = (Stage(until=0.9, length=16), Stage(length=40))
    with pytest.raises(RequestError, match="rows of 40 tokens are too long for a teacher that reads 24"):
        distill_here(small_corpus, tmp_path / "run", tiny_distillation(teacher, stages=late))
    assert not (tmp_path / "run").exists()
    short = tiny_distillation(teacher, stages=(Stage(length=24),), steps=1, save_steps=None)
    rated = RatedPairs(make_documents(3), make_documents(3, seed=1), [1.0, 2.0, 3.0])  # longer than that
    assert distill_here(small_corpus, tmp_path / "run", short, rated=rated).status == "finished"


def test_text_without_held_out_documents_is_measured_on_itself(
    bert: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    corpus = prepare_documents(tmp_path / "text", make_documents(20), small_tokenizer, held_out=0.0)
    assert not corpus.num_tokens(HELD_OUT)
    messages: list[str] = []
    config = tiny_distillation(bert, steps=2, save_steps=None)
    assert distill_here(corpus, tmp_path / "run", config, on_message=messages.append).status == "finished"
    assert any("too few documents to hold one out" in message for message in messages)


def test_a_little_text_is_enough(bert: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    corpus = prepare_documents(tmp_path / "text", make_documents(8), small_tokenizer, held_out=0.5)
    config = tiny_distillation(bert, steps=2, save_steps=None)
    assert distill_here(corpus, tmp_path / "run", config).status == "finished"
