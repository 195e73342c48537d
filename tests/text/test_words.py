"""All baselines see the same words, in every script."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.words import SEPARATOR, find_words, join_words, split_words
from tests.work import assert_linear


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n", []),
        ("...!?", []),
        ("Word", ["word"]),
        ("It's 3,000 km — 'far'", ["it's", "3", "000", "km", "far"]),
        ("don’t snake_case naïve", ["don't", "snake", "case", "naïve"]),
        ("나는 오늘 식당에서, 밥을!", ["나는", "오늘", "식당에서", "밥을"]),
        ("我爱你。BERT很好", ["我", "爱", "你", "bert", "很", "好"]),
        ("ネコが", ["ネ", "コ", "が"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("I ❤️ it 👍🏽", ["i", "it"]),
    ],
)
def test_words_of_many_scripts(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_spellings_that_look_alike_are_one_word() -> None:
    assert split_words("cafe\u0301 Ａｂｃ ﾀﾞ") == split_words("café abc ダ")
    assert split_words("\u1112\u1161\u11ab") == ["한"]  # decomposed Hangul


@given(st.text())
def test_places_hold_the_words(text: str) -> None:
    places = find_words(text)
    assert [word for word, _, _ in places] == split_words(text)
    assert all(split_words(text[begin:end]) == [word] for word, begin, end in places)
    assert all(one[2] <= other[1] for one, other in pairwise(places))


@pytest.mark.parametrize("unit", ["a'", "a", "é'", "'", "猫"])
def test_long_texts_take_linear_time(unit: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = "é" + unit * (size // len(unit))
        return lambda: split_words(text)

    assert_linear(work, 50_000)


@given(st.text())
def test_no_text_holds_the_separator(text: str) -> None:
    assert SEPARATOR not in split_words(text)
    assert join_words((text, text)) == [*split_words(text), SEPARATOR, *split_words(text)]
