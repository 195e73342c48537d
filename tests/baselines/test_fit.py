"""Fitting: the folder answers as the linear model that was learnt, opens like any other, and says what is wrong."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import litebert
from litebert.baselines.compare import FROZEN, MIXED, Comparison, compare
from litebert.baselines.fit import FITTED, fit
from litebert.baselines.vectors import EncoderVectors, make_frozen
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import MANIFEST
from litebert.inference.export import export
from litebert.inference.load import check_members, load
from litebert.inference.optimization import OPTIMIZED_FILE, Optimization, write_optimization
from litebert.inference.optimize import find_fastest
from litebert.model.hf.checkpoint import WEIGHTS, hash_weights
from litebert.tasks import linear
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.kind import probabilities
from litebert.tasks.linear import LINEAR_FILE, LinearHead
from litebert.tasks.metrics import compute_metrics
from litebert.tasks.saved import TASK_FILE, SavedTask
from litebert.tasks.task import Dataset, Predictions, TextExample
from litebert.tasks.tf_idf import TF_IDF_FILE
from litebert.text.tokenizer import Tokenizer
from tests.commands import fails, run_here
from tests.conftest import need
from tests.tasks.small import finetune_here, make_data, make_encoder, small_run

KINDS = ("classification", "pairs", "multi-label", "regression", "similarity")


@pytest.fixture(scope="module")
def encoder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"), small_tokenizer)


@pytest.fixture(scope="module")
def fitted(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder of a model of classes."""
    return fit(make_data("classification"), str(encoder), tmp_path_factory.mktemp("fitted") / "run").model


def learn(data: Dataset, encoder: Path, tf_idf: bool, depth: int | None = None) -> list[Any]:
    """What the linear model that is learnt answers to the development examples, before it is kept."""
    kind, train, dev = kind_of(data.task), data.splits["train"], data.splits["dev"]
    learnt = make_frozen(EncoderVectors.of(load(encoder, optimized=False), depth=depth), kind.answer_type, tf_idf)
    learnt.fit([kind.inputs(one) for one in train], [kind.baseline_target(one) for one in train])
    return learnt.predict([kind.inputs(one) for one in dev])


@pytest.mark.parametrize("tf_idf", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_answers_as_what_was_learnt(kind: str, tf_idf: bool, encoder: Path, tmp_path: Path) -> None:
    data, how = make_data(kind), kind_of(make_data(kind).task)
    result = fit(data, str(encoder), tmp_path / "model", depth=1, tf_idf=tf_idf)
    wanted = learn(data, encoder, tf_idf, depth=1)
    pipeline = load(result.folder)
    found = [
        how.baseline_target(replace(one, label=answer))
        for one, answer in zip(data.splits["dev"], pipeline.answer_examples(data.splits["dev"]).answers, strict=True)
    ]
    if how.answer_type == "number":
        np.testing.assert_allclose(found, wanted, atol=2e-3)
    else:
        assert [*map(set, found)] == [*map(set, wanted)] if how.answer_type == "labels" else found == wanted
    assert pipeline.config.num_layers == 1
    answers = tuple(map(how.read_baseline, wanted))
    assert result.metrics == pytest.approx(
        compute_metrics(data.task, data.splits["dev"], Predictions(answers)), abs=2e-3
    )
    assert (result.model / TF_IDF_FILE).is_file() == tf_idf


@pytest.mark.parametrize("made", ["optimized", "fine-tuned for short texts", "of eight bits"])
def test_the_encoder_may_come_from_anywhere(made: str, encoder: Path, tmp_path: Path) -> None:
    data = make_data("regression")
    changed = tmp_path / "encoder"
    shutil.copytree(encoder, changed, ignore=shutil.ignore_patterns(MANIFEST))
    if made == "optimized":
        write_optimization(changed, Optimization(weights=hash_weights(changed), depth=1))
    elif made == "of eight bits":
        with pytest.warns(UserWarning, match="eight bits"):
            litebert.compress(encoder, "quantize", tmp_path / "small")
        changed = tmp_path / "small"
    else:
        short = SavedTask(task=data.task, max_length=8)
        (changed / TASK_FILE).write_text(short.model_dump_json(exclude_none=True), encoding="utf-8")
    result = fit(data, str(changed), tmp_path / "run", tf_idf=False)
    found = load(result.folder).answer_examples(data.splits["dev"]).answers
    np.testing.assert_allclose(found, learn(data, changed, False), atol=1e-3)
    sizes = [(folder / WEIGHTS).stat().st_size for folder in (changed, result.model)]
    assert sizes[1] <= 1.02 * sizes[0]


@pytest.mark.parametrize("tf_idf", [False, True])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e9])
def test_numbers_may_have_any_size(factor: float, tf_idf: bool, encoder: Path, tmp_path: Path) -> None:
    data = make_data("regression")
    splits = {
        split: [replace(one, label=factor * one.label) for one in examples if isinstance(one, TextExample)]
        for split, examples in data.splits.items()
    }
    result = fit(Dataset(data.task, splits), str(encoder), tmp_path / "run", tf_idf=tf_idf)
    assert result.metrics["pearson"] > 0.9


