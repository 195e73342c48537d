"""A smaller vocabulary: what stays, and that texts of what stays get the same vectors."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from litebert.distillation.trim import choose_pieces, count_pieces, trim_words
from litebert.errors import RequestError
from litebert.text.sources import Document
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences
from tests.distillation.runs import BERT, make_model

PIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcrtsé", *(f"##{x}" for x in "abcrtsé")]
WORDS = ["cat", "cats", "car", "##ts", "##at", "rat", "é", "star", "##rs", "bat", "Ж"]
TEXTS = ["cat star", "bats are cats", "cat car rats tarts", "star cat cat"]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    file = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    file.write_text("\n".join(dict.fromkeys(PIECES + WORDS)) + "\n", encoding="utf-8")
    return Tokenizer.from_pretrained(file)


def documents(texts: list[str]) -> Iterator[Document]:
    return (Document(text, f"line {number}") for number, text in enumerate(texts))


@pytest.fixture(params=["word pieces", "sentence pieces"])
def tokenizer(request: pytest.FixtureRequest, wordpiece: Tokenizer, small_tokenizer: Tokenizer) -> Tokenizer:
    return wordpiece if request.param == "word pieces" else small_tokenizer


def text_for(tokenizer: Tokenizer) -> list[str]:
    return TEXTS if tokenizer.continues else [*make_sentences(200)]


def test_what_stays(wordpiece: Tokenizer) -> None:
    counts = count_pieces(documents(TEXTS), wordpiece)
    kept = choose_pieces(counts, wordpiece, 23)
    pieces = [wordpiece.piece(token) for token in kept]
    assert len(kept) == 23
    assert kept == sorted(kept)
    assert {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "r", "##s"} <= {*pieces}
    assert not {"[unused1]", "Ж"} & {*pieces}  # nobody uses them
    assert {"cat", "star"} <= {*pieces}  # the text's most frequent words
    with pytest.raises(RequestError, match=r"--vocab-size must leave \d+ pieces at least"):
        choose_pieces(counts, wordpiece, 6)


def test_a_text_loses_nothing_and_others_are_cut_smaller(tokenizer: Tokenizer) -> None:
    texts = text_for(tokenizer)
    counts = count_pieces(documents(texts), tokenizer)
    kept = choose_pieces(counts, tokenizer, tokenizer.vocab_size * 3 // 4)
    smaller = tokenizer.keep(kept)
    assert smaller.vocab_size == len(kept)
    old, new = tokenizer.encode(texts), smaller.encode(texts)
    assert (new.input_ids != smaller.pad_id).sum() >= (old.input_ids != tokenizer.pad_id).sum()
    for text, before, after in zip(texts, old.input_ids.tolist(), new.input_ids.tolist(), strict=True):
        assert smaller.decode(after) == tokenizer.decode(before), text
        assert (smaller.unknown_id in after) == (tokenizer.unknown_id in before)


def test_transformers_cuts_text_alike(tokenizer: Tokenizer, tmp_path: Path) -> None:
    texts = text_for(tokenizer)[:20]
    smaller = tokenizer.keep(
        choose_pieces(count_pieces(documents(texts), tokenizer), tokenizer, tokenizer.vocab_size * 3 // 4)
    )
    smaller.save_pretrained(tmp_path / "smaller")
    peer, again = AutoTokenizer.from_pretrained(tmp_path / "smaller"), Tokenizer.from_pretrained(tmp_path / "smaller")
    found = smaller.encode(texts, texts[::-1])
    expected = peer(texts, texts[::-1], padding=True, return_tensors="np")
    assert np.array_equal(found.input_ids, expected["input_ids"])
    assert np.array_equal(found.token_type_ids, expected["token_type_ids"])
    assert np.array_equal(again.encode(texts, texts[::-1]).input_ids, found.input_ids)


def test_a_special_token_cannot_go(tokenizer: Tokenizer) -> None:
    kept = [token for token in range(tokenizer.vocab_size) if token != tokenizer.mask_id]
    with pytest.raises(RequestError, match=r"\[MASK\] cannot be left out"):
        tokenizer.keep(kept)


@pytest.mark.parametrize("head", ["sentence-embedding", "pretraining"])
def test_texts_of_what_stays_get_the_same_states(head: str) -> None:
    model = make_model(head, **BERT)  # type: ignore[arg-type]
    kept = [*range(0, 400, 2)]
    smaller = trim_words(model, kept)
    ids = torch.tensor([[2, 10, 88, 312, 4]])
    inputs = {"masked_positions": torch.tensor([[1]])} if head == "pretraining" else {}
    old, new = model(ids, **inputs), smaller(torch.tensor([[kept.index(i) for i in ids[0].tolist()]]), **inputs)
    if head == "pretraining":
        torch.testing.assert_close(new.prediction_logits, old.prediction_logits[:, kept])
    else:
        torch.testing.assert_close(new.last_hidden_state, old.last_hidden_state)
    assert smaller.config.vocab_size == 200
