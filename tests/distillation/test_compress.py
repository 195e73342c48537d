"""Compression: exact where nothing is lost, close where something is, and folders that open everywhere."""

import copy
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import litebert
from litebert.batch import Batch
from litebert.distillation.compress import (
    CompressResult,
    compress_model,
    measure_agreement,
    read_sample,
    share_layers,
)
from litebert.distillation.low_rank import factorize_words
from litebert.distillation.prune import Moments, choose_heads, choose_units, drop_inputs, prune, shape_pruned
from litebert.errors import LitebertError, RequestError
from litebert.model.hf.names import is_expressible
from litebert.model.model import Model
from litebert.tasks.saved import SavedTask
from litebert.text.sources import Document
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import ProgressEvent
from tests.conftest import make_sentences, small_inputs
from tests.corpus.conftest import make_documents, write_documents
from tests.distillation.runs import BERT, make_model, make_teacher
from tests.parity.peers import open_in_transformers, quiet
from tests.tasks.small import TASKS

pytestmark = pytest.mark.filterwarnings("ignore:transformers (cannot|has no)")

SHORT: dict[str, Any] = {
    "steps": 4,
    "set": ["train.batch_size=4", "train.precision=fp32", "held_out_rows=32", "train.stages=[{}]"],
}


def make_rows(count: int = 6, vocab_size: int = 400) -> list[Batch]:
    """Random rows with padding and two token types."""
    config = make_model(vocab_size=vocab_size).config
    return [Batch(**small_inputs(config, batch=4, tokens=24, seed=seed)) for seed in range(count)]


ROWS = make_rows()


@torch.no_grad()
def states(model: Model, seed: int = 9) -> Tensor:
    inputs = small_inputs(model.config, seed=seed)
    return model.eval().encoder(**inputs)[inputs["attention_mask"] != 0]  # type: ignore[no-any-return]


def distance(model: Model, other: Model) -> float:
    return float((states(model) - states(other)).abs().max())


# --- share ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{}, {"sharing": "groups", "num_groups": 2}], ids=["albert", "two groups"])
def test_what_is_shared_stays_as_it_is(shape: dict[str, Any]) -> None:
    model = make_model(**shape)
    shared = share_layers(model, blocks=2 if shape else 1)
    assert shared.done.startswith("nothing")
    assert shared.model.config == model.config
    assert shared.model is not model
    assert distance(shared.model, model) == 0


