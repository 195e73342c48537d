"""A served model follows its folder: a new one is taken, a damaged one is not, and the old one goes on."""

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.errors import LitebertError, RequestError
from litebert.inference.load import load
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need, small_config

need("fastapi")

from litebert.serve import models  # noqa: E402
from litebert.serve.batching import QueueLimits  # noqa: E402
from litebert.serve.models import ServedModel, estimate_tokens, name_models  # noqa: E402


def save(folder: Path, tokenizer: Tokenizer, seed: int) -> Path:
    import torch

    from litebert.model.model import Model

    torch.manual_seed(seed)
    return Model(small_config(vocab_size=tokenizer.vocab_size), "sentence-embedding").save_pretrained(folder, tokenizer)


def embed(model: ServedModel, text: str) -> Any:
    return asyncio.run(model.embed([text]))[0].vector


def test_a_changed_folder_is_opened_again_and_a_damaged_one_is_not(
    tmp_path: Path, small_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_QUIET", 0.0)
    folder = save(tmp_path / "model", small_tokenizer, seed=1)
    model = ServedModel("model", str(folder), QueueLimits())
    first = embed(model, "nobody")
    np.testing.assert_array_equal(first, load(folder).embed("nobody"))
    assert not model.reload_if_changed()
    save(folder, small_tokenizer, seed=2)
    assert model.reload_if_changed()
    second = embed(model, "nobody")
    np.testing.assert_array_equal(second, load(folder).embed("nobody"))
    assert np.abs(first - second).max() > 1e-3
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert not model.reload_if_changed()
    np.testing.assert_array_equal(embed(model, "nobody"), second)
    assert not model.reload_if_changed(), "it was tried again"
    save(folder, small_tokenizer, seed=1)
    assert model.reload_if_changed()
    np.testing.assert_array_equal(embed(model, "nobody"), first)
    os.rename(folder, tmp_path / "elsewhere")
    assert not model.reload_if_changed()
    np.testing.assert_array_equal(embed(model, "nobody"), first)
    model.queue.close()


def test_a_request_is_answered_by_one_version(
    tmp_path: Path, small_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_QUIET", 0.0)
    folder = save(tmp_path / "model", small_tokenizer, seed=1)
    model = ServedModel("model", str(folder), QueueLimits(batch_tokens=30))
    first = embed(model, "nobody")
    before, run, batches = model.version, model.queue._run, []

    def run_and_change(operation: Any, inputs: list[Any]) -> list[Any]:
        batches.append(len(inputs))
        if len(batches) == 2:  # in the middle of a request
            save(folder, small_tokenizer, seed=2)
            assert model.reload_if_changed()
        return run(operation, inputs)

    model.queue._run = run_and_change
    found = asyncio.run(model.embed(["nobody"] * 100))
    assert len(batches) > 2
    assert model.version is not before
    assert all((one.vector == first).all() for one in found)
    assert (embed(model, "nobody") != first).any()
    again = asyncio.run(model.embed(["nobody"], None, before))
    np.testing.assert_array_equal(again[0].vector, first)
    model.queue.close()


def test_a_folder_that_is_being_written_is_left_alone(
    tmp_path: Path, small_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "model", small_tokenizer, seed=1)
    model = ServedModel("model", str(folder), QueueLimits())
    (folder / "notes.txt").write_text("one")
    monkeypatch.setattr(models.time, "sleep", lambda seconds: (folder / "notes.txt").write_text("one, two"))
    assert not model.reload_if_changed()
    model.queue.close()


def test_names() -> None:
    assert name_models(["a/b", "c=a/b"]) == {"b": "a/b", "c": "a/b"}
    with pytest.raises(RequestError, match="two models are called b"):
        name_models(["a/b", "c/b"])
    for bad in ("", "=x", "x="):
        with pytest.raises(RequestError, match="names no model"):
            name_models([bad])


def test_a_model_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LitebertError, match="there is no folder"):
        ServedModel("x", str(tmp_path / "none"), QueueLimits())


def test_tokens_are_estimated_for_any_input() -> None:
    assert estimate_tokens("four letters " * 10) == pytest.approx(34, abs=2)
    assert estimate_tokens("今天天气很好") >= 5
    assert estimate_tokens({"question": "a" * 40, "context": ["b" * 40, 3]}) == 12 + 12 + 1
