"""The one way in which all baselines cut a text into words.

A word is a run of letters and digits, lower-cased, with apostrophes inside it (`don't`). Scripts without spaces
(Chinese, Japanese, Thai, Lao, Khmer, Burmese) have no such runs, so each of their characters counts as a word.
"""

import re
import unicodedata
from functools import cache

__all__ = ["SEPARATOR", "Text", "WordSpan", "find_words", "join_words", "split_pair", "split_words"]

Text = str | tuple[str, str]
"""What a baseline reads: a text, or a pair of texts."""
WordSpan = tuple[str, int, int]
"""A word, and where it begins and ends in its text."""

SEPARATOR = "|"
"""Stands between the texts of a pair where one row of words is wanted; no text holds it as a word."""

# Han, kana (half-width too), Thai, Lao, Burmese, Khmer: their letters only, for they may be followed by marks.
_UNSPACED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9d\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2-\u0eb3\u0ec0-\u0ec6\u1000-\u102a"
    "\u1780-\u17b3\U00020000-\U0003ffff"
)
_VOICED = "\uff9e\uff9f"  # half-width kana's marks, which Unicode calls letters
_RARE_SCRIPTS = "\U00010000-\U0001efff"  # taken as a whole: a class of many ranges beyond the 16 bits is slow
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")


@cache
def _word_pattern() -> re.Pattern[str]:
    """What a word looks like. Python's `\\w` lacks the vowel signs of Hindi and others: they are added here."""
    is_unspaced = re.compile(f"[{_UNSPACED}{_VOICED}]").match
    basic = [chr(code) for code in range(0x10000)]
    letters = "".join(char for char in basic if char.isalnum() and not is_unspaced(char)) + _RARE_SCRIPTS
    is_ornament = re.compile("[\u20d0-\u20ff\ufe00-\ufe0f]").match  # of symbols such as emoji
    marks = "".join(char for char in basic if unicodedata.category(char)[0] == "M" and not is_ornament(char))
    run = f"[{letters}][{letters}{marks}]*"
    # Each alternative begins with a character that the other can't begin with, so that nothing is tried twice.
    return re.compile(f"{run}(?:['’]{run})*|[{_UNSPACED}][{marks}{_VOICED}]*")


def _normalise(word: str) -> str:
    """One spelling for words that differ in case, width, form of apostrophe or composition only."""
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).lower().replace("’", "'")


def split_words(text: str) -> list[str]:
    """The words of a text, in order.

    >>> split_words("Don't panic: 3 cats, 고양이 세 마리.")
    ["don't", 'panic', '3', 'cats', '고양이', '세', '마리']
    >>> split_words("我爱猫。ネコ, too")
    ['我', '爱', '猫', 'ネ', 'コ', 'too']
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [_normalise(word) for word in _word_pattern().findall(text)]


def find_words(text: str) -> list[WordSpan]:
    """The words of a text, each with its begin and end.

    >>> find_words("A cat.")
    [('a', 0, 1), ('cat', 2, 5)]
    """
    return [(_normalise(match[0]), match.start(), match.end()) for match in _word_pattern().finditer(text)]


def split_pair(text: Text) -> tuple[str, str]:
    """A text as a pair, whose second part is empty if there is none."""
    return (text, "") if isinstance(text, str) else (text[0], text[1])


def join_words(text: Text) -> list[str]:
    """The words of a text, or those of a pair with a separator between them.

    >>> join_words(("It rains.", "It is wet."))
    ['it', 'rains', '|', 'it', 'is', 'wet']
    """
    if isinstance(text, str):
        return split_words(text)
    return [*split_words(text[0]), SEPARATOR, *split_words(text[1])]
