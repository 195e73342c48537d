"""Kernels in C: the answers of torch and of onnxruntime, the same to the bit for every neighbour and every thread."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.config import Activation, Head
from litebert.errors import RequestError
from litebert.inference import engine as engines
from litebert.inference.early_exit import ExitPolicy, find_exits
from litebert.inference.engine import Engine
from litebert.inference.native import encoder as native
from litebert.runtime import advertises
from litebert.tasks.kinds.kind import probabilities
from tests.conftest import need
from tests.inference.test_int8 import draw_inputs, make_engine

need("onnxruntime")
SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_heads": 3,
    "intermediate_size": 112,
    "embedding_size": 32,
    "max_positions": 64,
}
SHAPES: dict[str, dict[str, Any]] = {
    "albert": {},
    "groups": {"sharing": "groups", "num_groups": 2, "num_inner_layers": 2},
    "bert": {"family": "bert", "embedding_size": 48, "sharing": "none"},
    "attention": {"sharing": "attention"},
    "ffn": {"sharing": "ffn"},
    "other head size": {"head_size": 32},
}
LENGTHS = [9, 1, 33, 17, 50, 4, 16]
if native._open_library() is None:
    missing = [name for name in native.INSTRUCTIONS if not advertises(name)]
    pytest.skip(f"no kernels here: {', '.join(missing) or 'installed without a compiler'}", allow_module_level=True)


def open_engine(folder: Path, head: Head, shape: str = "albert", **changes: Any) -> Engine:
    engine = make_engine(folder, head, **{**SIZES, **SHAPES[shape], **changes})
    assert engine.is_native
    return engine


def without_kernels(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The same, on onnxruntime alone."""
    with monkeypatch.context() as patch:
        patch.setenv("LITEBERT_NATIVE", "0")
        other = engine.configured(engine._int8, engine.exits, engine.depth)
        assert not other.is_native
    return other


