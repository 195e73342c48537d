"""What tests share: small shapes, and inputs with padding and token types."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.config import ModelConfig

torch.set_num_threads(1)  # the runner already uses every core


def small_config(**changes: Any) -> ModelConfig:
    """An encoder that runs in milliseconds and has no two sizes alike."""
    shape: dict[str, Any] = {
        "vocab_size": 97,
        "embedding_size": 12,
        "hidden_size": 24,
        "num_heads": 3,
        "intermediate_size": 40,
        "num_layers": 4,
        "max_positions": 48,
        "initializer_range": 0.2,
    }
    return ModelConfig(**{**shape, **changes})


def small_inputs(config: ModelConfig, batch: int = 3, tokens: int = 17, seed: int = 0) -> dict[str, Tensor]:
    """Random ids with padding at the end of all rows but the first, and two token types."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, config.vocab_size, (batch, tokens), generator=generator)
    mask = torch.ones_like(ids)
    types = torch.zeros_like(ids)
    for row in range(batch):
        length = tokens - 3 * row
        mask[row, length:] = 0
        ids[row, length:] = config.pad_token_id
        types[row, length // 2 : length] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


@pytest.fixture
def real_data() -> Path:
    """The folder of real data that LITEBERT_DATA names (see CONTRIBUTING.md), or a skip."""
    folder = Path(os.environ.get("LITEBERT_DATA", ""))
    if not os.environ.get("LITEBERT_DATA") or not folder.is_dir():
        pytest.skip("needs real data: set LITEBERT_DATA to a folder as CONTRIBUTING.md describes it")
    return folder