def test_what_stands_beside_a_text_changes_no_bit(encoder: Path, tmp_path: Path) -> None:
    for kind in ("regression", "pairs"):
        data = make_data(kind)
        result = fit(data, str(encoder), tmp_path / kind)
        examples = data.splits["dev"]
        together, _ = result.pipeline.run(examples)
        alone = [result.pipeline.run([example])[0][0] for example in examples]
        np.testing.assert_array_equal(together, alone)


def test_vectors_stay_those_of_the_encoder(fitted: Path, encoder: Path) -> None:
    texts = ["the cat sat", "a dog"]
    np.testing.assert_allclose(load(fitted).embed(texts), load(encoder).embed(texts), atol=1e-6)
    transformers = need("transformers")
    torch = need("torch")
    model = transformers.AutoModel.from_pretrained(fitted)
    ids = Tokenizer.from_pretrained(fitted).encode([texts[0]], None, max_length=64).arrays()
    with torch.inference_mode():
        states = model(**{name: torch.from_numpy(array) for name, array in ids.items()}).last_hidden_state[0]
    np.testing.assert_allclose(states.mean(0).numpy(), load(fitted).embed(texts[0]), atol=1e-5)


def test_numbers_stay_between_those_that_were_seen(encoder: Path, tmp_path: Path) -> None:
    examples = [TextExample(str(n), f"word{n % 9} " * (1 + n % 3), label=float(n % 9)) for n in range(60)]
    data = make_data("regression")
    result = fit(Dataset(data.task, {"train": examples}), str(encoder), tmp_path / "model")
    said = result.predict(["word8 word8 word8", "word0", "", "something else"])
    assert all(-1e-6 <= number <= 8 + 1e-6 for number in said)
    assert result.metrics == {}


def test_command_and_call_are_one(encoder: Path, tmp_path: Path) -> None:
    rows = [
        {"text": f"{word} number {n}", "label": name} for n in range(40) for word, name in (("good", "p"), ("bad", "n"))
    ]
    table = tmp_path / "reviews.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = run_here("fit", table, "--model", encoder, "--out", tmp_path / "by-command")
    assert done.exit_code == 0, done.output
    assert "accuracy 1.000" in done.output
    assert (tmp_path / "by-command" / "report.html").is_file()
    seen: list[tuple[int, int]] = []
    result = litebert.fit(rows, model=encoder, out=tmp_path / "by-call", on_progress=lambda *said: seen.append(said))
    assert seen[-1][0] == seen[-1][1] > 0
    assert result.predict("good number 3").label == "p"
    assert "accuracy 1" in repr(result)
    assert litebert.evaluate(result.folder, rows) == litebert.evaluate(result.folder, table)
    same = [(tmp_path / way / "model" / LINEAR_FILE).read_bytes() for way in ("by-command", "by-call")]
    assert same[0] == same[1]
    answered = run_here("predict", tmp_path / "by-command", input="bad number 5\n")
    assert json.loads(answered.output)["prediction"] == "n"


