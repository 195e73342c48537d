"""Examples: nothing lost, whole sentences, one document, and lengths as the plain version gives them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.batch import NO_LABEL
from litebert.corpus.examples import Examples, make_examples
from litebert.corpus.shards import Shard
from tests.corpus.oracle import cut_run, pack_document

Documents = list[list[int]]


def make_shard(documents: Documents, name: str = "train-00000.shard") -> Shard:
    """A shard whose tokens are their own places."""
    sentences = [size for document in documents for size in document]
    return Shard(
        name,
        np.arange(sum(sentences)),
        np.cumsum(sentences).astype(np.uint32),
        np.cumsum([len(document) for document in documents]).astype(np.uint32),
    )


def segments(table: Examples) -> list[tuple[int, int]]:
    firsts = zip(table.first_begin, table.first_end, strict=True)
    seconds = zip(table.second_begin, table.second_end, strict=True)
    return [(int(a), int(b)) for a, b in (*firsts, *seconds) if b > a]


document_lists = st.lists(st.lists(st.integers(1, 90), min_size=1, max_size=12), min_size=1, max_size=15)


@settings(max_examples=150)
@given(document_lists, st.sampled_from(["sop", "none"]), st.integers(8, 80), st.integers(0, 99))
def test_every_token_is_in_one_segment(documents: Documents, pairs: str, length: int, seed: int) -> None:
    shard = make_shard(documents)
    table = make_examples([shard], pairs, length, 0.1, seed)  # type: ignore[arg-type]
    covered = sorted(segments(table))
    assert [begin for begin, _ in covered] == [0, *(end for _, end in covered[:-1])]
    assert covered[-1][1] == shard.tokens.size
    assert (table.lengths <= length).all()


@settings(max_examples=150)
@given(document_lists, st.integers(8, 80), st.integers(0, 99))
def test_pairs_are_whole_sentences_of_one_document(documents: Documents, length: int, seed: int) -> None:
    shard = make_shard(documents)
    table = make_examples([shard], "sop", length, 0.1, seed)
    borders = {0, *shard.sentence_ends.tolist()}
    ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1]
    asked = table.take(np.flatnonzero(table.label != NO_LABEL))
    for begin, end in segments(asked):
        assert {begin, end} <= borders
        assert np.searchsorted(ends, begin, "right") == np.searchsorted(ends, end - 1, "right")
    in_order = asked.label == 0
    assert (asked.first_end == asked.second_begin)[in_order].all()
    assert (asked.second_end == asked.first_begin)[~in_order].all()
    one = table.take(np.flatnonzero(table.label == NO_LABEL))
    assert (one.second_begin == one.second_end).all()


@settings(max_examples=60)
@given(document_lists, st.integers(8, 80), st.integers(0, 99))
def test_nsp_takes_other_documents(documents: Documents, length: int, seed: int) -> None:
    shard = make_shard(documents)
    table = make_examples([shard], "nsp", length, 0.1, seed)
    ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1]
    first = np.searchsorted(ends, table.first_begin, "right")
    second = np.searchsorted(ends, table.second_begin, "right")
    assert (first != second)[table.label == 1].all()
    assert (first == second)[table.label == 0].all()
    assert (table.first_end == table.second_begin)[table.label == 0].all()
    assert (table.lengths <= length).all()


def test_labels_and_lengths_are_those_of_the_plain_version() -> None:
    generator = random.Random(4)
    documents = [[generator.randint(3, 60) for _ in range(generator.randint(1, 30))] for _ in range(4000)]
    table = make_examples([make_shard(documents)], "sop", 131, 0.1, 7)
    runs = [run for document in documents for run in pack_document(document, 128, 0.1, generator)]
    assert len(table) == pytest.approx(len(runs), rel=0.01)
    asked = table.label != NO_LABEL
    assert asked.mean() == pytest.approx(np.mean([len(run) > 1 for run in runs]), abs=0.01)
    assert (table.label[asked] == 1).mean() == pytest.approx(0.5, abs=0.015)
    quantiles = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
    expected = np.quantile([sum(run) for run in runs], quantiles)
    assert np.quantile(table.num_tokens, quantiles) == pytest.approx(expected, abs=3)
    cuts = [cut_run(run, generator)[0] / sum(run) for run in runs if len(run) > 1]
    first = np.where(table.label == 1, table.second_end - table.second_begin, table.first_end - table.first_begin)
    shares = (first / np.maximum(1, table.num_tokens))[asked]
    assert np.quantile(shares, quantiles) == pytest.approx(np.quantile(cuts, quantiles), abs=0.02)


def test_shards_have_chances_of_their_own() -> None:
    documents = [[5, 6, 7, 8]] * 2000
    labels = [
        make_examples([make_shard(documents, f"train-0000{number}.shard")], "sop", 64, 0.0, 1).label
        for number in range(2)
    ]
    assert 0.45 < (labels[0] == labels[1]).mean() < 0.55
