"""The table of shapes is what the modules have."""

import pytest
import torch

from litebert.config import ModelConfig
from litebert.model.head_kinds import HEADS
from litebert.model.model import Model
from litebert.model.shapes import tensor_shapes
from tests.conftest import small_config

SHAPES: dict[str, ModelConfig] = {
    "all": small_config(),
    "attention": small_config(sharing="attention"),
    "ffn": small_config(sharing="ffn"),
    "groups": small_config(sharing="groups", num_groups=2, num_inner_layers=2),
    "bert": small_config(family="bert", sharing="none", embedding_size=24),
    "square": small_config(embedding_size=24, project_square_embeddings=True),
    "fewer heads": small_config(num_heads=2, head_size=8),
    "labels": small_config(labels=("a", "b", "c")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_those_of_the_modules(shape: str) -> None:
    config = SHAPES[shape]
    for head in HEADS:
        with torch.device("meta"):
            model = Model(config, head)
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        assert tensor_shapes(config, head) == expected
        assert list(tensor_shapes(config, head)) == list(expected)
