"""Weights of eight bits: the error is bounded, folders open like any other, and damage is noticed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from litebert.config import Head
from litebert.errors import FolderError, RequestError
from litebert.model.hf.checkpoint import measure_weights, read_config, write_folder
from litebert.model.hf.int8 import SCALE, dequantize, quantize, quantize_tensors
from litebert.model.model import Model, to_arrays
from tests.conftest import small_config, small_inputs
from tests.parity.peers import randomize

pytestmark = pytest.mark.filterwarnings("ignore:transformers (cannot|has no)")


def save(folder: Path, head: Head = "none", int8: bool = True) -> Model:
    model = Model(small_config(), head).eval()
    randomize(model)
    write_folder(folder, model.config, head, to_arrays(model.state_dict()), int8=int8)
    return model


def test_the_error_is_at_most_half_a_step() -> None:
    weight = (np.random.default_rng(0).normal(size=(50, 30)) * np.logspace(-6, 3, 50)[:, None]).astype(np.float32)
    whole, scales = quantize(weight)
    assert whole.dtype == np.int8
    assert (np.abs(whole).max(1) == 127).all()
    error = np.abs(dequantize(whole, scales) - weight)
    assert (error <= scales[:, None] * (0.5 + 1e-5)).all()
    again, same = quantize(dequantize(whole, scales))
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_allclose(same, scales, rtol=1e-5)


def test_rows_of_zeros_and_tiny_numbers_stay() -> None:
    weight = np.zeros((3, 4), np.float32)
    weight[1] = 1e-38
    restored = dequantize(*quantize(weight))
    assert not restored[0].any()
    np.testing.assert_allclose(restored[1], weight[1], rtol=0.02)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(RequestError, match=r"up\.weight holds numbers that are not finite"):
        quantize_tensors({"up.weight": np.array([[1.0, float("nan")]])})


@pytest.mark.parametrize("head", ["none", "pretraining", "sequence-classification", "sentence-embedding"])
def test_saved_is_opened(head: Head, tmp_path: Path) -> None:
    model = save(tmp_path / "model", head)
    again = Model.from_pretrained(tmp_path / "model")
    assert (again.config, again.head, again.fresh_tensors) == (model.config, head, ())
    assert read_config(tmp_path / "model") == (model.config, head)
    for name, tensor in model.state_dict().items():
        found = again.state_dict()[name]
        if tensor.dim() == 1:  # biases and LayerNorms
            assert torch.equal(found, tensor)
        else:
            torch.testing.assert_close(found, tensor, atol=float(tensor.abs().max()) / 250, rtol=0)
    inputs = small_inputs(model.config)
    with torch.inference_mode():
        found, expected = (one.encoder(**inputs) for one in (again, model))
    assert 0 < (found - expected).abs().max() < 0.2


def test_the_file_is_small_and_says_what_it_is(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="eight bits"):
        save(tmp_path / "int8")
    save(tmp_path / "fp32", int8=False)
    stored = load_file(tmp_path / "int8" / "model.safetensors")
    assert {tensor.dtype for name, tensor in stored.items() if name.endswith("weight") and tensor.dim() == 2} == {
        torch.int8
    }
    assert {tensor.dtype for name, tensor in stored.items() if tensor.dim() == 1} == {torch.float32}
    sizes = [
        sum(t.nbytes for t in load_file(tmp_path / name / "model.safetensors").values()) for name in ("int8", "fp32")
    ]
    assert sizes[0] < 0.4 * sizes[1]  # rows are short here: scales weigh more than elsewhere
    assert measure_weights(tmp_path / "int8") < measure_weights(tmp_path / "fp32")
    raw = json.loads((tmp_path / "int8" / "config.json").read_text())
    assert (raw["model_type"], raw["litebert"]["weights"]) == ("litebert", "int8")
    assert "own form" in (tmp_path / "int8" / "README.md").read_text()


def test_saved_again_it_is_an_ordinary_folder(tmp_path: Path) -> None:
    save(tmp_path / "int8")
    opened = Model.from_pretrained(tmp_path / "int8")
    opened.save_pretrained(tmp_path / "again")
    again = Model.from_pretrained(tmp_path / "again").state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in opened.state_dict().items())
    assert json.loads((tmp_path / "again" / "config.json").read_text())["model_type"] == "albert"


def spoil(folder: Path, change: str) -> None:
    stored = load_file(folder / "model.safetensors")
    name = "encoder.pooler.weight"
    match change:
        case "no scale":
            del stored[name + SCALE]
        case "short scale":
            stored[name + SCALE] = stored[name + SCALE][:-1].clone()
        case "whole scale":
            stored[name + SCALE] = stored[name + SCALE].to(torch.int8)
        case "stray scale":
            stored["nothing" + SCALE] = stored[name + SCALE].clone()
    save_file(stored, folder / "model.safetensors")
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("change", ["no scale", "short scale", "whole scale", "stray scale"])
def test_damage_is_named(change: str, tmp_path: Path) -> None:
    save(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(FolderError, match=r"model\.safetensors.*(pooler\.weight has no scale|unknown tensor nothing)"):
        Model.from_pretrained(tmp_path)


def test_whole_numbers_are_for_our_own_form(tmp_path: Path) -> None:
    save(tmp_path, int8=False)
    stored = load_file(tmp_path / "model.safetensors")
    stored["pooler.weight"] = stored["pooler.weight"].to(torch.int8)
    save_file(stored, tmp_path / "model.safetensors")
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(FolderError, match="must be floating-point numbers"):
        Model.from_pretrained(tmp_path)
