"""Whole numbers of 8 bits: near the model, the same for every neighbour in a batch, small on disk, safe on any CPU."""

import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import litebert
from litebert.config import Head
from litebert.inference import int8 as products
from litebert.inference.engine import Engine
from litebert.inference.onnx_graph import Int8, build_onnx, build_product, list_int8_maps
from litebert.inference.sessions import open_session
from litebert.model.model import Model, to_arrays
from litebert.presets import PRESETS
from tests.conftest import need, small_config

need("onnxruntime")
onnx = need("onnx")
SHAPES: dict[str, dict[str, Any]] = {
    "groups": {"sharing": "groups", "num_groups": 2, "num_inner_layers": 2},
    "bert": {"family": "bert", "embedding_size": 24, "sharing": "none"},
}
TEXTS = [
    "a cat",
    "stocks fell on Monday, and nobody was surprised",
    "the kitten sleeps on the sofa in the living room, and the dog beside it",
    "Lunch is served at noon in the garden behind the old house, unless it rains.",
    "no",
]


def make_engine(folder: Path, head: Head, **shape: Any) -> Engine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers cannot open
        torch.manual_seed(0)
        Model(small_config(**shape), head).save_pretrained(folder)
    return Engine(folder)


def draw_inputs(head: Head, generator: np.random.Generator, lengths: list[int]) -> dict[str, Any]:
    """Rows of these lengths with padding behind them."""
    shape = (len(lengths), max(lengths))
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
    ids = generator.integers(5, 60, shape) * mask
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids, "answer_mask": mask}
    if head == "multiple-choice":
        inputs = {name: np.stack([one, one[:, ::1]], 1) for name, one in inputs.items()}
    return inputs


@pytest.mark.parametrize("shape", ["groups", "bert"])
def test_outputs_are_near_the_models(shape: str, tmp_path: Path) -> None:
    for head in get_args(Head):
        engine = make_engine(tmp_path / head, head, **SHAPES[shape])
        quick = engine.configured(engine.int8_maps)
        inputs = draw_inputs(head, np.random.default_rng(0), [9, 17, 4])
        for name, expected in engine.run(inputs).items():
            found = quick.run(inputs)[name]
            if expected.dtype == np.float32 and "log_probs" not in name:
                error = np.square(found - expected).mean() / np.square(expected).mean()
                assert 0 < error < 0.1**2, (head, name)


@pytest.mark.parametrize("has_int8", [True, False])
@pytest.mark.parametrize("head", ["sentence-embedding", "sequence-classification", "question-answering"])
def test_a_text_has_the_same_answer_to_the_bit_whatever_stands_beside_it(
    head: Head, has_int8: bool, tmp_path: Path
) -> None:
    engine = make_engine(tmp_path / "model", head, sharing="groups", num_groups=2)
    engine = engine.configured(engine.int8_maps if has_int8 else [])
    generator = np.random.default_rng(1)
    lengths = [3, 31, 7, 15, 23, 2, 19, 11, 30, 4]
    together = draw_inputs(head, generator, lengths)
    outputs = engine.run(together)
    for row, length in enumerate(lengths):
        alone = engine.run({name: one[row : row + 1, :length] for name, one in together.items()})
        for name, expected in outputs.items():
            same = expected[row] if name in ("logits", "sentence_embedding") else expected[row, :length]
            np.testing.assert_array_equal(alone[name][0], same, err_msg=f"{name} of {length} tokens")


def test_vectors_of_texts_do_not_depend_on_the_batch() -> None:
    encoder = litebert.load()
    for engine in (encoder.members[0].engine, encoder.members[0].engine.configured(["encoder.attention.0.qkv"])):
        ids = encoder.tokenizer.encode(TEXTS, None, max_length=64)
        inputs = {name: np.asarray(one) for name, one in ids.arrays().items()}
        together = engine.embed(inputs)
        for row in range(len(TEXTS)):
            length = int(inputs["attention_mask"][row].sum())
            alone = engine.embed({name: one[row : row + 1, :length] for name, one in inputs.items()})
            np.testing.assert_array_equal(alone[0], together[row])


def test_the_default_encoder_keeps_its_meaning() -> None:
    plain = litebert.load()
    engine = plain.members[0].engine
    expected = engine.embed(inputs := plain.tokenizer.encode(TEXTS, None, max_length=64).arrays())
    found = engine.configured(engine.int8_maps).embed(inputs)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.99
    assert cosines.max() < 1 - 1e-6, "nothing was rounded"


@pytest.mark.parametrize("name", ["albert-mini", "albert-base", "bert-mini"])
def test_a_quarter_of_the_bytes(name: str) -> None:
    model = Model(PRESETS[name].config, "sentence-embedding")
    weights = to_arrays(model.state_dict())
    content = build_onnx(model.config, model.head, weights, None, Int8(frozenset(list_int8_maps(weights))))
    stored = sum(array.nbytes for array in weights.values())
    assert len(content) < 0.3 * stored


def test_weights_with_and_without_a_sign_give_the_same_products() -> None:
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((40, 64), np.float32)
    states = generator.integers(-127, 128, (7, 64)).astype(np.float32)
    signed, unsigned = (
        open_session(build_product(weight, is_unsigned)).run(None, {"states": states})[0]
        for is_unsigned in (False, True)
    )
    np.testing.assert_array_equal(signed, unsigned)


def test_a_cpu_whose_products_overflow_gets_weights_without_a_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path / "model", "sentence-embedding")
    inputs = draw_inputs("sentence-embedding", np.random.default_rng(0), [9, 5])
    expected = engine.configured(engine.int8_maps).embed(inputs)
    real = products.open_session

    class Overflowing:
        """A CPU that adds pairs of products in 16 bits."""

        def __init__(self, content: bytes) -> None:
            self.content, self.session = content, real(content)

        def run(self, names: Any, given: Any) -> Any:
            (product,) = self.session.run(names, given)
            return [product if self.has_zeros() else np.minimum(product, 32767.0)]

        def has_zeros(self) -> bool:
            """Whether the weights have a zero of their own, and so no sign."""
            node = next(one for one in onnx.load_from_string(self.content).graph.node if "MatMul" in one.op_type)
            return len(node.input) == 6

    monkeypatch.setattr(products, "open_session", Overflowing)
    assert products.try_products() == "unsigned"
    monkeypatch.setattr(products, "_probe", products.try_products)
    found = engine.configured(engine.int8_maps)
    assert products.choose_int8(frozenset(["a map"])) == Int8(frozenset(["a map"]), is_unsigned=True)
    np.testing.assert_array_equal(found.embed(inputs), expected)


def test_where_claimed_instructions_kill_nothing_runs_with_8_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path / "model", "sentence-embedding")
    inputs = draw_inputs("sentence-embedding", np.random.default_rng(0), [9, 5])
    products._probe.cache_clear()
    monkeypatch.setattr(products, "advertises", lambda *_: True)
    monkeypatch.setattr(products, "run_in_child", lambda program: None)  # it died
    try:
        np.testing.assert_array_equal(engine.configured(engine.int8_maps).embed(inputs), engine.embed(inputs))
    finally:
        products._probe.cache_clear()


def test_the_child_process_tells_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    products._probe.cache_clear()
    monkeypatch.setattr(products, "advertises", lambda *_: True)
    try:
        assert products._probe() == products.try_products()
    finally:
        products._probe.cache_clear()
