"""The tokenizer of a folder gives the ids that transformers gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from litebert.errors import FolderError, RequestError
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need, small_config

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "##s",
    "un",
    "##fair",
    "今",
    "天",
]
TEXTS = ["The cats sat on the mat", "unfair CATS", "今天", "", "a [MASK] sat", "the\u2028mat"]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return tmp_path / "vocab.txt"


def test_word_pieces(vocabulary: Path) -> None:
    tokenizer = Tokenizer.from_pretrained(vocabulary)
    encoded = tokenizer.encode(["The cats", "unfair"], ["mat", "今天"])
    assert encoded.input_ids.tolist() == [[2, 5, 6, 10, 3, 9, 3], [2, 11, 12, 3, 13, 14, 3]]
    assert encoded.token_type_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1]]
    assert encoded.attention_mask.all()
    assert tokenizer.decode([5, 6, 10]) == "the cats"


def test_padding_and_cutting(vocabulary: Path) -> None:
    encoded = Tokenizer.from_pretrained(vocabulary).encode(["the cat sat on the mat", "cat"], max_length=5)
    assert encoded.input_ids.tolist() == [[2, 5, 6, 7, 3], [2, 6, 3, 0, 0]]
    assert encoded.attention_mask.tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    assert Tokenizer.from_pretrained(vocabulary).encode([]).input_ids.shape == (0, 0)


def test_pieces_that_are_line_separators_keep_their_place(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*PIECES[:5], "\u2028", "\x85", "after"]), encoding="utf-8")
    assert Tokenizer.from_pretrained(file).encode(["after"]).input_ids.tolist() == [[2, 7, 3]]


def test_auto_tokenizer_gives_the_same_ids(vocabulary: Path, tmp_path: Path) -> None:
    transformers = need("transformers")

    tokenizer = Tokenizer.from_pretrained(vocabulary)
    Model(small_config(vocab_size=len(PIECES))).save_pretrained(tmp_path / "model", tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    again = Tokenizer.from_pretrained(tmp_path / "model")
    for pairs in (None, TEXTS[::-1]):
        expected = theirs(TEXTS, pairs, padding=True, return_tensors="np")
        for ours in (tokenizer, again):
            found = ours.encode(TEXTS, pairs)
            for name in ("input_ids", "attention_mask", "token_type_ids"):
                assert np.array_equal(getattr(found, name), expected[name]), name
    assert theirs.mask_token == tokenizer.mask_token == "[MASK]"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": "1.0"}'])
def test_a_damaged_tokenizer_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(FolderError, match=r"tokenizer\.json"):
        Tokenizer.from_pretrained(tmp_path)


def test_faults(tmp_path: Path, vocabulary: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match=r"tokenizer\.json, spiece\.model or vocab\.txt is missing"):
        Tokenizer.from_pretrained(tmp_path / "empty")
    with pytest.raises(RequestError, match="do not make pairs"):
        Tokenizer.from_pretrained(vocabulary).encode(["a"], ["b", "c"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": "x.Y"}}))
    with pytest.raises(FolderError, match="auto_map"):
        Tokenizer.from_pretrained(tmp_path)
    vocabulary.write_bytes(b"\xff\xfe")
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(FolderError, match=r"vocab\.txt cannot be read"):
        Tokenizer.from_pretrained(tmp_path)
    vocabulary.write_text("a\nb")
    with pytest.raises(FolderError, match=r"\[PAD\] is not in it"):
        Tokenizer.from_pretrained(tmp_path)
