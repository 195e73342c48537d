"""Numbers about a tokenizer, counted by hand."""

import json
from pathlib import Path

import pytest

from litebert.text.inspection import inspect_tokenizer
from litebert.text.tokenizer import Tokenizer
from tests.text.test_tokenizer import PIECES


def test_a_small_sample(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, "."]), encoding="utf-8")
    tokenizer = Tokenizer.from_pretrained(tmp_path / "vocab.txt")
    found = inspect_tokenizer(tokenizer, ["The cats sat. Unfair zoo zz.", "今天 zoo"])
    assert found.vocab_size == 16
    assert found.num_documents == 2
    assert found.num_words == 8
    # the cat ##s sat . | un ##fair [UNK] [UNK] . | 今 天 [UNK]
    assert found.num_tokens == 13
    assert found.fertility == 13 / 8
    assert found.characters_per_token == (13 + 14 + 6) / 13
    assert found.unknown_rate == 3 / 13
    assert found.unknown_characters == [("z", 4), ("o", 4)]
    assert found.coverage == 1 - 8 / 33
    assert found.vocabulary_used == 10 / 16
    assert found.longest_pieces[:3] == ["##fair", "[MASK]", "[CLS]"]
    assert found.scripts == pytest.approx({"LATIN": 24 / 26, "CJK": 2 / 26})
    assert json.loads(json.dumps(found.as_json()))["num_tokens"] == 13


def test_no_text(small_tokenizer: Tokenizer) -> None:
    found = inspect_tokenizer(small_tokenizer, [])
    assert (found.num_documents, found.num_tokens, found.fertility, found.coverage) == (0, 0, 0.0, 1.0)
    assert inspect_tokenizer(small_tokenizer, ["", " \n"]).num_documents == 2


def test_sentence_pieces(small_tokenizer: Tokenizer) -> None:
    found = inspect_tokenizer(small_tokenizer, ["The river crossed the Ω bridge."])
    assert found.unknown_characters == [("Ω", 1)]
    assert found.num_tokens == 8  # ▁the ▁river ▁crossed ▁the ▁ <unk> ▁bridge .
    assert found.coverage == 1 - 1 / 31
    assert found.scripts == pytest.approx({"LATIN": 24 / 25, "GREEK": 1 / 25})
