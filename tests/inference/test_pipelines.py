"""`litebert.load`: text in, answers out, and the same ones as transformers' pipelines."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import litebert
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need, small_config
from tests.parity.peers import quiet
from tests.text.test_tokenizer import PIECES


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    return Tokenizer.from_pretrained(tmp_path / "vocab.txt")


def test_fill_mask_equals_transformers(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pipeline = need("transformers").pipeline

    config = small_config(vocab_size=len(PIECES))
    Model(config, "masked-lm").save_pretrained(tmp_path / "model", tokenizer)
    with quiet():
        expected = pipeline("fill-mask", str(tmp_path / "model"))("the [MASK] sat on the [MASK]", top_k=3)
    found = litebert.load(tmp_path / "model").fill_mask("the [MASK] sat on the [MASK]", top=3)
    for guesses, theirs in zip(found, expected, strict=True):
        assert [guess.text for guess in guesses] == [row["token_str"] for row in theirs]
        for guess, row in zip(guesses, theirs, strict=True):
            assert guess.probability == pytest.approx(row["score"], abs=1e-5)


def test_classify_equals_transformers(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pipeline = need("transformers").pipeline

    config = small_config(vocab_size=len(PIECES), labels=("red", "green", "blue"))
    Model(config, "sequence-classification").save_pretrained(tmp_path / "model", tokenizer)
    texts = ["the cat", "unfair mats on the mat", "今天"]
    with quiet():
        expected = pipeline("text-classification", str(tmp_path / "model"))(texts)
    for guess, row in zip(litebert.load(tmp_path / "model").classify(texts), expected, strict=True):
        assert (guess.label, guess.probability) == (row["label"], pytest.approx(row["score"], abs=1e-5))


def test_a_stream_has_the_answers_of_predict(tmp_path: Path, tokenizer: Tokenizer) -> None:
    config = small_config(vocab_size=len(PIECES), labels=("red", "green", "blue"))
    Model(config, "sequence-classification").save_pretrained(tmp_path / "model", tokenizer)
    model = litebert.load(tmp_path / "model").as_classifier(is_pair=False)
    texts, taken = [f"the cat sat on {number} mats" for number in range(20)], []

    def give() -> Iterator[str]:
        for text in texts:
            taken.append(text)
            yield text

    stream = model.predict_stream(give(), window=8)
    first = next(stream)
    assert len(taken) == 8  # no more is read than is answered
    found, expected = [first, *stream], model.predict(texts)
    assert [one.label for one in found] == [one.label for one in expected]
    assert [one.probability for one in found] == pytest.approx([one.probability for one in expected], abs=1e-6)
    with pytest.raises(RequestError, match="or call predict"):
        next(model.predict_stream("a text"))


def test_embeddings_do_not_depend_on_the_company(tmp_path: Path, tokenizer: Tokenizer) -> None:
    Model(small_config(vocab_size=len(PIECES))).save_pretrained(tmp_path / "model", tokenizer)
    model = litebert.load(tmp_path / "model")
    together = model.embed(["the cat", "the cat sat on the mat"])
    assert together.shape == (2, 24)
    torch.testing.assert_close(together[:1], model.embed(["the cat"]), atol=1e-5, rtol=0)


def test_what_a_model_cannot_do_is_said(tmp_path: Path, tokenizer: Tokenizer) -> None:
    Model(small_config(vocab_size=len(PIECES)), "masked-lm").save_pretrained(tmp_path / "model", tokenizer)
    model = litebert.load(tmp_path / "model")
    with pytest.raises(RequestError, match="a model has to be fine-tuned; this one has the head masked-lm"):
        model.classify(["the cat"])
    with pytest.raises(RequestError, match=r"no \[MASK\]"):
        model.fill_mask("the cat")
