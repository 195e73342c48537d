"""Heads of their own size: fewer heads than the hidden size has room for, as in models that lost some."""

from typing import Any

import pytest
import torch

from litebert.config import ModelConfig
from litebert.model.cost import count_encoder_parameters, forward_flops
from litebert.model.hf.names import is_expressible
from litebert.model.model import Model
from tests.conftest import small_config, small_inputs

SHAPES: list[dict[str, Any]] = [
    {"num_heads": 2, "head_size": 8},
    {"num_heads": 5, "head_size": 3, "sharing": "none"},
    {"num_heads": 3, "head_size": 16, "family": "bert", "sharing": "none", "embedding_size": 24},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_a_model_costs_is_counted(shape: dict[str, Any]) -> None:
    config = small_config(**shape)
    assert sum(p.numel() for p in Model(config).parameters()) == count_encoder_parameters(config)
    more = config.updated(num_heads=config.num_heads + 4)
    assert forward_flops(more, 32) - forward_flops(config, 32) == pytest.approx(
        config.num_layers * 4 * (config.head_size or 0) * (8 * config.hidden_size + 4 * 32)
    )


def test_transformers_cannot_hold_them() -> None:
    assert is_expressible(small_config())
    for shape in SHAPES:
        assert not is_expressible(small_config(**shape))
        assert not is_expressible(small_config(**shape), expand_sharing=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_last_layer_may_keep_some_positions(shape: dict[str, Any]) -> None:
    config = small_config(**shape)
    encoder, inputs = Model(config).eval().encoder, small_inputs(config)
    keep = torch.tensor([[0, 4], [1, 0], [10, 3]])
    with torch.inference_mode():
        every, some = encoder(**inputs), encoder(**inputs, keep=keep)
    torch.testing.assert_close(some, torch.stack([row[at] for row, at in zip(every, keep, strict=True)]))


def take_heads(model: Model, heads: list[int]) -> Model:
    """A model with some of the heads of another."""
    config = model.config
    size = config.hidden_size // config.num_heads
    kept = torch.cat([torch.arange(head * size, (head + 1) * size) for head in heads])
    fewer = Model(config.updated(num_heads=len(heads), head_size=size), model.head).eval()
    tensors = model.state_dict()
    for name in tensors:
        if ".qkv." in name:
            tensors[name] = torch.cat([third[kept] for third in tensors[name].chunk(3)])
        elif ".attention." in name and name.endswith("output.weight"):
            tensors[name] = tensors[name][:, kept]
    fewer.load_state_dict(tensors)
    return fewer


@pytest.mark.parametrize("config", [small_config(), small_config(sharing="none")], ids=["albert", "unshared"])
def test_a_head_that_adds_nothing_can_go(config: ModelConfig) -> None:
    model, inputs = Model(config).eval(), small_inputs(config)
    size = config.hidden_size // config.num_heads
    with torch.no_grad():
        for block in model.encoder.attention:
            block.output.weight[:, size : 2 * size] = 0  # type: ignore[union-attr,operator]
    fewer = take_heads(model, [0, 2])
    with torch.inference_mode():
        found, expected = fewer(**inputs).last_hidden_state, model(**inputs).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
