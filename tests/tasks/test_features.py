"""Features are batched with no more padding than they need, and every item has its turn."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from litebert.batch import NO_LABEL
from litebert.tasks.features import Features, encode_texts, order_epoch, part_by_length
from litebert.text.tokenizer import Tokenizer

PAD = 9999
Row = list[int]


def make_features(rows: list[Row], splits: list[int], **more: Any) -> Features:
    """Rows of these tokens."""
    return Features(
        tokens=np.array([token for row in rows for token in row], np.int32),
        ends=np.cumsum([len(row) for row in rows], dtype=np.int64),
        splits=np.array(splits, np.int64),
        examples=np.arange(more.pop("num_items", len(rows))),
        **more,
    )


def pad(rows: list[Row], filler: Any) -> list[list[Any]]:
    """The plain way."""
    width = max(map(len, rows))
    return [[*row, *([filler] * (width - len(row)))] for row in rows]


def values(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.tolist()


@st.composite
def rows_and_chosen(draw: st.DrawFn) -> tuple[list[Row], list[int], list[int]]:
    rows = draw(st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=12), min_size=1, max_size=8))
    splits = [draw(st.integers(1, len(row))) for row in rows]
    chosen = draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=10))
    return rows, splits, chosen


@given(rows_and_chosen())
def test_a_batch_is_padded_to_its_longest_row(given_: tuple[list[Row], list[int], list[int]]) -> None:
    rows, splits, chosen = given_
    tags = [[token % 3 for token in row] for row in rows]
    flat = [tag for row in tags for tag in row]
    made = make_features(rows, splits, tags=np.array(flat, np.int64), allowed=np.array(flat) > 0)
    batch = made.collate(chosen, PAD)
    taken = [rows[item] for item in chosen]
    assert values(batch.input_ids) == pad(taken, PAD)
    assert values(batch.attention_mask) == pad([[1] * len(row) for row in taken], 0)
    types = [[int(place >= splits[item]) for place in range(len(rows[item]))] for item in chosen]
    assert values(batch.token_type_ids) == pad(types, 0)
    assert values(batch.labels) == pad([tags[item] for item in chosen], NO_LABEL)
    assert values(batch.answer_mask) == pad([[tag > 0 for tag in tags[item]] for item in chosen], False)
    assert batch.num_tokens == sum(map(len, taken))


@given(st.data())
def test_options_stand_side_by_side(data: st.DataObject) -> None:
    """Where an item has fewer options than others, the mask says so, and no label can mean one that is not there."""
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    row = st.lists(st.integers(0, 500), min_size=2, max_size=9)
    items = [[data.draw(row) for _ in range(count)] for count in counts]
    flat = [option for item in items for option in item]
    made = make_features(
        flat,
        [1] * len(flat),
        num_items=len(items),
        num_rows=np.array(counts, np.int64),
        labels=np.array([count - 1 for count in counts], np.int64),
    )
    assert made.num_items == len(items)
    assert made.lengths().tolist() == [max(map(len, item)) for item in items]
    chosen = data.draw(st.lists(st.integers(0, len(items) - 1), min_size=1, max_size=6))
    batch = made.collate(chosen, PAD)
    width = max(counts[item] for item in chosen)
    length = max(len(option) for item in chosen for option in items[item])
    assert batch.input_ids.shape == (len(chosen), width, length)
    there = [[place < counts[item] for place in range(width)] for item in chosen]
    mask = batch.attention_mask
    assert mask is not None
    assert values(mask.sum(-1) > 1) == there  # by which the loss tells them
    assert int(mask.sum(-1).min()) >= 1
    for number, item in enumerate(chosen):
        for place, option in enumerate(items[item]):
            assert values(batch.input_ids[number, place]) == [*option, *([PAD] * (length - len(option)))]
            assert values(mask[number, place]) == [1] * len(option) + [0] * (length - len(option))
    assert values(batch.labels) == [counts[item] - 1 for item in chosen]


def test_labels_and_spans_go_with_their_items() -> None:
    rows = [[1, 2, 3], [4, 5], [6]]
    spans = np.array([[1, 2], [0, 0], [NO_LABEL, NO_LABEL]])
    batch = make_features(rows, [3, 2, 1], spans=spans).collate([2, 0])
    assert (values(batch.start_positions), values(batch.end_positions)) == ([NO_LABEL, 1], [NO_LABEL, 2])
    table = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    assert values(make_features(rows, [3, 2, 1], labels=table).collate([1, 2]).labels) == [[0, 1], [1, 1]]
    assert make_features(rows, [3, 2, 1]).collate([0]).labels is None


# --- epochs -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**40))
def test_an_epoch_has_every_item(num_items: int, batch_size: int, seed: int) -> None:
    order = order_epoch(num_items, batch_size, seed)
    assert order.shape == (-(-num_items // batch_size), batch_size)
    counts = np.bincount(order.ravel(), minlength=num_items)
    assert counts.min() >= 1
    assert counts.max() - counts.min() <= 1  # what fills the last batch comes once more, not oftener than others
    assert np.array_equal(order, order_epoch(num_items, batch_size, seed))


def test_epochs_differ() -> None:
    orders = [order_epoch(200, 8, seed).tolist() for seed in range(5)]
    assert len({str(order) for order in orders}) == 5
    together = [{frozenset(batch) for batch in order} for order in orders]
    assert not together[0] & together[1]  # who meets whom is left to chance


def padding_share(lengths: np.ndarray, batches: Any) -> float:
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    return 1 - sum(int(lengths[batch].sum()) for batch in batches) / padded


def make_lengths(num_items: int) -> np.ndarray:
    """Many short ones, few long ones."""
    return np.minimum(512, np.random.default_rng(0).lognormal(3.5, 1.0, num_items).astype(np.int64) + 4)


def test_length_does_not_decide_who_meets_in_a_step() -> None:
    """Batches drawn by length would be of like length, and would tell the label wherever length does."""
    lengths = make_lengths(20_000)
    order = order_epoch(len(lengths), 32, seed=0)
    assert padding_share(lengths, order) > 0.5
    means = lengths[order].mean(1)
    assert means.std() == pytest.approx(lengths.std() / np.sqrt(32), rel=0.15)


@pytest.mark.parametrize("can_pack", [False, True])
def test_items_of_like_length_come_together_inside_a_step(can_pack: bool) -> None:
    lengths = make_lengths(2_000)
    rows = [[number] * length for number, length in enumerate(lengths.tolist())]
    made = make_features(rows, lengths.tolist(), can_pack=can_pack)
    num_tokens = num_padded = num_together = 0
    for items in order_epoch(len(rows), 64, seed=0)[:10]:
        batches = made.micro_batches(items, PAD)
        seen = [batch.input_ids[batch.input_ids != PAD] for batch in batches]
        assert sorted(np.concatenate(seen).tolist()) == sorted(token for item in items for token in rows[item])
        num_tokens += sum(map(len, seen))
        num_padded += sum(batch.input_ids.numel() for batch in batches)
        num_together += made.collate(items, PAD).input_ids.numel()
    assert num_tokens < 0.25 * num_together  # as one padded batch
    assert 1 - num_tokens / num_padded < (0.25 if can_pack else 0.35)


# --- prediction -------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 5)), max_size=60), st.integers(1, 2000))
def test_groups_keep_to_the_budget(items: list[tuple[int, int]], budget: int) -> None:
    lengths, counts = (np.array(column, np.int64) for column in (list(zip(*items, strict=True)) or [(), ()]))
    groups = list(part_by_length(lengths, budget, counts))
    assert sorted(item for group in groups for item in group.tolist()) == list(range(len(items)))
    for group in groups:
        assert len(group) == 1 or int(counts[group].sum()) * int(lengths[group].max()) <= budget
    for group, after in pairwise(groups):  # none is closed too early
        assert (int(counts[group].sum()) + int(counts[after[0]])) * int(lengths[group].max()) > budget


@pytest.mark.parametrize("budget", [64, 4096])
def test_prediction_hardly_pads(budget: int) -> None:
    lengths = np.random.default_rng(1).integers(3, 60, 2000)
    assert padding_share(lengths, list(part_by_length(lengths, budget))) < 0.1


@given(
    st.lists(st.text(alphabet="ab é한今\n\t ", max_size=60).map(lambda one: one * 9), max_size=5),
    st.integers(1, 6),
    st.sampled_from(["small", "litebert-en"]),
)
def test_the_beginning_of_a_long_text_has_the_ids_that_the_whole_begins_with(
    small_tokenizer: Tokenizer, texts: list[str], most: int, which: str
) -> None:
    tokenizer = small_tokenizer if which == "small" else packaged_tokenizer()
    whole = encode_texts(tokenizer, texts)
    found = encode_texts(tokenizer, texts, most)
    for one, full in zip(found, whole, strict=True):
        assert one[:most].tolist() == full[:most].tolist()
        assert (len(one) > most) == (len(full) > most), "what is cut is not known"


def test_a_long_text_is_not_encoded_whole(small_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    given_lengths: list[int] = []
    encode = Tokenizer.encode_plain
    monkeypatch.setattr(
        Tokenizer,
        "encode_plain",
        lambda self, texts: given_lengths.extend(map(len, texts)) or encode(self, texts),
    )
    (ids,) = encode_texts(small_tokenizer, ["the river " * 100_000], most=20)
    assert len(ids) > 20
    assert max(given_lengths) < 1000


@cache
def packaged_tokenizer() -> Tokenizer:
    return Tokenizer.from_pretrained("litebert-en")
