"""Every rung keeps the same promises: it learns what can be learnt, is reproducible, and takes whatever text comes."""

import subprocess
import sys

import pytest

from litebert.baselines.ladder import EXPLANATIONS, LADDER, FrequentTag, make_rung
from litebert.errors import RequestError
from litebert.tasks.kinds.kind import AnswerType

PETS = ["the cat purrs on the mat", "a cat and a dog sleep", "the dog barks at the cat", "my dog likes the mat"]
MONEY = ["stocks fell in early trade", "shares rose in late trade", "the bank sold shares", "stocks and shares rose"]
FOOD = ["밥을 먹었다", "식당에서 밥을 먹었다", "오늘 밥을 맛있게 먹었다", "식당에서 국을 먹었다"]
TEXTS = (PETS + MONEY + FOOD) * 4
CLASSES = (["pets"] * 4 + ["money"] * 4 + ["food"] * 4) * 4

LEARNING = list(LADDER["label"])
TYPES: list[AnswerType] = ["label", "labels", "number"]
EVERY = [(answer_type, name) for answer_type in TYPES for name in LADDER[answer_type]]


def make_targets(answer_type: AnswerType) -> list[object]:
    scores = {"pets": 1.0, "money": 2.0, "food": 5.0}
    match answer_type:
        case "label":
            return list(CLASSES)
        case "labels":
            return [(name, "korean") if name == "food" else (name,) for name in CLASSES]
        case _:
            return [scores[name] for name in CLASSES]


@pytest.mark.parametrize("name", LEARNING)
def test_classes_that_can_be_told_apart_are(name: str) -> None:
    model = make_rung(name, "label")
    model.fit(TEXTS, CLASSES)
    assert model.predict(TEXTS) == CLASSES
    assert model.predict(["The CAT, the dog!", "밥을 식당에서 먹었다"]) == ["pets", "food"]


@pytest.mark.parametrize("name", LEARNING)
def test_two_classes(name: str) -> None:
    model = make_rung(name, "label")
    model.fit(PETS + MONEY, [True] * 4 + [False] * 4)
    assert model.predict(PETS + MONEY) == [True] * 4 + [False] * 4


@pytest.mark.parametrize("name", LEARNING)
def test_chinese_texts(name: str) -> None:
    texts, classes = ["这家酒店很好", "服务很好", "酒店很差", "服务太差了"] * 5, ["good", "good", "bad", "bad"] * 5
    model = make_rung(name, "label")
    model.fit(texts, classes)
    assert model.predict(texts) == classes


@pytest.mark.parametrize("name", list(LADDER["labels"]))
def test_label_sets(name: str) -> None:
    model = make_rung(name, "labels")
    model.fit(TEXTS, make_targets("labels"))
    assert [set(labels) for labels in model.predict(TEXTS)] == [set(row) for row in make_targets("labels")]  # type: ignore[call-overload]


@pytest.mark.parametrize("name", list(LADDER["number"]))
def test_scores(name: str) -> None:
    model = make_rung(name, "number")
    model.fit(TEXTS, make_targets("number"))
    assert model.predict(TEXTS) == pytest.approx(make_targets("number"), abs=0.7)


@pytest.mark.parametrize("name", ["bag-of-words", "tf-idf", "word2vec"])
def test_pairs_are_compared(name: str) -> None:
    # Whether two texts are the same cannot be told from either of them.
    singles = PETS + MONEY
    pairs = [(one, other) for one in singles for other in singles]
    targets = ["same" if one == other else "different" for one, other in pairs]
    pairs += [(one, one) for one in singles] * 7
    targets += ["same"] * 56
    model = make_rung(name, "label")
    model.fit(pairs, targets)
    assert model.predict(pairs) == targets


def test_ngrams_read_the_second_text_too() -> None:
    model = make_rung("n-gram", "label")
    pairs = [("one", text) for text in PETS + MONEY]
    model.fit(pairs, ["pets"] * 4 + ["money"] * 4)
    assert model.predict(pairs) == ["pets"] * 4 + ["money"] * 4


@pytest.mark.parametrize(("answer_type", "name"), EVERY)
def test_odd_texts_are_answered(answer_type: AnswerType, name: str) -> None:
    odd = ["", " ", "?!", "cat", "unseen words only", "말", "猫", "👍", "x" * 10_000]
    model = make_rung(name, answer_type)
    model.fit(TEXTS + odd, make_targets(answer_type) + make_targets(answer_type)[: len(odd)])
    assert len(model.predict(odd)) == len(odd)
    assert len(model.predict([(text, "") for text in odd])) == len(odd), "a pair, where none was expected"
    assert model.predict([]) == []
    assert model.size_bytes > 0


@pytest.mark.parametrize(("answer_type", "name"), EVERY)
def test_texts_without_any_words_leave_the_targets(answer_type: AnswerType, name: str) -> None:
    target = make_targets(answer_type)[0]
    model = make_rung(name, answer_type)
    model.fit(["", ""], [target, target])
    assert model.predict(["", "word"]) == [target, target]


@pytest.mark.parametrize(("answer_type", "name"), EVERY)
def test_the_seed_decides(answer_type: AnswerType, name: str) -> None:
    runs = []
    for _ in range(2):
        model = make_rung(name, answer_type, seed=5)
        model.fit(TEXTS, make_targets(answer_type))
        runs.append((model.predict([*TEXTS, "cat shares"]), model.size_bytes))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("answer_type", "name"), EVERY)
def test_nothing_to_learn_from(answer_type: AnswerType, name: str) -> None:
    with pytest.raises(RequestError, match="learn from"):
        make_rung(name, answer_type).fit([], [])


def test_tags() -> None:
    model = make_rung("frequent-tag", "tags")
    assert isinstance(model, FrequentTag)
    model.fit([["may", "I"], ["in", "May"], ["may", "in"]], [["V", "P"], ["O", "N"], ["V", "O"]])
    assert model.predict([["May", "may", "unseen"], []]) == [["N", "V", "V"], []]
    with pytest.raises(RequestError, match="learn from"):
        model.fit([[]], [[]])


def test_rungs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RequestError, match="take bag-of-words, tf-idf, word2vec"):
        make_rung("n-gram", "number")
    with pytest.raises(RequestError, match="take frequent-tag"):
        make_rung("tf-idf", "tags")


def test_every_rung_is_explained() -> None:
    assert {name for rungs in LADDER.values() for name in rungs} == set(EXPLANATIONS)


def test_table_is_read_without_gensim() -> None:
    code = "import sys; from litebert.baselines.ladder import LADDER; print('gensim' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
