"""Configurations are frozen, strict and consistent."""

import pytest
from pydantic import ValidationError

from litebert.config import ModelConfig
from litebert.errors import RequestError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 100}, "multiple of num_heads"),
        ({"head_size": 64}, "leave it out"),
        ({"head_size": 131_072, "num_heads": 1024}, "parameters cannot be"),
        ({"num_groups": 2}, 'need sharing="groups"'),
        ({"sharing": "groups", "num_groups": 13}, "must not exceed num_layers"),
        ({"project_square_embeddings": True}, "embedding_size = hidden_size"),
        ({"pad_token_id": 30_000}, "below vocab_size"),
        ({"hidden_size": "768"}, "valid integer"),
        ({"colour": "red"}, "Extra inputs|no setting colour"),
        ({"sharing": "some"}, "Input should be"),
        ({"hidden_dropout": 1.0}, "less than 1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelConfig(**changes)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=message):
        ModelConfig().updated(**changes)


def test_a_config_cannot_change() -> None:
    config = ModelConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.num_layers = 3
    assert config.updated(num_layers=3).num_layers == 3
    assert config.num_layers == 12


def test_heads_of_their_own_size() -> None:
    config = ModelConfig(num_heads=5, head_size=64)  # 768 is no multiple of 5
    assert config.attention_size == 320
    assert config.model_dump()["head_size"] == 64
    assert ModelConfig().attention_size == 768
    assert "head_size" not in ModelConfig().model_dump()
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config