@pytest.mark.parametrize("shape", SHAPES)
def test_every_head_says_what_it_says_on_onnxruntime(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for head in get_args(Head):
        engine = open_engine(tmp_path / head, head, shape)
        plain = without_kernels(engine, monkeypatch)
        inputs = draw_inputs(head, np.random.default_rng(0), LENGTHS)
        shown = inputs["attention_mask"].astype(bool)
        for depth in (None, 2):
            ours, theirs = engine.run(inputs, depth), plain.run(inputs, depth)
            assert list(ours) == list(theirs)
            for name, found in ours.items():
                expected = theirs[name]
                if found.shape[:2] == shown.shape and head != "multiple-choice":  # of padding nothing is asked
                    found, expected = found[shown], expected[shown]
                np.testing.assert_allclose(found, expected, atol=2e-5, err_msg=f"{head}, {name}")
        np.testing.assert_allclose(
            engine.embed(draw_inputs("none", np.random.default_rng(1), LENGTHS)),
            plain.embed(draw_inputs("none", np.random.default_rng(1), LENGTHS)),
            atol=1e-5,
        )


@pytest.mark.parametrize("activation", get_args(Activation))
def test_every_activation_is_right(activation: Activation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "model", "none", activation=activation)
    for name, array in engine.weights.items():  # numbers of all sizes, so that each branch of an activation runs
        if ".up." in name:
            array *= 40
    engine = engine.configured()
    inputs = draw_inputs("none", np.random.default_rng(0), LENGTHS)
    ours = engine.run(inputs)["last_hidden_state"]
    theirs = without_kernels(engine, monkeypatch).run(inputs)["last_hidden_state"]
    shown = inputs["attention_mask"].astype(bool)
    np.testing.assert_allclose(ours[shown], theirs[shown], atol=5e-5)


def test_torch_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = open_engine(tmp_path / "model", "sentence-embedding")
    inputs = draw_inputs("none", np.random.default_rng(0), LENGTHS)
    monkeypatch.setattr(engines, "has_onnx", lambda: False)
    slow = Engine(tmp_path / "model")
    assert not slow.is_native
    np.testing.assert_allclose(quick.embed(inputs), slow.embed(inputs), atol=1e-5)


def test_what_a_mask_hides_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "model", "sentence-embedding")
    inputs = draw_inputs("none", np.random.default_rng(0), [12, 20])
    inputs["attention_mask"][0, 3] = inputs["attention_mask"][1, 7:9] = 0  # a hole, not only an end
    expected = without_kernels(engine, monkeypatch).embed(inputs)
    np.testing.assert_allclose(engine.embed(inputs), expected, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_with_8_bits_states_are_as_near_as_onnxruntimes(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path / "model", "none", shape)
    inputs = draw_inputs("none", np.random.default_rng(0), LENGTHS)
    quick = engine.configured(engine.int8_maps)
    shown = inputs["attention_mask"].astype(bool)
    exact, ours, theirs = (
        one.run(inputs)["last_hidden_state"][shown] for one in (engine, quick, without_kernels(quick, monkeypatch))
    )
    assert 0 < np.abs(ours - exact).mean() < 1.1 * np.abs(theirs - exact).mean()


def test_a_product_of_8_bits_is_exact(tmp_path: Path) -> None:
    """Whole numbers up to the largest: nothing overflows, and nothing is rounded but the result."""
    engine = open_engine(tmp_path / "model", "none")
    library = native._open_library()
    assert library is not None
    generator = np.random.default_rng(0)
    weight = generator.integers(-127, 128, (48, 48)).astype(np.float32)
    weight[:, 0], weight[0] = 127, 127  # so that a step is 1
    tables = engine.weights
    tables["encoder.embeddings.projection.weight"] = np.ascontiguousarray(weight[:, :32])
    tables["encoder.embeddings.projection.bias"] = np.zeros(48, np.float32)
    tables["encoder.embeddings.norm.weight"] = np.zeros(32, np.float32)
    states = generator.integers(-127, 128, 32).astype(np.float32)
    states[0] = 127
    tables["encoder.embeddings.norm.bias"] = states
    quick = engine.configured(["encoder.embeddings.projection"])
    inputs = draw_inputs("none", generator, [5])
    (found,) = quick._run_part("embeddings", inputs)
    assert np.array_equal(found.values, np.tile(states @ weight[:, :32].T, (5, 1)))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 64), min_size=2, max_size=12),
    seed=st.integers(0, 1000),
    has_int8=st.booleans(),
    group=st.sampled_from([1, 40, 256]),
    threads=st.sampled_from(["1", "3"]),
)
def test_a_neighbour_changes_no_bit(
    lengths: list[int],
    seed: int,
    has_int8: bool,
    group: int,
    threads: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "model"
    engine = Engine(folder) if folder.exists() else open_engine(folder, "sentence-embedding", "groups")
    engine = engine.configured(engine.int8_maps if has_int8 else ())
    inputs = draw_inputs("none", np.random.default_rng(seed), lengths)
    with monkeypatch.context() as patch:
        patch.setattr(native, "_GROUP_TOKENS", group)
        patch.setenv("OMP_NUM_THREADS", threads)
        together = engine.run(inputs)
    for row, length in enumerate(lengths):
        alone = engine.run({name: array[row : row + 1, :length] for name, array in inputs.items()})
        assert np.array_equal(together["sentence_embedding"][row], alone["sentence_embedding"][0])
        assert np.array_equal(together["last_hidden_state"][row, :length], alone["last_hidden_state"][0])


@pytest.mark.parametrize("head", ["sequence-classification", "multiple-choice", "question-answering"])
def test_who_never_leaves_gets_what_the_full_model_says(head: Head, tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "model", head, "groups")
    inputs = draw_inputs(head, np.random.default_rng(0), [9, 33, 17, 50, 4])  # a single token would be certain
    watched = engine.configured(engine.int8_maps, ExitPolicy(confidence=1.0))
    full = engine.configured(engine.int8_maps).run(inputs)
    shown = inputs["attention_mask"].astype(bool)
    for name, found in watched.run(inputs).items():
        where = shown if head == "question-answering" else ...
        assert np.array_equal(found[where], full[name][where])


@pytest.mark.parametrize("head", ["sequence-classification", "multiple-choice", "question-answering"])
def test_who_leaves_early_says_what_was_foreseen(head: Head, tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "model", head, "groups")
    inputs = draw_inputs(head, np.random.default_rng(0), [9, 33, 17, 50, 4, 21, 7])
    if head == "multiple-choice":  # whose options must differ
        inputs["input_ids"][:, 1] = inputs["input_ids"][:, 1] * 7 % 60
    trace = engine.trace(inputs)
    certain = max(0.34, float(np.median([probabilities(one).max() for one in trace[0].get("logits", np.eye(3))])))
    watched = engine.configured((), ExitPolicy(confidence=certain, patience=2))
    assert watched.exits is not None
    exits = find_exits(trace, watched.exits, head, None, inputs["attention_mask"])
    shown = inputs["attention_mask"].astype(bool)
    for name, found in watched.run(inputs).items():
        for row, number in enumerate(exits):
            where = shown[row] if head == "question-answering" else ...
            assert np.array_equal(found[row][where], trace[number - 1][name][row][where])
    assert len(set(exits)) > 1, "all left together"


def test_states_on_the_way_are_those_of_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "model", "none", "groups")
    inputs = draw_inputs("none", np.random.default_rng(0), LENGTHS)
    shown = inputs["attention_mask"].astype(bool)
    ours, theirs = engine.states(inputs), without_kernels(engine, monkeypatch).states(inputs)
    assert len(ours) == engine.num_passes + 1
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one[shown], other[shown], atol=2e-5)


