"""A watcher of losses: what it lets pass, what it stops, and what it remembers."""

import json
import math
import random

import pytest

from litebert.pretraining.job import Pretraining
from litebert.tasks.job import Finetuning
from litebert.training.monitoring import BAD_STEPS, LOWER_RATE, Health


def watch(losses: list[float], health: Health | None = None) -> Health:
    """Show it losses that it must let pass."""
    health = health or Health()
    for loss in losses:
        assert health.examine(loss, 1.0) is None
    return health


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_stopped_from_the_first_step_on(bad: float) -> None:
    assert "the loss was" in (Health().examine(bad, 1.0) or "")
    assert "the gradient's norm was" in (Health().examine(1.0, bad) or "")


def test_a_jump_is_stopped_once_enough_has_been_seen() -> None:
    generator = random.Random(0)
    health = watch([5 + generator.gauss(0, 0.1) for _ in range(49)])
    assert watch([50.0], Health(**health.as_json())).bad_in_a_row == 0  # nothing is known yet
    watch([5.0], health)
    assert health.examine(5 + 8.5 * 0.1, 1.0) is None  # rare noise, but little in itself
    assert "jumped from 5.0" in (health.examine(8.0, 1.0) or "")


def test_noise_and_slow_change_pass() -> None:
    generator = random.Random(1)
    watch([8 - 4 * step / 2000 + generator.gauss(0, 0.3) for step in range(2000)])
    watch([2 + 2 * step / 2000 + generator.gauss(0, 0.1) for step in range(2000)])


def test_the_mean_is_plain_at_first_and_then_follows() -> None:
    health = watch([1.0, 2.0, 3.0, 6.0])
    assert health.mean == pytest.approx(3.0)
    assert health.variance == pytest.approx(3.5)
    watch([1.0] * 400, health)
    assert health.mean == pytest.approx(1.0, abs=0.01)


def test_bad_steps_are_counted_in_a_row_and_leave_no_trace_in_the_mean() -> None:
    health = watch([5.0] * 60)
    for number in range(1, BAD_STEPS + 1):
        assert health.examine(math.nan, 1.0)
        assert (health.bad_in_a_row, health.mean) == (number, 5.0)
    watch([5.0], health)
    assert health.bad_in_a_row == 0


def test_going_back_lowers_the_rate_and_begins_anew() -> None:
    health = watch([5.0] * 60)
    health.examine(math.nan, 1.0)
    health.go_back()
    assert (health.rate, health.rollbacks, health.bad_in_a_row, health.seen) == (LOWER_RATE, 1, 0, 0)
    watch([9.0], health)  # what would have been a jump before


def test_what_it_remembers_survives_json() -> None:
    generator = random.Random(2)
    health = watch([generator.uniform(2, 4) for _ in range(77)])
    again = Health(**json.loads(json.dumps(health.as_json())))
    assert again == health


def test_leaps_are_faults_only_where_they_are_feared() -> None:
    health = Health()
    for _ in range(200):
        assert health.examine(0.001, 1.0) is None
    assert health.examine(0.5, 1.0) is not None
    assert health.examine(0.5, 1.0, skip_loss_spikes=False) is None
    assert health.examine(float("nan"), 1.0, skip_loss_spikes=False) is not None
    assert not Finetuning.skip_loss_spikes
    assert Pretraining.skip_loss_spikes
