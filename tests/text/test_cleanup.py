"""The clean-up gives what Google's code gives, says where each character came from, and is quick on any text."""

import random
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.text.cleanup import CleanUp
from tests.text import oracle
from tests.work import assert_linear

SWITCHES = [(True, False), (True, True), (False, False), (False, True)]
# Hypothesis draws most of its text from everything; this is where clean-ups go wrong.
ODD = st.text(
    st.sampled_from("aB \t\n\u3000\x1c\u0301\u0316\u0345ÉİßΣσς'\u1100\u1161\u11a8각½ﬁﷺ¨…\ud800\udc00\x00\u200b1,")
)
TEXTS = st.one_of(st.text(st.characters(exclude_categories=[])), ODD)


@pytest.mark.parametrize(("lower", "keep"), SWITCHES)
@given(text=TEXTS)
@settings(max_examples=80)
def test_google_would_clean_it_the_same_way(lower: bool, keep: bool, text: str) -> None:
    assert CleanUp(lower, keep).clean(text) == oracle.clean(text, lower, keep)


def test_every_character_alone_and_in_company() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    known = [c for c in characters if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    assert [c for c in known if CleanUp().clean(c) != oracle.clean(c)] == []
    generator = random.Random(0)
    for _ in range(5000):
        text = "".join(generator.choices(known, k=6))
        assert CleanUp().clean(text) == oracle.clean(text), ascii(text)


@pytest.mark.parametrize(("lower", "keep"), SWITCHES)
@given(text=TEXTS)
@settings(max_examples=80)
def test_origins(lower: bool, keep: bool, text: str) -> None:
    clean_up = CleanUp(lower, keep)
    clean, origins = clean_up.clean_with_origins(text)
    assert clean == clean_up.clean(text)
    assert len(origins) == len(clean)
    assert origins == sorted(origins)
    for character, origin in zip(clean, origins, strict=True):
        before = text[origin]
        if before.isspace():
            assert character == " "
        else:
            # Alone, a capital sigma never ends a word.
            assert character.replace("ς", "σ") in clean_up.clean(before).replace("ς", "σ")
    for index, character in enumerate(text):
        if not character.isspace():
            assert origins.count(index) == len(clean_up.clean(character))


def test_origins_of_an_example() -> None:
    assert CleanUp().clean_with_origins(" Été \n½") == ("ete 1⁄2", [1, 2, 3, 5, 6, 6, 6])
    assert CleanUp().clean_with_origins("e\u0301  x") == ("e x", [0, 3, 4])


HOSTILE = {
    "marks": "\u0301\u0316",
    "marks on a letter": "\u0316\u0301",
    "long decompositions": "\ufdfa",
    "spaces": " ",
    "spaces and letters": "\u3000é",
    "halves": "\udc00\ud800",
    "sigmas": "'Σ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_anything_takes_linear_time(name: str) -> None:
    for clean in (CleanUp().clean, CleanUp(keep_accents=True).clean, CleanUp().clean_with_origins):

        def work(size: int, clean: Callable[[str], object] = clean) -> Callable[[], object]:
            text = "a" + HOSTILE[name] * (size // len(HOSTILE[name]))
            return lambda: clean(text)

        assert_linear(work, 25_000)
