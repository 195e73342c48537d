"""Early exit: never leaving is the full model, leaving is the model cut there, and neighbours change nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from litebert.config import Head
from litebert.inference.early_exit import ExitPolicy, ExitWatch, find_exits
from litebert.inference.engine import Engine
from litebert.model.head_kinds import EXIT_HEADS
from litebert.model.model import Model
from tests.conftest import need, small_config

need("onnxruntime")
PROBLEMS = [(head, None) for head in EXIT_HEADS] + [
    ("sequence-classification", "regression"),
    ("sequence-classification", "multi_label_classification"),
]


def make(folder: Path, head: Head, problem: str | None, **shape: Any) -> tuple[Engine, Model]:
    labels = ("score",) if problem == "regression" else ("a", "b", "c")
    config = small_config(num_layers=4, problem_type=problem, labels=labels, initializer_range=0.3, **shape)
    torch.manual_seed(0)
    Model(config, head).save_pretrained(folder)
    return Engine(folder), Model.from_pretrained(folder).eval()


def draw(head: Head, rows: int = 8, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    shape = (rows, 3, 13) if head == "multiple-choice" else (rows, 13)
    lengths = generator.integers(3, 14, (*shape[:-1], 1))
    mask = (np.arange(13) < lengths).astype(np.int64)
    ids = generator.integers(5, 60, shape) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids}


@pytest.mark.parametrize(("head", "problem"), PROBLEMS)
@pytest.mark.parametrize("sharing", ["all", "none", "groups"])
def test_who_never_leaves_gets_what_the_full_model_says(
    head: Head, problem: str | None, sharing: str, tmp_path: Path
) -> None:
    engine, model = make(tmp_path / "model", head, problem, sharing=sharing)
    passes = engine.num_passes
    inputs, never, late = (
        draw(head),
        engine.configured(exits=ExitPolicy()),
        engine.configured(exits=ExitPolicy(last=99)),
    )
    for name, expected in engine.run(inputs).items():
        np.testing.assert_array_equal(never.run(inputs)[name], expected)
        np.testing.assert_allclose(late.run(inputs)[name], expected, atol=1e-4)
    assert set(late.exits_seen) == {passes}
    tensors = {name: torch.from_numpy(one) for name, one in inputs.items()}
    for last in (1, 2, 3):
        found = engine.configured(exits=ExitPolicy(last=last)).run(inputs)
        with torch.inference_mode():
            expected = model(**tensors, stop_after=last).arrays()
        for name, one in found.items():
            np.testing.assert_allclose(one, expected[name], atol=1e-4)


@pytest.mark.parametrize(("head", "problem"), PROBLEMS)
@pytest.mark.parametrize(
    "policy", [ExitPolicy(confidence=0.6, spread=30.0), ExitPolicy(patience=1), ExitPolicy(confidence=0.7, last=3)]
)
def test_batches_that_close_up_say_what_was_foreseen(
    head: Head, problem: str | None, policy: ExitPolicy, tmp_path: Path
) -> None:
    engine, _ = make(tmp_path / "model", head, problem)
    if head == "question-answering" and policy.confidence <= 1:  # of two ends, each among many tokens
        policy = policy.model_copy(update={"confidence": policy.confidence / 40})
    early = engine.configured(exits=policy)
    num_early = 0
    for seed in range(3):
        inputs = draw(head, rows=20, seed=seed)
        trace = engine.trace(inputs)
        exits = find_exits(trace, policy, head, problem, inputs["attention_mask"])
        num_early += int((exits < 4).sum())
        found = early.run(inputs)
        for name in found:
            expected = np.stack([trace[number - 1][name][row] for row, number in enumerate(exits)])
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
    assert sum(early.exits_seen.values()) == 60
    assert num_early == sum(count for number, count in early.exits_seen.items() if number < 4)
    if problem != "regression" or policy.patience is None:
        assert num_early > 0, "nobody left early, so nothing was tested"


def test_certain_answers_leave_and_doubtful_ones_stay() -> None:
    mask = np.ones((2, 3))
    watch = ExitWatch(ExitPolicy(confidence=0.9), "sequence-classification", None)
    assert watch.look({"logits": np.array([[5.0, 0.0], [0.1, 0.0]])}, mask).tolist() == [True, False]
    watch = ExitWatch(ExitPolicy(patience=2), "sequence-classification", None)
    said = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])]
    assert [watch.look({"logits": one}, mask).tolist() for one in said] == [[False] * 2, [False] * 2, [True, False]]
    watch = ExitWatch(ExitPolicy(confidence=0.9, spread=2.0), "sequence-classification", "regression")
    numbers = [np.array([[1.0], [1.0]]), np.array([[1.1], [2.0]])]
    assert [watch.look({"logits": one}, mask).tolist() for one in numbers] == [[False, False], [True, False]]
    watch = ExitWatch(ExitPolicy(confidence=0.9), "sequence-classification", "multi_label_classification")
    assert watch.look({"logits": np.array([[5.0, -5.0], [5.0, 0.1]])}, mask).tolist() == [True, False]


@pytest.mark.parametrize("head", EXIT_HEADS)
@pytest.mark.parametrize("policy", [ExitPolicy(confidence=0.02), ExitPolicy(confidence=0.5), ExitPolicy(patience=1)])
def test_neighbours_do_not_change_an_answer(head: Head, policy: ExitPolicy, tmp_path: Path) -> None:
    engine, _ = make(tmp_path / "model", head, None)
    early = engine.configured(exits=policy)
    for seed in range(3):
        together = draw(head, rows=9, seed=seed)
        if head == "multiple-choice":  # some questions have fewer options: empty ones stand in
            for name in together:
                together[name][::2, 2] = 0
            together["attention_mask"][::2, 2, 0] = 1
        found = early.run(together)
        for row in range(9):
            length = int(together["attention_mask"][row].sum(-1).max())
            alone = {name: one[row : row + 1, ..., :length] for name, one in together.items()}
            if head == "multiple-choice" and row % 2 == 0:
                alone = {name: one[:, :2] for name, one in alone.items()}
            for name, one in early.run(alone).items():
                same = found[name][row, : one.shape[1]]
                np.testing.assert_allclose(one[0], same, atol=1e-5, err_msg=f"{name} of row {row}, seed {seed}")
