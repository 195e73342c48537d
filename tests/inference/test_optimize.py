"""The accuracy gate: what it lets through is as good as was asked, and what quantises badly is refused."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import litebert
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.inference.load import load
from litebert.inference.optimization import OPTIMIZED_FILE
from litebert.inference.optimize import _Trial, find_fastest
from litebert.inference.vectors import hash_encoder
from litebert.model.model import Model
from litebert.tasks.task import Example, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.commands import run_here
from tests.conftest import need, small_config
from tests.tasks.small import finetune_here, make_data, make_encoder, make_examples, small_run

need("onnxruntime")


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried is twice as fast as what was there before: these tests are not about time."""
    monkeypatch.setattr(_Trial, "time", lambda self, engines: [2.0] + [1.0] * (len(engines) - 1))


@pytest.fixture(scope="module")
def trained(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier that has learnt something, after every pass."""
    home = tmp_path_factory.mktemp("optimize")
    encoder = make_encoder(home / "encoder", small_tokenizer)
    data = make_data("classification")
    config = small_run(data, encoder, small_tokenizer, steps=40)
    finetune_here(data, home / "run", config.model_copy(update={"elastic": True}), small_tokenizer)
    return home / "run"


def copy_model(trained: Path, folder: Path) -> Path:
    """The model of a run, in a folder of its own."""
    Model.from_pretrained(trained / "model")
    for file in (trained / "model").iterdir():
        folder.mkdir(exist_ok=True)
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def ruin(folder: Path) -> None:
    """Give every map an input that is always 0, and weights for it that drown all others when they are rounded."""
    model = Model.from_pretrained(folder)
    encoder, size = model.encoder, model.config.attention_size
    with torch.no_grad():
        norms = [encoder.embeddings.norm, *(block.norm for block in (*encoder.attention, *encoder.feed_forward))]
        for norm in norms:
            norm.weight[0] = norm.bias[0] = 0
        encoder.embeddings.projection.weight[0] = encoder.embeddings.projection.bias[0] = 0
        for attention, feed_forward in zip(encoder.attention, encoder.feed_forward, strict=True):
            for linear, row in ((attention.qkv, 2 * size), (feed_forward.up, 0)):
                linear.weight[row] = linear.bias[row] = 0
            for linear in (attention.qkv, attention.output, feed_forward.up, feed_forward.down):
                linear.weight[:, 0] = 1e5
        encoder.embeddings.projection.weight[1:, 0] = 1e5
        attention.qkv.weight[2 * size] = feed_forward.up.weight[0] = 0
    save(model, folder)


def save(model: Model, folder: Path) -> None:
    tokenizer, task = Tokenizer.from_pretrained(folder), (folder / "task.json").read_text(encoding="utf-8")
    model.save_pretrained(folder, tokenizer)
    (folder / "task.json").write_text(task, encoding="utf-8")


def spoil(folder: Path) -> None:
    """Make a model quantise badly: the same answers, but one number of what attention gives drowns all others."""
    model = Model.from_pretrained(folder)
    size = model.config.attention_size
    with torch.no_grad():
        for block in model.encoder.attention:
            for head in range(0, size, size // model.config.num_heads):
                block.qkv.weight[2 * size + head] *= 3e4
                block.qkv.bias[2 * size + head] *= 3e4
                block.output.weight[:, head] /= 3e4
    save(model, folder)


def label_as(folder: Path, examples: Sequence[Example]) -> list[Example]:
    """Examples whose labels are what the model says."""
    answers = load(folder, optimized=False).answer_examples(examples).answers
    return [
        TextExample(one.id, one.text, one.pair, answer)
        for one, answer in zip(examples, answers, strict=True)
        if isinstance(one, TextExample)
    ]


def test_a_good_model_runs_with_8_bits_from_then_on(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    examples = make_examples("classification", 60, seed=5)
    found = litebert.optimize(folder, examples, max_drop=2.0, exits=False)
    assert found.chosen.name == "int8"
    assert found.chosen.drop <= 2.0
    quick, plain = load(folder), load(folder, optimized=False)
    assert quick.members[0].engine.has_int8
    assert not plain.members[0].engine.has_int8
    (ours, _), (theirs, _) = quick.run(examples), plain.run(examples)
    assert 0 < np.abs(np.array(ours) - np.array(theirs)).max() < 0.5
    assert quick.evaluate(examples).metrics[found.metric] == found.chosen.metric


def test_what_suffers_most_stays_as_it_is(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    examples = label_as(folder, make_examples("classification", 60, seed=5))
    before, _ = load(folder).run(examples)
    spoil(folder)
    after, _ = load(folder).run(examples)
    np.testing.assert_allclose(np.array(before), np.array(after), atol=0.01)  # the same model, but for rounding
    found = find_fastest(load(folder), examples, max_drop=2.0, exits=False)
    everything = found.variants[1]
    assert everything.name == "int8"
    assert everything.drop > 2.0, "the model was not spoilt"
    assert found.chosen.int8, "nothing runs with 8 bits"
    assert not any("attention" in name and "output" in name for name in found.chosen.int8)
    assert found.chosen.drop <= 2.0


def test_a_model_that_cannot_be_rounded_is_refused(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    ruin(folder)
    examples = label_as(folder, make_examples("classification", 60, seed=5))
    assert len({one.label for one in examples if isinstance(one, TextExample)}) == 2, "the model says nothing"
    found = litebert.optimize(folder, examples, max_drop=0.5, exits=False)
    assert [one.drop > 0.5 for one in found.variants[1:]] == [True] * (len(found.variants) - 1)
    assert found.chosen is found.variants[0]
    assert not load(folder).members[0].engine.has_int8
    np.testing.assert_array_equal(load(folder).run(examples)[0], load(folder, optimized=False).run(examples)[0])


def test_answers_leave_as_early_as_is_allowed(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([[2.0, 1.0], [3.0, 1.0], [1.0] * 5])  # 8 bits, then early answers, which are faster still; tokens
    monkeypatch.setattr(_Trial, "time", lambda self, engines: next(seconds))
    folder = copy_model(trained, tmp_path / "model")
    examples = label_as(folder, make_examples("classification", 80, seed=6))
    found = litebert.optimize(folder, examples, max_drop=3.0, out=tmp_path / "fast")
    assert found.chosen.exits is not None
    assert found.chosen.drop <= 3.0
    allowed = [one.passes for one in found.variants if one.drop <= 3.0]
    assert found.chosen.passes == min(allowed) < found.variants[0].passes
    quick = load(tmp_path / "fast")
    assert quick.evaluate(examples).metrics[found.metric] == found.chosen.metric
    seen = quick.members[0].engine.exits_seen
    assert sum(seen.values()) == len(examples)
    assert sum(number * count for number, count in seen.items()) / len(examples) == pytest.approx(found.chosen.passes)
    assert not (folder / OPTIMIZED_FILE).exists()


def test_8_bits_that_are_slower_are_not_taken(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Trial, "time", lambda self, engines: [1.0] + [2.0] * (len(engines) - 1))
    folder = copy_model(trained, tmp_path / "model")
    found = litebert.optimize(folder, make_examples("classification", 40, seed=5), max_drop=50, exits=False)
    assert found.chosen is found.variants[0]


def test_as_many_tokens_run_together_as_are_fastest_here(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, examples = copy_model(trained, tmp_path / "model"), make_examples("classification", 60, seed=5)
    plain, _ = load(folder).run(examples)
    monkeypatch.setattr(_Trial, "time", lambda self, engines: [1.0 / one.batch_tokens for one in engines])
    found = litebert.optimize(folder, examples, max_drop=-100, exits=False)  # nothing else is allowed
    assert found.optimization.tokens_at_once == load(folder).members[0].engine.batch_tokens == 2048
    quick, _ = load(folder).run(examples)
    np.testing.assert_allclose(np.array(quick), np.array(plain), atol=1e-5)
    monkeypatch.setattr(_Trial, "time", lambda self, engines: [1.0 for one in engines])
    again = litebert.optimize(folder, examples, max_drop=-100, exits=False)
    assert again.optimization.tokens_at_once is None


def test_a_copy_leaves_caches_behind_and_can_be_optimized_again(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    (folder / ".cache" / "hub" / "download").mkdir(parents=True)
    (folder / ".cache" / "hub" / "download" / "x.metadata").write_text("x", encoding="utf-8")
    examples = make_examples("classification", 40, seed=5)
    litebert.optimize(folder, examples, max_drop=50, exits=False, out=tmp_path / "fast")
    assert load(tmp_path / "fast").members[0].engine.has_int8
    litebert.optimize(tmp_path / "fast", examples, max_drop=50, exits=False)
    assert load(tmp_path / "fast").members[0].engine.has_int8


def test_vectors_of_before_and_after_are_not_mixed(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    shape = small_config(vocab_size=small_tokenizer.vocab_size, num_layers=3, initializer_range=0.2)
    folder = Model(shape, "sentence-embedding").save_pretrained(tmp_path / "encoder", small_tokenizer)
    texts = [f"the river {number}" for number in range(30)]
    load(folder).index(texts, tmp_path / "index")
    before = hash_encoder(load(folder))
    pairs = [TextExample(str(one), text, texts[one - 1], float(one % 5)) for one, text in enumerate(texts)]
    file = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": one.text, "pair": one.pair, "label": one.label}) + "\n" for one in pairs)
    file.write_text("".join(lines), encoding="utf-8")
    litebert.optimize(folder, file, max_drop=300)
    assert load(folder).members[0].engine.depth is not None
    assert hash_encoder(load(folder)) != before
    with pytest.raises(LitebertError, match="other weights"):
        litebert.Index.open(tmp_path / "index").search("the river 3")


def test_what_was_measured_holds_for_these_weights_alone(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    litebert.optimize(folder, make_examples("classification", 40, seed=5), max_drop=50, exits=False)
    spoil(folder)
    with pytest.raises(FolderError, match="other weights: delete it, or run `litebert optimize` again"):
        load(folder)
    (folder / OPTIMIZED_FILE).write_text("{}", encoding="utf-8")
    with pytest.raises(FolderError, match="run `litebert optimize` again"):
        load(folder)


def test_requests_that_make_no_sense(trained: Path, tmp_path: Path) -> None:
    folder = copy_model(trained, tmp_path / "model")
    examples = make_examples("classification", 40, seed=5)
    with pytest.raises(RequestError, match="at least 20"):
        litebert.optimize(folder, examples[:5])
    with pytest.raises(RequestError, match="is there already"):
        litebert.optimize(folder, examples, out=tmp_path)
    with pytest.raises(RequestError, match="--out"):
        litebert.optimize("litebert-en", examples)


def test_an_encoder_is_measured_by_pairs_and_may_take_fewer_passes(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    shape = small_config(vocab_size=small_tokenizer.vocab_size, num_layers=3, initializer_range=0.2)
    encoder = Model(shape, "sentence-embedding").save_pretrained(tmp_path / "encoder", small_tokenizer)
    rows = [(f"the river {one}", f"the bridge {one % 3}", float(one % 5)) for one in range(30)]
    file = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": text, "pair": pair, "label": score}) + "\n" for text, pair, score in rows)
    file.write_text("".join(lines), encoding="utf-8")
    done = run_here("optimize", encoder, "--data", file, "--max-drop", "200", "--out", tmp_path / "fast", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["metric"], found["examples"]) == ("pearson", 30)
    names = [one["name"] for one in found["variants"]]
    assert names == ["fp32", "int8", "int8, depth 2 of 3", "int8, depth 1 of 3"]
    assert found["chosen"]["name"] == names[-1]
    fast = litebert.load(tmp_path / "fast")
    np.testing.assert_array_equal(fast.embed("the river"), fast.embed("the river", depth=1))
    assert np.abs(fast.embed("the river") - litebert.load(encoder).embed("the river")).max() > 0.01
    assert litebert.export(tmp_path / "fast", tmp_path / "onnx").is_int8
