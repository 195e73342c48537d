"""What is watched in a run: losses that are let pass or stopped, and means and rates of steps."""

import json
import math
import random

import pytest

from litebert.pretraining.job import Pretraining
from litebert.tasks.finetune import Finetuning
from litebert.training.monitoring import BAD_STEPS, LOWER_RATE, Health, Meter


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


def test_means_are_of_the_steps_that_were_taken_and_rates_of_all_time() -> None:
    meter = Meter(("mlm_loss", "sop_loss"), hardware_rate=1000.0)
    meter.add([4.0, 0.5], tokens=100, operations=600, seconds=1)
    meter.add([2.0, 1.5], tokens=300, operations=600, seconds=1)
    meter.add(None, tokens=200, operations=600, seconds=2)  # skipped: no loss, but it took its time
    assert meter.read() == {
        "loss": 4.0,
        "mlm_loss": 3.0,
        "sop_loss": 1.0,
        "tokens_per_second": 150.0,
        "hardware_share": pytest.approx(0.45),
    }
    assert meter.latest["loss"] == 4.0


def test_a_reading_begins_anew() -> None:
    meter = Meter(("loss_a",), 0.0)
    meter.add([1.0], 1, 1, 1)
    meter.read()
    meter.add([5.0], 1, 1, 1)
    reading = meter.read()
    assert (reading["loss"], reading["hardware_share"]) == (5.0, None)


def test_without_a_step_there_is_no_loss() -> None:
    meter = Meter(("mlm_loss",), 1.0)
    assert meter.read()["loss"] is None
    meter.add(None, 10, 10, 1)
    assert meter.read()["mlm_loss"] is None


def test_sums_can_be_taken_to_another_process() -> None:
    one, other = Meter(("a", "b"), 7.0), Meter(("a", "b"), 7.0)
    one.add([0.1, 0.2], 3, 4, 0.3)
    other.sums = json.loads(json.dumps(one.sums))
    for meter in (one, other):
        meter.add([0.7, 0.9], 5, 6, 0.1)
    assert one.read() == other.read()
