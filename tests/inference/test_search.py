"""Search by meaning: passages are cut at sentences, and the nearest are found, whatever the size of the blocks."""

from pathlib import Path

import pytest

import litebert
from litebert.errors import RequestError
from litebert.inference import search
from litebert.inference.search import Passage, cut_passages, search_passages
from litebert.text.sources import Document
from tests.conftest import make_sentences

TEXT = """A first sentence of a paragraph. A second one, which belongs to it.

Another paragraph that stands alone.

Short."""


def test_passages_end_with_sentences_and_paragraphs() -> None:
    found = list(cut_passages([Document(TEXT, "notes.txt, line 1")]))
    assert [passage.text for passage in found] == [
        "A first sentence of a paragraph. A second one, which belongs to it.",
        "Another paragraph that stands alone.",
    ]
    assert {passage.location for passage in found} == {"notes.txt, line 1"}
    cut = [passage.text for passage in cut_passages([Document(TEXT, "a")], most_words=7)]
    assert cut[:2] == ["A first sentence of a paragraph.", "A second one, which belongs to it."]


def test_only_the_beginning_of_each_document() -> None:
    documents = [Document(TEXT, "a"), Document("One more document, which has a single passage.", "b")]
    assert [passage.location for passage in cut_passages(documents, per_document=1)] == ["a", "b"]


def test_equal_passages_come_once() -> None:
    documents = [Document(TEXT, "a"), Document(TEXT, "b")]
    assert {passage.location for passage in cut_passages(documents)} == {"a"}


@pytest.fixture(scope="module")
def encoder(small_encoder: Path) -> litebert.Pipeline:
    return litebert.load(small_encoder)


def test_the_nearest_passage_is_found_in_any_block(encoder: litebert.Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = list(dict.fromkeys(make_sentences(40)))
    passages = [Passage(text, str(number)) for number, text in enumerate(texts)]
    questions = [texts[3], texts[-1]]
    whole = search_passages(encoder, questions, passages, top=4)
    assert [hits[0].passage.text for hits in whole] == questions
    assert all(hits[0].cosine == pytest.approx(1.0, abs=1e-5) for hits in whole)
    assert all([*hits] == sorted(hits, key=lambda hit: -hit.cosine) for hits in whole)
    monkeypatch.setattr(search, "_BLOCK", 7)
    done: list[int] = []
    in_blocks = search_passages(encoder, questions, iter(passages), top=4, on_progress=done.append)
    assert done[-1] == len(passages)
    for ours, theirs in zip(in_blocks, whole, strict=True):
        assert [hit.cosine for hit in ours] == pytest.approx([hit.cosine for hit in theirs], abs=1e-5)


def test_nothing_to_look_for_or_through(encoder: litebert.Pipeline) -> None:
    with pytest.raises(RequestError, match="the question is empty"):
        search_passages(encoder, ["  "], [Passage("a text of some length", "a")])
    with pytest.raises(RequestError, match="holds no passage"):
        search_passages(encoder, ["a question"], [])
