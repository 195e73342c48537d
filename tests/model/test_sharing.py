"""Which layer uses which block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.sharing import block_counts, layer_plan, max_depth


def config(**changes: object) -> ModelConfig:
    return ModelConfig(**changes)  # type: ignore[arg-type]


def test_each_strategy() -> None:
    assert layer_plan(config(num_layers=3, sharing="all")) == [(0, 0)] * 3
    assert layer_plan(config(num_layers=3, sharing="attention")) == [(0, 0), (0, 1), (0, 2)]
    assert layer_plan(config(num_layers=3, sharing="ffn")) == [(0, 0), (1, 0), (2, 0)]
    assert layer_plan(config(num_layers=3, sharing="none")) == [(0, 0), (1, 1), (2, 2)]


def test_inner_layers_run_one_after_the_other() -> None:
    plan = layer_plan(config(num_layers=2, sharing="groups", num_groups=2, num_inner_layers=2))
    assert plan == [(0, 0), (1, 1), (2, 2), (3, 3)]
    plan = layer_plan(config(num_layers=2, sharing="groups", num_groups=1, num_inner_layers=2))
    assert plan == [(0, 0), (1, 1), (0, 0), (1, 1)]


@given(st.integers(1, 60), st.integers(1, 60))
def test_groups_are_contiguous_and_all_used(num_layers: int, num_groups: int) -> None:
    if num_groups > num_layers:
        return
    groups = [a for a, _ in layer_plan(config(num_layers=num_layers, sharing="groups", num_groups=num_groups))]
    assert groups == sorted(groups)
    assert set(groups) == set(range(num_groups))
    sizes = [groups.count(group) for group in range(num_groups)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 12), st.sampled_from(["all", "attention", "ffn", "none"]), st.integers(1, 24))
def test_depth_never_leaves_the_blocks(num_layers: int, sharing: str, depth: int) -> None:
    shape = config(num_layers=num_layers, sharing=sharing)
    num_attention, num_ffn = block_counts(shape)
    if depth > max_depth(shape):
        with pytest.raises(RequestError, match="depth must be between"):
            layer_plan(shape, depth)
        return
    plan = layer_plan(shape, depth)
    assert len(plan) == depth
    assert all(a < num_attention and f < num_ffn for a, f in plan)


def test_shared_layers_run_to_twice_the_depth() -> None:
    assert max_depth(config(num_layers=6)) == 12
    assert max_depth(config(num_layers=6, sharing="none")) == 6
