"""Answers are found by what the texts share, and are pieces of their contexts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.baselines.ladder import LADDER, make_rung
from litebert.baselines.overlap import BagSimilarity, IdfSimilarity
from litebert.baselines.questions import FirstWords, SimilarSentence, cut_sentences, pick_span

QUESTIONS = [
    ("Who built the tower?", "It rained. The tower was built by Gustave Eiffel. Nobody saw it."),
    ("Where do penguins live?", "Penguins live in Antarctica. Bears do not."),
]


def test_rare_words_outweigh_frequent_ones() -> None:
    idf = IdfSimilarity().fit(["the cat", "the dog", "the goat"])
    assert idf.weigh("the") < idf.weigh("cat") < idf.weigh("zebra")
    by_idf = idf.compare("the the cat", ["the", "cat"])
    by_count = BagSimilarity().compare("the the cat", ["the", "cat"])
    assert by_idf[1] / by_idf[0] > by_count[1] / by_count[0]


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
