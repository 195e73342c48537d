"""Means and rates of the steps since the last reading."""

import json

import pytest

from litebert.training.monitoring import Meter


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
