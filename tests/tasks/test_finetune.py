"""Fine-tuning runs: each kind of task is learnt, a run can be gone on with, and the best weights are its model."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import litebert
from litebert.errors import RequestError
from litebert.folders import locate_model
from litebert.model.model import Model
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.finetune import Finetuning, finetune, make_model
from litebert.tasks.metrics import compute_metrics, measure_majority
from litebert.tasks.saved import read_saved_task
from litebert.tasks.task import Dataset, Example, TextExample
from litebert.text.tokenizer import Tokenizer
from litebert.training.distributed import World
from litebert.training.job import ProgressEvent, RunResult
from litebert.training.monitoring import Health
from litebert.training.run_folder import RunFolder
from litebert.training.state import CheckpointStore
from tests.pretraining.runs import Nursery, assert_same_end, entries, events, losses
from tests.tasks.small import TASKS, ask, finetune_here, make_data, small_run


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def is_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- what is learnt ---------------------------------------------------------------------------------------------------

LEAST = {"regression": 0.8, "similarity": 0.7, "multi-label": 0.6}
LONGER = {"pairs": 120, "regression": 120, "similarity": 120, "multi-label": 240}
NUMBERS = ("regression", "similarity")


@pytest.mark.parametrize("name", TASKS)
def test_every_kind_is_learnt_and_opens_again(
    name: str, small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data, out = make_data(name), tmp_path / "run"
    config = small_run(data, small_encoder, small_tokenizer, steps=LONGER.get(name, 60))
    outcome = finetune_here(data, out, config, small_tokenizer)
    dev = data.splits["dev"]
    task, _, _, predictions = ask(out / "model", dev)
    assert task == data.task
    metrics = compute_metrics(task, dev, predictions)
    baseline = measure_majority(task, data.splits["train"], dev)[task.metric]
    assert metrics[task.metric] >= LEAST.get(name, 0.85) > baseline + 0.2
    # The folder answers as the run did: with the best weights, and for questions with its own threshold.
    assert metrics[task.metric] == pytest.approx(outcome.metrics[task.metric], abs=1e-6 if name in NUMBERS else 1e-9)
    best, final = weights(CheckpointStore(out / "checkpoints", 1).best().model), weights(out / "model")
    stretched = {"classifier.weight", "classifier.bias"} if name == "regression" else set()
    assert is_same({key: best[key] for key in {*best} - stretched}, {key: final[key] for key in {*final} - stretched})
    told = json.loads((out / "run.json").read_text())
    assert told["kind"] == "litebert fine-tuning"
    assert told["baselines"]["majority"][task.metric] == pytest.approx(baseline)
    assert told["examples"] == {"train": 160, "dev": 48}
    assert f"| {task.metric} | {outcome.metrics[task.metric]:.4g} |" in (out / "model" / "README.md").read_text()


@pytest.mark.parametrize(("factor", "mean"), [(1000.0, 2e6), (0.001, -7.0), (0.0, 3.0)])
def test_scores_of_any_size_are_learnt(
    factor: float, mean: float, small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = make_data("regression")

    def change(example: Example) -> Example:
        assert isinstance(example, TextExample)
        assert isinstance(example.label, float)
        return TextExample(example.id, example.text, label=mean + factor * example.label)

    splits = {name: [change(example) for example in examples] for name, examples in data.splits.items()}
    config = small_run(data, small_encoder, small_tokenizer, steps=120)
    finetune_here(Dataset(data.task, splits), tmp_path / "run", config, small_tokenizer)
    dev = splits["dev"]
    answers = ask(tmp_path / "run" / "model", dev)[3].answers
    gold = torch.tensor([float(example.label) for example in dev], dtype=torch.float64)  # type: ignore[union-attr, arg-type]
    errors = (torch.tensor(answers, dtype=torch.float64) - gold).abs()
    assert errors.mean() < (0.6 * gold.std() if factor else 0.1)
    scale = RunFolder(tmp_path / "run").read_config(FinetuneConfig).scale
    assert scale is not None
    assert scale.mean == pytest.approx(gold.mean().item(), abs=factor or 1e-9)


def test_questions_may_do_without_a_head_for_answerability(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = make_data("unanswerable questions")
    config = small_run(data, small_encoder, small_tokenizer, answerability=False)
    assert config.head == "question-answering"
    outcome = finetune_here(data, tmp_path / "run", config, small_tokenizer)
    assert outcome.metrics[data.task.metric] is not None
    assert outcome.metrics[data.task.metric] >= 0.85
    saved = read_saved_task(tmp_path / "run" / "model")
    assert saved.threshold is not None
    answers = ask(tmp_path / "run" / "model", data.splits["dev"])[3].answers
    assert 0 < answers.count("") < len(answers)


def test_an_encoder_from_scratch(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("tagging")
    config = small_run(data, None, small_tokenizer, steps=2)
    finetune_here(data, tmp_path / "run", config, small_tokenizer)
    assert "random weights" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_without_a_development_set_the_last_weights_are_the_model(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = Dataset(TASKS["pairs"], {"train": make_data("pairs").splits["train"]})
    config = small_run(data, small_encoder, small_tokenizer, steps=8, patience=1)  # there is nothing to wait for
    outcome = finetune_here(data, tmp_path / "run", config, small_tokenizer)
    assert (outcome.status, outcome.step, outcome.metrics) == ("finished", 8, {})
    last = CheckpointStore(tmp_path / "run" / "checkpoints", 1).at(8)
    assert is_same(weights(tmp_path / "run" / "model"), weights(last.model))
    assert "Evaluation" not in (tmp_path / "run" / "model" / "README.md").read_text()


# --- beginning --------------------------------------------------------------------------------------------------------


def test_the_encoder_is_begun_with_and_the_head_is_drawn(small_encoder: Path, small_tokenizer: Tokenizer) -> None:
    stored = Model.from_pretrained(small_encoder).encoder.state_dict()
    data = make_data("pairs")
    one, same, other = (
        make_model(small_run(data, small_encoder, small_tokenizer, seed=seed)).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[f"encoder.{name}"], tensor) for name, tensor in stored.items())
    assert is_same(one, same)
    assert not torch.equal(one["heads.classifier.linear.weight"], other["heads.classifier.linear.weight"])


def test_a_warm_start_takes_the_encoder_of_another_task(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """As the paper goes from MNLI to RTE, STS-B and MRPC; and from anything to anything."""
    data = make_data("pairs")
    finetune_here(data, tmp_path / "first", small_run(data, small_encoder, small_tokenizer, steps=2), small_tokenizer)
    folder = str(locate_model(tmp_path / "first"))
    before = Model.from_pretrained(folder).state_dict()
    classifiers = []
    for name in ("classification", "regression", "tagging", "questions", "choice"):
        config = small_run(make_data(name), Path(folder), small_tokenizer, steps=2)
        after = make_model(config).state_dict()
        shared = [key for key in after if key.startswith("encoder.")]
        assert all(torch.equal(after[key], before[key]) for key in shared)
        classifiers += [after[key] for key in after if key.endswith("classifier.linear.weight")]
    assert [len(weight) for weight in classifiers] == [2, 1, 4, 1]
    finetune_here(make_data("choice"), tmp_path / "second", config, small_tokenizer)


def test_a_frozen_encoder_stays_as_it_is(small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("tagging")
    config = small_run(data, small_encoder, small_tokenizer, steps=40, frozen=True, lr=0.03)
    outcome = finetune_here(data, tmp_path / "run", config, small_tokenizer)
    first, last = make_model(config).state_dict(), Model.from_pretrained(tmp_path / "run" / "model").state_dict()
    stored = Model.from_pretrained(small_encoder).state_dict()
    for name, tensor in last.items():
        if name.startswith("encoder."):
            assert torch.equal(tensor, stored[name])
        else:
            assert not torch.equal(tensor, first[name])
    assert outcome.status == "finished"
    assert losses(tmp_path / "run")[-1][1] < losses(tmp_path / "run")[0][1] - 0.4  # the head alone has learnt something
    state = CheckpointStore(tmp_path / "run" / "checkpoints", 1).all()[-1].read_tensors()
    assert {name.partition(".")[0] for name in state} == {"heads"}
    assert "| encoder | frozen |" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_the_seed_decides(small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("classification")
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        config = small_run(data, small_encoder, small_tokenizer, steps=6, seed=seed)
        finetune_here(data, tmp_path / name, config, small_tokenizer)
    assert_same_end(tmp_path / "same", tmp_path / "one")
    assert not is_same(weights(tmp_path / "other" / "model"), weights(tmp_path / "one" / "model"))


# --- going on ---------------------------------------------------------------------------------------------------------

STEPS = 14


class CrashError(Exception):
    """Somebody pulled the plug."""


def crash(event: ProgressEvent) -> None:
    if event.step == 8:
        raise CrashError


def stop(event: ProgressEvent) -> None:
    if event.step == 8:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("name", "end"), [("classification", stop), ("unanswerable questions", crash)])
def test_a_run_that_is_cut_short_ends_as_if_it_never_was(
    name: str, end: Any, small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """In the middle of an epoch, and with dropout."""
    data = make_data(name)
    config = small_run(data, small_encoder, small_tokenizer, steps=STEPS, save_steps=3, batch_size=12)
    dropout = dict.fromkeys(("hidden_dropout", "attention_dropout", "classifier_dropout"), 0.1)
    config = config.model_copy(update={"model": config.model.updated(**dropout)})
    finetune_here(data, tmp_path / "whole", config, small_tokenizer)
    if end is crash:
        with pytest.raises(CrashError):
            finetune_here(data, tmp_path / "run", config, small_tokenizer, on_step=end)
    else:
        outcome = finetune_here(data, tmp_path / "run", config, small_tokenizer, on_step=end)
        assert (outcome.status, outcome.signal, outcome.step) == ("interrupted", signal.SIGTERM, 9)
    assert not (tmp_path / "run" / "model").exists()
    again = RunFolder(tmp_path / "run").read_config(FinetuneConfig)
    assert finetune_here(data, tmp_path / "run", again, small_tokenizer, resume=True).status == "finished"
    assert "resumed" in events(tmp_path / "run")
    assert_same_end(tmp_path / "run", tmp_path / "whole")
    for file in ("README.md", "task.json", "config.json"):
        assert (tmp_path / "run" / "model" / file).read_bytes() == (tmp_path / "whole" / "model" / file).read_bytes()


def test_a_run_goes_on_with_its_own_data_only(small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=STEPS, save_steps=3)
    with pytest.raises(CrashError):
        finetune_here(data, tmp_path / "run", config, small_tokenizer, on_step=crash)
    first, *rest = data.splits["train"]
    assert isinstance(first, TextExample)
    others: list[Sequence[Example]] = [
        rest,
        [*rest, first],
        [TextExample(first.id, first.text, label="at sea" if first.label == "ashore" else "ashore"), *rest],
    ]
    for train in others:
        with pytest.raises(RequestError, match=r"other dev, other examples|other examples") as caught:
            finetune_here(Dataset(data.task, {"train": train}), tmp_path / "run", config, small_tokenizer, resume=True)
        assert "\n" not in str(caught.value)
    other = small_run(data, small_encoder, small_tokenizer, steps=STEPS, seed=1)
    with pytest.raises(RequestError, match=r"train\.seed 0 instead of 1"):
        finetune_here(data, tmp_path / "run", other, small_tokenizer, resume=True)
    moved = [TextExample(one.id, one.text, one.pair, one.label, "elsewhere") for one in (first, *rest)]  # type: ignore[union-attr]
    again = Dataset(data.task, {"train": moved, "dev": data.splits["dev"]})
    assert finetune_here(again, tmp_path / "run", config, small_tokenizer, resume=True).status == "finished"


def test_a_run_that_was_killed_before_it_saved_begins_again(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=2)
    with mock.patch("litebert.training.run.measure_rate", side_effect=CrashError), pytest.raises(CrashError):
        finetune(data, tmp_path / "run", config, small_tokenizer)
    assert (tmp_path / "run" / "run.json").exists()
    assert finetune_here(data, tmp_path / "run", config, small_tokenizer, resume=True).status == "finished"


def test_a_restart_without_a_whole_checkpoint_begins_with_the_encoder(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=2, lr=1e-9)
    finetune_here(data, tmp_path / "run", config, small_tokenizer)
    for checkpoint in CheckpointStore(tmp_path / "run" / "checkpoints", 1).all():
        file = checkpoint.model / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(RequestError, match="holds no whole checkpoint"):
        finetune_here(data, tmp_path / "run", config, small_tokenizer, resume=True)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    finetune_here(data, tmp_path / "run", config, small_tokenizer)
    found, stored = (Model.from_pretrained(folder) for folder in (tmp_path / "run" / "model", small_encoder))
    for name, tensor in stored.encoder.state_dict().items():
        assert torch.allclose(found.encoder.state_dict()[name], tensor, atol=1e-6), name


# --- the best weights -------------------------------------------------------------------------------------------------


def best_metrics(out: Path) -> dict[str, float]:
    """What was measured when the best checkpoint was saved; the final evaluation of a run measures anew."""
    return CheckpointStore(out / "checkpoints", 1).best().read_state().metrics


def run_with_scores(
    scores: Sequence[float], out: Path, config: FinetuneConfig, tokenizer: Tokenizer, **settings: Any
) -> tuple[RunResult, list[dict[str, Tensor]]]:
    """A run whose evaluations give these scores, and the weights at each of them."""
    seen: list[dict[str, Tensor]] = []

    def evaluate(job: Finetuning, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        seen.append({name: tensor.clone() for name, tensor in job.model.state_dict().items()})
        return {job.metric: scores[len(seen) - 1], "number": float(len(seen))}, []

    with mock.patch.object(Finetuning, "evaluate", evaluate):
        return finetune_here(make_data("classification"), out, config, tokenizer, **settings), seen


@pytest.mark.parametrize(
    ("scores", "patience", "num_evaluations", "best"),
    [
        ([0.2, 0.9, 0.5, 0.6, 0.7, 0.8, 0.1, 0.1, 0.1, 0.1], 3, 5, 2),  # better than the last one is not enough
        ([0.2, 0.2, 0.2, 0.9, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1], 3, 7, 4),  # nor is equal to the best
        ([0.5, 0.4, 0.6, 0.5, 0.7, 0.6, 0.8, 0.7, 0.9, 0.8], 2, 10, 9),
        ([0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], None, 10, 1),
    ],
)
def test_patience_ends_a_run_and_the_best_weights_stay(
    scores: list[float],
    patience: int | None,
    num_evaluations: int,
    best: int,
    small_encoder: Path,
    small_tokenizer: Tokenizer,
    tmp_path: Path,
) -> None:
    data, out = make_data("classification"), tmp_path / "run"
    config = small_run(data, small_encoder, small_tokenizer, steps=20, evaluations=10, patience=patience, batch_size=4)
    outcome, seen = run_with_scores(scores, out, config, small_tokenizer)
    assert (outcome.status, len(seen), outcome.step) == ("finished", num_evaluations, 2 * num_evaluations)
    found = Model.from_pretrained(out / "model").state_dict()
    assert [number for number, one in enumerate(seen, 1) if is_same(one, found)] == [best]
    card = (out / "model" / "README.md").read_text()
    assert f"| steps | {2 * best} of 4 examples |" in card
    assert f"| accuracy | {scores[best - 1]} |" in card
    assert f"| number | {best} |" in card
    assert best_metrics(out)[data.task.metric] == scores[best - 1]
    (ended,) = (entry["message"] for entry in entries(out, "event") if entry["what"] == "finished")
    assert ended.startswith(f"no better accuracy in {patience} evaluations: ") == (num_evaluations < 10)
    again, seen = run_with_scores(scores, out, config, small_tokenizer, resume=True)
    assert (again.status, again.step, seen) == ("finished", 2 * num_evaluations, [])  # it stays ended


def test_the_best_weights_are_kept_at_a_step_that_was_skipped(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data, seen_losses = make_data("classification"), 0
    config = small_run(data, small_encoder, small_tokenizer, steps=8, evaluations=4, batch_size=4)
    examine = Health.examine

    def find_fault(health: Health, loss: float, norm: float, skip_loss_spikes: bool) -> str | None:
        nonlocal seen_losses
        seen_losses += 1
        return examine(health, float("nan") if seen_losses == 4 else loss, norm, skip_loss_spikes)

    with mock.patch.object(Health, "examine", find_fault):
        outcome, seen = run_with_scores([0.5, 0.9, 0.6, 0.55], tmp_path / "run", config, small_tokenizer)
    assert "skipped" in events(tmp_path / "run")
    assert outcome.status == "finished"
    assert best_metrics(tmp_path / "run")[data.task.metric] == 0.9
    assert is_same(Model.from_pretrained(tmp_path / "run" / "model").state_dict(), seen[1])


# --- several processes ------------------------------------------------------------------------------------------------


def test_two_processes_train_as_one(
    nursery: Nursery, small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Their items differ in length and in number of tags, and still the sums are the same."""
    data, wishes = make_data("tagging"), {"steps": 8, "micro_batch_size": 4}
    finetune_here(data, tmp_path / "one", small_run(data, small_encoder, small_tokenizer, steps=8), small_tokenizer)
    job = {"call": "tests.tasks.small:run_rank", "task": "tagging", "encoder": str(small_encoder), "processes": 2}
    nursery.finish({**job, "wishes": wishes, "out": str(tmp_path / "two"), "log": str(tmp_path / "log")})
    found, wanted = losses(tmp_path / "two"), losses(tmp_path / "one")
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], rel=1e-4)
    assert found[-1][1] < found[0][1] - 0.2
    scores = [[entry["accuracy"] for entry in entries(tmp_path / name, "evaluation")] for name in ("one", "two")]
    assert scores[1] == pytest.approx(scores[0], abs=0.01)
    assert ask(tmp_path / "two" / "model", data.splits["dev"])[3].answers


