"""The stream of batches: the same for any number of ranks and workers, from any cursor on; and fit for the model."""

import pickle
import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.lint import unpack_sequences
from litebert.corpus.stream import BatchStream, Cursor, StreamConfig, arrange_rows
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.training.objectives import pretraining_loss
from tests.conftest import small_config

CONFIGS = [
    StreamConfig(length=64),
    StreamConfig(length=48, packing=False, pairs="nsp", shuffle_shards=2),
    StreamConfig(length=32, pairs="none", shuffle_shards=1, seed=3),
]


def content(batch: Batch) -> list[list[Any]]:
    """Each row of a batch as plain values, without padding, so that parts of batches can be compared and joined."""
    assert batch.masked_positions is not None
    assert batch.masked_labels is not None
    none = torch.full((len(batch.input_ids), 1), NO_LABEL)
    labels = none if batch.sentence_labels is None else batch.sentence_labels.reshape(len(batch.input_ids), -1)
    masks = batch.sequence_ids if batch.sequence_ids is not None else batch.attention_mask
    assert masks is not None
    return [
        [
            batch.input_ids[row].tolist(),
            masks[row].tolist(),
            batch.masked_positions[row][batch.masked_positions[row] >= 0].tolist(),
            batch.masked_labels[row][batch.masked_labels[row] != NO_LABEL].tolist(),
            [label for label in labels[row].tolist() if label != NO_LABEL],
        ]
        for row in range(len(batch.input_ids))
    ]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_share_the_same_batches(small_corpus: Corpus, config: StreamConfig, num_ranks: int) -> None:
    stream = BatchStream(small_corpus, config)
    num_batches = stream.num_rows() // 8 + 20  # into the second epoch
    whole = islice(stream.batches(8), num_batches)
    parts = [BatchStream(small_corpus, config).batches(8, rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    for batch, end in whole:
        shares = [next(part) for part in parts]
        assert [row for share, _ in shares for row in content(share)] == content(batch)
        assert {cursor for _, cursor in shares} == {end}


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_any_cursor_resumes(small_corpus: Corpus, config: StreamConfig) -> None:
    stream = BatchStream(small_corpus, config)
    num_batches = stream.num_rows() // 16 + 10
    batches = list(islice(stream.batches(16), num_batches))
    for number in [0, 1, 7, num_batches // 2, num_batches - 12, num_batches - 9, num_batches - 2]:
        following = next(BatchStream(small_corpus, config).batches(16, batches[number][1]))
        assert content(following[0]) == content(batches[number + 1][0])
        assert following[1] == batches[number + 1][1]


def test_changing_the_number_of_ranks_loses_and_repeats_nothing(small_corpus: Corpus) -> None:
    config = StreamConfig(length=64, shuffle_shards=2)
    expected = [row for batch, _ in islice(BatchStream(small_corpus, config).batches(8), 60) for row in content(batch)]
    seen: list[Any] = []
    cursor = Cursor()
    for num_ranks, num_batches in ((1, 20), (2, 20), (1, 20)):
        parts = [
            BatchStream(small_corpus, config).batches(8, cursor, rank=rank, num_ranks=num_ranks)
            for rank in range(num_ranks)
        ]
        for _ in range(num_batches):
            shares = [next(part) for part in parts]
            seen += [row for share, _ in shares for row in content(share)]
            cursor = shares[0][1]
    assert seen == expected


def test_workers_take_turns(small_corpus: Corpus) -> None:
    stream = BatchStream(small_corpus, CONFIGS[0])
    expected = [content(batch) for batch, _ in islice(stream.batches(8), 30)]
    workers = [stream.batches(8, worker=worker, num_workers=3) for worker in range(3)]
    assert [content(next(workers[number % 3])[0]) for number in range(30)] == expected


def test_a_stream_travels_to_other_processes(small_corpus: Corpus) -> None:
    stream = BatchStream(small_corpus, CONFIGS[0])
    content_here = content(next(stream.batches(8))[0])
    packed = pickle.dumps(BatchStream(small_corpus, CONFIGS[0]))
    assert len(packed) < 200_000  # shards are mapped again, not copied
    assert content(next(pickle.loads(packed).batches(8))[0]) == content_here


def test_the_size_of_a_batch_does_not_change_the_rows(small_corpus: Corpus) -> None:
    stream = BatchStream(small_corpus, CONFIGS[0])
    rows = [
        [row for batch, _ in islice(stream.batches(size), 96 // size) for row in content(batch)] for size in (1, 32)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_an_epoch_holds_every_sentence_once(small_corpus: Corpus, config: StreamConfig) -> None:
    if config.pairs == "nsp":
        pytest.skip("NSP repeats some second segments, and leaves others out")
    stream = BatchStream(small_corpus, config)
    tokenizer = small_corpus.tokenizer
    seen: Counter[int] = Counter()
    for sequence in unpack_sequences(stream.epoch(32, epoch=1), tokenizer.sep_id):
        for segment in filter(None, (sequence.first, sequence.second)):
            seen.update(sequence.original[segment].tolist())
    expected: Counter[int] = Counter()
    for shard in small_corpus.shards[TRAIN]:
        expected.update(shard.tokens.tolist())
    assert seen == expected


def test_epochs_differ_in_order_and_masks(small_corpus: Corpus) -> None:
    stream = BatchStream(small_corpus, CONFIGS[0])
    first, second = (next(stream.epoch(64, epoch)) for epoch in range(2))
    assert content(first) == content(next(BatchStream(small_corpus, CONFIGS[0]).epoch(64)))
    assert not set(map(str, content(first))) & set(map(str, content(second)))
    other = next(BatchStream(small_corpus, CONFIGS[0].model_copy(update={"seed": 1})).epoch(64))
    assert not set(map(str, content(first))) & set(map(str, content(other)))


def test_what_is_held_out_is_never_trained_on(small_corpus: Corpus) -> None:
    def documents(split: str) -> set[bytes]:
        return {
            np.concatenate(shard.document(number)).tobytes()
            for shard in small_corpus.shards[split]
            for number in range(shard.document_ends.size)
        }

    assert len(documents(HELD_OUT)) > 20
    assert not documents(HELD_OUT) & documents(TRAIN)
    config = StreamConfig(length=64)
    rows = [content(batch) for batch in BatchStream(small_corpus, config, HELD_OUT).epoch(16)]
    assert rows == [content(batch) for batch in BatchStream(small_corpus, config, HELD_OUT).epoch(16)]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_rows_are_built_as_the_model_expects(small_corpus: Corpus, config: StreamConfig) -> None:
    tokenizer = small_corpus.tokenizer
    batch, _ = next(BatchStream(small_corpus, config).batches(32))
    special = torch.tensor([tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id])
    assert batch.input_ids.shape == (32, config.length)
    assert batch.masked_positions is not None
    assert batch.token_type_ids is not None
    originals = batch.token_labels()
    assert not torch.isin(originals[originals != NO_LABEL], special).any()
    padding = batch.input_ids == tokenizer.pad_id
    mask = batch.sequence_ids if config.packing else batch.attention_mask
    assert mask is not None
    assert torch.equal(mask == 0, padding)
    assert (batch.token_type_ids[padding] == 0).all()
    for sequence in unpack_sequences([batch], tokenizer.sep_id):
        assert sequence.original[0] == tokenizer.cls_id
        assert sequence.original[-1] == tokenizer.sep_id
        assert (sequence.second is None) == (sequence.label == NO_LABEL)
        assert np.isin(sequence.original, special.numpy()).sum() == (2 if sequence.second is None else 3)


def test_packed_rows_and_single_rows_give_the_same_loss(small_corpus: Corpus) -> None:
    """The same sequences, packed or not, are the same to the model, masks included."""
    settings = {"length": 64, "mask_rate": 0.15}
    model = Model(small_config(vocab_size=400, max_positions=64), head="pretraining").eval()
    losses = []
    for packing in (True, False):
        stream = BatchStream(small_corpus, StreamConfig(**settings, packing=packing))  # type: ignore[arg-type]
        total = count = 0.0
        for batch in stream.epoch(64):
            with torch.no_grad():
                output = model(**batch.inputs())
            labels = batch.masked_labels
            assert labels is not None
            number = int((labels != NO_LABEL).sum())
            loss = torch.nn.functional.cross_entropy(output.prediction_logits, labels[labels != NO_LABEL])
            total, count = total + float(loss) * number, count + number
        losses.append(total / count)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize(("pairs", "length"), [("sop", 64), ("nsp", 64), ("none", 64), ("sop", 8)])
def test_a_batch_trains(small_corpus: Corpus, pairs: str, length: int, packing: bool) -> None:
    """Also one in which no pair asks anything: at length 8 no two sentences fit."""
    model = Model(small_config(vocab_size=400, max_positions=64), head="pretraining")
    config = StreamConfig(length=length, pairs=pairs, packing=packing)  # type: ignore[arg-type]
    batch, _ = next(BatchStream(small_corpus, config).batches(8))
    assert (batch.sentence_labels is None) == (pairs == "none")
    loss = pretraining_loss(model, batch)
    loss.backward()
    assert torch.isfinite(loss)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@settings(max_examples=100)
@given(st.lists(st.integers(3, 40), min_size=1, max_size=200), st.booleans(), st.integers(0, 9))
def test_rows_hold_every_example_once_and_are_never_too_long(lengths: list[int], packing: bool, seed: int) -> None:
    sizes = np.array(lengths)
    rows = arrange_rows(sizes, 40, packing, seed)
    assert sorted(rows.members.tolist()) == list(range(len(lengths)))
    totals = [sizes[rows.members[a:b]].sum() for a, b in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
    assert min(totals) > 0
    assert max(totals) <= 40
    if packing:  # best fit never leaves two rows that would go into one
        assert len(totals) < 2 or sum(sorted(totals)[:2]) > 40


def test_the_example_of_the_guide(small_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "corpus.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    (tmp_path / "my-corpus").symlink_to(small_corpus.folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["again"][0].input_ids.shape == (16, 128)


def test_wrong_shares_are_refused(small_corpus: Corpus) -> None:
    stream = BatchStream(small_corpus, StreamConfig(length=64))
    with pytest.raises(RequestError, match="cannot be shared by 3 ranks"):
        next(stream.batches(8, num_ranks=3))
    with pytest.raises(RequestError, match="no rank 2 of 2"):
        next(stream.batches(8, rank=2, num_ranks=2))
    for cursor in (Cursor(0, 9, 0), Cursor(0, 0, 10**6), Cursor(0, 0, -3)):
        with pytest.raises(RequestError, match="does not belong to this corpus"):
            next(stream.batches(8, cursor))
    with pytest.raises(ValueError, match="length"):
        StreamConfig(length=4)
