"""Self-attention: who may look at whom, and the block that looks.

Masks are worked out once per batch, here: padding, and several sequences packed into one row that must not see each
other. The block itself is post-LN, with one matrix for query, key and value.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import ModelConfig

__all__ = ["SelfAttention", "attention_bias", "gather_rows", "restarting_positions"]


def attention_bias(attention_mask: Tensor | None, sequence_ids: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the attention scores, or None where every token may see every other.

    `attention_mask` is 1 for tokens and 0 for padding: the result is (batch, 1, 1, tokens). `sequence_ids` numbers
    the sequences of a packed row from 1 and has 0 for padding: the result is (batch, 1, tokens, tokens), block by
    block. The bias is a finite number, not -inf, in any precision: a row of nothing but padding must not become NaN.
    """
    if sequence_ids is not None:
        visible = sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]
    elif attention_mask is None or (_may_look(attention_mask) and bool(attention_mask.all())):
        return None
    else:
        visible = attention_mask[:, None, None, :] != 0
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(
        ~visible, max(torch.finfo(dtype).min, -1e30)
    )


def _may_look(mask: Tensor) -> bool:
    """On a CPU a look at the values is free; elsewhere it makes the device wait, and a compiler cannot do it."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling()


def restarting_positions(sequence_ids: Tensor) -> Tensor:
    """Number the tokens of each packed sequence from 0.

    >>> restarting_positions(torch.tensor([[1, 1, 1, 2, 2, 0]])).tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    index = torch.arange(sequence_ids.shape[1], device=sequence_ids.device).expand_as(sequence_ids)
    changes = torch.ones_like(sequence_ids, dtype=torch.bool)
    changes[:, 1:] = sequence_ids[:, 1:] != sequence_ids[:, :-1]
    starts = torch.where(changes, index, 0).cummax(dim=1).values
    return index - starts


def gather_rows(hidden: Tensor, positions: Tensor) -> Tensor:
    """Pick some positions of each sequence: (batch, tokens, size), (batch, k) → (batch, k, size)."""
    return hidden.gather(1, positions[:, :, None].expand(-1, -1, hidden.shape[2]))


class SelfAttention(nn.Module):
    """Multi-head self-attention, then residual and LayerNorm.

    A head weighs what it sees by the softmax of query · key, divided by the root of its size. Where these products are
    112 and 96 and a head has 64 numbers, it looks at the former with a weight of 0.88 and at the latter with 0.12:

    >>> key = torch.tensor([112.0, 96.0]) / 64
    >>> keys = key[None, None, :, None].expand(1, 1, 2, 64)
    >>> shown = torch.eye(2)[None, None]
    >>> weights = F.scaled_dot_product_attention(torch.ones(1, 1, 1, 64), keys, shown).flatten()
    >>> [round(weight, 2) for weight in weights.tolist()]
    [0.88, 0.12]
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.attention_dropout = config.attention_dropout
        self.hidden_dropout = config.hidden_dropout
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor, bias: Tensor | None, keep: Tensor | None = None) -> Tensor:
        """Attend; with `keep` (batch, k) only those positions ask, and only their states come back."""
        if keep is None:
            asking = hidden
            query, key, value = self.qkv(hidden).chunk(3, dim=-1)
        else:
            size = hidden.shape[2]
            asking = gather_rows(hidden, keep)
            query = F.linear(asking, self.qkv.weight[:size], self.qkv.bias[:size])
            key, value = F.linear(hidden, self.qkv.weight[size:], self.qkv.bias[size:]).chunk(2, dim=-1)
        attended = F.scaled_dot_product_attention(
            self._split(query),
            self._split(key),
            self._split(value),
            attn_mask=bias,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        attended = self.output(attended.transpose(1, 2).flatten(2))  # (batch, tokens, hidden)
        return self.norm(asking + F.dropout(attended, self.hidden_dropout, self.training))  # type: ignore[no-any-return]

    def _split(self, states: Tensor) -> Tensor:
        """(batch, tokens, hidden) → (batch, heads, tokens, head size), as a view."""
        return states.view(*states.shape[:2], self.num_heads, -1).transpose(1, 2)
