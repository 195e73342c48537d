"""The classifier of borders finds labels that can be read off them, and nothing where there is nothing."""

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.leaks import UNKNOWN, SentenceIndex, border_accuracy, border_features
from litebert.corpus.shards import Shard

SENTENCES = [np.arange(begin, begin + 10) for begin in range(0, 60, 10)]  # no token occurs twice


def make_shard(documents: list[list[NDArray[np.int64]]]) -> Shard:
    sentences = [sentence for document in documents for sentence in document]
    return Shard(
        "train-00000.shard",
        np.concatenate(sentences),
        np.cumsum([sentence.size for sentence in sentences]).astype(np.uint32),
        np.cumsum([len(document) for document in documents]).astype(np.uint32),
    )


INDEX = SentenceIndex.build([make_shard([SENTENCES[:2], SENTENCES[2:5]]), make_shard([SENTENCES[5:]])])


def test_documents_are_found_by_their_tokens() -> None:
    segments = [SENTENCES[0], np.concatenate(SENTENCES[2:4]), SENTENCES[5], np.arange(900, 920), SENTENCES[0][:3]]
    assert INDEX.find_documents(segments).tolist() == [0, 1, 2, UNKNOWN, UNKNOWN]


def test_a_beginning_that_two_documents_share_tells_nothing() -> None:
    index = SentenceIndex.build([make_shard([[SENTENCES[0]], [SENTENCES[0], SENTENCES[1]]])])
    assert index.find_documents([SENTENCES[0], SENTENCES[1]]).tolist() == [UNKNOWN, 1]


def test_borders_are_those_of_sentences() -> None:
    whole, late, early = np.concatenate(SENTENCES[:2]), SENTENCES[0][1:], np.concatenate(SENTENCES[:2])[:-1]
    begins, ends = INDEX.find_borders([whole, late, early, SENTENCES[0][2:5]])
    assert begins.tolist() == [True, False, True, True]
    assert ends.tolist() == [True, True, False, True], "a short segment counts as whole"
    features = border_features([whole, late], [early, whole], INDEX)
    assert features.tolist() == [[20, 19, 1, 1, 1, 0], [9, 20, 0, 1, 1, 1]]


def test_labels_that_follow_from_lengths_or_borders_are_guessed() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 40_000)
    noise = generator.integers(5, 50, (40_000, 2))
    borders = generator.integers(0, 2, (40_000, 4))
    assert abs(border_accuracy(np.hstack([noise, borders]), labels) - 0.5) < 0.05
    by_length = np.stack([noise[:, 0], noise[:, 0] + np.where(labels == 1, 3, -3)], 1)
    assert border_accuracy(np.hstack([by_length, borders]), labels) > 0.95
    borders[:, 3] = labels
    assert border_accuracy(np.hstack([noise, borders]), labels) > 0.95
