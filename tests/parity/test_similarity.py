"""Similarity, a kind in one module: learnt as a bi-encoder, and its folder opens in sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest

from litebert.inference.load import load
from litebert.tasks.task import TextExample
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need
from tests.parity.peers import quiet
from tests.tasks.small import finetune_here, make_data, make_encoder, make_examples, small_run


@pytest.fixture(scope="module")
def run(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("similarity")
    data = make_data("similarity")
    config = small_run(data, make_encoder(home / "encoder", small_tokenizer), small_tokenizer, steps=60)
    result = finetune_here(data, home / "run", config, small_tokenizer)
    assert result.metrics["pearson"] > 0.5
    assert {"pearson", "spearman"} <= result.metrics.keys()
    return result.folder


def examples() -> list[TextExample]:
    return [example for example in make_examples("similarity", 20, seed=5) if isinstance(example, TextExample)]


def test_sentence_transformers_gives_the_same_vectors(run: Path) -> None:
    sentence_transformers = need("sentence_transformers")
    with quiet():
        peer = sentence_transformers.SentenceTransformer(str(run / "model"), device="cpu")
        texts = [example.text for example in examples()] + ["two sailors crossed the bridge " * 30]
        theirs = peer.encode(texts, convert_to_numpy=True)
    pipeline = load(run)
    ours = pipeline.embed(texts[:-1])
    np.testing.assert_allclose(ours, theirs[:-1], atol=1e-5)
    with pytest.warns(UserWarning, match="longer than the 40 tokens"):
        np.testing.assert_allclose(pipeline.embed(texts[-1]), theirs[-1], atol=1e-5)


def test_the_cosine_is_the_prediction(run: Path) -> None:
    pipeline = load(run)
    first, second = [example.text for example in examples()], [example.pair or "" for example in examples()]
    cosines = np.diag(pipeline.similarity(first, second))
    scale = pipeline.members[0].task.scale
    assert scale is not None
    np.testing.assert_allclose(pipeline.predict(first, second), scale.stretch(cosines), atol=1e-4)
    assert isinstance(pipeline.similarity(first[0], second[0]), float)
    assert pipeline.similarity(first[0], first[0]) == pytest.approx(1, abs=1e-5)
    best, cosine = pipeline.search(first[0], [*second[1:4], first[0]], top=2)[0]
    assert best == 3
    assert cosine == pytest.approx(1, abs=1e-5)
