"""Nearest neighbours block by block: exactly what a stable sort of all products gives, in little memory."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from litebert.inference import nearest
from litebert.inference.nearest import TopK, find_nearest

# Small whole numbers: their products are exact in any order, and many of them are equal.
SMALL = st.integers(-2, 2).map(float)


def sort_all(products: NDArray[Any], k: int) -> list[list[tuple[int, float]]]:
    """What is to be found, the plain way."""
    best = [np.argsort(-row, kind="stable")[:k] for row in products]
    return [[(int(i), float(row[i])) for i in order] for row, order in zip(products, best, strict=True)]


@given(
    vectors=arrays(np.float32, st.tuples(st.integers(1, 60), st.just(3)), elements=SMALL),
    questions=arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3)), elements=SMALL),
    k=st.integers(1, 70),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    rows=st.integers(1, 70),
)
def test_it_is_a_stable_sort_of_all_products(
    vectors: NDArray[Any], questions: NDArray[Any], k: int, dtype: str, rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_BLOCK_BYTES", rows * 3 * 4)
        found = list(find_nearest(questions, vectors.astype(dtype), k))
    assert found == sort_all(questions @ vectors.T, k)


@given(
    vectors=arrays(np.int8, (20, 3), elements=st.integers(-127, 127)),
    scales=arrays(np.float32, 20, elements=st.sampled_from([0.25, 0.5, 1.0, 2.0])),
)
def test_scales_belong_to_their_vectors(vectors: NDArray[Any], scales: NDArray[Any]) -> None:
    question = np.array([[1.0, -2.0, 0.5]], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_BLOCK_BYTES", 7 * 3 * 4)
        found = list(find_nearest(question, vectors, 5, scales))
    assert found == sort_all(question @ (vectors * scales[:, None]).T, 5)


def test_every_finite_half_becomes_the_same_number() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = np.ascontiguousarray(halves[np.isfinite(halves)])[:, None]
    ((_, wide),) = nearest._widen_blocks(halves)
    np.testing.assert_array_equal(wide * nearest._HALF_FACTOR, halves.astype(np.float32))


def test_scores_that_rise_and_what_is_no_number() -> None:
    best = TopK(2, 2)
    for begin in range(0, 9, 3):
        best.add(np.array([[begin, begin + 1, np.nan], [5.0, 5.0, 4.0]], np.float32))
    assert list(best) == [[(7, 7.0), (6, 6.0)], [(0, 5.0), (1, 5.0)]]


def test_memory_is_that_of_a_block() -> None:
    vectors = np.ones((120_000, 64), np.float16)  # 31 MB as float32
    questions = np.ones((4, 64), np.float32)
    tracemalloc.start()
    find_nearest(questions, vectors, 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * nearest._BLOCK_BYTES
