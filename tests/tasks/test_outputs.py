"""What a model says: losses as transformers has them, probabilities, averages, and answers by name."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.errors import RequestError
from litebert.inference.ensemble import choose_members
from litebert.tasks.finetune import Finetuning
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import EncodeOptions
from litebert.tasks.kinds.questions.spans import Candidate, Prediction
from litebert.tasks.metrics import evaluate_outputs
from litebert.tasks.outputs import TorchRunner, run_model
from litebert.tasks.task import Answer, Predictions, QuestionExample, Task
from litebert.text.tokenizer import Tokenizer
from litebert.training.distributed import join_world
from litebert.training.objectives import answerable_loss, count_labels, score_loss
from tests.parity.peers import open_in_transformers, randomize
from tests.tasks.small import TASKS, make_data, make_examples, small_run

# --- losses -----------------------------------------------------------------------------------------------------------


def make_job(name: str, tokenizer: Tokenizer, **wishes: Any) -> Finetuning:
    """The job of a run on a small task, with a model that is all random."""
    data = make_data(name, train=24, dev=1)
    config = small_run(data, None, tokenizer, **wishes)
    job = Finetuning(data, config, tokenizer)
    with join_world() as world:
        job.setup(world, config, True, lambda message: None)
    job.model.eval()
    randomize(job.model, deviation=0.2)
    return job


def measure(job: Finetuning, batch: Batch) -> Tensor:
    with torch.no_grad():
        return torch.stack(job.measure(job.model, batch, [float(count) for count in job.count(batch)], 0)).sum()


SHARED = ["classification", "pairs", "multi-label", "regression", "tagging", "questions"]


@pytest.mark.parametrize("name", SHARED)
def test_losses_are_those_of_transformers(name: str, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    job = make_job(name, small_tokenizer)
    features = job.features
    items = np.arange(24)
    if name == "questions":  # transformers also looks for answers in the padding: compare without any
        lengths = features.lengths()
        items = np.flatnonzero(lengths == np.bincount(lengths).argmax())
        assert len(items) > 2
    batch = features.collate(items, small_tokenizer.pad_id)
    assert batch.attention_mask is not None
    assert (batch.attention_mask == 0).any() == (name != "questions")
    job.write_model(tmp_path / "model", job.model.state_dict(), _state())
    peer = open_in_transformers(tmp_path / "model")
    labels = {field: getattr(batch, field) for field in ("labels", "start_positions", "end_positions")}
    inputs = {field: getattr(batch, field) for field in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        theirs = peer(**inputs, **{field: value for field, value in labels.items() if value is not None}).loss
    assert measure(job, batch).item() == pytest.approx(theirs.item(), abs=1e-5)
    assert theirs.item() > 0.05


@pytest.mark.parametrize("name", ["questions", "unanswerable questions"])
def test_the_loss_of_a_row_does_not_depend_on_its_neighbours(name: str, small_tokenizer: Tokenizer) -> None:
    job = make_job(name, small_tokenizer)
    features = job.features
    together = measure(job, features.collate(range(8), small_tokenizer.pad_id)).item()
    alone = [measure(job, features.collate([item], small_tokenizer.pad_id)).item() for item in range(8)]
    assert together == pytest.approx(sum(alone) / 8, abs=1e-5)


def test_the_loss_of_options_is_that_of_transformers(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """It knows no items with different numbers of options, so those of each number are compared."""
    job = make_job("choice", small_tokenizer)
    features = job.features
    assert features.num_rows is not None
    job.write_model(tmp_path / "model", job.model.state_dict(), _state())
    peer = open_in_transformers(tmp_path / "model")
    total = 0.0
    for count in (2, 3, 4):
        items = np.flatnonzero(features.num_rows == count)
        batch = features.collate(items, small_tokenizer.pad_id)
        with torch.no_grad():
            theirs = peer(batch.input_ids, batch.attention_mask, batch.token_type_ids, labels=batch.labels).loss
        assert measure(job, batch).item() == pytest.approx(theirs.item(), abs=1e-5)
        total += theirs.item() * len(items)
    # Together, options that are not there change nothing.
    assert measure(job, features.collate(range(24))).item() == pytest.approx(total / 24, abs=1e-5)


def test_micro_batches_of_a_step_add_up(small_tokenizer: Tokenizer) -> None:
    """Also where tags are counted, of which micro-batches have different numbers.

    Not for questions that all have answers: their head scores padding like any other place, as transformers' does.
    """
    for name in TASKS.keys() - {"questions"}:
        job = make_job(name, small_tokenizer)
        features = job.features
        whole, parts = features.collate(range(24)), [features.collate(range(7)), features.collate(range(7, 24))]
        totals = [float(sum(counts)) for counts in zip(*map(job.count, parts), strict=True)]
        assert totals == [float(count) for count in job.count(whole)]
        with torch.no_grad():
            added = sum(torch.stack(job.measure(job.model, part, totals, 0)).sum() for part in parts)
        assert float(added) == pytest.approx(measure(job, whole).item(), rel=1e-5), name


def test_half_of_the_loss_says_whether_there_is_an_answer(small_tokenizer: Tokenizer) -> None:
    job = make_job("unanswerable questions", small_tokenizer)
    assert job.losses == ("span_loss", "answerable_loss")
    batch = job.features.collate(range(24))
    assert batch.start_positions is not None
    output = job.model(**batch.inputs())
    has_answer = (batch.start_positions > 0).tolist()
    assert 0 < sum(has_answer) < 24
    chances = output.answerable_logits.sigmoid().tolist()
    right = [chance if there else 1 - chance for chance, there in zip(chances, has_answer, strict=True)]
    expected = -sum(math.log(chance) for chance in right) / 24 / 2
    assert answerable_loss(output, batch, 24).item() == pytest.approx(expected, rel=1e-5)


def test_every_score_counts() -> None:
    """A score may be any number, even the one that elsewhere means no label."""
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), labels=torch.tensor([float(NO_LABEL), 1.0]))
    assert batch.labels is not None
    assert count_labels(batch) == 2
    assert score_loss(torch.tensor([[-98.0], [1.0]]), batch.labels, count_labels(batch)).item() == 2.0


def _state() -> Any:
    from litebert.training.state import TrainingState

    return TrainingState(config={})


# --- outputs ----------------------------------------------------------------------------------------------------------


Said = list[Any]
"""What a model says about each example."""


def decode(task: Task, outputs: Said, threshold: float | None = None) -> Predictions:
    return kind_of(task).decode(task, outputs, threshold)


def average(task: Task, members: list[Said]) -> Said:
    """What several models say together."""
    return [kind_of(task).average(task, one) for one in zip(*members, strict=True)]


def predict(job: Finetuning, examples: list[Any], tokenizer: Tokenizer, options: EncodeOptions, **more: Any) -> Said:
    features = kind_of(job.task).encode(job.task, examples, tokenizer, options)
    return run_model(TorchRunner(job.model), job.task, examples, features, options, **more)


@pytest.fixture(scope="module")
def said(small_tokenizer: Tokenizer) -> dict[str, tuple[list[Any], list[Said]]]:
    """For each task some examples, and what two models say about them."""
    found = {}
    for name in TASKS:
        outputs = []
        for seed in (0, 1):
            job = make_job(name, small_tokenizer)
            randomize(job.model, seed=seed, deviation=0.3)
            examples = make_examples(name, 20, seed=5)
            outputs.append(predict(job, examples, small_tokenizer, EncodeOptions(24, job.config.windows)))
        found[name] = (examples, outputs)
    return found


def spread(task: Task, outputs: Said) -> list[Any]:
    """The probabilities of each example, as they are told."""
    details = decode(task, outputs).details
    if task.kind == "questions":
        return [[one["probability"] for one in detail["nbest"]] for detail in details]
    shares = [detail["probabilities"] for detail in details]
    return [list(share.values()) if isinstance(share, dict) else share for share in shares]


@pytest.mark.parametrize(
    "name", [name for name in TASKS if name not in ("regression", "similarity", "tagging", "multi-label")]
)
def test_probabilities_sum_to_one(name: str, said: dict[str, tuple[list[Any], list[Said]]]) -> None:
    examples, outputs = said[name]
    shares = spread(TASKS[name], outputs[0])
    assert len(shares) == len(examples)
    for share in shares:
        assert sum(share) == pytest.approx(1, abs=1e-4)
        assert min(share) >= 0


def test_probabilities_of_several_labels_are_each_their_own() -> None:
    answers = decode(TASKS["multi-label"], [np.array([0.0, 2.0, 3.0], np.float32)])
    assert answers.answers == (("bridge", "year"),)
    assert answers.details[0]["probabilities"] == {"apples": 0.5, "bridge": 0.8808, "year": 0.95257}


def test_every_example_has_its_scores(said: dict[str, tuple[list[Any], list[Said]]]) -> None:
    for name, (examples, (outputs, _)) in said.items():
        answers = decode(TASKS[name], outputs)
        assert len(answers.answers) == len(answers.details) == len(examples) == 20
        metrics, found = evaluate_outputs(TASKS[name], examples, outputs)
        assert TASKS[name].metric in metrics
        assert ("threshold" in metrics) == TASKS[name].has_unanswerable
        assert found == decode(TASKS[name], outputs, metrics.get("threshold"))


def test_answers_are_names() -> None:
    scores = [np.array(row, np.float32) for row in ([0, 1], [2, 0])]
    assert decode(TASKS["classification"], scores).answers == ("at sea", "ashore")
    tags = [np.eye(4, dtype=np.float32)[[3, 1, 2]], np.zeros((0, 4), np.float32)]
    assert decode(TASKS["tagging"], tags).answers == (("O", "B-PER", "I-PER"), ())
    assert decode(TASKS["choice"], [np.array([0, 5, 1], np.float32)]).answers == (1,)
    assert decode(TASKS["regression"], [np.array([2.5], np.float32)]).answers == (2.5,)


def test_long_sentences_have_all_their_tags(small_tokenizer: Tokenizer) -> None:
    """A sentence over several rows gives one score for each word, in order."""
    job = make_job("tagging", small_tokenizer)
    examples: list[Any] = make_examples("tagging", 6, seed=3)
    (whole,) = (np.concatenate(_tag(job, [one], small_tokenizer, 40)) for one in examples[:1])
    assert len(whole) == len(examples[0].words)
    for max_length in (8, 40):
        scores = _tag(job, examples, small_tokenizer, max_length)
        assert [len(score) for score in scores] == [len(example.words) for example in examples]
    assert np.allclose(_tag(job, examples, small_tokenizer, 40)[0], whole, atol=1e-5)


def _tag(job: Finetuning, examples: list[Any], tokenizer: Tokenizer, max_length: int) -> list[Any]:
    return predict(job, examples, tokenizer, EncodeOptions(max_length))


# --- averages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_the_average_of_one_is_that_one(name: str, said: dict[str, tuple[list[Any], list[Said]]]) -> None:
    task, (_, (member, _)) = TASKS[name], said[name]
    alone, together = decode(task, member), decode(task, average(task, [member]))
    assert together.answers == alone.answers
    for found, wanted in zip(
        spread_or_answers(task, average(task, [member])), spread_or_answers(task, member), strict=True
    ):
        assert found == pytest.approx(wanted, abs=2e-5)


def spread_or_answers(task: Task, outputs: Said) -> list[Any]:
    return list(decode(task, outputs).answers) if kind_of(task).answer_type == "number" else spread(task, outputs)


@pytest.mark.parametrize("name", [name for name in TASKS if TASKS[name].kind not in ("questions", "tagging")])
def test_the_average_of_two_is_between_them(name: str, said: dict[str, tuple[list[Any], list[Said]]]) -> None:
    """The mean of the probabilities (of numbers, that of the numbers)."""
    task, (_, members) = TASKS[name], said[name]
    one, other, both = (spread_or_answers(task, outputs) for outputs in (*members, average(task, members)))
    for first, second, mean in zip(one, other, both, strict=True):
        assert np.asarray(mean) == pytest.approx((np.asarray(first) + np.asarray(second)) / 2, abs=2e-5)
    assert one != other


def test_a_surer_member_outvotes_another() -> None:
    task = TASKS["tagging"]
    sure, unsure = np.array([[9.0, 0, 0, 0]], np.float32), np.array([[0, 0.1, 0, 0]], np.float32)
    assert decode(task, average(task, [[sure], [unsure]])).answers == (("B-LOC",),)
    spans = [
        Prediction((Candidate("a", 0, 1, 1.0, 0.9), Candidate("b", 2, 3, 0.5, 0.1)), 1.0),
        Prediction((Candidate("b", 2, 3, 1.0, 0.6), Candidate("a", 0, 1, 0.5, 0.4)), 2.0),
    ]
    both = average(TASKS["questions"], [[one] for one in spans])
    answers = decode(TASKS["unanswerable questions"], both)
    assert (answers.answers, answers.null_odds) == (("a",), (1.5,))
    assert decode(TASKS["unanswerable questions"], both, threshold=1.0).answers == ("",)
    assert decode(TASKS["questions"], both, threshold=1.0).answers == ("a",)  # here there is always one


def test_an_ensemble_has_members() -> None:
    with pytest.raises(RequestError, match="one model at least"):
        choose_members([], make_examples("classification", 3, seed=0))


# --- figures ----------------------------------------------------------------------------------------------------------


def test_the_threshold_is_tuned_where_none_is_given() -> None:
    task = TASKS["unanswerable questions"]
    examples = [
        QuestionExample("0", "?", "a b", (Answer("a", 0),)),
        QuestionExample("1", "?", "a b", (Answer("b", 2),)),
        QuestionExample("2", "?", "a b", ()),
    ]
    spans = [
        Prediction((Candidate("a b"[at], at, at + 1, 0.0, 1.0),), odds) for at, odds in ((0, -3.0), (2, 1.0), (0, 4.0))
    ]
    metrics, predictions = evaluate_outputs(task, examples, spans)
    assert 1.0 <= metrics["threshold"] < 4.0
    assert (metrics["f1"], metrics["best_f1"]) == (1.0, 1.0)
    assert predictions.answers == ("a", "b", "")
    given, predictions = evaluate_outputs(task, examples, spans, threshold=0.0)
    assert given["f1"] == pytest.approx(2 / 3)
    assert given["threshold"] == 0.0
    assert predictions.answers == ("a", "", "")
    assert decode(task, spans, 0.0).answers == ("a", "", "")


def test_a_model_keeps_its_mode(small_tokenizer: Tokenizer) -> None:
    job = make_job("classification", small_tokenizer)
    examples = make_examples("classification", 3, seed=0)
    seen: list[int] = []
    for training in (True, False):
        job.model.train(training)
        predict(job, examples, small_tokenizer, EncodeOptions(40), on_progress=seen.append)
        assert job.model.training == training
    assert seen == [3, 3]
