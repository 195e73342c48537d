"""Word vectors are the same in every process, and averages of them stand for texts."""

import os
import subprocess
import sys

import numpy as np
import pytest

from litebert.baselines import word2vec
from litebert.baselines.linear import LinearClassifier
from litebert.baselines.word2vec import AveragedVectors, WordVectors, skip_gram_rows
from litebert.errors import RequestError

TEXTS = [
    "the cat sat on the mat",
    "the dog lay on the rug",
    "stocks fell in early trade",
    "shares rose in late trade",
] * 5
CODE = f"""
from litebert.baselines.word2vec import WordVectors
print(WordVectors(size=8, seed=3).fit({TEXTS}).vectors.tobytes().hex())
"""


@pytest.mark.usefixtures("gensim")
def test_vectors_do_not_depend_on_the_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == WordVectors(size=8, seed=3).fit(TEXTS).vectors.tobytes().hex()
    assert done.stdout.strip() != WordVectors(size=8, seed=4).fit(TEXTS).vectors.tobytes().hex()


@pytest.mark.usefixtures("gensim")
def test_averages() -> None:
    model = WordVectors(size=8).fit(TEXTS)
    vector = dict(zip(model.words, model.vectors, strict=True))
    averages = model.average(["The cat, zebra!", "", "zebra", "cat cat dog"])
    np.testing.assert_allclose(averages[0], (vector["the"] + vector["cat"]) / 2, rtol=1e-5)
    assert not averages[1:3].any()
    np.testing.assert_allclose(averages[3], (2 * vector["cat"] + vector["dog"]) / 3, rtol=1e-5)


@pytest.mark.usefixtures("gensim")
def test_words_that_occur_once_are_left_out_unless_all_do() -> None:
    assert WordVectors(size=8).fit(["a b a"]).words == ["a"]
    assert sorted(WordVectors(size=8).fit(["a b c"]).words) == ["a", "b", "c"]
    assert WordVectors(size=8).fit(["", "..."]).words == []


@pytest.mark.usefixtures("gensim")
def test_words_beyond_the_ten_thousandth_are_learnt() -> None:
    model = WordVectors(size=8).fit(["a b " * 6_000 + "late last " * 10])
    start = WordVectors(size=8).fit(["a b " * 6_000, "late last"] + [""] * 3)
    assert {"late", "last"} <= set(model.words)
    assert "late" not in start.words


@pytest.mark.usefixtures("gensim")
def test_a_part_of_many_texts_holds_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "_MOST_ROWS", 20)
    # Every second text is of the same class.
    model = AveragedVectors(LinearClassifier()).fit(["the cat", "the dog"] * 20, ["cat", "dog"] * 20)
    assert model.predict(["the cat", "the dog"]) == ["cat", "dog"]


@pytest.mark.usefixtures("gensim")
def test_vectors_come_from_a_part_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "_MOST_CHARACTERS", 60)
    words = [f"{letter} {letter}" for letter in "abcdefghijklmnopqrst" * 2]
    assert 10 <= len(WordVectors(size=8).fit(words).words) < 20


def test_missing_gensim_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(RequestError, match=r"pip install 'litebert\[baselines\]'"):
        AveragedVectors(LinearClassifier()).fit(["a", "b"], ["x", "y"])


def test_skip_gram_rows_at_the_borders() -> None:
    assert skip_gram_rows([], 2) == []
    assert skip_gram_rows(["alone"], 2) == [("alone", ())]
    assert skip_gram_rows(["a", "b"], 1) == [("a", ("b",)), ("b", ("a",))]
