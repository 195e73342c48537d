"""Verdicts follow from intervals that are paired over seeds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.lab.experiment import Finding
from litebert.lab.findings import judge

BETTER = Finding(claim="a is better", metric="m", contrast={"a": 1.0, "b": -1.0}, above=0.0)
values = st.lists(st.floats(-1, 1), min_size=2, max_size=6)


def test_a_difference_that_all_seeds_have_holds_though_seeds_differ_more() -> None:
    found = judge(BETTER, {"a": {0: 0.11, 1: 0.52, 2: 0.91}, "b": {0: 0.10, 1: 0.51, 2: 0.90}})
    assert (found.outcome, found.seeds) == ("holds", 3)
    assert found.mean == pytest.approx(0.01)


def test_the_interval_is_students() -> None:
    found = judge(BETTER, {"a": {0: 0.01, 1: 0.02, 2: 0.03}, "b": dict.fromkeys(range(3), 0.0)})
    reach = 4.302653 * 0.01 / 3**0.5
    assert (found.low, found.high) == pytest.approx((0.02 - reach, 0.02 + reach), abs=1e-6)
    assert found.outcome == "open"  # from below 0 to above


def test_one_seed_allows_no_claim() -> None:
    found = judge(BETTER, {"a": {0: 1.0}, "b": {0: 0.0}})
    assert (found.outcome, found.mean, found.low) == ("open", 1.0, None)


def test_only_seeds_that_all_cells_have_count() -> None:
    found = judge(BETTER, {"a": {0: 0.1, 1: 0.2, 2: 0.3}, "b": {1: 0.1, 2: 0.2}})
    assert found.seeds == 2
    assert judge(BETTER, {"a": {0: 0.1}, "b": {}}).reason == "not all of its cells are done"


def test_near_chance() -> None:
    chance = Finding(claim="near chance", metric="m", contrast={"a": 1.0}, minus=0.5, within=0.03)
    assert judge(chance, {"a": {0: 0.501, 1: 0.499, 2: 0.502}}).outcome == "holds"
    assert judge(chance, {"a": {0: 0.601, 1: 0.599, 2: 0.602}}).outcome == "does not hold"
    assert judge(chance, {"a": {0: 0.47, 1: 0.56, 2: 0.50}}).outcome == "open"


@given(values)
def test_a_claim_and_its_opposite_never_both_hold(differences: list[float]) -> None:
    cells = {"a": dict(enumerate(differences)), "b": dict.fromkeys(range(len(differences)), 0.0)}
    opposite = Finding(claim="b is better", metric="m", contrast={"a": -1.0, "b": 1.0}, above=0.0)
    outcomes = {judge(BETTER, cells).outcome, judge(opposite, cells).outcome}
    assert outcomes != {"holds"}
