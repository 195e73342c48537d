"""Task distillation: a small model learns what a fine-tuned one says, also where nobody has said anything."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from litebert.errors import LitebertError, RequestError
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.finetune import Finetuning
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.texts import TextKind
from litebert.tasks.task import Dataset, Example, TextExample
from litebert.tasks.teacher import TaskTeacher
from litebert.text.tokenizer import Tokenizer
from litebert.training.objectives import class_loss
from tests.tasks.small import TASKS, ask, finetune_here, make_data, make_examples, small_run

TEXT_KINDS = ("classification", "pairs", "multi-label", "regression", "similarity")


@pytest.fixture(scope="module")
def teachers(
    small_encoder: Path, small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A fine-tuned folder of each kind, the first of which has learnt its task."""
    folder = tmp_path_factory.mktemp("teachers")
    for name in (*TEXT_KINDS, "tagging"):
        data = make_data(name)
        config = small_run(data, small_encoder, small_tokenizer, steps=60 if name == TEXT_KINDS[0] else 2)
        finetune_here(data, folder / name, config, small_tokenizer)
    return {name: folder / name for name in (*TEXT_KINDS, "tagging")}


def taught(data: Dataset, teacher: Path, encoder: Path, tokenizer: Tokenizer, **wishes: Any) -> FinetuneConfig:
    config = small_run(data, encoder, tokenizer, **wishes)
    return config.model_copy(update={"teacher": str(teacher)})


def without_labels(examples: list[Example]) -> list[Example]:
    return [replace(one, label=None) for one in examples if isinstance(one, TextExample)]


def answers(teacher: Path, name: str, examples: list[Example]) -> np.ndarray[Any, Any]:
    said: np.ndarray[Any, Any] = TaskTeacher(str(teacher), TASKS[name]).answer(
        examples, torch.device("cpu"), lambda message: None
    )
    return said


def test_a_student_learns_what_nobody_but_its_teacher_says(
    teachers: dict[str, Path], small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = make_data("classification")
    few = [make_examples("classification", 160, seed=1)[number] for number in (0, 1)]
    plain = Dataset(data.task, {**data.splits, "train": few})
    more = Dataset(data.task, {**data.splits, "train": few + without_labels(make_examples("classification", 160, 3))})
    teacher = teachers["classification"]
    said = ask(teacher / "model", data.splits["dev"])[3].answers
    agreement = {}
    for name, given in (("plain", plain), ("taught", more)):
        config = small_run(given, small_encoder, small_tokenizer)
        if name == "taught":
            config = taught(given, teacher, small_encoder, small_tokenizer)
        finetune_here(given, tmp_path / name, config, small_tokenizer)
        found = ask(tmp_path / name / "model", data.splits["dev"])[3].answers
        agreement[name] = np.mean([one == other for one, other in zip(found, said, strict=True)])
    assert agreement["taught"] >= 0.95 > agreement["plain"]
    assert "| teacher | classification |" in (tmp_path / "taught" / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TEXT_KINDS)
def test_answers_and_labels_count_the_same_and_answers_alone_where_there_is_no_label(
    name: str, teachers: dict[str, Path]
) -> None:
    examples = make_examples(name, 20, seed=5)
    alone = answers(teachers[name], name, without_labels(examples))
    both = answers(teachers[name], name, examples[:10] + without_labels(examples[10:]))
    kind, task = kind_of(TASKS[name]), TASKS[name]
    assert isinstance(kind, TextKind)
    golds = kind.label_array(task, [one for one in examples if isinstance(one, TextExample)])
    golds = np.eye(len(task.labels))[golds] if name in TEXT_KINDS[:2] else golds
    np.testing.assert_allclose(both[:10], (alone[:10] + golds[:10]) / 2, atol=1e-5)
    np.testing.assert_allclose(both[10:], alone[10:], atol=1e-5)
    if name in TEXT_KINDS[:2]:
        np.testing.assert_allclose(both.sum(1), 1, atol=1e-5)


def test_labels_may_come_in_another_order(teachers: dict[str, Path]) -> None:
    task = TASKS["classification"].model_copy(update={"labels": TASKS["classification"].labels[::-1]})
    examples = without_labels(make_examples("classification", 8, seed=5))
    turned = TaskTeacher(str(teachers["classification"]), task).answer(
        examples, torch.device("cpu"), lambda message: None
    )
    np.testing.assert_allclose(turned[:, ::-1], answers(teachers["classification"], "classification", examples))


def test_sure_shares_give_the_loss_of_labels() -> None:
    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])
    shares = torch.nn.functional.one_hot(labels, 3).float()
    weights = torch.tensor([1.0, 2.0, 0.5])
    for given in (None, weights):
        torch.testing.assert_close(
            class_loss(logits, shares, shares.numel(), given), class_loss(logits, labels, len(labels), given)
        )


@pytest.mark.parametrize(
    ("name", "task", "said"),
    [
        ("regression", "classification", "fine-tuned for regression of texts, not for classification of texts"),
        ("pairs", "classification", "classification of pairs, not for classification of texts"),
        ("tagging", "tagging", "can be learnt for classes and scores of texts, not for tagging"),
    ],
)
def test_a_teacher_of_another_task_is_refused(name: str, task: str, said: str, teachers: dict[str, Path]) -> None:
    with pytest.raises(RequestError, match=said):
        answers(teachers[name], task, make_examples(task, 4, seed=5))


def test_a_teacher_with_other_labels_or_none_is_refused(teachers: dict[str, Path], small_encoder: Path) -> None:
    other = TASKS["classification"].model_copy(update={"labels": ("cold", "warm")})
    with pytest.raises(RequestError, match="knows the labels ashore, at sea, the examples have cold, warm"):
        TaskTeacher(str(teachers["classification"]), other)
    with pytest.raises(LitebertError, match="was not fine-tuned by litebert"):
        TaskTeacher(str(small_encoder), TASKS["classification"])


def test_a_run_knows_its_teacher_by_its_weights(
    teachers: dict[str, Path], small_encoder: Path, small_tokenizer: Tokenizer
) -> None:
    data = make_data("classification")
    config = taught(data, teachers["classification"], small_encoder, small_tokenizer)
    job = Finetuning(data, config, small_tokenizer)
    assert job.data["teacher"] == TaskTeacher(str(teachers["classification"]), data.task).hash
    assert "teacher" not in Finetuning(data, config.model_copy(update={"teacher": None}), small_tokenizer).data
