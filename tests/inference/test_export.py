"""An exported file gives the model's outputs, holds shared weights once, and runs without litebert."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import litebert
from litebert.config import Activation, Head
from litebert.errors import LitebertError, RequestError
from litebert.inference import onnx_graph
from litebert.inference.engine import Engine
from litebert.inference.export import check_onnx
from litebert.model.model import Model, to_arrays
from litebert.presets import PRESETS
from tests.conftest import need, small_config, small_inputs

onnx, onnxruntime = need("onnx"), need("onnxruntime")
BERT = {"family": "bert", "embedding_size": 24, "sharing": "none"}
SHAPES: dict[str, dict[str, Any]] = {
    "all": {"sharing": "all"},
    "attention": {"sharing": "attention"},
    "ffn": {"sharing": "ffn"},
    "none": {"sharing": "none"},
    "groups": {"sharing": "groups", "num_groups": 2, "num_inner_layers": 2},
    "bert": BERT,
    "lost heads": {"head_size": 6},
    "normalized": {"embedding_normalize": True},
}
HEADS = get_args(Head)
DOCS = Path(__file__).parents[2] / "docs" / "export.md"


def build(model: Model, depth: int | None = None) -> bytes:
    """The ONNX file of a model, in memory."""
    return onnx_graph.build_onnx(model.config, model.head, to_arrays(model.state_dict()), depth)


def run(content: bytes, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """All outputs of an ONNX file."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {name: one.numpy() for name, one in inputs.items()}), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_head_and_every_way_of_sharing(shape: str) -> None:
    for head in HEADS:
        model = Model(small_config(**SHAPES[shape]), head).eval()
        made = build(model)
        onnx.checker.check_model(onnx.load_from_string(made), full_check=True)
        difference = check_onnx(model, made)
        assert difference is not None
        assert difference < 1e-4, head


@pytest.mark.parametrize("activation", get_args(Activation))
def test_activations(activation: Activation) -> None:
    model = Model(small_config(activation=activation), "pretraining").eval()
    assert check_onnx(model, build(model)) < 1e-4  # type: ignore[operator]


def test_outputs_are_the_models_own_whatever_the_sizes() -> None:
    model = Model(small_config(labels=("a", "b", "c")), "sequence-classification").eval()
    content = build(model)
    for batch, tokens in ((1, 1), (2, 7), (5, 48)):
        inputs = {
            name: one[:, :tokens] for name, one in small_inputs(model.config, batch, max(tokens, 3 * batch)).items()
        }
        with torch.inference_mode():
            expected = model(**inputs).logits
        np.testing.assert_allclose(run(content, inputs)["logits"], expected, atol=1e-5)


def test_padding_changes_nothing() -> None:
    model = Model(small_config(), "sentence-embedding").eval()
    content = build(model)
    inputs = small_inputs(model.config)
    found = run(content, inputs)["sentence_embedding"]
    for row in range(3):
        length = int(inputs["attention_mask"][row].sum())
        alone = run(content, {name: one[row : row + 1, :length] for name, one in inputs.items()})
        np.testing.assert_allclose(alone["sentence_embedding"][0], found[row], atol=1e-5)


@pytest.mark.parametrize("name", ["albert-base", "albert-mini", "bert-mini"])
def test_a_shared_tensor_stands_once(name: str) -> None:
    presets = {"bert-mini": PRESETS["albert-mini"].config.updated(family="bert", embedding_size=256, sharing="none")}
    config = presets.get(name) or PRESETS[name].config
    for head in ("none", "pretraining"):
        model = Model(config, head)  # type: ignore[arg-type]
        weights = 4 * sum(parameter.numel() for parameter in model.parameters())
        content = build(model)
        stored = onnx.load_from_string(content).graph.initializer
        assert len({one.name for one in stored}) == len(stored)
        assert len(content) <= 1.05 * weights


def test_other_depths() -> None:
    model = Model(small_config(), "none").eval()
    inputs = small_inputs(model.config)
    for depth in (1, 3, 7):
        with torch.inference_mode():
            expected = model(**inputs, depth=depth).last_hidden_state
        found = run(build(model, depth), inputs)["last_hidden_state"]
        np.testing.assert_allclose(found, expected, atol=2e-5)
    with pytest.raises(RequestError, match="depth must be between 1 and 8"):
        build(model, 9)


def test_the_example_in_the_docs_runs_without_litebert(tmp_path: Path) -> None:
    result = litebert.export("litebert-en", tmp_path / "my-onnx")
    assert result.difference is not None
    assert result.difference < 1e-4
    assert result.num_bytes == result.file.stat().st_size
    example = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)[0]
    refuse = "import sys; sys.modules['litebert'] = sys.modules['torch'] = None\n"
    done = subprocess.run([sys.executable, "-c", refuse + example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = litebert.load().similarity("a cat sleeps", "the kitten is asleep on the sofa")
    assert float(done.stdout) == pytest.approx(expected, abs=1e-4)


def test_a_file_with_other_outputs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = build(Model(litebert.load().model.config, "sentence-embedding"))  # fresh weights
    monkeypatch.setattr(Engine, "build", lambda *_: wrong)
    with pytest.raises(LitebertError, match="other outputs than the model"):
        litebert.export("litebert-en", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported(tmp_path: Path, small_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LitebertError, match="nowhere"):
        litebert.export(tmp_path / "nowhere", tmp_path / "out")
    monkeypatch.setattr(onnx_graph, "LARGEST", 10)
    with pytest.raises(RequestError, match="at most 2 GB"):
        litebert.export(small_encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
