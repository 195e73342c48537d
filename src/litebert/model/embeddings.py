"""From token ids to the first hidden states: the paper's factorized embedding.

Words, positions and token types share the small size E; one linear map takes their sum to the hidden size H.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import ModelConfig
from litebert.errors import RequestError

__all__ = ["Embeddings"]


class Embeddings(nn.Module):
    """word + token type + position → LayerNorm → dropout → linear E→H (only where E ≠ H)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.positions = nn.Embedding(config.max_positions, config.embedding_size)
        self.token_types = nn.Embedding(config.num_token_types, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = config.hidden_dropout
        self.projection = (
            nn.Linear(config.embedding_size, config.hidden_size) if config.projects_embeddings else nn.Identity()
        )

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None, position_ids: Tensor | None) -> Tensor:
        """(batch, tokens) ids → (batch, tokens, hidden)."""
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        self._check(input_ids, token_type_ids, position_ids)
        embedded = self.words(input_ids) + self.token_types(token_type_ids) + self.positions(position_ids)
        embedded = F.dropout(self.norm(embedded), self.dropout, self.training)  # (batch, tokens, embedding)
        return self.projection(embedded)  # type: ignore[no-any-return]

    def _check(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> None:
        """Say what is wrong with ids that the tables do not have; on a CPU, where the look costs nothing."""
        if input_ids.device.type != "cpu" or torch.compiler.is_compiling():
            return
        if not input_ids.numel():
            raise RequestError("there is nothing to read: the batch has no tokens")
        if (last := int(position_ids.max())) >= self.positions.num_embeddings:
            limit = self.positions.num_embeddings
            raise RequestError(f"{last + 1} tokens are too many: this model reads at most {limit} of a sequence")
        for what, ids, table in (("id", input_ids, self.words), ("token type", token_type_ids, self.token_types)):
            for odd in (int(ids.min()), int(ids.max())):
                if not 0 <= odd < table.num_embeddings:
                    raise RequestError(f"the {what} {odd} is not among the model's {table.num_embeddings}")
