"""Search by meaning: documents are cut into passages, and those whose vectors lie nearest to a question's are found.

Passages are embedded block by block and only the best are kept, so that memory does not grow with the text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee
from typing import Any

from litebert.errors import RequestError
from litebert.inference.load import OnProgress, Pipeline, Vectors, normalize
from litebert.inference.nearest import TopK
from litebert.text.sentences import split_sentences
from litebert.text.sources import Document

__all__ = ["Found", "Passage", "check_questions", "cut_passages", "embed_passages", "search_passages"]

_BLOCK = 2048  # passages that are embedded together
_MOST_WORDS = 80
_LEAST_CHARACTERS = 20
_GAP = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class Passage:
    """Some sentences of a document, and where they stand."""

    text: str
    location: str


@dataclass(frozen=True)
class Found:
    """A passage, and how near it lies to the question: the cosine of their vectors."""

    passage: Passage
    cosine: float


def cut_passages(
    documents: Iterable[Document], most_words: int = _MOST_WORDS, per_document: int | None = None
) -> Iterator[Passage]:
    """Cut documents at empty lines, and long paragraphs at sentences; each passage comes once.

    `per_document` takes only the first passages of each document.

    >>> [passage.text for passage in cut_passages([Document("A first one, which is long. A second.", "a")], 6)]
    ['A first one, which is long.']
    """
    seen: set[int] = set()
    for document in documents:
        yield from islice(_cut_document(document, most_words, seen), per_document)


def _cut_document(document: Document, most_words: int, seen: set[int]) -> Iterator[Passage]:
    for paragraph in _GAP.split(document.text):
        for text in _join_sentences(split_sentences(paragraph), most_words):
            key = hash(text)
            if len(text) >= _LEAST_CHARACTERS and key not in seen:
                seen.add(key)
                yield Passage(text, document.location)


def _join_sentences(sentences: list[str], most_words: int) -> Iterator[str]:
    """Whole sentences together, up to a number of words; a longer one stands alone."""
    joined: list[str] = []
    count = 0
    for sentence in sentences:
        words = len(sentence.split())
        if joined and count + words > most_words:
            yield " ".join(joined)
            joined, count = [], 0
        joined.append(" ".join(sentence.split()))
        count += words
    if joined:
        yield " ".join(joined)


def check_questions(questions: Sequence[str]) -> None:
    """Refuse to look for nothing."""
    if not questions or not all(question.strip() for question in questions):
        raise RequestError("there is nothing to look for: the question is empty")


def embed_passages(
    encoder: Pipeline, passages: Iterable[Passage], on_progress: OnProgress = lambda done: None, **how: Any
) -> Iterator[tuple[list[Passage], Vectors]]:
    """Passages block by block, with their vectors of length 1; `how` is what `Pipeline.embed` takes."""
    kept, for_vectors = tee(passages)
    texts = (passage.text for passage in for_vectors)
    num_done = 0
    for vectors in encoder.embed_stream(texts, window=_BLOCK, on_progress=on_progress, **how):
        num_done += len(vectors)
        yield list(islice(kept, len(vectors))), normalize(vectors)
    if not num_done:
        raise RequestError("the text holds no passage to look through: name files with whole sentences")


def search_passages(
    encoder: Pipeline,
    questions: Sequence[str],
    passages: Iterable[Passage],
    top: int = 5,
    on_progress: OnProgress = lambda done: None,
    **how: Any,
) -> list[list[Found]]:
    """For each question the passages that lie nearest, the best first; `how` is what `Pipeline.embed` takes."""
    check_questions(questions)
    asked = normalize(encoder.embed(list(questions), **how))
    best, kept = TopK(len(questions), top), dict[int, Passage]()
    for block, vectors in embed_passages(encoder, passages, on_progress, **how):
        together = kept | dict(enumerate(block, best.num_added))
        best.add(asked @ vectors.T)
        kept = {number: together[number] for row in best for number, _ in row}
    return [[Found(kept[number], cosine) for number, cosine in row] for row in best]
