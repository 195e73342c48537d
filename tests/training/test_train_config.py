"""How long, in which stages, in how many micro-batches: settings that fit together, and those that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from litebert.errors import RequestError
from litebert.training.config import Stage, TrainConfig, describe_differences, num_micro_batches


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "either a number of steps or a time"),
        ({"steps": 3, "seconds": 3.0}, "either a number of steps or a time"),
        ({"steps": 0}, "greater than or equal to 1"),
        ({"seconds": 0.0}, "greater than 0"),
        ({"steps": 3, "stages": ()}, "at least 1 item"),
        ({"steps": 3, "stages": (Stage(until=0.5),)}, "the last of them at 1.0"),
        ({"steps": 3, "stages": (Stage(until=0.5), Stage(until=0.5), Stage())}, "one after the other"),
        ({"steps": 3, "stages": (Stage(until=0.7), Stage(until=0.5), Stage())}, "one after the other"),
        ({"steps": 3, "precision": "fp16"}, "precision"),
        ({"steps": 3, "batch": 8}, "batch"),
        ({"steps": 3.5}, "steps"),
        ({"steps": 3, "seed": -1}, "seed"),
        ({"steps": 3, "keep": 0}, "keep"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TrainConfig(**settings)  # type: ignore[arg-type]


@given(
    ends=st.lists(st.floats(0.01, 0.99), max_size=5, unique=True).map(sorted),
    progress=st.floats(0, 1),
)
def test_every_moment_belongs_to_the_first_stage_that_has_not_ended(ends: list[float], progress: float) -> None:
    config = TrainConfig(steps=10, stages=(*(Stage(until=end) for end in ends), Stage()))
    stage = config.stage_at(progress)
    assert stage == sum(progress >= end for end in ends)
    assert config.stage_at(1.0) == len(ends)


def test_a_stage_may_have_its_own_batch() -> None:
    config = TrainConfig(steps=10, batch_size=8, stages=(Stage(until=0.5, batch_size=4), Stage()))
    assert [config.batch_size_of(stage) for stage in (0, 1)] == [4, 8]


@given(share=st.integers(1, 300), num_ranks=st.integers(1, 8), micro_batch_size=st.none() | st.integers(1, 400))
def test_micro_batches_are_equal_fit_and_are_as_few_as_can_be(
    share: int, num_ranks: int, micro_batch_size: int | None
) -> None:
    count = num_micro_batches(share * num_ranks, num_ranks, micro_batch_size)
    limit = micro_batch_size or share
    assert share % count == 0
    assert share // count <= limit
    assert not any(share % fewer == 0 and share // fewer <= limit for fewer in range(1, count))


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(RequestError, match="a batch of 9 rows cannot be shared by 2 processes: choose a multiple"):
        num_micro_batches(9, 2, None)


def test_a_setting_that_is_new_and_not_set_makes_no_difference() -> None:
    """So that a run of an earlier version, which did not know the setting, goes on."""
    stored = {"model": {"layers": 2}, "data": "a" * 64}
    assert describe_differences(stored, {**stored, "class_weights": None, "model": {"layers": 2, "new": None}}) == ""
    assert describe_differences(stored, {**stored, "model": {"layers": 3}}) == "model.layers 2 instead of 3"
