"""Replaced tokens: about as many as asked for, each once seen beside its neighbour, and the same on any ranks."""

from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.replacement import Replacements
from litebert.corpus.shards import Shard
from litebert.corpus.stream import BatchStream, Cursor, StreamConfig
from litebert.text.tokenizer import Tokenizer
from tests.corpus.conftest import make_documents, prepare_documents

RATE = 0.3
CONFIGS = [
    StreamConfig(length=64),
    StreamConfig(length=48, packing=False, pairs="nsp", shuffle_shards=2),
    StreamConfig(length=32, pairs="none", shuffle_shards=1, seed=3),
]


@pytest.fixture(scope="module")
def counted(small_corpus: Corpus) -> Replacements:
    return Replacements.count(small_corpus, RATE)


def pairs_of(corpus: Corpus, num_tokens: int = 10**9) -> set[tuple[int, int]]:
    """Ordinary tokens that stand beside each other in a document, among the first of each shard, one by one."""
    found = set()
    for shard in corpus.shards[TRAIN]:
        left = num_tokens
        for number in range(shard.document_ends.size):
            tokens = np.concatenate(shard.document(number)).tolist()[: max(0, left)]
            left -= len(tokens)
            found |= set(pairwise(tokens))
    reserved = corpus.tokenizer.reserved_ids
    return {pair for pair in found if not reserved & {*pair}}


def originals(batch: Batch) -> Tensor:
    """The text of a batch in which nothing is replaced, before it was masked."""
    labels = batch.token_labels()
    return torch.where(labels == NO_LABEL, batch.input_ids, labels)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_replaced_tokens_stood_beside_their_neighbours(
    small_corpus: Corpus, counted: Replacements, config: StreamConfig
) -> None:
    known, reserved = pairs_of(small_corpus), torch.tensor(sorted(small_corpus.tokenizer.reserved_ids))
    plain = BatchStream(small_corpus, config).epoch(64)
    num_asked = num_replaced = 0
    for before, after in zip(plain, BatchStream(small_corpus, config, replacements=counted).epoch(64), strict=True):
        assert before.replaced_labels is None
        labels, text = after.replaced_labels, originals(before)
        assert labels is not None
        assert torch.equal(labels == 1, after.input_ids != before.input_ids)
        assert torch.equal(labels == NO_LABEL, torch.isin(text, reserved) | (before.token_labels() != NO_LABEL))
        assert not torch.isin(after.input_ids[labels == 1], reserved).any()
        for name in ("token_type_ids", "sequence_ids", "attention_mask", "masked_positions", "masked_labels"):
            one, other = getattr(before, name), getattr(after, name)
            assert one is other is None or torch.equal(one, other)
        for row, column in (labels == 1).nonzero().tolist():  # [CLS] and [SEP] stand around every segment
            token = int(after.input_ids[row, column])
            assert {(int(text[row, column - 1]), token), (token, int(text[row, column + 1]))} & known
        num_asked += int((labels != NO_LABEL).sum())
        num_replaced += int((labels == 1).sum())
    assert 0.7 * RATE < num_replaced / num_asked < RATE  # some draw the token that stood there


def test_both_neighbours_are_asked_about_as_often(small_corpus: Corpus, counted: Replacements) -> None:
    known = pairs_of(small_corpus)
    left = right = 0
    plain = BatchStream(small_corpus, CONFIGS[0]).epoch(64)
    for before, after in zip(plain, BatchStream(small_corpus, CONFIGS[0], replacements=counted).epoch(64), strict=True):
        assert after.replaced_labels is not None
        text = originals(before)
        for row, column in (after.replaced_labels == 1).nonzero().tolist():
            token = int(after.input_ids[row, column])
            fits = ((int(text[row, column - 1]), token) in known, (token, int(text[row, column + 1])) in known)
            left, right = left + (fits == (True, False)), right + (fits == (False, True))
    assert 0.7 < left / right < 1.4


def test_any_cursor_and_any_number_of_ranks_give_the_same_rows(small_corpus: Corpus, counted: Replacements) -> None:
    for config in CONFIGS:
        whole = list(islice(BatchStream(small_corpus, config, replacements=counted).batches(8), 12))
        again = Replacements.count(small_corpus, RATE)  # as another process would
        for cursor, first in ((Cursor(), 0), (whole[6][1], 7)):
            parts = [
                BatchStream(small_corpus, config, replacements=again).batches(8, cursor, rank, 2) for rank in (0, 1)
            ]
            for batch, _ in whole[first:]:
                shares = [next(part)[0] for part in parts]
                for name in ("input_ids", "replaced_labels"):
                    assert torch.equal(torch.cat([getattr(share, name) for share in shares]), getattr(batch, name))


