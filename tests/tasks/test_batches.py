"""Batches of fine-tuning: drawn at random, and computed in whatever way without changing the gradient."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.batch import Batch
from litebert.model.model import Model
from litebert.tasks import finetune as finetuning
from litebert.tasks.config import configure
from litebert.tasks.features import Features, order_epoch
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import EncodeOptions
from litebert.tasks.task import Columns, Dataset, TaggedExample, Task, TextExample
from litebert.text.tokenizer import Tokenizer
from litebert.training.objectives import count_labels
from tests.conftest import small_config

WORDS = [
    "river",
    "captain",
    "neighbour",
    "student",
    "king",
    "sailor",
    "bridge",
    "apple",
    "letter",
    "city",
    "boat",
    "advice",
]


def text_task(kind: str, labels: tuple[str, ...]) -> Task:
    return Task(name="made-up", kind=kind, labels=labels, metrics=("accuracy",), columns=Columns())


def make_texts(lengths: list[int], kind: str) -> list[TextExample]:
    generator = np.random.default_rng(0)
    labels = {"classification": ["a", "b"], "regression": [0.5, 2.0], "multi-label": [("a",), ("a", "b")]}[kind]
    return [
        TextExample(str(i), " ".join(generator.choice(WORDS, size)), label=labels[i % 2])
        for i, size in enumerate(lengths)
    ]


def gradient(model: Model, task: Task, batches: list[Batch]) -> torch.Tensor:
    """The gradient of a step, added up over its micro-batches."""
    total = float(sum(map(count_labels, batches)))
    model.zero_grad()
    for batch in batches:
        torch.stack(kind_of(task).loss(model(**batch.inputs()), batch, [total])).sum().backward()
    parts = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("kind", ["classification", "regression", "multi-label", "tagging"])
def test_the_gradient_does_not_depend_on_how_a_step_is_computed(kind: str, small_tokenizer: Tokenizer) -> None:
    labels = () if kind == "regression" else ("a", "b")
    task = text_task(kind, labels)
    lengths = [1, 30, 2, 3, 17, 5, 1, 8, 2, 25, 4, 4]
    if kind == "tagging":
        generator = np.random.default_rng(1)
        examples: list[TextExample | TaggedExample] = [
            TaggedExample(str(i), tuple(generator.choice(WORDS, size)), tuple(generator.choice(["a", "b"], size)))
            for i, size in enumerate(lengths)
        ]
    else:
        examples = [*make_texts(lengths, kind)]
    features = kind_of(task).encode(task, examples, small_tokenizer, EncodeOptions(48))
    torch.manual_seed(0)
    config = small_config(
        vocab_size=small_tokenizer.vocab_size, labels=labels or ("score",), max_positions=64, classifier_dropout=0.0
    )
    model = Model(config, kind_of(task).head(task)).train()
    items = np.arange(len(examples))
    whole = gradient(model, task, [features.collate(items, 0)])
    micro = features.micro_batches(items, 0)
    assert any(batch.sequence_ids is not None for batch in micro), "short texts share rows"
    assert sum(map(count_labels, micro)) == count_labels(features.collate(items, 0))
    for batches in (micro, features.micro_batches(items, 0, most_items=2), [features.collate([i], 0) for i in items]):
        torch.testing.assert_close(gradient(model, task, batches), whole, atol=1e-6, rtol=1e-4)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_micro_batches_hold_every_item_once(lengths: list[int], most: int, can_pack: bool) -> None:
    tokens = np.concatenate([np.full(size, 5 + i, np.int32) for i, size in enumerate(lengths)])
    count = len(lengths)
    features = Features(
        tokens, np.cumsum(lengths), np.array(lengths), np.arange(count), can_pack=can_pack, labels=np.arange(count)
    )
    batches = features.micro_batches(np.arange(count), 0, most)
    seen = np.concatenate([batch.labels.numpy() for batch in batches if batch.labels is not None])
    assert sorted(seen.tolist()) == list(range(count))
    ids = torch.cat([batch.input_ids.flatten() for batch in batches])
    found = torch.bincount(ids, minlength=count + 5)[5:]
    assert found.tolist() == lengths
    assert sum(batch.num_tokens for batch in batches) == sum(lengths)


def test_batches_do_not_know_lengths() -> None:
    order = order_epoch(1000, 10, seed=3)
    assert sorted(order.ravel().tolist()) == list(range(1000))
    assert np.abs(np.corrcoef(order[:, 0], order[:, 1])[0, 1]) < 0.3


def _sorted_epochs(lengths: np.ndarray) -> Callable[[int, int, int], np.ndarray]:
    """Batches of like length, as fine-tuning had them before."""

    def order(num_items: int, batch_size: int, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        batches = np.argsort(lengths[:num_items], kind="stable")[: num_items // batch_size * batch_size]
        batches = batches.reshape(-1, batch_size)
        return batches[generator.permutation(len(batches))]

    return order


@pytest.mark.parametrize("sorted_by_length", [False, True])
def test_a_label_that_goes_with_length_is_learnt(
    sorted_by_length: bool, small_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in text messages, where spam is long: batches of like length hold one class each, and nothing is learnt."""
    generator = np.random.default_rng(0)

    def message(i: int) -> TextExample:
        is_spam = generator.random() < 0.2
        size = int(generator.integers(12, 18) if is_spam else generator.integers(2, 10))
        words = WORDS[:6] if is_spam else WORDS[6:]
        return TextExample(str(i), " ".join(generator.choice(words, size)), label="spam" if is_spam else "ham")

    train, dev = [message(i) for i in range(640)], [message(i) for i in range(200)]
    task = text_task("classification", ("ham", "spam"))
    shape = small_config(vocab_size=small_tokenizer.vocab_size, max_positions=64)
    config = configure(task, len(train), shape, None, steps=30, batch_size=32, lr=1e-3, max_length=32)
    if sorted_by_length:
        lengths = np.array([len(example.text.split()) for example in train])
        monkeypatch.setattr(finetuning, "order_epoch", _sorted_epochs(lengths))
    data = Dataset(task, {"train": train, "dev": dev})
    result = finetuning.finetune(data, tmp_path / "run", config, small_tokenizer)
    majority = result.baselines["majority"]["accuracy"]
    if sorted_by_length:
        assert result.metrics["accuracy"] <= majority + 0.05
    else:
        assert result.metrics["accuracy"] >= 0.98
