"""The other half of a layer: each token by itself through a wider space and back."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import Activation, ModelConfig

__all__ = ["ACTIVATIONS", "FeedForward"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """H → 4H → H, then residual and LayerNorm. Dropout is applied (transformers declares it and forgets it)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.hidden_dropout = config.hidden_dropout
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each token: (…, hidden) → (…, hidden)."""
        transformed = self.down(self.activation(self.up(hidden)))
        return self.norm(hidden + F.dropout(transformed, self.hidden_dropout, self.training))  # type: ignore[no-any-return]