def test_a_comparison_keeps_what_it_measured(encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("pairs")
    config = small_run(data, encoder, small_tokenizer, steps=1)
    comparison = Comparison(data, "dev", str(encoder), config, small_tokenizer, tmp_path)
    rows = compare(comparison, [FROZEN, MIXED])["rows"]
    for row in rows:
        assert load(row["folder"]).evaluate(data.splits["dev"]).metrics == pytest.approx(row["metrics"])
    (tmp_path / MIXED / OPTIMIZED_FILE).write_text("of an earlier model")
    (tmp_path / FROZEN / LINEAR_FILE).unlink()  # so it may be anybody's
    again = compare(comparison, [FROZEN, MIXED])["rows"]
    assert "something else" in again[0]["note"]
    assert again[1]["metrics"] == rows[1]["metrics"]
    assert not (tmp_path / MIXED / OPTIMIZED_FILE).exists()


def test_other_commands_take_it_as_a_model_that_was_fine_tuned(
    fitted: Path, encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    pipeline, dev = load(fitted), make_data("classification").splits["dev"]
    need("fastapi")
    from litebert.serve.batching import QueueLimits
    from litebert.serve.models import ServedModel

    assert {"embed", "predict", "classify"} <= {*ServedModel("mine", str(fitted), QueueLimits()).abilities}
    assert export(fitted, tmp_path / "exported").lacks_linear
    with pytest.raises(RequestError, match="is the folder of a run"):
        export(fitted, fitted.parent)
    data = make_data("classification")
    finetune_here(data, tmp_path / "tuned", small_run(data, encoder, small_tokenizer, steps=2), small_tokenizer)
    members = [pipeline, load(tmp_path / "tuned")]
    both = replace(pipeline, members=(pipeline.members[0], members[1].members[0]))
    check_members(both.members)
    alone = [[probabilities(output) for output in one.run(dev)[0]] for one in members]
    together = [probabilities(output) for output in both.run(dev)[0]]
    np.testing.assert_allclose(together, np.mean(alone, axis=0), atol=1e-5)
    found = find_fastest(pipeline, dev, max_drop=100)
    assert found.chosen.depth == 1
    shutil.copytree(fitted, tmp_path / "faster")
    write_optimization(tmp_path / "faster", found.optimization)
    assert load(tmp_path / "faster").evaluate(dev).metrics["accuracy"] == pytest.approx(found.chosen.metric)
    assert fails("report", fitted.parent).endswith("report.html")
    long = "the cat sat on the mat " * 100
    with pytest.warns(UserWarning, match="longer than"):
        assert pipeline.classify(long).truncated


def test_what_it_is_not_for_is_refused(encoder: Path, fitted: Path, tmp_path: Path) -> None:
    assert {kind_of(make_data(kind).task).answer_type for kind in KINDS} == {*FITTED}
    for kind in ("tagging", "questions", "choice"):
        with pytest.raises(RequestError, match="use finetune"):
            fit(make_data(kind), str(encoder), tmp_path / "model")
    data = make_data("classification")
    with pytest.raises(RequestError, match="there already"):
        fit(data, str(encoder), fitted)
    with pytest.raises(RequestError, match="one class of several"):
        fit(make_data("regression"), str(encoder), tmp_path / "model", balanced=True)
    with pytest.raises(RequestError, match="no training examples"):
        fit(Dataset(data.task, {"dev": data.splits["dev"]}), str(encoder), tmp_path / "model")
    unlabelled = [*data.splits["train"], TextExample("new", "a text")]
    with pytest.raises(RequestError, match="no label"):
        fit(Dataset(data.task, {"train": unlabelled}), str(encoder), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(RequestError, match="cannot teach"):
        litebert.finetune(data, model=encoder, teacher=fitted, out=tmp_path / "run", steps=1)
    with pytest.raises(RequestError, match="compress the encoder first"):
        litebert.compress(fitted, "quantize", tmp_path / "small")
    with pytest.raises(TypeError, match="epochs"):
        litebert.fit(data, epochs=3)
    assert "is not there" in fails("fit", "nothing-here.csv")


def _change(folder: Path, copy: Path, **changes: Any) -> Path:
    """A copy of a folder whose coefficients were changed."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(MANIFEST))
    tensors = {name: change(load_file(folder / LINEAR_FILE)[name]) for name, change in changes.items()}
    save_file({**load_file(folder / LINEAR_FILE), **tensors}, copy / LINEAR_FILE, metadata={"format": "1"})
    return copy


def test_a_damaged_file_is_one_sentence(fitted: Path, tmp_path: Path) -> None:
    for number, (name, change, said) in enumerate(
        [
            ("weights", lambda array: array * np.nan, "damaged"),
            ("bias", lambda array: array[:1], "damaged"),
            ("bias", lambda array: array[:1].reshape(()), "damaged"),
            ("limits", lambda array: array[::-1].copy(), "damaged"),
            ("rarity", lambda array: array[:-1].copy(), "pieces"),
        ]
    ):
        folder = _change(fitted, tmp_path / str(number), **{name: change})
        with pytest.raises(FolderError, match=said):
            load(folder)
    narrow = _change(fitted, tmp_path / "narrow", weights=lambda array: array[:, 1:].copy())
    with pytest.raises(FolderError, match="fit again"):
        load(narrow).classify("a text")
    fewer = {name: lambda array: array[:1].copy() for name in ("weights", "bias")}
    with pytest.raises(FolderError, match="another task"):
        load(_change(fitted, tmp_path / "fewer", **fewer))
    whole = (fitted / LINEAR_FILE).read_bytes()
    cut = _change(fitted, tmp_path / "cut")
    for size in range(0, len(whole), 997):
        (cut / LINEAR_FILE).write_bytes(whole[:size])
        with pytest.raises(LitebertError):
            load(cut)
    assert LinearHead.read(fitted / LINEAR_FILE).to_bytes() == whole


def test_words_are_averaged_alike_however_many_are_looked_up_at_once(
    encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["", "the cat", "a", "", "the river crossed the city", "three apples", ""]
    words = load(encoder).members[0].words
    whole, rarity = words.fit(texts).average(texts), words.rarity
    monkeypatch.setattr(linear, "_BLOCK", 3)
    np.testing.assert_array_equal(words.fit(texts).rarity, rarity)
    np.testing.assert_allclose(words.average(texts), whole, atol=1e-6)
    np.testing.assert_allclose(np.concatenate([words.average([text]) for text in texts]), whole, atol=1e-6)
    assert words.average([]).shape == (0, whole.shape[1])
