"""What the recipe for a budget settles: how depth grows, and when segments begin to be compared."""

import pytest

from litebert.presets import preset_config
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.training.config import Stage


def spent(stages: tuple[Stage, ...], seconds: float) -> dict[int | None, float]:
    """Seconds at each depth."""
    begins = [0.0, *(stage.until for stage in stages)]
    found: dict[int | None, float] = {}
    for begin, stage in zip(begins, stages, strict=False):
        found[stage.depth] = found.get(stage.depth, 0.0) + (stage.until - begin) * seconds
    return found


def test_a_short_run_spends_as_long_at_every_depth() -> None:
    found = spent(budget_run(preset_config("albert-mini"), 600.0).train.stages, 600.0)
    assert found == pytest.approx({1: 150.0, 2: 150.0, 3: 150.0, 6: 150.0})


def test_layers_of_their_own_grow_like_shared_ones() -> None:
    shared = preset_config("albert-mini")
    own = shared.updated(sharing="none")
    assert budget_run(own, 600.0).train.stages == budget_run(shared, 600.0).train.stages
    attention = shared.updated(sharing="attention")  # neither: its new layers would have half of their weights
    assert budget_run(attention, 600.0).train.stages[0].depth is None


def test_a_long_run_spends_most_of_its_time_at_full_depth() -> None:
    found = spent(budget_run(preset_config("albert-mini"), 10_800.0).train.stages, 10_800.0)
    assert found == pytest.approx({1: 600.0, 2: 1200.0, 3: 1800.0, 6: 7200.0})


@pytest.mark.parametrize("name", ["albert-micro", "albert-mini", "bert-mini"])
def test_the_last_tenth_begins_with_a_head_that_compares_where_there_are_pairs(name: str) -> None:
    for steps in (None, 100):
        stages = budget_run(preset_config(name), None if steps else 90.0, steps).train.stages
        assert [stage.matching_head for stage in stages] == [*[None] * (len(stages) - 1), True]
        assert stages[-2].until == 0.9
        assert stages[-1].depth == stages[-2].depth
    alone = budget_run(preset_config(name), 90.0, pairs="none").train.stages
    assert all(stage.matching_head is None for stage in alone)


def test_a_budget_asks_what_belongs_together_and_the_paper_for_the_order() -> None:
    assert budget_run(preset_config("albert-mini"), 90.0).stream.pairs == "nsp"
    assert paper_run(preset_config("albert-mini")).stream.pairs == "sop"
    assert paper_run(preset_config("albert-mini")).train.stages == (Stage(),)
