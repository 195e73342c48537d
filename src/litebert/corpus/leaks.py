"""Can the order of two segments be read off their borders? A small classifier that sees no words tries.

It sees the two lengths, and whether each segment begins and ends where a sentence does. If segments are cut in
mid-sentence on one side only, or fill a row in one order only, this finds it; a model would, too, and learn nothing
else.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.randomness import draw
from litebert.corpus.shards import Shard

__all__ = ["SentenceIndex", "border_accuracy", "border_features"]

_WINDOW = 8  # tokens by which a position in a document is recognised
UNKNOWN = -1

Integers = NDArray[np.int64]
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class SentenceIndex:
    """Where sentences begin and end in some shards, found again by the tokens that stand there."""

    begins: NDArray[np.uint64]  # sorted hashes of the tokens with which a sentence begins
    documents: Integers  # the document of each; UNKNOWN if it is found in several
    ends: NDArray[np.uint64]  # sorted hashes of the tokens with which a sentence ends

    @classmethod
    def build(cls, shards: list[Shard]) -> "SentenceIndex":
        """Hash the tokens at every border of every sentence."""
        begins, documents, ends, num_documents = [], [], [], 0
        for shard in shards:
            sentence_ends = shard.sentence_ends.astype(np.int64)
            sentence_begins = np.concatenate([[0], sentence_ends[:-1]])
            document_ends = shard.document_ends.astype(np.int64)
            lengths = document_ends - np.concatenate([[0], document_ends[:-1]])
            document = np.repeat(np.arange(shard.document_ends.size), lengths)
            document_end = sentence_ends[document_ends - 1][document]
            document_begin = sentence_begins[document_ends - lengths][document]
            whole = sentence_begins + _WINDOW <= document_end
            begins.append(_hash_windows(shard.tokens, sentence_begins[whole]))
            documents.append(document[whole] + num_documents)
            whole = sentence_ends - _WINDOW >= document_begin
            ends.append(_hash_windows(shard.tokens, sentence_ends[whole] - _WINDOW))
            num_documents += shard.document_ends.size
        order = np.argsort(all_begins := np.concatenate(begins), kind="stable")
        unique, first, inverse = np.unique(all_begins[order], return_index=True, return_inverse=True)
        sorted_documents = np.concatenate(documents)[order]
        found = sorted_documents[first]
        found[inverse[sorted_documents != found[inverse]]] = UNKNOWN
        return cls(unique, found, np.unique(np.concatenate(ends)))

    def find_documents(self, segments: list[Tokens]) -> Integers:
        """The document that each segment begins in, UNKNOWN if its beginning does not tell."""
        indices, found = _find(self.begins, _first_windows(segments))
        found &= _are_long(segments)
        documents = np.full(len(segments), UNKNOWN)
        documents[found] = self.documents[indices[found]]
        return documents

    def find_borders(self, segments: list[Tokens]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each segment begins where a sentence begins, and ends where one ends; short ones count as whole."""
        short = ~_are_long(segments)
        _, begins = _find(self.begins, _first_windows(segments))
        _, ends = _find(self.ends, _first_windows([segment[-_WINDOW:] for segment in segments]))
        return begins | short, ends | short


def _are_long(segments: list[Tokens]) -> NDArray[np.bool_]:
    return np.array([segment.size >= _WINDOW for segment in segments], bool)


def _first_windows(segments: list[Tokens]) -> NDArray[np.uint64]:
    """Hashes of the first tokens of segments; those of short ones mean nothing."""
    windows = np.zeros((len(segments), _WINDOW), np.int64)
    for row, segment in zip(windows, segments, strict=True):
        row[: segment.size] = segment[:_WINDOW]
    return _hash_windows(windows.ravel(), np.arange(len(segments)) * _WINDOW)


def _find(values: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[Integers, NDArray[np.bool_]]:
    """Indices of numbers in a sorted array, and whether they are there."""
    if not values.size:
        return np.zeros(wanted.size, np.int64), np.zeros(wanted.size, bool)
    indices = np.minimum(np.searchsorted(values, wanted), values.size - 1)
    return indices, values[indices] == wanted


def _hash_windows(tokens: NDArray[np.generic], begins: Integers) -> NDArray[np.uint64]:
    hashes = np.zeros(begins.size, np.uint64)
    for step in range(_WINDOW):
        hashes = draw(hashes, tokens[begins + step].astype(np.uint64))
    return hashes


def border_features(firsts: list[Tokens], seconds: list[Tokens], index: SentenceIndex) -> Integers:
    """What the classifier sees of pairs: two lengths, four borders."""
    lengths = [[segment.size for segment in segments] for segments in (firsts, seconds)]
    return np.stack([*map(np.array, lengths), *index.find_borders(firsts), *index.find_borders(seconds)], 1)


def border_accuracy(features: Integers, labels: Integers) -> float:
    """How often the label is guessed right on the half of the pairs that was not learnt from.

    The guess is a vote within cells of a table: lengths in eighths, which one is longer, and the borders.
    """
    order = np.argsort(draw(1, np.arange(labels.size)), kind="stable")
    features, labels = features[order], labels[order]
    cells = _cells(features)
    half = labels.size // 2
    votes = np.zeros(int(cells.max(initial=0)) + 1)
    np.add.at(votes, cells[:half], 2.0 * labels[:half] - 1)
    guesses = votes[cells[half:]] > 0
    return float((guesses == labels[half:]).mean())


def _cells(features: Integers) -> Integers:
    first, second = features[:, 0], features[:, 1]
    edges = np.quantile(np.concatenate([first, second]), np.arange(1, 8) / 8)
    cells = np.searchsorted(edges, first) * 8 + np.searchsorted(edges, second)
    cells = cells * 3 + 1 + np.sign(first - second)
    for column in range(2, features.shape[1]):
        cells = cells * 2 + features[:, column]
    return np.asarray(cells, np.int64)
