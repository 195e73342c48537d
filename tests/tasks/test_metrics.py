"""Scores, each against its published formula worked out by hand."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.tagging import find_chunks
from litebert.tasks.metrics import METRICS, compute_metrics, measure_majority
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Example,
    Predictions,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)


def make_task(kind: str, *metrics: str, labels: Sequence[str] = (), **more: Any) -> Task:
    return Task(name="mine", kind=kind, labels=tuple(labels), metrics=metrics, **more)


def score(
    task: Task, examples: Sequence[Example], answers: Sequence[Any], null_odds: Sequence[float] | None = None
) -> dict[str, float]:
    odds = None if null_odds is None else tuple(null_odds)
    return compute_metrics(task, examples, Predictions(tuple(answers), null_odds=odds))


def label(*labels: Any) -> list[Example]:
    return [TextExample(str(number), "text", label=one) for number, one in enumerate(labels)]


def tag(*sentences: str) -> list[Example]:
    return [
        TaggedExample(str(number), tuple("w" * len(tags.split())), tuple(tags.split()))
        for number, tags in enumerate(sentences)
    ]


MRPC = make_task("classification", "accuracy", "f1", labels=("0", "1"))
COLA = make_task("classification", "matthews", labels=("0", "1"))
STSB = make_task("regression", "pearson", "spearman")
NER = make_task("tagging", "entity_f1", labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))


# 6 true positives, 3 true negatives, 1 false positive, 2 false negatives
GOLDS = "1" * 6 + "0" * 3 + "0" + "11"
ANSWERS = "1" * 6 + "0" * 3 + "1" + "00"


def test_two_labels_by_the_formulas_of_the_two_by_two_table() -> None:
    scores = score(MRPC, label(*GOLDS), list(ANSWERS))
    assert scores["accuracy"] == pytest.approx(9 / 12)
    assert scores["f1"] == pytest.approx(2 * 6 / (2 * 6 + 1 + 2))  # 0.8, of "1"
    assert scores["macro_f1"] == pytest.approx((0.8 + 2 * 3 / (2 * 3 + 2 + 1)) / 2)
    assert scores["matthews"] == pytest.approx((6 * 3 - 1 * 2) / math.sqrt((6 + 1) * (6 + 2) * (3 + 1) * (3 + 2)))
    assert scores["matthews"] == pytest.approx(0.4780914)


def test_the_last_label_is_the_positive_one() -> None:
    turned = make_task("classification", "f1", labels=("1", "0"))
    assert score(turned, label(*GOLDS), list(ANSWERS))["f1"] == pytest.approx(2 / 3)
    named = make_task("classification", "f1", labels=("no", "yes"))
    assert score(named, label("yes", "no", "yes"), ["yes", "yes", "no"])["f1"] == pytest.approx(0.5)


@pytest.mark.parametrize(("always", "accuracy", "f1"), [("0", 0.4, 0.0), ("1", 0.6, 0.75)])
def test_answers_that_are_all_the_same(always: str, accuracy: float, f1: float) -> None:
    scores = score(MRPC, label(*"11100"), [always] * 5)
    assert scores["accuracy"] == pytest.approx(accuracy)
    assert scores["f1"] == pytest.approx(f1)  # of "1": precision 3/5, recall 1
    assert scores["matthews"] == 0.0
    assert score(COLA, label(*"11111"), ["1"] * 5)["matthews"] == 0.0
    assert score(COLA, label(*"11111"), list("10111"))["matthews"] == 0.0


def test_opposite_answers_have_a_correlation_of_minus_one() -> None:
    assert score(COLA, label(*"1100"), list("0011"))["matthews"] == pytest.approx(-1.0)


def test_three_labels() -> None:
    task = make_task("classification", "accuracy", labels=("entailment", "neutral", "contradiction", "unused"))
    golds, answers = ("entailment", "neutral", "neutral", "contradiction"), ["entailment", "neutral", "entailment"] * 2
    scores = score(task, label(*golds), answers[:4])
    # entailment: 1 right of 2 + 1 wrong; TP 1 FP 2 FN 0 → 2/4; neutral: TP 1 FP 0 FN 1 → 2/3; contradiction: 0
    assert scores["macro_f1"] == pytest.approx((2 / 4 + 2 / 3 + 0) / 3)
    assert scores["accuracy"] == 0.5
    assert "f1" not in scores


def test_several_labels() -> None:
    task = make_task("multi-label", "micro_f1", labels=("a", "b", "c", "unused"))
    scores = score(task, label(("a", "b"), ("c",), (), ("a",)), [("b", "a"), ("b",), (), ("a", "c")])
    # a: TP 2 | b: TP 1, FP 1 | c: FP 1, FN 1
    assert scores["micro_f1"] == pytest.approx(2 * 3 / (2 * 3 + 2 + 1))
    assert scores["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert scores["accuracy"] == 0.5
    # Only a occurs: TP 1, FN 2
    assert score(task, label(("a",), ("a",), ("a",)), [("a",), (), ()])["micro_f1"] == pytest.approx(0.5)
    assert score(task, label((), ()), [(), ()]) == {"micro_f1": 0.0, "macro_f1": 0.0, "accuracy": 1.0}


def test_correlations_with_ties() -> None:
    scores = score(STSB, label(1.0, 2.0, 2.0, 4.0), [1, 3, 2, 5])
    # Deviations -1.25 -0.25 -0.25 1.75 and -1.75 0.25 -0.75 2.25: products 6.25, squares 4.75 and 8.75
    assert scores["pearson"] == pytest.approx(6.25 / math.sqrt(4.75 * 8.75))
    # Ranks 1 2.5 2.5 4 and 1 3 2 4: products 4.5, squares 4.5 and 5
    assert scores["spearman"] == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert scores["mse"] == pytest.approx((0 + 1 + 0 + 1) / 4)
    assert scores["mae"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("golds", "answers"),
    [
        ((1.0, 2.0, 5.0), [2.5] * 3),  # an encoder that failed to train
        ((2.0, 2.0), [1.0, 2.0]),
        ((1.0,), [1.0]),
        ((1.0, 2.0, 3.0), [0.1 + 0.2, 0.3, 0.3]),  # all but the same
    ],
)
def test_correlation_of_what_does_not_vary(golds: tuple[float, ...], answers: list[float]) -> None:
    scores = score(STSB, label(*golds), answers)
    assert all(math.isfinite(value) for value in scores.values())
    if len(set(answers)) == 1 or len(set(golds)) == 1:
        assert scores["pearson"] == scores["spearman"] == 0.0


def test_pairs_that_are_alike_or_not_are_told_halfway() -> None:
    alike = make_task("similarity", "pearson", is_pair=True)
    scores = score(alike, label(1.0, 1.0, 1.0, 3.0, 3.0), [1.9, 2.1, 0.0, 2.5, 5.0])
    assert scores["accuracy"] == pytest.approx(4 / 5)
    assert scores["f1"] == pytest.approx(2 * 2 / (2 + 3))
    assert "accuracy" not in score(alike, label(1.0, 2.0, 3.0), [1.0, 2.0, 3.0])


def test_names_in_text_count_with_both_ends_and_type() -> None:
    scores = score(
        NER,
        tag("B-PER I-PER O B-LOC", "O O B-PER B-PER"),
        [("B-PER", "I-PER", "O", "B-PER"), ("O", "O", "B-PER", "I-PER")],
    )
    # wanted: PER 0-2, LOC 3-4 | PER 2-3, PER 3-4; found: PER 0-2, PER 3-4 | PER 2-4; one in common
    assert scores["entity_precision"] == pytest.approx(1 / 3)
    assert scores["entity_recall"] == pytest.approx(1 / 4)
    assert scores["entity_f1"] == pytest.approx(2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))
    assert scores["accuracy"] == pytest.approx(6 / 8)


def test_words_where_there_is_no_name() -> None:
    assert score(NER, tag("O O"), [("O", "O")]) == {
        "entity_f1": 0.0,
        "entity_precision": 0.0,
        "entity_recall": 0.0,
        "accuracy": 1.0,
    }


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        ("O I-PER I-PER O", {(1, 3, "PER")}),  # IOB1
        ("I-PER I-LOC", {(0, 1, "PER"), (1, 2, "LOC")}),
        ("B-PER I-LOC I-LOC", {(0, 1, "PER"), (1, 3, "LOC")}),
        ("I-PER B-PER", {(0, 1, "PER"), (1, 2, "PER")}),
        ("B-A-B I-A-B", {(0, 2, "A-B")}),  # only the first hyphen parts
        ("B-X E-X S-X S-X B-X I-X E-X", {(0, 2, "X"), (2, 3, "X"), (3, 4, "X"), (4, 7, "X")}),
        ("B-X L-X U-X I-X", {(0, 2, "X"), (2, 3, "X"), (3, 4, "X")}),
        ("B M E S B E", {(0, 3, ""), (3, 4, ""), (4, 6, "")}),  # words of Chinese
        ("DET NOUN NOUN VERB", {(0, 1, "DET"), (1, 3, "NOUN"), (3, 4, "VERB")}),
        ("-LRB- NN -RRB-", {(0, 1, "-LRB-"), (1, 2, "NN"), (2, 3, "-RRB-")}),
        ("", set()),
    ],
)
def test_chunks(tags: str, chunks: set[tuple[int, int, str]]) -> None:
    assert find_chunks(tags.split()) == chunks


def list_chunks_slowly(tags: list[str]) -> set[tuple[int, int, str]]:
    """Try every span: does it begin where one may, go on without a break, and end where it must?"""

    def begins(place: int) -> bool:
        return tags[place][0] == "B" or place == 0 or tags[place - 1] == "O" or tags[place - 1][2:] != tags[place][2:]

    found = set()
    for begin in range(len(tags)):
        for end in range(begin + 1, len(tags) + 1):
            inside = tags[begin:end]
            is_one = "O" not in inside and len({name[2:] for name in inside}) == 1
            is_whole = end == len(tags) or tags[end] == "O" or begins(end)
            if is_one and begins(begin) and not any(map(begins, range(begin + 1, end))) and is_whole:
                found.add((begin, end, inside[0][2:]))
    return found


TAGS = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1, max_size=9)


@given(st.lists(st.tuples(TAGS, st.randoms(use_true_random=False)), min_size=1, max_size=4))
def test_entities_against_every_span(rows: list[tuple[list[str], Any]]) -> None:
    golds = [tags for tags, _ in rows]
    answers = [[random.choice([name, name, "O", "B-X", "I-Y"]) for name in tags] for tags, random in rows]
    wanted = {(number, *chunk) for number, tags in enumerate(golds) for chunk in list_chunks_slowly(tags)}
    found = {(number, *chunk) for number, tags in enumerate(answers) for chunk in list_chunks_slowly(tags)}
    scores = score(NER, tag(*map(" ".join, golds)), answers)
    assert scores["entity_precision"] == pytest.approx(len(wanted & found) / len(found) if found else 0)
    assert scores["entity_recall"] == pytest.approx(len(wanted & found) / len(wanted) if wanted else 0)
    assert scores["entity_f1"] == pytest.approx(
        2 * len(wanted & found) / (len(wanted) + len(found)) if wanted or found else 0
    )


def test_options_are_scored_by_group_too() -> None:
    task = make_task("choice", "accuracy", "accuracy_middle", "accuracy_high")
    rows = [(0, "middle"), (1, "middle"), (2, "high"), (3, "high"), (3, "high")]
    examples = [ChoiceExample(str(n), "p", "q", tuple("ABCD"), right, group) for n, (right, group) in enumerate(rows)]
    assert score(task, examples, [0, 0, 2, 3, 0]) == pytest.approx(
        {"accuracy": 3 / 5, "accuracy_middle": 1 / 2, "accuracy_high": 2 / 3}
    )
    assert score(task, examples[:2], [0, 1]) == {"accuracy": 1.0, "accuracy_middle": 1.0}


def ask(*golds: str) -> QuestionExample:
    return QuestionExample("q", "?", "", tuple(Answer(gold, 0) for gold in golds))


def test_questions_by_the_rules_of_their_version() -> None:
    squad1 = make_task("questions", "f1", "exact")
    squad2 = make_task("questions", "f1", "exact", "best_f1", has_unanswerable=True)
    examples, answers = [ask("the sea"), ask("the")], ["Sea", "a"]
    assert score(squad1, examples, answers) == {"exact": 1.0, "f1": 0.5, "total": 2}
    assert score(squad2, examples, answers)["f1"] == 1.0
    assert "best_f1" not in score(squad2, examples, answers)
    with_odds = score(squad2, [ask("sea"), ask()], ["sea", "x"], [0.1, 0.9])
    assert (with_odds["f1"], with_odds["best_f1"], with_odds["best_f1_thresh"]) == (0.5, 1.0, 0.1)
    assert with_odds.keys() <= METRICS.keys()


@settings(max_examples=30)
@given(st.lists(st.sampled_from("abc"), min_size=2), st.randoms(use_true_random=False))
def test_perfect_answers_and_any_order(names: list[str], random: Any) -> None:
    task = make_task("classification", "accuracy", "macro_f1", "matthews", labels="abc")
    perfect = score(task, label(*names), names)
    assert perfect["accuracy"] == perfect["macro_f1"] == 1.0
    assert perfect["matthews"] == pytest.approx(1.0 if len(set(names)) > 1 else 0.0)
    pairs = [(name, random.choice("abc")) for name in names]
    scores = score(task, label(*names), [answer for _, answer in pairs])
    random.shuffle(pairs)
    again = score(task, label(*(name for name, _ in pairs)), [answer for _, answer in pairs])
    assert again == pytest.approx(scores)


@given(st.lists(st.floats(0, 5).map(lambda score: round(score, 3)), min_size=2))
def test_perfect_scores(golds: list[float]) -> None:
    scores = score(STSB, label(*golds), golds)
    expected = 1.0 if len(set(golds)) > 1 else 0.0
    assert (scores["pearson"], scores["spearman"]) == pytest.approx((expected, expected))
    shifted = score(STSB, label(*golds), [-2 * gold - 1 for gold in golds])
    assert (shifted["pearson"], shifted["spearman"]) == pytest.approx((-expected, -expected))


def test_perfect_answers_of_the_other_kinds() -> None:
    cases: list[tuple[Task, list[Example]]] = [
        (make_task("multi-label", "micro_f1", labels="ab"), label(("a",), ("a", "b"), ())),
        (NER, tag("B-PER O", "I-LOC")),
        (make_task("choice", "accuracy"), [ChoiceExample("1", "p", "q", ("x", "y"), 1)]),
    ]
    for task, examples in cases:
        assert set(score(task, examples, [kind_of(task).gold(example) for example in examples]).values()) == {1.0}


def test_every_score_is_explained() -> None:
    scored = [
        score(MRPC, label("0", "1"), ["0", "1"]),
        score(STSB, label(1.0, 2.0), [1.0, 2.0]),
        score(NER, tag("O"), [("O",)]),
        score(make_task("multi-label", "micro_f1"), label(("a",)), [("a",)]),
    ]
    assert all(scores.keys() <= METRICS.keys() for scores in scored)


def test_the_majority_is_that_of_training() -> None:
    train = label(*"00111")
    assert measure_majority(MRPC, train, label(*"1000"))["accuracy"] == 0.25
    assert measure_majority(MRPC, label(*"10"), label(*"1000"))["accuracy"] == 0.75  # as frequent: the task's first
    ratings = measure_majority(STSB, label(1.0, 2.0, 6.0), label(3.0, 5.0))
    assert (ratings["mse"], ratings["pearson"]) == (2.0, 0.0)  # 3 for all
    tags = measure_majority(NER, tag("O O B-PER", "O"), tag("O B-LOC", "O O"))
    assert (tags["accuracy"], tags["entity_f1"]) == (0.75, 0.0)
    sets = make_task("multi-label", "micro_f1", labels="ab")
    assert measure_majority(sets, label(("a", "b"), ("b", "a"), ("a",)), label(("a", "b"), ()))["accuracy"] == 0.5
    squad = make_task("questions", "best_f1", has_unanswerable=True)
    assert measure_majority(squad, [ask("x"), ask("y")], [ask("x"), ask(), ask(), ask()])["best_f1"] == 0.75
    options = make_task("choice", "accuracy")
    choices = [ChoiceExample(str(n), "p", "q", tuple("abc"), right) for n, right in enumerate((2, 2, 0))]
    assert measure_majority(options, choices, choices)["accuracy"] == pytest.approx(2 / 3)


def test_what_cannot_be_scored() -> None:
    unlabelled = [TextExample("7", "text", location="test.tsv, line 8")]
    with pytest.raises(RequestError, match=r"test\.tsv, line 8 has no label"):
        score(MRPC, unlabelled, ["1"])
    with pytest.raises(RequestError, match="example '7' has no label"):
        measure_majority(MRPC, [TextExample("7", "text")], label("1"))
    with pytest.raises(RequestError, match="1 answers to 2 examples"):
        score(MRPC, label("1", "0"), ["1"])
    with pytest.raises(RequestError, match="no example"):
        score(MRPC, [], [])
    with pytest.raises(RequestError, match="no training example"):
        measure_majority(MRPC, [], label("1"))
    with pytest.raises(RequestError, match="example '0' has 2 words, but the answer 1 tags"):
        score(NER, tag("O O"), [("O",)])
    with pytest.raises(RequestError, match="answer 2 is nan"):
        score(STSB, label(1.0, 2.0), [1.0, math.nan])
    with pytest.raises(RequestError, match="'pearson' is no metric of these classification examples: choose from acc"):
        score(make_task("classification", "accuracy", "pearson", labels="ab"), label("a"), ["a"])
    with pytest.raises(RequestError, match="'best_f1' is no metric"):  # nothing would decide
        score(make_task("questions", "best_f1", has_unanswerable=True), [ask()], [""])
