"""Every rung keeps the same promises: it learns what can be learnt, is reproducible, and takes whatever text comes."""

import subprocess
import sys

import pytest

from litebert.baselines.ladder import LADDER, RungKind, list_rungs, make_rung
from litebert.baselines.majority import FrequentTag, Majority
from litebert.errors import RequestError

PETS = ["the cat purrs on the mat", "a cat and a dog sleep", "the dog barks at the cat", "my dog likes the mat"]
MONEY = ["stocks fell in early trade", "shares rose in late trade", "the bank sold shares", "stocks and shares rose"]
FOOD = ["밥을 먹었다", "식당에서 밥을 먹었다", "오늘 밥을 맛있게 먹었다", "식당에서 국을 먹었다"]
TEXTS = (PETS + MONEY + FOOD) * 4
CLASSES = (["pets"] * 4 + ["money"] * 4 + ["food"] * 4) * 4

LEARNING = [rung.name for rung in LADDER if rung.name != "majority"]
KINDS: list[RungKind] = ["classification", "multi-label", "regression"]
EVERY = [(kind, rung.name) for kind in KINDS for rung in list_rungs(kind)]


def make_targets(kind: RungKind) -> list[object]:
    scores = {"pets": 1.0, "money": 2.0, "food": 5.0}
    match kind:
        case "classification":
            return list(CLASSES)
        case "multi-label":
            return [(name, "korean") if name == "food" else (name,) for name in CLASSES]
        case _:
            return [scores[name] for name in CLASSES]


@pytest.mark.parametrize("name", LEARNING)
def test_classes_that_can_be_told_apart_are(name: str) -> None:
    model = make_rung(name, "classification")
    model.fit(TEXTS, CLASSES)
    assert model.predict(TEXTS) == CLASSES
    assert model.predict(["The CAT, the dog!", "밥을 식당에서 먹었다"]) == ["pets", "food"]


@pytest.mark.parametrize("name", LEARNING)
def test_two_classes(name: str) -> None:
    model = make_rung(name, "classification")
    model.fit(PETS + MONEY, [True] * 4 + [False] * 4)
    assert model.predict(PETS + MONEY) == [True] * 4 + [False] * 4


@pytest.mark.parametrize("name", LEARNING)
def test_chinese_texts(name: str) -> None:
    texts, classes = ["这家酒店很好", "服务很好", "酒店很差", "服务太差了"] * 5, ["good", "good", "bad", "bad"] * 5
    model = make_rung(name, "classification")
    model.fit(texts, classes)
    assert model.predict(texts) == classes


@pytest.mark.parametrize("name", [rung.name for rung in list_rungs("multi-label") if rung.name != "majority"])
def test_label_sets(name: str) -> None:
    model = make_rung(name, "multi-label")
    model.fit(TEXTS, make_targets("multi-label"))
    assert [set(labels) for labels in model.predict(TEXTS)] == [set(row) for row in make_targets("multi-label")]  # type: ignore[call-overload]


@pytest.mark.parametrize("name", [rung.name for rung in list_rungs("regression") if rung.name != "majority"])
def test_scores(name: str) -> None:
    model = make_rung(name, "regression")
    model.fit(TEXTS, make_targets("regression"))
    assert model.predict(TEXTS) == pytest.approx(make_targets("regression"), abs=0.7)


@pytest.mark.parametrize("name", ["bag-of-words", "tf-idf", "word2vec"])
def test_pairs_are_compared(name: str) -> None:
    # Whether two texts are the same cannot be told from either of them.
    singles = PETS + MONEY
    pairs = [(one, other) for one in singles for other in singles]
    targets = ["same" if one == other else "different" for one, other in pairs]
    pairs += [(one, one) for one in singles] * 7
    targets += ["same"] * 56
    model = make_rung(name, "classification")
    model.fit(pairs, targets)
    assert model.predict(pairs) == targets


def test_ngrams_read_the_second_text_too() -> None:
    model = make_rung("n-gram", "classification")
    pairs = [("one", text) for text in PETS + MONEY]
    model.fit(pairs, ["pets"] * 4 + ["money"] * 4)
    assert model.predict(pairs) == ["pets"] * 4 + ["money"] * 4


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_odd_texts_are_answered(kind: RungKind, name: str) -> None:
    odd = ["", " ", "?!", "cat", "unseen words only", "말", "猫", "👍", "x" * 10_000]
    model = make_rung(name, kind)
    model.fit(TEXTS + odd, make_targets(kind) + make_targets(kind)[: len(odd)])
    assert len(model.predict(odd)) == len(odd)
    assert len(model.predict([(text, "") for text in odd])) == len(odd), "a pair, where none was expected"
    assert model.predict([]) == []
    assert model.size_bytes > 0


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_texts_without_any_words_leave_the_targets(kind: RungKind, name: str) -> None:
    target = make_targets(kind)[0]
    model = make_rung(name, kind)
    model.fit(["", ""], [target, target])
    assert model.predict(["", "word"]) == [target, target]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_the_seed_decides(kind: RungKind, name: str) -> None:
    runs = []
    for _ in range(2):
        model = make_rung(name, kind, seed=5)
        model.fit(TEXTS, make_targets(kind))
        runs.append((model.predict([*TEXTS, "cat shares"]), model.size_bytes))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_nothing_to_learn_from(kind: RungKind, name: str) -> None:
    with pytest.raises(RequestError, match="learn from"):
        make_rung(name, kind).fit([], [])


def test_majority() -> None:
    assert Majority("classification").fit(["a"] * 3, ["x", "y", "y"]).predict(["b", "c"]) == ["y", "y"]
    assert Majority("regression").fit(["a"] * 2, [1.0, 4.0]).predict(["b"]) == [2.5]
    assert Majority("multi-label").fit(["a"] * 3, [["y", "x"], [], ["x", "y"]]).predict(["b"]) == [("x", "y")]
    assert Majority("choice").fit(["a"] * 3, [2, 2, 0]).predict([("p", "q", ["1", "2", "3"]), ("p", "q", ["1"])]) == [
        2,
        0,
    ]


def test_tags() -> None:
    model = make_rung("majority", "tagging")
    assert isinstance(model, FrequentTag)
    model.fit([["may", "I"], ["in", "May"], ["may", "in"]], [["V", "P"], ["O", "N"], ["V", "O"]])
    assert model.predict([["May", "may", "unseen"], []]) == [["N", "V", "V"], []]
    with pytest.raises(RequestError, match="learn from"):
        model.fit([[]], [[]])


def test_rungs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RequestError, match="majority, bag-of-words, tf-idf, word2vec"):
        make_rung("n-gram", "regression")
    with pytest.raises(RequestError, match="take majority"):
        make_rung("tf-idf", "tagging")


def test_table_is_read_without_the_libraries_that_a_rung_needs() -> None:
    code = """
import sys
from litebert.baselines.ladder import make_rung
from litebert.errors import RequestError
print([name for name in ("sklearn", "gensim", "torch") if name in sys.modules])
sys.modules["sklearn"] = None
make_rung("majority", "classification")
try:
    make_rung("tf-idf", "classification")
except RequestError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, sentence = done.stdout.splitlines()
    assert loaded == "[]"
    assert sentence.endswith("install it with pip install 'litebert[baselines]'")
