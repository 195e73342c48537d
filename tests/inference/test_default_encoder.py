"""The encoder that comes with litebert: there, small, better than words alone, and the same in other libraries."""

from pathlib import Path

import numpy as np
import pytest
import torch

import litebert
from litebert.errors import RequestError
from litebert.hub import DEFAULT_ENCODER, packaged_encoders, resolve
from litebert.model.cost import count_encoder_parameters
from tests.conftest import need

TEXTS = [
    "A man is playing a guitar on stage.",
    "Somebody makes music with a string instrument.",
    "The bank raised its interest rates again.",
    "Borrowing money has become more expensive.",
    "The weather is sunny and warm today.",
    "It is a hot day without a cloud in the sky.",
]


@pytest.fixture(scope="module")
def encoder() -> litebert.Pipeline:
    return litebert.load()


def test_it_is_in_the_package_and_small(encoder: litebert.Pipeline) -> None:
    folder = resolve(DEFAULT_ENCODER)
    assert DEFAULT_ENCODER in packaged_encoders()
    assert folder.parent.parent == Path(litebert.__file__).parent
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 13_000_000
    assert count_encoder_parameters(encoder.model.config) <= 6_000_000
    assert "all-MiniLM-L6-v2" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", [{}, {"depth": 2}, {"depth": 4}, {"dimensions": 128}, {"depth": 2, "dimensions": 64}])
def test_texts_of_like_meaning_are_near_without_common_words(encoder: litebert.Pipeline, how: dict[str, int]) -> None:
    cosines = encoder.similarity(TEXTS, TEXTS, **how)
    for number in range(len(TEXTS)):
        partner = number ^ 1
        others = [cosines[number, other] for other in range(len(TEXTS)) if other not in (number, partner)]
        assert cosines[number, partner] > np.mean(others) + 0.1, (TEXTS[number], how)


def test_vectors_have_the_asked_size_and_length(encoder: litebert.Pipeline) -> None:
    whole, cut = encoder.embed(TEXTS), encoder.embed(TEXTS, dimensions=64)
    assert (whole.shape, cut.shape, encoder.embed("a text", dimensions=64).shape) == ((6, 384), (6, 64), (64,))
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1.0, rtol=1e-5)
    directions = whole[:, :64] / np.linalg.norm(whole[:, :64], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, directions, rtol=1e-4, atol=1e-6)
    for wrong in (0, 385):
        with pytest.raises(RequestError, match="has 384 numbers"):
            encoder.embed("a text", dimensions=wrong)
    with pytest.raises(RequestError, match="depth must be between 1 and 5, which are all passes"):
        encoder.embed("a text", depth=99)


def test_other_libraries_give_the_same_vectors(encoder: litebert.Pipeline) -> None:
    ours = encoder.embed(TEXTS)
    folder = str(resolve(DEFAULT_ENCODER))
    theirs = need("sentence_transformers").SentenceTransformer(folder, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    transformers = need("transformers")
    model, tokenizer = (getattr(transformers, name).from_pretrained(folder) for name in ("AutoModel", "AutoTokenizer"))
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][:, :, None]
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    np.testing.assert_allclose(ours, mean.numpy(), atol=1e-5)


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / DEFAULT_ENCODER).mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve(DEFAULT_ENCODER) == Path(DEFAULT_ENCODER)


def test_it_is_what_finetune_begins_with(tmp_path: Path) -> None:
    table = [{"text": text, "label": label} for text, label in zip(TEXTS, "aabbcc", strict=True)]
    run = litebert.finetune(table, dev=table, out=tmp_path / "run", steps=1, batch=4, report=False)
    assert run.predict("a text").label in "abc"
    assert litebert.load(run.folder).model.config.vocab_size == litebert.load().model.config.vocab_size
