"""SQuAD's scores, by hand and by brute force."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.errors import RequestError
from litebert.tasks.kinds.questions.squad_metrics import (
    choose_threshold,
    find_best_threshold,
    normalize_answer,
    score_answer,
    score_questions,
)
from litebert.tasks.task import Answer, QuestionExample


def ask(*golds: str, id_: str = "q") -> QuestionExample:
    """A question with these answers; none: it has no answer."""
    return QuestionExample(id_, "?", " ".join(golds), tuple(Answer(gold, 0) for gold in golds))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The", ""),
        ("a an THE", ""),
        ("The Beatles", "beatles"),
        ("theatre and Anna", "theatre and anna"),  # articles only as whole words
        ("U.S.", "us"),
        ("don't!", "dont"),
        ("a-b", "ab"),  # punctuation goes first, and what it parted is one word then
        ("the-end", "theend"),
        ("the–end", "–end"),  # a dash that is not ASCII stays, and is the border of a word
        ("1914–1918", "1914–1918"),
        ("“quoted”", "“quoted”"),
        ("  two \t\n lines\u00a0here ", "two lines here"),
        ("$5_000 (five)", "5000 five"),
        ("ÉCOLE", "école"),
        ("?!", ""),
        ("", ""),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("golds", "answer", "exact", "f1"),
    [
        (["the Eiffel Tower"], "Eiffel tower.", 1, 1),
        # eiffel tower in paris: precision 2/4, recall 2/2, F1 = 2 · ½ · 1 / 1½ = 2/3
        (["the Eiffel Tower"], "Eiffel tower in Paris", 0, 2 / 3),
        (["Paris"], "London", 0, 0),
        (["Paris"], "", 0, 0),
        # Of several golds the best: with "in Paris" precision 1/1, recall 1/2, F1 2/3; with "Paris" both are 1.
        (["in Paris", "Paris"], "Paris", 1, 1),
        (["in Paris", "city of Paris"], "Paris", 0, 2 / 3),
        # Words count as often as they occur on both sides: 2 in common of 3 and 2; P = 2/3, R = 1, F1 = 0.8
        (["ha ha"], "ha ha ha", 0, 0.8),
        ([], "", 1, 1),
        ([], "something", 0, 0),
        ([], "the", 1, 1),  # nothing is left of it
        (["the", "Paris"], "", 0, 0),  # the first is no answer; the second is one
        (["the"], "", 1, 1),  # no answer is left, so "" is right
    ],
)
def test_one_answer_by_the_rules_of_version_2(golds: list[str], answer: str, exact: float, f1: float) -> None:
    assert score_answer(ask(*golds), answer) == pytest.approx((exact, f1))


@pytest.mark.parametrize(
    ("golds", "answer", "exact", "f1"),
    [
        (["the Eiffel Tower"], "Eiffel tower in Paris", 0, 2 / 3),
        (["Paris"], "", 0, 0),
        ([], "", 0, 0),  # there are no such questions in 1.1
        (["the"], "The", 1, 0),  # equal, but without a word in common
        (["the", "Paris"], "a", 1, 0),
    ],
)
def test_one_answer_by_the_rules_of_version_1(golds: list[str], answer: str, exact: float, f1: float) -> None:
    assert score_answer(ask(*golds), answer, has_unanswerable=False) == pytest.approx((exact, f1))


def test_averages_with_and_without_an_answer() -> None:
    examples = [ask("Paris"), ask("in Rome"), ask(), ask(), ask()]
    answers = ["Paris", "Rome", "", "x", ""]
    assert score_questions(examples, answers) == pytest.approx(
        {
            "exact": 3 / 5,  # 1 0 1 0 1
            "f1": (1 + 2 / 3 + 1 + 0 + 1) / 5,
            "total": 5,
            "HasAns_exact": 1 / 2,
            "HasAns_f1": 5 / 6,
            "HasAns_total": 2,
            "NoAns_exact": 2 / 3,
            "NoAns_f1": 2 / 3,
            "NoAns_total": 3,
        }
    )
    assert score_questions(examples[:2], answers[:2], has_unanswerable=False) == pytest.approx(
        {"exact": 1 / 2, "f1": 5 / 6, "total": 2}
    )
    assert "NoAns_exact" not in score_questions(examples[:2], answers[:2])


def test_a_threshold_silences_questions_with_greater_odds_only() -> None:
    examples, answers, odds = [ask("Paris"), ask("Rome"), ask()], ["Paris", "Rome", "x"], [0.2, 0.5, 0.9]
    exact = [score_questions(examples, answers, odds, limit)["exact"] for limit in (0.1, 0.2, 0.5, 0.8, 0.9)]
    # Silent: all | Rome, x | x | x | none
    assert exact == pytest.approx([1 / 3, 2 / 3, 1, 1, 2 / 3])
    assert score_questions(examples, answers, odds)["exact"] == pytest.approx(2 / 3)


TABLE = [  # gold, answer, null odds
    ("red fish", "red fish", 0.1),
    ("", "blue", 0.2),
    ("old man", "old", 0.3),  # exact 0; F1: P = 1, R = ½, 2/3
    ("sea", "sea", 0.4),
    ("", "boat", 0.7),
]


def test_the_best_threshold_by_hand() -> None:
    examples = [ask(*([gold] if gold else [])) for gold, _, _ in TABLE]
    answers, odds = [row[1] for row in TABLE], [row[2] for row in TABLE]
    # Answering nothing gets the 2 questions without an answer. Then one more is answered at a time:
    #        odds     0.1   0.2   0.3    0.4    0.7
    #        exact    +1    -1    +0     +1     -1
    #   2 →           3     2     2      3      2        the first 3 is kept: threshold 0.1
    #        f1       +1    -1    +2/3   +1     -1
    #   2 →           3     2     2 2/3  3 2/3  2 2/3    threshold 0.4
    assert find_best_threshold(examples, answers, odds) == pytest.approx(
        {"best_exact": 3 / 5, "best_exact_thresh": 0.1, "best_f1": (3 + 2 / 3) / 5, "best_f1_thresh": 0.4}
    )
    assert 0.1 < choose_threshold(examples, answers, odds, "exact") < 0.2
    assert 0.4 < choose_threshold(examples, answers, odds) < 0.7
    shuffled = [3, 0, 4, 2, 1]
    assert find_best_threshold(
        [examples[i] for i in shuffled], [answers[i] for i in shuffled], [odds[i] for i in shuffled]
    ) == pytest.approx(find_best_threshold(examples, answers, odds))


def test_the_official_threshold_has_oddities_and_the_chosen_one_has_not() -> None:
    # Equal odds: officially the first is answered and the second not (a score of 2 of 2), which no threshold can do.
    examples, answers, odds = [ask("Rome"), ask()], ["Rome", "x"], [0.5, 0.5]
    assert find_best_threshold(examples, answers, odds)["best_exact"] == 1.0
    chosen = choose_threshold(examples, answers, odds, "exact")
    assert score_questions(examples, answers, odds, chosen)["exact"] == 0.5
    # Best to answer nothing: 0 is called the threshold, but the odds are below.
    examples, answers, odds = [ask(), ask()], ["x", "y"], [-3.0, -2.0]
    assert find_best_threshold(examples, answers, odds) == {
        "best_exact": 1.0,
        "best_exact_thresh": 0.0,
        "best_f1": 1.0,
        "best_f1_thresh": 0.0,
    }
    assert choose_threshold(examples, answers, odds) < -3.0
    # An answer that is already "" neither gains nor loses.
    assert find_best_threshold([ask(), ask("Rome")], ["", "Rome"], [0.1, 0.2])["best_f1"] == 1.0


WORDS = st.lists(st.sampled_from(["red", "blue", "old", "man"]), min_size=1, max_size=3).map(" ".join)
QUESTIONS = st.lists(
    st.tuples(st.lists(WORDS, max_size=2), st.one_of(st.just(""), WORDS), st.floats(0.001, 1, allow_subnormal=False)),
    min_size=1,
    max_size=8,
)


def unzip(rows: Sequence[tuple[list[str], str, float]]) -> tuple[list[QuestionExample], list[str], list[float]]:
    return [ask(*golds) for golds, _, _ in rows], [answer for _, answer, _ in rows], [odds for _, _, odds in rows]


@given(QUESTIONS)
def test_f1_is_never_below_exact_and_order_does_not_matter(rows: list[tuple[list[str], str, float]]) -> None:
    examples, answers, odds = unzip(rows)
    scores = score_questions(examples, answers, odds, 0.5)
    assert 0 <= scores["exact"] <= scores["f1"] <= 1
    assert score_questions(examples[::-1], answers[::-1], odds[::-1], 0.5) == pytest.approx(scores)
    perfect = score_questions(examples, [example.answers[0].text if example.answers else "" for example in examples])
    assert all(value == 1.0 for name, value in perfect.items() if not name.endswith("total"))


@given(QUESTIONS.filter(lambda rows: len({row[2] for row in rows}) == len(rows)))
def test_the_official_best_is_that_of_all_thresholds(rows: list[tuple[list[str], str, float]]) -> None:
    examples, answers, odds = unzip(rows)
    best = find_best_threshold(examples, answers, odds)
    for name in ("exact", "f1"):
        tried = [score_questions(examples, answers, odds, limit)[name] for limit in (0.0, *odds)]
        assert best[f"best_{name}"] == pytest.approx(max(tried))
        at_best = score_questions(examples, answers, odds, best[f"best_{name}_thresh"])
        assert at_best[name] == pytest.approx(best[f"best_{name}"])


@given(QUESTIONS, st.sampled_from(["exact", "f1"]), st.integers(1, 4), st.floats(-1, 1))
def test_no_threshold_beats_the_chosen_one(
    rows: list[tuple[list[str], str, float]], metric: str, num_steps: int, shift: float
) -> None:
    examples, answers, odds = unzip(rows)
    odds = [round(value * num_steps) / num_steps + shift for value in odds]  # many are equal, some below 0
    chosen = score_questions(examples, answers, odds, choose_threshold(examples, answers, odds, metric))[metric]
    tried = [score_questions(examples, answers, odds, limit)[metric] for limit in (min(odds) - 1, *odds)]
    assert chosen == pytest.approx(max(tried))


def test_what_cannot_be_scored() -> None:
    unknown = QuestionExample("q7", "?", "text", None, location="test.json, question 7")
    with pytest.raises(RequestError, match=r"test\.json, question 7 has no answers"):
        score_questions([unknown], [""])
    with pytest.raises(RequestError, match="2 answers to 1 questions"):
        score_questions([ask("x")], ["x", "y"])
    with pytest.raises(RequestError, match="no question"):
        score_questions([], [])
    with pytest.raises(RequestError, match="2 null odds for 1 questions"):
        find_best_threshold([ask("x")], ["x"], [0.1, 0.2])
    with pytest.raises(RequestError, match="not finite"):
        choose_threshold([ask("x")], ["x"], [math.nan])
