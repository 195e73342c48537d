"""The comparison: every rung on the same examples, what the settings were, and who only found the majority."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from litebert.baselines import compare as module
from litebert.baselines.compare import (
    BESIDE,
    FROZEN,
    MAJORITY,
    PRETRAINED,
    SCRATCH,
    Comparison,
    compare,
    run_encoder,
    run_majority,
)
from litebert.baselines.tf_idf import learn_tf_idf
from litebert.errors import RequestError
from litebert.inference.load import Pipeline, load
from litebert.tasks.metrics import measure_majority
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Dataset,
    Example,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)
from litebert.tasks.tf_idf import TfIdf
from tests.conftest import need
from tests.tasks.small import make_data

PETS = ["the cat purrs", "a dog and a cat", "my dog barks"]
MONEY = ["shares rose", "stocks fell", "the bank sold shares"]


def make_examples(kind: str) -> list[Example]:
    texts = [(text, "pets") for text in PETS] + [(text, "money") for text in MONEY]
    match kind:
        case "multi-label":
            return [TextExample(str(i), text, label=(name, "all")) for i, (text, name) in enumerate(texts)]
        case "regression":
            return [TextExample(str(i), text, label=float(name == "pets")) for i, (text, name) in enumerate(texts)]
        case "similarity":
            pairs = [(text, other, float(name == "pets")) for text, name in texts for other in PETS]
            return [TextExample(str(i), text, other, label) for i, (text, other, label) in enumerate(pairs)]
        case "tagging":
            words = [text.split() for text, _ in texts]
            return [
                TaggedExample(str(i), tuple(row), tuple("N" if word in ("cat", "dog") else "O" for word in row))
                for i, row in enumerate(words)
            ]
        case "questions":
            return [
                QuestionExample(str(i), "who purrs?", f"It is late. {text}.", (Answer(text, 12),))
                for i, (text, _) in enumerate(texts)
            ]
        case "choice":
            return [ChoiceExample(str(i), text, "what?", (text, "nothing"), 0) for i, (text, _) in enumerate(texts)]
        case _:
            return [TextExample(str(i), text, label=name) for i, (text, name) in enumerate(texts)]


METRICS = {
    "regression": "pearson",
    "similarity": "pearson",
    "multi-label": "micro_f1",
    "tagging": "entity_f1",
    "questions": "f1",
}
LABELS = {"classification": ("money", "pets"), "multi-label": ("all", "money", "pets"), "tagging": ("N", "O")}
KINDS: list[str] = ["classification", "multi-label", "regression", "similarity", "tagging", "questions", "choice"]


def make_comparison(kind: str, encoder: Path, out: Path, **settings: Any) -> Comparison:
    task = Task(name="toy", kind=kind, labels=LABELS.get(kind, ()), metrics=(METRICS.get(kind, "accuracy"),))
    examples = make_examples(kind)
    data = Dataset(task, {"train": examples * 4, "dev": examples})
    return Comparison.plan(data, str(encoder), out, max_length=32, **{"steps": 2, "batch_size": 4, **settings})


@pytest.mark.parametrize("kind", KINDS)
def test_every_baseline_of_every_kind(kind: str, small_encoder: Path, tmp_path: Path) -> None:
    comparison = make_comparison(kind, small_encoder, tmp_path / "out")
    rungs = [name for name in comparison.rungs if name not in (SCRATCH, PRETRAINED, BESIDE)]
    if "word2vec" in rungs:
        need("gensim")
    result = compare(comparison, rungs)
    assert [row["name"] for row in result["rows"]] == rungs
    for row in result["rows"]:
        assert row["score"] == row["metrics"][result["metric"]]
        assert row["texts_per_second"] > 0
    values = [row["score"] for row in result["rows"]]
    assert max(values[1:]) >= values[0]
    assert json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8")) == result


@pytest.mark.parametrize("kind", KINDS)
def test_the_majority_is_the_one_that_finetuning_is_compared_with(
    kind: str, small_encoder: Path, tmp_path: Path
) -> None:
    comparison = make_comparison(kind, small_encoder, tmp_path)
    row = run_majority(comparison)
    assert row["metrics"] == measure_majority(comparison.task, comparison.train, comparison.examples)


def test_settings_are_said(small_encoder: Path, tmp_path: Path) -> None:
    comparison = make_comparison("classification", small_encoder, tmp_path, num_seeds=3, lr=1e-3, steps=12)
    result = compare(comparison, [MAJORITY])
    assert result["num_examples"] == {"train": 24, "dev": 6}
    assert result["settings"] == {
        "encoder": str(small_encoder),
        "steps": 12,
        "epochs": 2.0,
        "seconds": None,
        "learning_rate": 1e-3,
        "batch_size": 4,
        "max_length": 32,
        "seeds": [0, 1, 2],
    }


def test_fewer_layers_are_compared(small_encoder: Path, tmp_path: Path) -> None:
    whole, shallow = (
        make_comparison("classification", small_encoder, tmp_path / str(depth), depth=depth) for depth in (None, 1)
    )
    assert shallow.config.model.num_layers == 1
    texts = ["the cat purrs", "shares rose"]
    one, other = (comparison.vectors.fit(texts).average(texts) for comparison in (whole, shallow))
    assert one.shape == other.shape
    assert abs(one - other).max() > 1e-3
    settings = compare(shallow, [MAJORITY, FROZEN, PRETRAINED])["settings"]
    assert settings["depth"] == 1
    assert "depth" not in compare(whole, [MAJORITY])["settings"]


def test_words_stand_beside_the_runs_that_are_there(small_encoder: Path, tmp_path: Path) -> None:
    comparison = make_comparison("classification", small_encoder, tmp_path, num_seeds=2)
    began = []
    rows = compare(comparison, [PRETRAINED, BESIDE], on_step=lambda event: began.append(event.step))["rows"]
    assert [row["name"] for row in rows] == [PRETRAINED, BESIDE]
    assert max(began) == 2
    assert began.count(2) <= 2 * 2, "two runs of two steps, none of which is run again"
    alone, beside = rows
    assert beside["score"] > alone["score"], "the words tell all, the encoder has learnt nothing in two steps"
    assert beside["size_bytes"] > alone["size_bytes"]


def test_words_that_answer_have_learnt_from_all_and_their_weight_from_others(
    small_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[tuple[int, TfIdf]] = []
    answering: list[TfIdf] = []

    def learn(task: Task, examples: Sequence[Example], *others: Any) -> TfIdf:
        learnt.append((len(examples), learn_tf_idf(task, examples, *others)))
        return learnt[-1][1]

    def add(pipeline: Pipeline, words: TfIdf) -> Pipeline:
        answering.append(words)
        return add_words(pipeline, words)

    add_words = module._add_words
    monkeypatch.setattr(module, "learn_tf_idf", learn)
    monkeypatch.setattr(module, "_add_words", add)
    compare(make_comparison("classification", small_encoder, tmp_path), [BESIDE])
    sizes = {number: words.terms for number, words in learnt}
    assert max(sizes) == 24, "the training examples"
    assert min(sizes) < 24, "those that the weight is not chosen by"
    assert [words.terms for words in answering] == [sizes[min(sizes)], sizes[24]]


@pytest.mark.parametrize("name", ["questions", "unanswerable questions"])
def test_words_stand_beside_questions(name: str, small_encoder: Path, tmp_path: Path) -> None:
    data = make_data(name, train=24, dev=8)
    comparison = Comparison.plan(data, str(small_encoder), tmp_path, max_length=32, steps=2, batch_size=4)
    rows = compare(comparison, [MAJORITY, PRETRAINED, BESIDE])["rows"]
    assert [row["name"] for row in rows] == [MAJORITY, PRETRAINED, BESIDE]
    assert all(0 <= row["score"] <= 1 for row in rows)
    assert rows[2]["size_bytes"] > rows[1]["size_bytes"]
    for row in rows[1:]:
        assert load(row["folder"]).evaluate(comparison.examples).metrics == pytest.approx(row["metrics"], abs=0.02)


@pytest.mark.parametrize(("accuracy", "only_majority"), [(0.5, True), (0.9, False)])
def test_who_only_found_the_majority(
    accuracy: float, only_majority: bool, small_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = make_comparison("classification", small_encoder, tmp_path, num_seeds=3)
    learnt: list[tuple[int, str | None, int]] = []

    def train(data: Dataset, folder: Path, config: Any, tokenizer: Any, **others: Any) -> Any:
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "model.safetensors").write_bytes(b"1234")
        learnt.append((config.train.seed, config.begin_from, len(data.splits["train"]) + len(data.splits["dev"])))
        return SimpleNamespace(status="finished", seconds=1.5)

    def open_run(folder: Path) -> Any:
        metrics = {"accuracy": accuracy + 0.01 * (int(folder.name[-1]) - 1)}
        member = SimpleNamespace(task=None)
        return SimpleNamespace(members=(member,), evaluate=lambda examples: SimpleNamespace(metrics=metrics))

    monkeypatch.setattr(module, "load", open_run)
    row = run_encoder(comparison, SCRATCH, train=train)
    assert row["only_majority"] is only_majority
    spread = (row["score_low"], row["score"], row["score_high"])
    assert spread == pytest.approx((accuracy - 0.01, accuracy, accuracy + 0.01))
    assert (row["size_bytes"], row["train_seconds"]) == (4, 1.5)
    assert learnt == [(seed, None, 24) for seed in range(3)]


def test_a_library_that_is_missing_leaves_a_note(
    small_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gensim.models", None)
    result = compare(make_comparison("classification", small_encoder, tmp_path), ["word2vec", "tf-idf"])
    by_name = {row["name"]: row for row in result["rows"]}
    assert by_name["word2vec"]["score"] is None
    assert "litebert[baselines]" in by_name["word2vec"]["note"]
    assert by_name["tf-idf"]["score"] is not None


def test_what_cannot_be_compared(small_encoder: Path, tmp_path: Path) -> None:
    comparison = make_comparison("classification", small_encoder, tmp_path)
    with pytest.raises(RequestError, match="choose from majority, bag-of-words"):
        compare(comparison, ["gpt"])
    compare(comparison, [MAJORITY])
    renamed = replace(comparison.data, task=comparison.task.model_copy(update={"name": "other"}))
    with pytest.raises(RequestError, match="holds a comparison of toy"):
        compare(replace(comparison, data=renamed), [MAJORITY])
    with pytest.raises(RequestError, match="no split 'test'"):
        make_comparison("classification", small_encoder, tmp_path, split="test")
    data = replace(comparison.data, splits={"train": comparison.train, "dev": [TextExample("1", "no label")]})
    with pytest.raises(RequestError, match="not known"):
        Comparison.plan(data, str(small_encoder), tmp_path)