@pytest.mark.parametrize("layers", ["average", "spread"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_layers_that_are_alike_lose_nothing(blocks: int, layers: Any) -> None:
    model = make_model(**BERT)
    for part in (model.encoder.attention, model.encoder.feed_forward):
        for number, block in enumerate(part):  # the first half alike, and the second; all of them for one block
            block.load_state_dict(part[0 if blocks == 1 else number // 2 * 2].state_dict())
    shared = share_layers(model, blocks, layers).model
    assert (shared.config.family, shared.head) == ("albert", model.head)
    assert is_expressible(shared.config)
    assert distance(shared, model) <= 1e-5
    assert len(shared.encoder.attention) == blocks


def test_blocks_are_means_or_layers_from_the_first_to_the_last() -> None:
    model = make_model(**BERT)
    up = [block.up.weight for block in model.encoder.feed_forward]
    means, copies = (share_layers(model, 2, layers).model.encoder.feed_forward for layers in ("average", "spread"))
    torch.testing.assert_close(means[1].up.weight, (up[2] + up[3]) / 2)
    assert torch.equal(copies[0].up.weight, up[0])
    assert torch.equal(copies[1].up.weight, up[3])


def test_three_blocks_share_the_layers_if_nobody_says_how_many() -> None:
    assert len(share_layers(make_model(**BERT, num_layers=6)).model.encoder.attention) == 3
    assert len(share_layers(make_model(**BERT, num_layers=4)).model.encoder.attention) == 2
    assert len(share_layers(make_model(**BERT, num_layers=5)).model.encoder.attention) == 1


@pytest.mark.parametrize(
    "shape",
    [{"sharing": "ffn"}, {"sharing": "attention"}, {"sharing": "groups", "num_inner_layers": 2, "num_layers": 2}],
    ids=str,
)
def test_any_other_sharing_is_written_out_first(shape: dict[str, Any]) -> None:
    model = make_model(**shape)
    shared = share_layers(model, 1, "average").model
    assert (shared.config.sharing, shared.config.num_layers) == ("all", 4)
    expected = torch.stack([block.qkv.weight for block in model.encoder.attention]).mean(0)
    torch.testing.assert_close(shared.encoder.attention[0].qkv.weight, expected)


# --- low rank ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "size"), [(BERT, 24), ({}, 12)], ids=["bert", "albert"])
def test_a_table_of_full_rank_loses_nothing(shape: dict[str, Any], size: int) -> None:
    model = make_model(**shape)
    smaller = factorize_words(model, ROWS, size)
    assert smaller.config.projects_embeddings
    assert is_expressible(smaller.config)
    assert distance(smaller, model) <= 1e-4


def test_words_that_lie_in_few_directions_lose_nothing() -> None:
    model = make_model(**BERT)
    embeddings = model.encoder.embeddings
    few = torch.linalg.qr(torch.randn(24, 7, generator=torch.Generator().manual_seed(0))).Q
    with torch.no_grad():
        for table in (embeddings.words, embeddings.positions, embeddings.token_types):
            centred = table.weight - table.weight.mean(1, keepdim=True)
            table.weight.copy_(centred @ few @ few.T)
            table.weight.sub_(table.weight.mean(1, keepdim=True))  # few directions stay few
    assert distance(factorize_words(model, ROWS, 9), model) <= 1e-4
    assert distance(factorize_words(model, ROWS, 5), model) > 1e-2


def test_the_wider_the_table_the_closer() -> None:
    model = make_model(**BERT)
    errors = [(states(factorize_words(model, ROWS, size)) - states(model)).norm() for size in (4, 8, 16, 23)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.5 * errors[0]


def test_a_head_that_predicts_words_is_left_out_and_others_stay() -> None:
    for head in ("pretraining", "masked-lm"):
        found = compress_model(make_model(head, **BERT), "low-rank", {"embedding_size": 8}, ROWS)
        assert found.model.head == "none"
        assert f"without the head {head}" in found.done
    tuned = make_model("sequence-classification", **BERT)
    smaller = factorize_words(tuned, ROWS, 24)
    inputs = small_inputs(tuned.config)
    with torch.inference_mode():
        torch.testing.assert_close(smaller(**inputs).logits, tuned(**inputs).logits, atol=1e-4, rtol=0)


# --- prune ------------------------------------------------------------------------------------------------------------


def silence_units(model: Model) -> list[list[int]]:
    """Let half of the units of each block add nothing, in each block others; return those that do add something."""
    loud = []
    with torch.no_grad():
        for number, block in enumerate(model.encoder.feed_forward):
            order = torch.randperm(40, generator=torch.Generator().manual_seed(number))
            block.down.weight[:, order[:20]] = 0
            loud.append(sorted(order[20:].tolist()))
    return loud


@pytest.mark.parametrize("shape", [{}, BERT, {"sharing": "groups", "num_groups": 2}], ids=["albert", "bert", "groups"])
def test_units_that_add_nothing_can_go(shape: dict[str, Any]) -> None:
    model = make_model(**shape)
    loud = silence_units(model)
    pruned = prune(model, ROWS, keep=0.5)
    assert pruned.config == model.config.updated(intermediate_size=20)
    assert is_expressible(pruned.config)
    assert distance(pruned, model) <= 1e-5
    for old, new, kept in zip(model.encoder.feed_forward, pruned.encoder.feed_forward, loud, strict=True):
        assert torch.equal(new.up.weight, old.up.weight[kept])  # exactly these, in their order
        assert torch.equal(new.up.bias, old.up.bias[kept])
        assert torch.equal(new.down.weight, old.down.weight[:, kept])


@pytest.mark.parametrize("shape", [{}, BERT], ids=["albert", "bert"])
def test_heads_that_add_nothing_can_go(shape: dict[str, Any]) -> None:
    model = make_model("sequence-classification", **shape)
    with torch.no_grad():
        for number, block in enumerate(model.encoder.attention):
            silent = number % 3
            block.output.weight[:, 8 * silent : 8 * silent + 8] = 0
    pruned = prune(model, ROWS, keep_heads=0.67)
    assert (pruned.config.num_heads, pruned.config.head_size, pruned.head) == (2, 8, model.head)
    assert not is_expressible(pruned.config)
    assert distance(pruned, model) <= 1e-5
    inputs = small_inputs(model.config)
    with torch.inference_mode():
        torch.testing.assert_close(pruned(**inputs).logits, model(**inputs).logits, atol=1e-5, rtol=0)


def test_the_most_important_are_chosen() -> None:
    model = make_model(**BERT)
    block, known = model.encoder.feed_forward[0], Moments(40)
    known.add(torch.randn(100, 40, generator=torch.Generator().manual_seed(0)))
    known.sizes[7] = 1e6
    known.sizes[3] = 0
    assert 7 in choose_units(block, known, 1)  # type: ignore[arg-type]
    assert 3 not in choose_units(block, known, 39)  # type: ignore[arg-type]
    heads, known = model.encoder.attention[0], Moments(24)
    inputs = torch.randn(100, 24, generator=torch.Generator().manual_seed(0))
    inputs[:, 8:16] *= 30
    known.add(inputs)
    assert choose_heads(heads, known, 1).tolist() == [1]  # type: ignore[arg-type]
    adds = torch.stack([(inputs[:, i : i + 8] @ heads.output.weight[:, i : i + 8].T).norm() for i in (0, 8, 16)])
    assert choose_heads(heads, known, 2).tolist() == sorted(adds.topk(2).indices.tolist())  # type: ignore[arg-type]


def test_what_is_left_takes_over_what_it_can() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(500, 6, generator=generator)
    inputs[:, 4] = inputs[:, 0] - inputs[:, 1] + 0.01 * torch.randn(500, generator=generator)  # known from others
    inputs[:, 5] = 3 + 0.01 * torch.randn(500, generator=generator)  # known without others
    linear, known, kept = torch.nn.Linear(6, 3), Moments(6), torch.arange(4)
    known.add(inputs)
    with torch.no_grad():
        weight, bias = drop_inputs(linear, kept, known)
        expected = linear(inputs)
        plain = inputs[:, kept] @ linear.weight[:, kept].T + linear.bias
        fitted = inputs[:, kept] @ weight.T + bias
    assert (fitted - expected).norm() < 0.2 * (plain - expected).norm()


def test_padding_does_not_count() -> None:
    model = make_model(**BERT)
    wider = [
        Batch(*(torch.nn.functional.pad(tensor, (0, 5)) for tensor in (one.input_ids, one.attention_mask)))  # type: ignore[arg-type]
        for one in ROWS
    ]
    narrow = [Batch(one.input_ids, one.attention_mask) for one in ROWS]
    assert distance(prune(model, wider, 0.5, 0.67), prune(model, narrow, 0.5, 0.67)) <= 1e-4


def test_pruning_leaves_the_original_alone_and_the_shape_in_proportion() -> None:
    model = make_model(**BERT)
    before = copy.deepcopy(model.state_dict())
    pruned = prune(model, ROWS, 0.25, 0.34)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert (pruned.config.intermediate_size, pruned.config.num_heads, pruned.config.head_size) == (10, 1, 8)
    assert shape_pruned(pruned.config, 1e-9, 1e-9).intermediate_size == 1
    again = prune(pruned, ROWS, 0.5)
    assert (again.config.intermediate_size, again.config.head_size) == (5, 8)


# --- the sample -------------------------------------------------------------------------------------------------------


def test_a_sample_is_drawn_from_paragraphs(small_tokenizer: Tokenizer) -> None:
    texts = ["\n\n".join(make_sentences(30, seed=seed)) for seed in range(4)]
    documents = [Document(text, "here") for text in texts]
    sample = read_sample(documents, small_tokenizer, 48)
    again = read_sample(documents, small_tokenizer, 48)
    rows = [sum(len(batch.input_ids) for batch in part) for part in (sample.fit, sample.held_out)]
    assert rows[1] == sum(rows) // 4
    assert all(torch.equal(one.input_ids, other.input_ids) for one, other in zip(sample.fit, again.fit, strict=True))
    assert max(batch.input_ids.shape[1] for batch in sample.fit) <= 48
    with pytest.raises(RequestError, match="fewer than 8 paragraphs"):
        read_sample([Document("only one paragraph is here", "here")], small_tokenizer, 48)


def test_a_model_agrees_with_itself() -> None:
    model = make_model(**BERT)
    assert measure_agreement(model, model, ROWS) == pytest.approx(1)
    assert measure_agreement(make_model(seed=5, **BERT), model, ROWS) < 0.9


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def hurry() -> Iterator[None]:
    """Do not measure the machine before each run."""
    with mock.patch("litebert.training.run.measure_rate", return_value=1e9):
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of text."""
    return write_documents(tmp_path_factory.mktemp("text") / "text.jsonl", make_documents(200))


@pytest.fixture(scope="module")
def original(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT for sentence embeddings."""
    folder = tmp_path_factory.mktemp("original") / "my-bert"
    settings = {"head": "sentence-embedding", "hidden_dropout": 0.1, "embedding_normalize": True}
    return make_teacher(folder, small_tokenizer, **settings, **BERT)  # type: ignore[arg-type]


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "share": ("share", {}),
    "two blocks": ("share", {"blocks": 2, "layers": "spread"}),
    "low-rank": ("low-rank", {"embedding_size": 8}),
    "trim": ("trim", {"vocab_size": 300}),
    "units": ("prune", {}),
    "heads": ("prune", {"keep_heads": 0.34}),
    "quantize": ("quantize", {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_method_gives_a_folder(way: str, original: Path, text: Path, tmp_path: Path) -> None:
    method, options = WAYS[way]
    result = litebert.compress(original, method, tmp_path / "out", text=text, **options)
    before, after = Model.from_pretrained(original), Model.from_pretrained(tmp_path / "out")
    assert (after.head, after.config.embedding_normalize, after.config.hidden_dropout) == (before.head, True, 0.1)
    assert after.fresh_tensors == ()
    counts = tuple(sum(p.numel() for p in model.parameters()) for model in (before, after))
    assert (result.parameters, result.status) == (counts, "finished")
    assert counts[1] < counts[0] or method == "quantize"
    assert result.weight_bytes == tuple(
        (folder / "model.safetensors").stat().st_size for folder in (original, tmp_path / "out")
    )
    assert result.weight_bytes[1] < result.weight_bytes[0]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for said in ("## Compression", "my-bert", result.done, f"{counts[0]:,} → {counts[1]:,}", "text.jsonl"):
        assert said in card
    assert ("int8 arithmetic is not in it" in card) == (method == "quantize")
    assert result.agreement is not None
    assert f"{result.agreement:.3f}" in card
    assert f"{result.agreement:.3f}" in repr(result)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    vectors = litebert.load(tmp_path / "out").embed(["the river", "an old captain"])
    assert vectors.shape == (2, 24)
    assert result.opens_in_transformers == (way not in ("heads", "quantize"))
    if result.opens_in_transformers:
        peer, inputs = open_in_transformers(tmp_path / "out"), small_inputs(after.config)
        real = inputs["attention_mask"] != 0
        with torch.inference_mode():
            found, expected = after.encoder(**inputs), peer(**inputs).last_hidden_state
        assert (found - expected)[real].abs().max() <= 1e-5
    else:
        assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "litebert"


def test_the_same_call_gives_the_same_bytes(original: Path, text: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        litebert.compress(original, "prune", tmp_path / name, text=text, keep=0.3, keep_heads=0.67)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_what_was_stored_as_fp16_stays_so(
    original: Path, text: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    Model.from_pretrained(original).save_pretrained(tmp_path / "half", small_tokenizer, half=True)
    pruned = litebert.compress(tmp_path / "half", "prune", tmp_path / "pruned", text=text)
    assert pruned.weight_bytes[1] < pruned.weight_bytes[0]
    assert {tensor.dtype for tensor in load_file(tmp_path / "pruned" / "model.safetensors").values()} == {torch.float16}
    small = litebert.compress(tmp_path / "half", "quantize", tmp_path / "small", text=text)
    assert small.weight_bytes[1] < small.weight_bytes[0]


def test_sentence_transformers_opens_it(original: Path, text: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    litebert.compress(original, "low-rank", tmp_path / "out", text=text, embedding_size=8)
    texts = ["The river crossed the bridge.", "Nobody.", "An old captain gave back three apples in 1984."]
    with quiet():
        expected = library.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    assert abs(litebert.load(tmp_path / "out").embed(texts) - expected).max() <= 1e-5


def test_a_fine_tuned_model_still_answers(small_tokenizer: Tokenizer, text: Path, tmp_path: Path) -> None:
    task = SavedTask(task=TASKS["classification"], max_length=32)
    labels = task.task.labels
    tuned = make_teacher(tmp_path / "tuned", small_tokenizer, 0, "sequence-classification", labels=labels, **BERT)
    for name, content in task.as_files().items():
        (tuned / name).write_text(content, encoding="utf-8")
    litebert.compress(tuned, "share", tmp_path / "shared", text=text)
    assert litebert.load(tmp_path / "shared").classify("two sailors crossed the bridge.").label in labels
    taught = litebert.compress(tuned, "distill", tmp_path / "taught", text=text, **SHORT)
    assert "without the head sequence-classification" in taught.done
    assert not (tmp_path / "taught" / "task.json").exists()


def test_an_albert_and_a_model_without_pooler(small_tokenizer: Tokenizer, text: Path, tmp_path: Path) -> None:
    albert = make_teacher(tmp_path / "albert", small_tokenizer, 0, "masked-lm")
    assert litebert.compress(albert, "share", tmp_path / "shared", text=text).agreement == pytest.approx(1)
    litebert.compress(albert, "prune", tmp_path / "pruned", text=text, keep_heads=0.67, keep=0.5, **SHORT)
    pruned = Model.from_pretrained(tmp_path / "pruned")
    assert (pruned.head, pruned.config.sharing, pruned.config.num_heads) == ("masked-lm", "all", 2)
    assert litebert.load(tmp_path / "pruned").fill_mask("the river [MASK] the bridge", top=2)


# --- healing ----------------------------------------------------------------------------------------------------------


def interrupt_at(step: int) -> Any:
    def on_step(event: ProgressEvent) -> None:
        if event.step == step:
            signal.raise_signal(signal.SIGTERM)

    return on_step


def test_healing_trains_the_encoder_and_can_be_interrupted(original: Path, text: Path, tmp_path: Path) -> None:
    def heal(name: str, **more: Any) -> CompressResult:
        return litebert.compress(original, "prune", tmp_path / name, text=text, keep=0.5, keep_heads=0.67, **more)

    plain, whole = heal("plain"), heal("whole", **SHORT)
    assert plain.healing is None
    assert whole.healing is not None
    assert (whole.status, whole.healing.step, whole.parameters) == ("finished", 4, plain.parameters)
    healed, unhealed = (Model.from_pretrained(tmp_path / name) for name in ("whole", "plain"))
    assert healed.config == unhealed.config  # dropout too
    assert 0 < distance(healed, unhealed) < 1
    assert "## Distillation" in (tmp_path / "whole" / "README.md").read_text(encoding="utf-8")

    with pytest.raises(litebert.Interrupted, match="resume=True") as interruption:
        heal("part", **SHORT, on_step=interrupt_at(2))
    stopped = interruption.value.result
    assert (stopped.status, stopped.signal, stopped.agreement) == ("interrupted", signal.SIGTERM, None)
    assert not (tmp_path / "part").exists()
    with pytest.raises(RequestError, match=r"already holds a run at step \d: go on with --resume"):
        heal("part", **SHORT)
    assert heal("part", **SHORT, resume=True).status == "finished"
    parts = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "part")]
    assert parts[0] == parts[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part", "plain", "whole"]


def test_distillation_makes_the_default_student(original: Path, text: Path, tmp_path: Path) -> None:
    result = litebert.compress(original, "distill", tmp_path / "out", text=text, **SHORT)
    student = Model.from_pretrained(tmp_path / "out")
    assert (student.config.family, student.head) == ("albert", "sentence-embedding")
    assert result.parameters[1] < result.parameters[0]
    assert "## Distillation" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("shrink", {}, "there is no method 'shrink': choose one of share, low-rank, trim, prune, distill, quantize"),
        ("trim", {"vocab_size": 400}, "--vocab-size must be below the model's 400 pieces, not 400"),
        ("trim", {"vocab_size": 9}, "--vocab-size must leave"),
        ("trim", {"heal": "10m"}, "a trimmed model reads other pieces than the original"),
        ("share", {"keep": 0.5}, "--keep is for --method prune: leave it out with share"),
        ("share", {"blocks": 3}, "3 blocks cannot share 4 layers evenly: choose 1 or 2"),
        ("share", {"blocks": 5}, "5 blocks cannot share 4 layers evenly: choose 1 or 2"),
        ("share", {"layers": "first"}, "--layers must be one of spread, average, not 'first'"),
        ("low-rank", {"embedding_size": 24}, "must be below the word table's size, 24, not 24"),
        ("prune", {"keep": 0.0}, "--keep must be a share above 0 and at most 1"),
        ("prune", {"keep_heads": 1.5}, "--keep-heads must be a share"),
        ("prune", {"keep": 1.0}, "nothing is to be pruned"),
        ("quantize", {"heal": "10m"}, "eight bits cannot be healed"),
        ("share", {"heal": "10m", "steps": 3}, "--heal and --steps both say how long"),
        ("share", {"heal": "soon"}, "--heal: 'soon' is no duration"),
        ("share", {"set": ["train.seed=3"]}, "ask for one with --heal"),
        ("share", {"steps": 2, "set": ["train.nonsense=3"]}, "there is no setting train.nonsense"),
        ("share", {"text": "nothing-there.txt"}, "nothing-there.txt"),
    ],
)
def test_wrong_calls_are_one_sentence(
    method: str, options: dict[str, Any], said: str, original: Path, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(LitebertError, match=said) as caught:
        litebert.compress(original, method, tmp_path / "out", **{"text": text, **options})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(original: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for out in (original, tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(LitebertError, match="is not empty: choose another --out"):
            litebert.compress(original, "share", out, text=text)
    with pytest.raises(LitebertError, match="albert-mini is a preset that has learnt nothing"):
        litebert.compress("albert-mini", "share", tmp_path / "out", text=text)


def test_a_failed_save_leaves_nothing(original: Path, text: Path, tmp_path: Path) -> None:
    full = mock.patch("litebert.model.hf.checkpoint.save_file", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(LitebertError, match="No space left"):
        litebert.compress(original, "prune", tmp_path / "out", text=text)
    assert not list(tmp_path.iterdir())
