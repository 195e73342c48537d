"""The queue: results go to whom they belong, small requests pass between large ones, and nobody spoils another's."""

import asyncio
import threading
import time
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.serve.batching import BatchQueue, OverloadedError, QueueLimits


class Slow:
    """A model that doubles numbers, when it is let."""

    def __init__(self) -> None:
        self.batches: list[tuple[Hashable, list[Any]]] = []
        self.may_run = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self, operation: Hashable, inputs: list[Any]) -> list[Any]:
        self.has_begun.set()
        assert self.may_run.wait(30)
        self.batches.append((operation, inputs))
        if None in inputs:
            raise ValueError("this input is bad")
        return [2 * one for one in inputs]


async def begun(model: Slow) -> None:
    while not model.has_begun.is_set():
        await asyncio.sleep(0.001)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.tuples(st.integers(), st.integers(1, 40)), max_size=12)),
        max_size=12,
    ),
    st.integers(1, 60),
)
def test_everyone_gets_their_own_results_in_their_order(
    requests: list[tuple[str, list[tuple[int, int]]]], batch_tokens: int
) -> None:
    sizes: list[tuple[int, int]] = []

    def double(operation: Hashable, inputs: list[Any]) -> list[Any]:
        return [(operation, 2 * one) for one in inputs]

    async def ask_all() -> list[Any]:
        queue = BatchQueue(
            double, QueueLimits(batch_tokens, max_wait=1e9), lambda n, tokens, _: sizes.append((n, tokens))
        )
        asked = [
            queue.submit(operation, [one for one, _ in inputs], [tokens for _, tokens in inputs])
            for operation, inputs in requests
        ]
        results = await asyncio.gather(*asked)
        queue.close()
        assert (queue.num_waiting, queue.tokens_waiting) == (0, 0)
        return results

    expected = [[(operation, 2 * one) for one, _ in inputs] for operation, inputs in requests]
    assert asyncio.run(ask_all()) == expected
    assert all(tokens <= batch_tokens or count == 1 for count, tokens in sizes)
    assert sum(count for count, _ in sizes) == sum(len(inputs) for _, inputs in requests)


def test_what_waits_runs_together_and_small_requests_pass_between_parts_of_a_large_one() -> None:
    model = Slow()

    async def ask_all() -> None:
        queue = BatchQueue(model, QueueLimits(batch_tokens=4))
        large = asyncio.create_task(queue.submit("x", [1, 2, 3, 4, 5, 6, 7, 8, 9], [1] * 9))
        await begun(model)
        small = [asyncio.create_task(queue.submit("x", [number], [1])) for number in (10, 11)]
        other = asyncio.create_task(queue.submit("y", [12], [1]))
        await asyncio.sleep(0.01)
        model.may_run.set()
        assert await large == [2 * one for one in range(1, 10)]
        assert [await one for one in (*small, other)] == [[20], [22], [24]]
        queue.close()

    asyncio.run(ask_all())
    assert model.batches == [("x", [1, 2, 3, 4]), ("x", [5, 6, 10, 11]), ("y", [12]), ("x", [7, 8, 9])]


def test_a_bad_input_fails_alone() -> None:
    model = Slow()

    async def ask_all() -> list[Any]:
        queue = BatchQueue(model, QueueLimits())
        first = asyncio.create_task(queue.submit("x", [0], [1]))
        await begun(model)
        others = [asyncio.create_task(queue.submit("x", given, [1] * len(given))) for given in ([1, 2], [None], [3])]
        await asyncio.sleep(0.01)
        model.may_run.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        queue.close()
        return results

    first, good, bad, other = asyncio.run(ask_all())
    assert (first, good, other) == ([0], [2, 4], [6])
    assert isinstance(bad, ValueError)
    assert ("x", [1, 2, None, 3]) in model.batches, "they did not run together"


def test_what_would_wait_too_long_is_refused_and_what_is_cancelled_leaves() -> None:
    model = Slow()
    model.may_run.set()

    async def ask_all() -> None:
        queue = BatchQueue(model, QueueLimits(batch_tokens=10, max_wait=0.5, timeout=20))
        await queue.submit("x", [1], [10])
        queue._speed = 10.0  # tokens a second
        model.may_run.clear()
        model.has_begun.clear()
        running = asyncio.create_task(queue.submit("x", [2], [10]))
        await begun(model)
        with pytest.raises(OverloadedError) as refused:
            await queue.submit("x", [3], [1])
        assert refused.value.retry_after == 1
        queue._speed = 1000.0
        waiting = asyncio.create_task(queue.submit("x", [4, 5], [30, 40]))
        await asyncio.sleep(0.01)
        assert (queue.num_waiting, queue.tokens_waiting) == (1, 70)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (queue.num_waiting, queue.tokens_waiting) == (0, 0)
        model.may_run.set()
        assert await running == [4]
        queue.close()
        with pytest.raises(OverloadedError):
            await queue.submit("x", [6], [1])

    asyncio.run(ask_all())
    assert not any(4 in batch for _, batch in model.batches), "what was cancelled ran"


def test_what_makes_no_progress_is_given_up_and_what_makes_some_is_not() -> None:
    model = Slow()

    async def ask() -> None:
        queue = BatchQueue(model, QueueLimits(timeout=0.02))
        with pytest.raises(OverloadedError):
            await queue.submit("x", [1], [1])
        model.may_run.set()
        queue.close()

        def slowly(operation: Hashable, inputs: list[Any]) -> list[Any]:
            time.sleep(0.02)
            return inputs

        queue = BatchQueue(slowly, QueueLimits(batch_tokens=1, timeout=0.3))
        assert await queue.submit("x", list(range(40)), [1] * 40) == list(range(40)), "0.8 s, a part every 0.02"
        queue.close()

    asyncio.run(ask())


def test_a_small_request_is_let_in_beside_a_large_one() -> None:
    model = Slow()
    model.may_run.set()

    async def ask_all() -> None:
        queue = BatchQueue(model, QueueLimits(batch_tokens=10, max_wait=0.5))
        await queue.submit("x", [0], [1])
        model.may_run.clear()
        model.has_begun.clear()
        large = asyncio.create_task(queue.submit("x", list(range(1000)), [1] * 1000))
        await begun(model)
        queue._speed = 100.0  # the large one takes ten seconds
        assert queue.seconds_ahead > 9
        small = asyncio.create_task(queue.submit("x", [5000], [1]))
        await asyncio.sleep(0.01)
        with pytest.raises(OverloadedError):
            await queue.submit("x", list(range(500)), [1] * 500)
        model.may_run.set()
        assert await small == [10_000]
        await large
        queue.close()

    asyncio.run(ask_all())
    assert 5000 in model.batches[2][1], "it waited for more than the batch that ran"


def test_an_idle_queue_takes_what_is_larger_than_its_limits_and_many_bytes_are_refused_beside_others() -> None:
    model = Slow()

    async def ask_all() -> None:
        queue = BatchQueue(model, QueueLimits(batch_tokens=10, max_wait=0.001, max_bytes=100))
        queue._speed = 10.0
        large = asyncio.create_task(queue.submit("x", [1, 2], [500, 500], num_bytes=1000))
        await begun(model)
        queue._speed = 1e9
        with pytest.raises(OverloadedError):
            await queue.submit("x", [3], [1], num_bytes=1)  # 1,000 of 100 bytes are taken
        model.may_run.set()
        assert await large == [2, 4]
        assert await queue.submit("x", [3], [1], num_bytes=1) == [6]
        queue.close()

    asyncio.run(ask_all())
