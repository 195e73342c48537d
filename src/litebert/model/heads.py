"""What stands on top of the encoder: one small module per task.

Each head maps hidden states to logits, or to a vector per text. It knows nothing of losses and labels; those live in
`training`.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import Head, ModelConfig
from litebert.model.head_kinds import BEAM_SIZE
from litebert.model.layers import ACTIVATIONS, gather_positions

__all__ = [
    "AnswerableSpanHead",
    "Beam",
    "ClassificationHead",
    "MaskedLMHead",
    "ReplacedTokenHead",
    "SentenceEmbeddingHead",
    "build_head",
]


class MaskedLMHead(nn.Module):
    """Which token stood here? Linear H→E, activation, LayerNorm, then the word embeddings as output matrix and a bias.

    The output matrix is tied: it is the table of the word embeddings, not a second one of the same size.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, word_table: Tensor) -> Tensor:
        """(…, H) and the word table (vocabulary, E) → (…, vocabulary)."""
        return F.linear(self.norm(self.activation(self.dense(hidden))), word_table, self.bias)


class ReplacedTokenHead(nn.Module):
    """Was this token replaced? A linear map that begins at zero.

    It is a part of training alone: no model folder holds it, and transformers knows no such head.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden_size, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, H) → (…), above 0 where a token is likely to have been replaced."""
        return self.linear(hidden).squeeze(-1)  # type: ignore[no-any-return]


class ClassificationHead(nn.Module):
    """Dropout and a linear map: for texts (on the pooled state), for tokens, and for the options of a question."""

    def __init__(self, config: ModelConfig, num_outputs: int) -> None:
        super().__init__()
        self.dropout = config.classifier_dropout
        self.linear = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, states: Tensor) -> Tensor:
        """(…, H) → (…, outputs)."""
        return self.linear(F.dropout(states, self.dropout, self.training))  # type: ignore[no-any-return]