# --- answers on the way -----------------------------------------------------------------------------------------------


def test_an_elastic_run_learns_to_answer_after_every_pass(
    small_tokenizer: Tokenizer, small_encoder: Path, tmp_path: Path
) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=40)
    passes = config.model.num_layers
    shares: dict[bool, list[float]] = {}
    for elastic in (False, True):
        out = tmp_path / str(elastic)
        finetune_here(data, out, config.model_copy(update={"elastic": elastic}), small_tokenizer)
        model = Model.from_pretrained(out / "model").eval()
        job = Finetuning(data, config, small_tokenizer)
        features = job.encode("dev")
        batch = features.collate_arrays(range(features.num_items), model.config.pad_token_id)
        inputs = {name: torch.from_numpy(one) for name, one in batch.items() if name != "labels"}
        with torch.inference_mode():
            answers = [model(**inputs, stop_after=one).logits.argmax(-1) for one in range(1, passes + 1)]
        shares[elastic] = [float((one.numpy() == batch["labels"]).mean()) for one in answers]
    assert shares[True][0] > 0.9, shares
    assert shares[True][-1] > 0.9, shares
    assert shares[True][0] > shares[False][0], shares


def test_an_elastic_step_learns_half_from_the_end_and_half_from_the_way(
    small_tokenizer: Tokenizer, small_encoder: Path
) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=4).model_copy(update={"elastic": True})
    job = Finetuning(data, config, small_tokenizer)
    job.setup(World(), config, True, lambda message: None)
    (batch, *_), _ = next(job.steps(0, None))
    totals = [float(count) for count in job.count(batch)]
    job.model.eval()
    losses = []
    for seed in range(8):
        job.step_seed = seed
        losses.append(job.measure(job.model, batch, totals, 0)[0].item())
    kind = job.task_kind
    ends = [
        kind.loss(job.model(**batch.inputs(), stop_after=one), batch, totals, None)[0].item()
        for one in range(1, config.model.num_layers + 1)
    ]
    expected = [(ends[-1] + early) / 2 for early in ends[:-1]]
    assert sorted({round(one, 5) for one in losses}) == sorted({round(one, 5) for one in expected})


def test_a_metric_that_falls_cannot_decide(small_encoder: Path, tmp_path: Path) -> None:
    table = [{"text": f"text {number}", "label": float(number)} for number in range(20)]
    with pytest.raises(RequestError, match="choose pearson or spearman"):
        litebert.finetune(table, kind="regression", metric="mse", model=small_encoder, out=tmp_path / "run")


def test_tags_are_not_given_on_the_way(small_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--elastic is for classes"):
        litebert.finetune(make_data("tagging"), elastic=True, model=small_encoder, out=tmp_path / "run")
