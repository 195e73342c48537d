"""The encoder: embeddings, then the layers of the plan, then the pooler.

One class is every ALBERT and every BERT of the paper. It owns each distinct block once and follows the plan of
`sharing.py`. The number of layers is an argument of the call, not a property of the weights.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.layers import (
    Embeddings,
    FeedForward,
    SelfAttention,
    attention_bias,
    gather_positions,
    restarting_positions,
)
from litebert.model.lean.stack import can_run_lean, run_lean
from litebert.model.sharing import block_counts, layer_plan

__all__ = ["Encoder"]


class Encoder(nn.Module):
    """Token ids in, hidden states out."""

    def __init__(self, config: ModelConfig, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.recompute = False
        """Keep only each layer's input for the backward pass and compute the rest again: less memory, more time."""
        num_attention, num_feed_forward = block_counts(config)
        self.embeddings = Embeddings(config)
        self.attention = nn.ModuleList(SelfAttention(config) for _ in range(num_attention))
        self.feed_forward = nn.ModuleList(FeedForward(config) for _ in range(num_feed_forward))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if pooler else None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        keep: Tensor | None = None,
        depth: int | None = None,
        stop_after: int | None = None,
    ) -> Tensor:
        """Return the last hidden states: (batch, tokens, H), or (batch, k, H) at the positions `keep`.

        `keep` (batch, k) names the positions whose final states are wanted. The last layer then computes only those:
        of the other positions it needs nothing but keys and values. `stop_after` runs so many layers of the plan, and
        no more.
        """
        if position_ids is None and sequence_ids is not None:
            position_ids = restarting_positions(sequence_ids)
        hidden = self.embeddings(input_ids, token_type_ids, position_ids)  # (batch, tokens, H)
        bias = attention_bias(attention_mask, sequence_ids, hidden.dtype)
        plan = layer_plan(self.config, depth)[:stop_after]
        _check_positions(keep, input_ids.shape[1])
        if can_run_lean(self, hidden):  # training without dropout: the same numbers, faster
            return run_lean(self, hidden, bias, plan, keep)[-1]
        for attention, feed_forward in plan[:-1]:
            hidden = self._run_layer(attention, feed_forward, hidden, bias)
        if keep is not None and bias is not None and bias.shape[2] > 1:
            bias = gather_positions(bias[:, 0], keep)[:, None]  # (batch, 1, k, tokens)
        return self._run_layer(*plan[-1], hidden, bias, keep)

    @torch.no_grad()
    def begin_with(self, other: "Encoder") -> None:
        """Take the weights of an encoder of this shape; of one with other layers, what it runs at this depth."""
        blocks = ("attention.", "feed_forward.")
        tensors = {name: tensor for name, tensor in other.state_dict().items() if not name.startswith(blocks)}
        plans = zip(layer_plan(self.config), layer_plan(other.config, self.config.num_layers), strict=True)
        for own, others in plans:
            for prefix, number, source in zip(blocks, own, others, strict=True):
                block = getattr(other, prefix[:-1])[source].state_dict()
                tensors |= {f"{prefix}{number}.{name}": tensor for name, tensor in block.items()}
        self.load_state_dict(tensors)

    def passes(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        sequence_ids: Tensor | None = None,
        depth: int | None = None,
    ) -> Iterator[Tensor]:
        """The hidden states after each layer, (batch, tokens, H): one run shows every depth up to the last.

        With groups of layers, states on the way are not those of a shallower model: its groups are cut otherwise.
        """
        positions = None if sequence_ids is None else restarting_positions(sequence_ids)
        hidden = self.embeddings(input_ids, token_type_ids, positions)
        bias = attention_bias(attention_mask, sequence_ids, hidden.dtype)
        plan = layer_plan(self.config, depth)
        if can_run_lean(self, hidden):
            yield from run_lean(self, hidden, bias, plan)
            return
        for attention, feed_forward in plan:
            hidden = self._run_layer(attention, feed_forward, hidden, bias)
            yield hidden

    def pool(self, first: Tensor) -> Tensor:
        """Summarise sequences by the state of their first token: tanh of a linear map, (…, H) → (…, H)."""
        assert self.pooler is not None, "this head has no pooler"
        return torch.tanh(self.pooler(first))

    def _run_layer(
        self, attention: int, feed_forward: int, hidden: Tensor, bias: Tensor | None, keep: Tensor | None = None
    ) -> Tensor:
        def run(hidden: Tensor) -> Tensor:
            attended = self.attention[attention](hidden, bias, keep)
            return self.feed_forward[feed_forward](attended)  # type: ignore[no-any-return]

        if self.recompute and torch.is_grad_enabled():
            return checkpoint(run, hidden, use_reentrant=False)  # type: ignore[no-any-return]
        return run(hidden)


def _check_positions(keep: Tensor | None, num_tokens: int) -> None:
    """Refuse positions that do not exist; on a CPU only, where reading the values costs nothing."""
    if keep is None or keep.device.type != "cpu" or torch.compiler.is_compiling() or not keep.numel():
        return
    if int(keep.min()) < 0 or int(keep.max()) >= num_tokens:
        raise RequestError(f"positions must lie between 0 and {num_tokens - 1}")
