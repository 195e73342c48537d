"""Options and answers are found by what the texts share, and answers are pieces of their contexts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.baselines.ladder import LADDER, make_rung
from litebert.baselines.likelihood import LikelyOption
from litebert.baselines.options import SimilarOption
from litebert.baselines.overlap import BagSimilarity, IdfSimilarity
from litebert.baselines.questions import FirstWords, SimilarSentence, cut_sentences, pick_span
from litebert.errors import RequestError

PASSAGE = "Anna keeps three bees in a red box. She gives them sugar in winter. Her neighbour keeps a goat."
CHOICES = [
    (PASSAGE, "What does Anna give the bees in winter?", ["sugar in winter", "grass", "old bread", "nothing"]),
    (PASSAGE, "The neighbour keeps a _ .", ["cow", "goat", "horse", "pig"]),
    (PASSAGE, "The box is _ .", ["blue", "green", "red", "black"]),
]
QUESTIONS = [
    ("Who built the tower?", "It rained. The tower was built by Gustave Eiffel. Nobody saw it."),
    ("Where do penguins live?", "Penguins live in Antarctica. Bears do not."),
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


def test_rare_words_outweigh_frequent_ones() -> None:
    idf = IdfSimilarity().fit(["the cat", "the dog", "the goat"])
    assert idf.weigh("the") < idf.weigh("cat") < idf.weigh("zebra")
    by_idf = idf.compare("the the cat", ["the", "cat"])
    by_count = BagSimilarity().compare("the the cat", ["the", "cat"])
    assert by_idf[1] / by_idf[0] > by_count[1] / by_count[0]


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


def test_answers_stand_beside_what_is_asked() -> None:
    model = SimilarSentence(IdfSimilarity()).fit(QUESTIONS, [["Gustave Eiffel"], ["Antarctica"]])
    answers = model.predict(QUESTIONS)
    assert "Gustave Eiffel" in answers[0]
    assert "Antarctica" in answers[1]


@given(st.text(max_size=60), st.text(max_size=20))
def test_answers_are_pieces_of_their_contexts(context: str, question: str) -> None:
    model = SimilarSentence(BagSimilarity()).fit(QUESTIONS, [["Gustave Eiffel"], ["Antarctica"]])
    assert model.predict([(question, context)])[0] in context
    assert all(sentence in context for sentence in cut_sentences(context))


def test_spans_are_short_and_stop_at_punctuation() -> None:
    same = BagSimilarity()
    assert pick_span("one two three four five six seven eight", "", same, set()) == "one two three four five six"
    assert pick_span("In May, Ada Lovelace wrote it", "who wrote it", same, {"in"}) == "Ada Lovelace"
    assert pick_span("he wrote it", "he wrote it", same, set()) == "he wrote it"
    assert pick_span("他住在北京。", "他住在哪里", same, set()) == "北京"


def test_threshold_for_no_answer_is_learnt() -> None:
    unrelated = [("Which fish sings opera?", context) for _, context in QUESTIONS]
    model = SimilarSentence(BagSimilarity()).fit(
        [*QUESTIONS, *unrelated], [["built by Gustave Eiffel"], ["Antarctica"], [], []]
    )
    answers = model.predict([*QUESTIONS, *unrelated])
    assert all(answers[:2])
    assert answers[2:] == ["", ""]
    silent = SimilarSentence(BagSimilarity()).fit(QUESTIONS, [[], []])
    assert silent.predict(QUESTIONS) == ["", ""]


def test_first_words() -> None:
    model = FirstWords().fit(QUESTIONS, [["x"], []])
    assert model.predict([("?", "Paris is big."), ("?", "one two three, four five six seven")]) == [
        "Paris is big",
        "one two three, four five six",
    ]


@pytest.mark.parametrize("name", list(LADDER["span"]))
def test_empty_contexts_have_no_answer(name: str) -> None:
    model = make_rung(name, "span")
    model.fit(QUESTIONS, [["Gustave Eiffel"], ["Antarctica"]])
    assert model.predict([("Who?", ""), ("", "...")]) == ["", ""]
