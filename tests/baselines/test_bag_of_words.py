"""Bags of words learn classes, label sets and scores, and know nothing of word order."""

import numpy as np
import pytest

from litebert.baselines import bag_of_words
from litebert.baselines.bag_of_words import BagOfWords, Weighting, choose_vocabulary, count_words
from litebert.baselines.linear import LinearClassifier, LinearLabeler, LinearRegressor
from litebert.errors import RequestError

WEIGHTINGS: list[Weighting] = ["counts", "tf-idf"]


def test_counts_of_texts_without_words() -> None:
    assert count_words([]) == ([], [])
    assert count_words(["", "a A b"]) == (["a", "b"], [[0, 0], [2, 1]])


def test_counts_do_not_hear_the_order_but_tf_idf_does() -> None:
    texts, classes = ["dog bites man", "man bites dog"] * 10, ["usual", "news"] * 10
    tf_idf = BagOfWords(LinearClassifier(), "tf-idf").fit(texts, classes)
    assert tf_idf.predict(texts[:2]) == ["usual", "news"]
    counts = BagOfWords(LinearClassifier(), "counts").fit(texts, classes)
    assert len(set(counts.predict(texts[:2]))) == 1


def test_frequent_terms_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [["a", "a", "a"], ["b", "c"], ["c", "b"], ["d"]]
    assert choose_vocabulary(texts, 3) == {"b": 0, "c": 1, "a": 2}, "texts count, not occurrences"
    monkeypatch.setattr(bag_of_words, "_MOST_CANDIDATES", 2)
    assert list(choose_vocabulary([["a"], ["a"], ["b"], ["c"], ["a"]], 3)) == ["a"]


def test_many_labels_leave_fewer_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_of_words, "_MOST_WEIGHTS", 6)
    model = BagOfWords(LinearClassifier()).fit(["a b c d", "b c", "c"], ["x", "y", "z"])
    assert model.size_bytes == (2 * 3 + 3) * 4 + len("bc")


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_scores_stay_within_those_that_were_seen(weighting: Weighting) -> None:
    model = BagOfWords(LinearRegressor(), weighting).fit(
        ["good " * i + "film" for i in range(1, 6)], [1.0, 2.0, 3.0, 4.0, 5.0]
    )
    scores = model.predict(["good film", "good " * 50])
    assert 1 <= scores[0] <= scores[1] <= 5
    with pytest.raises(RequestError, match="finite"):
        model.fit(["a"], [float("nan")])


def test_labels_of_all_texts_and_of_none() -> None:
    model = BagOfWords(LinearLabeler()).fit(["a", "b", "a b"] * 5, [("all", "x"), ("all",), ("all", "x")] * 5)
    assert model.predict(["a", "b", ""])[:2] == [("all", "x"), ("all",)]
    assert BagOfWords(LinearLabeler()).fit(["a", "b"], [(), ()]).predict(["a"]) == [()]


def test_more_texts_than_targets() -> None:
    with pytest.raises(RequestError, match="3 texts and 2 targets"):
        LinearRegressor().fit(np.zeros((3, 2)), [1.0, 2.0])
