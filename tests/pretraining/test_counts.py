"""Counted word vectors: words that stand in the same places are alike, and what is not known stays 0."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from litebert.corpus.corpus import Corpus
from litebert.pretraining.counts import count_neighbours, count_vectors, make_vectors
from litebert.pretraining.headstart import give_head_start
from litebert.pretraining.job import count_frequencies
from tests.distillation.runs import make_model

FRUIT, PETS, EAT, STROKE = (0, 1), (2, 3), (4, 5, 6), (7, 8, 9)


def make_text(num_sentences: int = 3000) -> np.ndarray:
    """Fruit is eaten and pets are stroked; fillers (10 to 29) stand everywhere."""
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(num_sentences):
        nouns, verbs = ((FRUIT, EAT), (PETS, STROKE))[draw.integers(2)]
        rows += [draw.choice(verbs), draw.choice(nouns), *draw.integers(10, 30, 6)]
    return np.array(rows)


def test_words_in_the_same_places_are_alike() -> None:
    vectors = make_vectors(count_neighbours(make_text(), 32), 8).numpy()
    cosines = vectors @ vectors.T
    assert min(cosines[0, 1], cosines[2, 3]) > 0.8 > 0.5 > cosines[np.ix_(FRUIT, PETS)].max()
    np.testing.assert_allclose(np.linalg.norm(vectors[:30], axis=1), 1, rtol=1e-5)
    assert not vectors[30:].any()  # never seen


@given(st.lists(st.integers(0, 6), max_size=60))
def test_neighbours_are_counted_as_by_hand(tokens: list[int]) -> None:
    expected = np.zeros((7, 7))
    for one, first in enumerate(tokens):
        for other, second in enumerate(tokens):
            expected[first, second] += 0 < abs(one - other) <= 5
    np.testing.assert_array_equal(count_neighbours(np.array(tokens, np.uint16), 7).toarray(), expected)


@pytest.mark.parametrize("size", [4, 50])
def test_little_text_gives_vectors_or_zeros_and_no_nonsense(size: int) -> None:
    for tokens in ([], [1], [1, 2], [3] * 50, list(range(7)) * 3):
        vectors = make_vectors(count_neighbours(np.array(tokens, np.int64), 7), size)
        assert vectors.shape == (7, size)
        lengths = vectors.norm(dim=1)
        assert ((lengths < 1e-6) | ((lengths - 1).abs() < 1e-4)).all()


def test_a_corpus_is_counted_as_far_as_asked(small_corpus: Corpus) -> None:
    one, two, all_ = (count_vectors(small_corpus, 8, count) for count in (500, 10**9, small_corpus.num_tokens()))
    assert torch.equal(two, all_)
    assert one.any(1).sum() < two.any(1).sum()


def test_a_head_start_puts_them_into_the_word_table(small_corpus: Corpus) -> None:
    model = make_model(head="pretraining", vocab_size=small_corpus.tokenizer.vocab_size)
    before = model.encoder.embeddings.words.weight.clone()
    words = count_vectors(small_corpus, model.config.embedding_size, 10**6)
    give_head_start(model, count_frequencies(small_corpus), words)
    table, known = model.encoder.embeddings.words.weight, words.any(1)
    assert 0 < known.sum() < len(known)
    assert torch.equal(table[~known], before[~known])
    torch.testing.assert_close(table[known].norm(dim=1), before.norm(dim=1).mean().expand(int(known.sum())))
    torch.testing.assert_close(torch.nn.functional.normalize(table[known], dim=1), words[known])
