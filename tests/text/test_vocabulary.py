"""A vocabulary that was trained: the same bytes for the same text, what the options say, faults in one sentence."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from litebert.errors import LitebertError, RequestError
from litebert.text.spiece import SpieceEngine
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import GOOGLE_SYMBOLS, VocabularyConfig, train_vocabulary
from tests.conftest import make_sentences

SENTENCES = list(make_sentences(600))


def train(**options: Any) -> Tokenizer:
    return train_vocabulary(SENTENCES, VocabularyConfig(**{"vocab_size": 300, "coverage": 1.0, **options}))


def model_of(tokenizer: Tokenizer) -> bytes:
    engine = tokenizer._engine
    assert isinstance(engine, SpieceEngine)
    return engine.model


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]


def show(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.piece(i) for i in tokenizer.encode_plain([text])[0].tolist()]


def test_the_same_text_gives_the_same_bytes() -> None:
    assert model_of(train()) == model_of(train())
    drawn = train(max_sentences=101, vocab_size=200)
    assert model_of(drawn) == model_of(train(max_sentences=101, vocab_size=200))
    assert model_of(drawn) != model_of(train(vocab_size=200))


def test_size_and_special_tokens() -> None:
    tokenizer = train(vocab_size=250)
    assert tokenizer.vocab_size == 250
    assert tokenizer.special_ids == [0, 1, 2, 3, 4]
    assert pieces_of(tokenizer)[: 5 + len(GOOGLE_SYMBOLS)] == [
        "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *GOOGLE_SYMBOLS,
    ]  # fmt: skip
    assert tokenizer.unknown_id not in tokenizer.encode_plain(SENTENCES)[0]


def test_capitals_and_accents() -> None:
    text = "A CAFÉ: Nobody"
    assert show(train(), text)[:1] == ["▁a"]
    assert "▁café" not in pieces_of(train())
    cased = train(do_lower_case=False, keep_accents=True)
    assert {"▁café", "▁Nobody"} <= set(pieces_of(cased))
    assert show(cased, "Nobody café") == ["▁Nobody", "▁café"]
    assert show(train(keep_accents=True), "CAFÉ") == ["▁café"]
    assert show(train(do_lower_case=False), "Nobody café") == ["▁Nobody", "▁cafe"]


def test_korean_is_whole_or_in_parts() -> None:
    assert {"국", "밥"} <= set(pieces_of(train()))
    parts = train(form="nfkd")
    assert {"\u1107", "\u1161", "\u11b8"} <= set(pieces_of(parts))
    assert not any("가" <= character <= "힣" for piece in pieces_of(parts) for character in piece)
    syllable = "붑"  # not in the text, but its parts are
    assert show(parts, syllable) == ["▁", "\u1107", "\u116e", "\u11b8"]
    assert show(train(), syllable) == ["▁", "<unk>"]


def test_symbols_stay_apart() -> None:
    tokenizer = train(symbols=("er", "★"))
    assert all(piece == "er" for piece in pieces_of(tokenizer) if "er" in piece)
    assert show(tokenizer, "river★")[-2:] == ["er", "★"]
    assert train(symbols=("er", "★", "er")).special_ids == tokenizer.special_ids


def test_coverage() -> None:
    assert show(train(coverage=0.98, vocab_size=250), "房")[-1] == "<unk>"
    assert show(train(), "房")[-1] == "房"


def test_requests_that_cannot_be_met() -> None:
    with pytest.raises(RequestError, match="sentences do not give 5,000 pieces: choose --vocab-size") as caught:
        train(vocab_size=5000)
    largest = int(str(caught.value).partition("--vocab-size ")[2].split()[0])
    assert train(vocab_size=largest).vocab_size == largest
    with pytest.raises(RequestError, match=f"choose --vocab-size {largest} or less"):
        train(vocab_size=largest + 1)
    with pytest.raises(RequestError, match="20 pieces are too few for the characters of this text"):
        train(vocab_size=20)
    for nothing in ([], [""], [" \n", "\0"], ["\u200b"]):
        with pytest.raises(RequestError, match="there is no text to train on"):
            train_vocabulary(nothing, VocabularyConfig(vocab_size=300))


@pytest.mark.parametrize(
    "options",
    [
        {"symbols": ("",)},
        {"symbols": ("a b",)},
        {"symbols": ("▁a",)},
        {"symbols": ("a\0",)},
        {"symbols": ("\ud800",)},
        {"symbols": ("[MASK]",)},
        {"symbols": ("<unk>",)},
        {"form": "nfkd", "keep_accents": True},
        {"form": "nfc"},
        {"vocab_size": 3},
        {"vocab_size": 300.0},
        {"coverage": 0.97},
        {"max_sentences": 100},
        {"size": 300},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        VocabularyConfig(**options)


def test_an_error_of_the_reader_comes_through() -> None:
    def documents() -> Iterator[str]:
        yield SENTENCES[0]
        raise LitebertError("a.txt, line 3, is not UTF-8")

    with pytest.raises(LitebertError, match=r"^a\.txt, line 3, is not UTF-8$"):
        train_vocabulary(documents(), VocabularyConfig(vocab_size=300))
