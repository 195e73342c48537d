"""What happens to text before SentencePiece sees it: ALBERT's clean-up, exactly, and the way back to the original.

White space collapses, letters lose their accents (NFKD without marks) and their capitals; two switches turn the latter
two off. `clean` is the quick way; `clean_with_origins` also says which original character each clean one comes from.
"""

import functools
import re
import sys
import unicodedata
from dataclasses import dataclass

__all__ = ["CleanUp", "mark_ranges", "mend"]

_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_ASCII = re.compile("[^\\x00-\\x7f]+")


@dataclass(frozen=True)
class CleanUp:
    """The clean-up of one tokenizer, with the names that transformers gives the two switches.

    >>> CleanUp().clean("  Ｃafé\\n№ 5 ")
    'cafe no 5'
    >>> CleanUp(do_lower_case=False, keep_accents=True).clean("Café  au lait")
    'Café au lait'
    """

    do_lower_case: bool = True
    keep_accents: bool = False

    def clean(self, text: str) -> str:
        """Clean one text; any string will do, in linear time."""
        text = " ".join(text.split())
        if text.isascii():
            return text.lower() if self.do_lower_case else text
        text = _NOT_ASCII.sub(_replace_surrogates if self.keep_accents else _decompose, text)
        return text.lower() if self.do_lower_case else text

    def clean_with_origins(self, text: str) -> tuple[str, list[int]]:
        """Clean a text, and give for each character of the result the index of its origin."""
        kept: list[int] = []
        for word in re.finditer(r"\S+", text):
            if kept:
                kept.append(word.start() - 1)  # the space that stands for the white space before the word
            kept.extend(range(word.start(), word.end()))
        cleaned = self.clean(text)
        if len(cleaned) == len(kept) and text.isascii():
            return cleaned, kept
        origins = [index for index in kept for _ in range(self._num_left(text[index]))]
        assert len(origins) == len(cleaned)
        return cleaned, origins

    def _num_left(self, character: str) -> int:
        """How many characters one becomes."""
        return _cleaned_length(character, self.do_lower_case, self.keep_accents)


def mend(text: str) -> str:
    """Put U+FFFD for halves of surrogate pairs, which no library can encode; positions stay as they are."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _replace_surrogates(run: re.Match[str]) -> str:
    return _SURROGATES.sub("\ufffd", run[0])


def _decompose(run: re.Match[str]) -> str:
    """NFKD without marks. They go before it as well: it sorts long runs of them in quadratic time."""
    return _marks().sub("", unicodedata.normalize("NFKD", _marks().sub("", _replace_surrogates(run))))


@functools.lru_cache(maxsize=65536)
def _cleaned_length(character: str, do_lower_case: bool, keep_accents: bool) -> int:
    if character.isspace():
        return 1
    if not keep_accents:
        character = _marks().sub("", unicodedata.normalize("NFKD", character))
    return len(character.lower() if do_lower_case else character)


@functools.cache
def mark_ranges() -> str:
    """The inside of a regular expression's class that matches every combining mark."""
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in ranges)


@functools.cache
def _marks() -> re.Pattern[str]:
    return re.compile(f"[{mark_ranges()}]")
