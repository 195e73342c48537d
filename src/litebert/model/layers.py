"""The parts of an encoder, in the order in which data passes them: embeddings, self-attention, feed-forward.

Read this file first, then `encoder.py`, which runs these parts, then `heads.py` and `model.py`. Names of sizes:
E is the embedding size, H the hidden size. All blocks are post-LN: residual first, LayerNorm after it.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import Activation, ModelConfig
from litebert.errors import RequestError

__all__ = [
    "ACTIVATIONS",
    "Embeddings",
    "FeedForward",
    "SelfAttention",
    "attention_bias",
    "gather_positions",
    "restarting_positions",
]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


class Embeddings(nn.Module):
    """Token ids become vectors: word + token type + position → LayerNorm → dropout → linear E→H.

    This is the factorized embedding of the paper. The three tables have the small size E, and one linear map takes
    their sum to H. A vocabulary of 30,000 then needs 30,000 · 128 numbers instead of 30,000 · 768. Where E = H there is
    no map.
    """

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
        """(batch, tokens) ids → (batch, tokens, H)."""
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)  # (tokens,)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        self._check(input_ids, token_type_ids, position_ids)
        embedded = self.words(input_ids) + self.token_types(token_type_ids) + self.positions(position_ids)
        embedded = F.dropout(self.norm(embedded), self.dropout, self.training)  # (batch, tokens, E)
        return self.projection(embedded)  # type: ignore[no-any-return]  # (batch, tokens, H)

    def _check(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> None:
        """Refuse ids that the tables do not have; on a CPU only, where reading the values costs nothing."""
        if not _can_read_values(input_ids):
            return
        if not input_ids.numel():
            raise RequestError("there is nothing to read: the batch has no tokens")
        if (last := int(position_ids.max())) >= self.positions.num_embeddings:
            limit = self.positions.num_embeddings
            raise RequestError(f"{last + 1} tokens are too many: this model reads at most {limit} of a sequence")
        for what, ids, table in (("id", input_ids, self.words), ("token type", token_type_ids, self.token_types)):
            for value in (int(ids.min()), int(ids.max())):
                if not 0 <= value < table.num_embeddings:
                    raise RequestError(f"the {what} {value} is not among the model's {table.num_embeddings}")


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


def attention_bias(attention_mask: Tensor | None, sequence_ids: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Turn masks into what is added to the attention scores; None where every token may attend to every other.

    `attention_mask` is 1 for tokens and 0 for padding: the result is (batch, 1, 1, tokens). `sequence_ids` numbers the
    sequences of a packed row from 1 and has 0 for padding: the result is (batch, 1, tokens, tokens), and a token
    attends to its own sequence only. The bias is a large finite number, not -inf: a row of padding alone must not
    become NaN.
    """
    if sequence_ids is not None:
        visible = sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]
    elif attention_mask is None or (_can_read_values(attention_mask) and bool(attention_mask.all())):
        return None
    else:
        visible = attention_mask[:, None, None, :] != 0
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(
        ~visible, max(torch.finfo(dtype).min, -1e30)
    )


def _can_read_values(tensor: Tensor) -> bool:
    """On a CPU reading values is free; another device would have to wait, and a compiler cannot do it."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def gather_positions(states: Tensor, positions: Tensor) -> Tensor:
    """Pick some positions of each sequence: (batch, tokens, size), (batch, k) → (batch, k, size)."""
    return states.gather(1, positions[:, :, None].expand(-1, -1, states.shape[2]))


class SelfAttention(nn.Module):
    """The first half of a layer: tokens look at each other. Multi-head self-attention, residual, LayerNorm.

    Each token makes a query, a key and a value for every head. A head weighs the values by the softmax of query · key,
    divided by the root of the head's size. Where these products are 112 and 96 and a head has 64 numbers, the weights
    are 0.88 and 0.12:

    >>> key = torch.tensor([112.0, 96.0]) / 64
    >>> keys = key[None, None, :, None].expand(1, 1, 2, 64)
    >>> values = torch.eye(2)[None, None]
    >>> weights = F.scaled_dot_product_attention(torch.ones(1, 1, 1, 64), keys, values).flatten()
    >>> [round(weight, 2) for weight in weights.tolist()]
    [0.88, 0.12]
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.attention_dropout = config.attention_dropout
        self.hidden_dropout = config.hidden_dropout
        self.qkv = nn.Linear(config.hidden_size, 3 * config.attention_size)
        self.output = nn.Linear(config.attention_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor, bias: Tensor | None, keep: Tensor | None = None) -> Tensor:
        """(batch, tokens, H) → (batch, tokens, H), or (batch, k, H) for the positions `keep` (batch, k) alone.

        With `keep` only those positions make queries; all tokens still make keys and values.
        """
        if keep is None:
            residual = hidden
            query, key, value = self.qkv(hidden).chunk(3, dim=-1)
        else:
            size = self.output.in_features
            residual = gather_positions(hidden, keep)
            query = F.linear(residual, self.qkv.weight[:size], self.qkv.bias[:size])
            key, value = F.linear(hidden, self.qkv.weight[size:], self.qkv.bias[size:]).chunk(2, dim=-1)
        attended = F.scaled_dot_product_attention(
            self._split(query),
            self._split(key),
            self._split(value),
            attn_mask=bias,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )  # (batch, heads, tokens or k, size of a head)
        attended = self.output(attended.transpose(1, 2).flatten(2))  # (batch, tokens or k, H)
        return self.norm(residual + F.dropout(attended, self.hidden_dropout, self.training))  # type: ignore[no-any-return]

    def _split(self, states: Tensor) -> Tensor:
        """(batch, tokens, heads · size) → (batch, heads, tokens, size), as a view."""
        return states.view(*states.shape[:2], self.num_heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """The second half of a layer: each token by itself. H → 4H → activation → H, residual, LayerNorm.

    Dropout is applied to the result. transformers' ALBERT declares this dropout and never applies it; without training
    both give the same.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.hidden_dropout = config.hidden_dropout
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, H) → (…, H)."""
        transformed = self.down(self.activation(self.up(hidden)))
        return self.norm(hidden + F.dropout(transformed, self.hidden_dropout, self.training))  # type: ignore[no-any-return]