def test_epochs_replace_other_tokens(small_corpus: Corpus, counted: Replacements) -> None:
    stream = BatchStream(small_corpus, StreamConfig(length=64, mask_rate=0.0), replacements=counted)
    rows = [{str(row) for batch in stream.epoch(64, epoch) for row in batch.input_ids.tolist()} for epoch in (0, 1)]
    assert not rows[0] & rows[1]


@pytest.mark.parametrize("num_tokens", [1, 10, 1000])
def test_a_sample_is_the_beginning_of_every_shard(small_corpus: Corpus, num_tokens: int) -> None:
    num_shards = len(small_corpus.shards[TRAIN])
    counted = Replacements.count(small_corpus, RATE, num_shards * num_tokens)
    expected = pairs_of(small_corpus, num_tokens)
    ids = np.arange(small_corpus.tokenizer.vocab_size)
    following, preceding = (np.repeat(ids, np.diff(counted.offsets[side])) for side in (0, 1))
    size = following.size
    assert set(zip(following.tolist(), counted.tokens[:size].tolist(), strict=True)) == expected
    assert set(zip(counted.tokens[size:].tolist(), preceding.tolist(), strict=True)) == expected
    stream = BatchStream(small_corpus, CONFIGS[0], replacements=counted)
    labels = next(stream.epoch(64)).replaced_labels
    assert labels is not None
    assert bool((labels == 1).any()) == (num_tokens > 1)  # a single token has no neighbour


@pytest.mark.parametrize("count", [2, 5])
def test_a_tiny_corpus_does(small_tokenizer: Tokenizer, tmp_path: Path, count: int) -> None:
    corpus = prepare_documents(tmp_path / "corpus", make_documents(count), small_tokenizer, held_out=0.0)
    counted = Replacements.count(corpus, 0.9)
    for pairs in ("none", "nsp", "sop"):
        config = StreamConfig(length=32, pairs=pairs)  # type: ignore[arg-type]
        for batch in BatchStream(corpus, config, replacements=counted).epoch(4):
            assert batch.replaced_labels is not None
            assert int(batch.input_ids.max()) < small_tokenizer.vocab_size


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 30), max_size=9), min_size=1, max_size=6), st.data())
def test_segments_are_apart_and_strangers_stay(
    small_corpus: Corpus, segments: list[list[int]], data: st.DataObject
) -> None:
    """Whatever the segments: nobody draws beside a token of another one, or one that the sample does not know."""
    sample = np.array(data.draw(st.lists(st.integers(0, 30), max_size=40)), np.uint16)
    ends = np.array([sample.size] if sample.size else [], np.uint32)
    shard = Shard("train-00000.shard", sample, ends, np.array([1] if sample.size else [], np.uint32))
    corpus = replace(small_corpus, shards={TRAIN: [shard]})
    counted, known = Replacements.count(corpus, 0.99), pairs_of(corpus)
    tokens = np.array([token for segment in segments for token in segment], np.int64)
    lengths = np.array([len(segment) for segment in segments])
    masked = np.flatnonzero(
        np.array(data.draw(st.lists(st.booleans(), min_size=tokens.size, max_size=tokens.size)), bool)
    )
    keys = np.arange(len(segments), dtype=np.uint64)
    shown, labels = counted.replace_tokens(tokens, lengths, np.arange(len(segments)), keys, masked)
    reserved = corpus.tokenizer.reserved_ids
    silent = {*masked.tolist(), *(i for i, token in enumerate(tokens.tolist()) if token in reserved)}
    assert [i for i, label in enumerate(labels.tolist()) if label == NO_LABEL] == sorted(silent)
    assert ((labels == 1) == (shown != tokens)).all()
    begin = 0
    for segment in segments:
        for i in range(len(segment)):
            if (token := int(shown[begin + i])) != segment[i]:
                beside = {(segment[i - 1], token)} if i else set()
                beside |= {(token, segment[i + 1])} if i + 1 < len(segment) else set()
                assert beside & known
        begin += len(segment)
