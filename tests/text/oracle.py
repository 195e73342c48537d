"""What Google's tokenization code does, written down plainly, and strings of all kinds to compare with."""

import functools
import random
import re
import unicodedata
from collections.abc import Collection, Iterator

from sentencepiece import SentencePieceProcessor
from tokenizers import normalizers

COMMON = "abcXYZ 019,.()-'\"`[]–£€ \t"
ODD = "한글이다가각힣你好中文日本語ぁァｱﾊﾟＡ１！½ﬁé①㎏ﷺ™…ΣσςİıßΆ"
STRANGE = "😀👨‍👩‍👧🇰🇷❤️\u0301\u0327\u200b\ufeff\u00ad\x00\x07\u2028"


def clean(text: str, lower: bool = True, keep_accents: bool = False) -> str:
    """`preprocess_text` of Google's ALBERT; half of a surrogate pair, which it never met, is U+FFFD."""
    text = " ".join(re.sub("[\ud800-\udfff]", "\ufffd", text).split())
    if not keep_accents:
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.combining(c) == 0)
    return text.lower() if lower else text


def encode(processor: SentencePieceProcessor, text: str, lower: bool = True) -> list[int]:
    """`encode_ids` of Google's ALBERT."""
    pieces: list[str] = []
    for piece in processor.EncodeAsPieces(clean(text, lower)):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = processor.EncodeAsPieces(piece[:-1].replace("▁", ""))
            if piece[0] != "▁" and parts[0][0] == "▁":
                parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
            pieces += [*parts, ","]
        else:
            pieces.append(piece)
    return [processor.PieceToId(piece) for piece in pieces]


def fuzz(count: int, seed: int = 1) -> Iterator[str]:
    """Draw strings of letters, digits and marks of many scripts, and of characters that are no letters at all."""
    generator = random.Random(seed)

    def character() -> str:
        share = generator.random()
        if share < 0.5:
            return generator.choice(COMMON)
        if share < 0.7:
            return chr(generator.randrange(0xA0, 0x600))
        if share < 0.85:
            return generator.choice(ODD)
        if share < 0.95:
            return generator.choice(STRANGE)
        return chr(generator.choice([generator.randrange(0x600, 0xD800), generator.randrange(0xE000, 0x30000)]))

    for _ in range(count):
        yield "".join(character() for _ in range(generator.randrange(1, 40)))


def explain(model: bytes, number_commas: Collection[int], text: str, ours: list[int], theirs: list[int]) -> str:
    """Why the tokenizers library gives other ids than sentencepiece: a tie, a number, Unicode data, or unexplained."""
    processor = SentencePieceProcessor(model_proto=model)
    unknown = processor.unk_id()
    totals = [sum(processor.GetScore(i) for i in ids if i != unknown) for ids in (ours, theirs)]
    if abs(totals[0] - totals[1]) < 1e-3 and ours.count(unknown) == theirs.count(unknown):
        return "tie"
    if any(map(differs_in_unicode_data, text)):
        return "Unicode data"
    # A piece that the rule for numbers with commas takes apart, and that the tokenizers library does without.
    takes_apart = not set(number_commas).isdisjoint(processor.EncodeAsIds(clean(text)))
    return "number" if takes_apart and set(number_commas).isdisjoint(theirs) else "unexplained"


@functools.lru_cache(maxsize=65536)
def differs_in_unicode_data(character: str) -> bool:
    """Whether Python and the tokenizers library, which follow different versions of Unicode, disagree on one."""
    apart = normalizers.NFKD().normalize_str(character), unicodedata.normalize("NFKD", character)
    return apart[0] != apart[1] or normalizers.Lowercase().normalize_str(apart[0]) != apart[1].lower()