class SentenceEmbeddingHead(nn.Module):
    """One vector per text: the mean of the hidden states of its tokens, of length 1 if so configured. No parameters.

    >>> head = SentenceEmbeddingHead(ModelConfig())
    >>> head(torch.tensor([[[1.0, 3.0], [3.0, 5.0], [9.0, 9.0]]]), torch.tensor([[1, 1, 0]])).tolist()
    [[2.0, 4.0]]
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.normalize = config.embedding_normalize

    def forward(self, hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
        """(batch, tokens, H) and the mask (batch, tokens) → (batch, H)."""
        mask = hidden.new_ones(hidden.shape[:2]) if attention_mask is None else attention_mask.to(hidden.dtype)
        return self._finish((hidden * mask[:, :, None]).sum(dim=1), mask.sum(dim=1, keepdim=True))

    def embed_packed(self, hidden: Tensor, sequence_ids: Tensor, num_sequences: int) -> Tensor:
        """Vectors of the sequences that share rows, (batch, k, H); zeros where a row holds fewer than k."""
        numbers = torch.arange(1, num_sequences + 1, device=sequence_ids.device)
        mask = (sequence_ids[:, None, :] == numbers[:, None]).float()  # (batch, k, tokens)
        with torch.autocast(hidden.device.type, enabled=False):  # a mean wants all its digits
            return self._finish(mask @ hidden.float(), mask.sum(dim=2, keepdim=True))

    def _finish(self, total: Tensor, counts: Tensor) -> Tensor:
        mean = total / counts.clamp(min=1e-9)  # a row of padding alone gives zeros
        return F.normalize(mean, dim=-1) if self.normalize else mean


class Beam(NamedTuple):
    """The likeliest starts of an answer, and for each of them the likeliest ends: log-probabilities and positions."""

    start_log_probs: Tensor  # (batch, beam)
    starts: Tensor  # (batch, beam)
    end_log_probs: Tensor  # (batch, beam, beam)
    ends: Tensor  # (batch, beam, beam)


class AnswerableSpanHead(nn.Module):
    """SQuAD 2.0: where the answer starts, where it ends given its start, and whether there is one.

    In training the gold start conditions the end; otherwise the five likeliest starts do, with five ends each.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.dropout = config.classifier_dropout
        self.start = nn.Linear(size, 1)
        self.end_dense = nn.Linear(2 * size, size)
        self.end_norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.end = nn.Linear(size, 1)
        self.answerable_dense = nn.Linear(2 * size, size)
        self.answerable = nn.Linear(size, 1)

    def start_logits(self, hidden: Tensor, candidates: Tensor | None) -> Tensor:
        """(batch, tokens, H) → (batch, tokens); positions that are no candidates get the lowest number."""
        return _only(self.start(hidden).squeeze(-1), candidates)

    def end_logits(self, hidden: Tensor, starts: Tensor, candidates: Tensor | None) -> Tensor:
        """Logits of every end for each start in `starts` (batch, k): (batch, k, tokens)."""
        start_states = gather_positions(hidden, starts)[:, :, None].expand(-1, -1, hidden.shape[1], -1)
        pairs = torch.cat([hidden[:, None].expand_as(start_states), start_states], dim=-1)  # (batch, k, tokens, 2H)
        logits = self.end(self.end_norm(torch.tanh(self.end_dense(pairs)))).squeeze(-1)
        return _only(logits, None if candidates is None else candidates[:, None])

    def answerable_logits(self, hidden: Tensor, start_logits: Tensor) -> Tensor:
        """One logit per text, above 0 where an answer is likely to exist: (batch,)."""
        expected_start = (start_logits.softmax(-1)[:, None] @ hidden).squeeze(1)  # (batch, H)
        states = torch.tanh(self.answerable_dense(torch.cat([expected_start, hidden[:, 0]], dim=-1)))
        return self.answerable(F.dropout(states, self.dropout, self.training)).squeeze(-1)  # type: ignore[no-any-return]

    def search(self, hidden: Tensor, start_logits: Tensor, candidates: Tensor | None) -> Beam:
        """Find the likeliest spans: five starts, five ends for each, none of them before its start."""
        width = min(BEAM_SIZE, hidden.shape[1])
        start_log_probs, starts = start_logits.log_softmax(-1).topk(width)
        end_logits = self.end_logits(hidden, starts, candidates)
        is_before = torch.arange(hidden.shape[1], device=hidden.device) < starts[:, :, None]
        end_log_probs, ends = _only(end_logits, ~is_before).log_softmax(-1).topk(width)
        return Beam(start_log_probs, starts, end_log_probs, ends)


def _only(logits: Tensor, candidates: Tensor | None) -> Tensor:
    """Give all that are no candidates the lowest number."""
    return logits if candidates is None else logits.masked_fill(candidates == 0, torch.finfo(logits.dtype).min)


def build_head(config: ModelConfig, head: Head) -> nn.ModuleDict:
    """Make the modules of a head, by the names that they have in memory and in our own files."""
    match head:
        case "none":
            modules: dict[str, nn.Module] = {}
        case "pretraining":
            modules = {"masked_lm": MaskedLMHead(config), "sentence": nn.Linear(config.hidden_size, 2)}
        case "masked-lm":
            modules = {"masked_lm": MaskedLMHead(config)}
        case "sequence-classification" | "token-classification":
            modules = {"classifier": ClassificationHead(config, config.num_labels)}
        case "multiple-choice":
            modules = {"classifier": ClassificationHead(config, 1)}
        case "question-answering":
            modules = {"spans": nn.Linear(config.hidden_size, 2)}
        case "answerable-question-answering":
            modules = {"answerable_spans": AnswerableSpanHead(config)}
        case "sentence-embedding":
            modules = {"embedding": SentenceEmbeddingHead(config)}
    return nn.ModuleDict(modules)
