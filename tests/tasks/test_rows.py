"""Rows are batched with no more padding than they need, and every item has its turn."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from litebert.batch import NO_LABEL
from litebert.tasks.rows import Rows, order_epoch, pack_items

PAD = 9999
Row = list[int]


def make_rows(rows: list[Row], splits: list[int], **more: Any) -> Rows:
    """Rows of these tokens."""
    return Rows(
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
    made = make_rows(rows, splits, tags=np.array(flat, np.int64), allowed=np.array(flat) > 0)
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
    made = make_rows(
        flat,
        [1] * len(flat),
        num_items=len(items),
        options=np.array(counts, np.int64),
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
    batch = make_rows(rows, [3, 2, 1], spans=spans).collate([2, 0])
    assert (values(batch.start_positions), values(batch.end_positions)) == ([NO_LABEL, 1], [NO_LABEL, 2])
    table = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    assert values(make_rows(rows, [3, 2, 1], labels=table).collate([1, 2]).labels) == [[0, 1], [1, 1]]
    assert make_rows(rows, [3, 2, 1]).collate([0]).labels is None


# --- epochs -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 500), min_size=1, max_size=300), st.integers(1, 40), st.integers(0, 2**40))
def test_an_epoch_has_every_item(lengths: list[int], batch_size: int, seed: int) -> None:
    order = order_epoch(np.array(lengths), batch_size, seed)
    assert order.shape == (-(-len(lengths) // batch_size), batch_size)
    counts = np.bincount(order.ravel(), minlength=len(lengths))
    assert counts.min() >= 1
    assert counts.max() - counts.min() <= 1  # what fills the last batch comes once more, not oftener than others
    assert np.array_equal(order, order_epoch(np.array(lengths), batch_size, seed))


def test_epochs_differ() -> None:
    lengths = np.arange(1, 201)
    orders = [order_epoch(lengths, 8, seed).tolist() for seed in range(5)]
    assert len({str(order) for order in orders}) == 5
    together = [{frozenset(batch) for batch in order} for order in orders]
    assert len(together[0] & together[1]) < 13  # who meets whom is left to chance, even if no two are equally long
    means = [np.mean(lengths[batch]) for batch in orders[0]]
    assert means != sorted(means)  # batches do not come by length


def padding_share(lengths: np.ndarray, batches: Any) -> float:
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    return 1 - sum(int(lengths[batch].sum()) for batch in batches) / padded


def test_items_of_like_length_come_together() -> None:
    generator = np.random.default_rng(0)
    lengths = np.minimum(512, generator.lognormal(3.5, 1.0, 20_000).astype(np.int64) + 4)  # many short, few long
    random = generator.permutation(len(lengths)).reshape(-1, 32)
    assert padding_share(lengths, random) > 0.5
    assert padding_share(lengths, order_epoch(lengths, 32, seed=0)) < 0.1


# --- prediction -------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 5)), max_size=60), st.integers(1, 2000))
def test_groups_keep_to_the_budget(items: list[tuple[int, int]], budget: int) -> None:
    lengths, counts = (np.array(column, np.int64) for column in (list(zip(*items, strict=True)) or [(), ()]))
    groups = list(pack_items(lengths, budget, counts))
    assert sorted(item for group in groups for item in group.tolist()) == list(range(len(items)))
    for group in groups:
        assert len(group) == 1 or int(counts[group].sum()) * int(lengths[group].max()) <= budget
    for group, after in pairwise(groups):  # none is closed too early
        assert (int(counts[group].sum()) + int(counts[after[0]])) * int(lengths[group].max()) > budget


@pytest.mark.parametrize("budget", [64, 4096])
def test_prediction_hardly_pads(budget: int) -> None:
    lengths = np.random.default_rng(1).integers(3, 60, 2000)
    assert padding_share(lengths, list(pack_items(lengths, budget))) < 0.1
