"""Options are found by what they share with passage and question, as the answers teach it."""

import pytest

from litebert.baselines.ladder import LADDER, make_rung
from litebert.baselines.likelihood import LikelyOption
from litebert.baselines.options import SimilarOption
from litebert.baselines.overlap import BagSimilarity, IdfSimilarity
from litebert.errors import RequestError

PASSAGE = "Anna keeps three bees in a red box. She gives them sugar in winter. Her neighbour keeps a goat."
CHOICES = [
    (PASSAGE, "What does Anna give the bees in winter?", ["sugar in winter", "grass", "old bread", "nothing"]),
    (PASSAGE, "The neighbour keeps a _ .", ["cow", "goat", "horse", "pig"]),
    (PASSAGE, "The box is _ .", ["blue", "green", "red", "black"]),
]


@pytest.mark.parametrize("similarity", [BagSimilarity(), IdfSimilarity()])
def test_options_of_the_passage_are_chosen(similarity: BagSimilarity) -> None:
    assert SimilarOption(similarity).fit(CHOICES, [0, 1, 2]).predict(CHOICES) == [0, 1, 2]


def test_what_a_likeness_counts_is_learnt_from_the_answers() -> None:
    learnt = SimilarOption(BagSimilarity()).fit(CHOICES * 30, [1, 0, 1] * 30)  # what the passage does not have is right
    assert all(found != like for found, like in zip(learnt.predict(CHOICES), [0, 1, 2], strict=True))
    with pytest.raises(RequestError):
        SimilarOption(BagSimilarity()).fit([], [])


def test_language_model_prefers_what_it_has_read() -> None:
    assert LikelyOption().fit(CHOICES, [0, 1, 2]).predict(CHOICES[1:]) == [1, 2]
    with pytest.raises(RequestError):
        LikelyOption().fit([], [])


@pytest.mark.parametrize("name", list(LADDER["option"]))
def test_any_number_of_options_and_empty_texts(name: str) -> None:
    model = make_rung(name, "option")
    model.fit(CHOICES, [3, 3, 2])
    items = [
        ("", "", ["", ""]),
        ("사과는 빨갛다", "무엇이 빨갛나", ["사과는", "배는", "감은", "귤은", "밤은"]),
        CHOICES[0],
    ]
    chosen = model.predict(items)
    assert all(0 <= number < len(options) for number, (_, _, options) in zip(chosen, items, strict=True))
    assert model.predict([]) == []
