"""`Batch`: what passes from the rooms that make examples to the model.

`corpus` and `tasks` build batches, `model` takes them; they know nothing else of each other.
"""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["NO_LABEL", "Batch"]

NO_LABEL = -100
"""The label of a position that has none; losses ignore it."""


@dataclass(frozen=True)
class Batch:
    """Token ids and the targets that belong to them. Only `input_ids` is always there.

    In a multiple choice each option is a row: ids, mask and types are (batch, options, tokens).
    """

    input_ids: "Tensor"  # (batch, tokens)
    attention_mask: "Tensor | None" = None  # (batch, tokens): 1 token, 0 padding
    token_type_ids: "Tensor | None" = None  # (batch, tokens)
    sequence_ids: "Tensor | None" = None  # (batch, tokens): packed rows, sequences numbered from 1, padding 0
    sequence_starts: "Tensor | None" = None  # (batch, k): where the packed sequences begin, padded with -1
    masked_positions: "Tensor | None" = None  # (batch, k): positions to predict, padded with -1
    masked_labels: "Tensor | None" = None  # (batch, k): the tokens that stood there, padded with NO_LABEL
    replaced_labels: "Tensor | None" = (
        None  # (batch, tokens): 1 replaced, 0 as it stood, NO_LABEL where masked or special
    )
    sentence_labels: "Tensor | None" = None  # (batch,) or (batch, k): 0 in order, 1 swapped, NO_LABEL
    labels: "Tensor | None" = None  # (batch,) classes or numbers, (batch, classes) 0 or 1, (batch, tokens) tags
    start_positions: "Tensor | None" = None  # (batch,): the first token of the answer, 0 if there is none, NO_LABEL
    end_positions: "Tensor | None" = None  # (batch,): the last one
    answer_mask: "Tensor | None" = None  # (batch, tokens): 1 where an answer may begin or end

    def inputs(self) -> "dict[str, Tensor]":
        """The tensors that a model takes, by the names of its arguments."""
        targets = ("masked_labels", "replaced_labels", "sentence_labels", "labels", "end_positions")
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in targets}
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def token_labels(self) -> "Tensor":
        """The masked tokens in the form of transformers: (batch, tokens), NO_LABEL at all other positions."""
        assert self.masked_positions is not None
        assert self.masked_labels is not None
        labels = self.input_ids.new_full(self.input_ids.shape, NO_LABEL)
        rows, columns = (self.masked_positions >= 0).nonzero(as_tuple=True)
        labels[rows, self.masked_positions[rows, columns]] = self.masked_labels[rows, columns]
        return labels

    @property
    def num_tokens(self) -> int:
        """Real tokens, without padding."""
        mask = self.sequence_ids if self.sequence_ids is not None else self.attention_mask
        return self.input_ids.numel() if mask is None else int((mask != 0).sum())

    def to(self, device: "torch.device | str") -> "Batch":
        """The same batch on another device."""
        moved: dict[str, Any] = {
            field.name: value.to(device, non_blocking=True)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return replace(self, **moved)
