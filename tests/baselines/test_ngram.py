"""n-gram models count, share out their probability properly, and tell classes apart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.baselines import ngram
from litebert.baselines.likelihood import NgramClassifier
from litebert.baselines.ngram import END, UNKNOWN, NgramModel
from litebert.errors import RequestError

WORDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=8)


@settings(max_examples=40)
@given(TEXTS, st.integers(1, 4), st.lists(st.sampled_from(["a", "b", "c", "zebra"]), max_size=4))
def test_probabilities_sum_to_one(texts: list[str], order: int, context: list[str]) -> None:
    model = NgramModel(order).fit(texts)
    chances = [model.probability(word, context) for word in (*model.vocabulary, END, UNKNOWN)]
    assert sum(chances) == pytest.approx(1)
    assert min(chances) > 0


@settings(max_examples=40)
@given(TEXTS, st.lists(WORDS, max_size=5), st.integers(1, 4))
def test_likelihood_is_the_product_of_the_probabilities(texts: list[str], words: list[str], order: int) -> None:
    model = NgramModel(order).fit(texts)
    # The begin of a text is a context of its own: a text that is scored from there on needs no other word before it.
    whole = model.log_likelihoods([" ".join(words)])[0]
    inner = [math.log(model.probability(word, words[:i])) for i, word in enumerate([*words, END]) if i >= order - 1]
    first = [model.score_continuation(words[:i], [word]) for i, word in enumerate([*words, END]) if i < order - 1]
    assert whole == pytest.approx(sum(inner) + sum(first))


def test_smoothing_by_hand() -> None:
    # Unigrams: a twice, b once, end once; so D = n1 / (n1 + 2 n2) = 2/4, and three kinds of four occurrences give away
    # 3/8 to a uniform distribution over a, b, end and unknown.
    model = NgramModel(order=1).fit(["a a b"])
    assert model.probability("a") == pytest.approx(1.5 / 4 + 3 / 8 / 4)
    assert model.probability("b") == pytest.approx(0.5 / 4 + 3 / 8 / 4)
    assert model.probability("zebra") == pytest.approx(3 / 8 / 4)
    # Bigrams: begin-a, a-a, a-b, b-end, once each, so D = 1/2. After a: two occurrences, two kinds.
    model = NgramModel(order=2).fit(["a a b"])
    assert model.probability("b", ["a"]) == pytest.approx(0.5 / 2 + 0.5 * (0.5 / 4 + 3 / 8 / 4))
    assert model.probability("b", ["zebra"]) == pytest.approx(0.5 / 4 + 3 / 8 / 4), "an unseen context says nothing"
    assert model.probability("b", ["zebra", "a"]) == model.probability("b", ["a"]), "only the last word counts"


def test_perplexity_of_a_uniform_model_is_its_number_of_words() -> None:
    model = NgramModel(order=2, vocabulary=[f"w{i}" for i in range(8)]).fit([])
    assert model.perplexity(["w1 w2 w3", "w7", ""]) == pytest.approx(10)  # with the end and the unknown word


def test_perplexity_falls_with_longer_contexts() -> None:
    texts = ["the cat sat on the mat", "the dog sat on the rug", "the cat lay on the rug"] * 5
    perplexities = [NgramModel(order).fit(texts).perplexity(["the cat lay on the rug"]) for order in (1, 2, 3)]
    assert perplexities == sorted(perplexities, reverse=True)


def test_shares_without_smoothing() -> None:
    model = NgramModel(order=2).fit(["a b", "a c", "a b", "b"])
    assert model.probability("b", ["a"], smoothed=False) == pytest.approx(2 / 3)
    assert model.probability("a", ["zebra"], smoothed=False) == 0
    assert model.probability("zebra", ["a"], smoothed=False) == 0
    assert model.probability(END, ["c"], smoothed=False) == 1
    assert NgramModel(1).fit(["a b", "a"]).probability("a", smoothed=False) == pytest.approx(2 / 5)


def test_rare_words_are_unknown_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram, "_MOST_WORDS", 2)
    model = NgramModel(order=2).fit(["x a b", "y b a", "z a b"])
    assert model.vocabulary == ("a", "b")
    assert model.probability("x", ["a"]) == model.probability(UNKNOWN, ["a"])
    assert model.probability("a", [UNKNOWN], smoothed=False) == pytest.approx(2 / 3)


def test_scoring_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a b c", "", "b", "c c c c", "a"] * 3
    model = NgramModel().fit(texts)
    whole = model.log_likelihoods(texts)
    monkeypatch.setattr(ngram, "_BLOCK", 3)
    np.testing.assert_allclose(model.log_likelihoods(texts), whole)
    assert model.log_likelihoods([]).size == 0


def test_counting_stops_at_its_bound() -> None:
    assert NgramModel(max_words=3).fit(["a b", "c d", "e"]).vocabulary == ("a", "b", "c")


def test_requests_that_cannot_work() -> None:
    with pytest.raises(RequestError, match="order 0"):
        NgramModel(0)
    with pytest.raises(RequestError, match="perplexity"):
        NgramModel().fit(["a"]).perplexity([])


def test_classifier_hears_the_order_of_words() -> None:
    texts = ["dog bites man", "dog bites boy", "man bites dog", "boy bites dog"]
    model = NgramClassifier().fit(texts, ["usual", "usual", "news", "news"])
    assert model.predict(["man bites dog", "dog bites boy"]) == ["news", "usual"]


def test_priors_decide_where_the_text_says_nothing() -> None:
    model = NgramClassifier(order=1).fit(["a", "a", "a"], ["x", "y", "y"])
    assert model.predict(["a"]) == ["y"]


def test_an_option_without_words_is_the_least_likely() -> None:
    model = NgramModel(order=2).fit(["the cat sat on the mat"])
    assert model.score_continuation(["the"], []) < model.score_continuation(["the"], ["zebra"])