def test_threads_that_ask_at_once_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    engine = open_engine(tmp_path / "model", "sentence-embedding")
    asked = [draw_inputs("none", np.random.default_rng(seed), [40, 3, 64, 21] * 4) for seed in range(6)]
    expected = [engine.embed(inputs) for inputs in asked]
    wrong: list[int] = []

    def ask(number: int) -> None:
        for _ in range(10):
            if not np.array_equal(engine.embed(asked[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("name", "value"), [("input_ids", 10**6), ("token_type_ids", -1), ("input_ids", -1)])
def test_ids_that_no_table_has_are_never_looked_up(name: str, value: int, tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "model", "none")
    inputs = draw_inputs("none", np.random.default_rng(0), [4, 6])
    inputs[name][0, 1] = value
    assert engine._native is not None
    assert engine._native.embed_tokens(inputs) is None


@pytest.mark.parametrize("hidden", [slice(None), slice(0, 1)])
def test_a_text_whose_first_token_is_hidden_goes_another_way(
    hidden: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path / "model", "none")
    inputs = draw_inputs("none", np.random.default_rng(0), [4, 6])
    inputs["attention_mask"][0, hidden] = 0
    expected = without_kernels(engine, monkeypatch).run(inputs)["pooler_output"]
    assert np.array_equal(engine.run(inputs)["pooler_output"], expected)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_lone_token_of_wide_attention(length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "model", "none", hidden_size=16, num_heads=16, head_size=16, intermediate_size=16)
    inputs = draw_inputs("none", np.random.default_rng(0), [length])
    expected = without_kernels(engine, monkeypatch).run(inputs)["last_hidden_state"]
    np.testing.assert_allclose(engine.run(inputs)["last_hidden_state"], expected, atol=2e-5)


@pytest.mark.parametrize("has_int8", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["encoder.embeddings.words.weight", "encoder.feed_forward.0.up.bias"])
def test_numbers_that_are_none_are_not_hidden(name: str, value: float, has_int8: bool, tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "model", "none", activation="relu")
    engine.weights[name].reshape(-1)[5::97] = value
    maps = [one for one in engine.int8_maps if "words" not in one] if has_int8 else []
    inputs = draw_inputs("none", np.random.default_rng(0), [4, 50])
    inputs["input_ids"][:] = 8
    engine.weights["encoder.embeddings.words.weight"][8, 3] += value if "words" in name else 0
    assert not np.isfinite(engine.configured(maps).run(inputs)["last_hidden_state"]).all()


def test_no_layer_is_no_depth(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "model", "sentence-embedding")
    with pytest.raises(RequestError):
        engine.run(draw_inputs("none", np.random.default_rng(0), [4]), 0)


def test_a_thread_that_outlives_the_main_one_is_answered() -> None:
    code = """
import os, threading, time
os.environ["OMP_NUM_THREADS"] = "2"
import litebert
encoder = litebert.load()
def work():
    threading.main_thread().join()
    time.sleep(0.2)
    print(len(encoder.embed(["some words that are read " * 20] * 20)))
threading.Thread(target=work).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr


@pytest.mark.parametrize("changes", [{"hidden_size": 24}, {"num_heads": 6}, {"intermediate_size": 100}])
def test_other_sizes_run_on_onnxruntime(changes: dict[str, Any], tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "model", "none", **{**SIZES, **changes})
    assert not engine.is_native
    assert engine.run(draw_inputs("none", np.random.default_rng(0), [4])).keys() == {
        "last_hidden_state",
        "pooler_output",
    }


def test_a_library_of_another_source_is_not_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "__file__", str(tmp_path / "encoder.py"))
    assert native._open_library.__wrapped__() is None, "there is no source at all"
    here = Path(__file__).parents[2] / "src" / "litebert" / "inference" / "native"
    for library in here.glob("*.kernels"):
        shutil.copy(library, tmp_path)
    (tmp_path / "encoder.c").write_text("// another\n")
    assert native._open_library.__wrapped__() is None


def test_a_library_that_cannot_be_opened_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "encoder.c"
    source.write_text("// another\n")
    (tmp_path / native.library_name(source.read_bytes())).write_bytes(b"made for another system")
    monkeypatch.setattr(native, "__file__", str(tmp_path / "encoder.py"))
    assert native._open_library.__wrapped__() is None
