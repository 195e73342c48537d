"""What stands on top of the encoder: one small module per task.

Each head maps hidden states to scores and knows nothing of loss or labels; those live in `training`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.config import Head, ModelConfig
from litebert.model.attention import gather_rows
from litebert.model.feed_forward import ACTIVATIONS

__all__ = ["HEADS", "AnswerableSpanHead", "Beam", "ClassificationHead", "HeadKind", "MaskedLMHead", "build_head"]


@dataclass(frozen=True)
class HeadKind:
    """What a head needs of the encoder, and the suffix of its class name in transformers (None: has no such class)."""

    pools: bool
    class_suffix: str | None


HEADS: dict[Head, HeadKind] = {
    "none": HeadKind(pools=True, class_suffix="Model"),
    "pretraining": HeadKind(pools=True, class_suffix="ForPreTraining"),
    "masked-lm": HeadKind(pools=False, class_suffix="ForMaskedLM"),
    "sequence-classification": HeadKind(pools=True, class_suffix="ForSequenceClassification"),
    "token-classification": HeadKind(pools=False, class_suffix="ForTokenClassification"),
    "question-answering": HeadKind(pools=False, class_suffix="ForQuestionAnswering"),
    "answerable-question-answering": HeadKind(pools=False, class_suffix=None),
    "multiple-choice": HeadKind(pools=True, class_suffix="ForMultipleChoice"),
}


class MaskedLMHead(nn.Module):
    """Linear H→E, activation, LayerNorm, then the word embeddings themselves as output matrix, plus a bias per word."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """(…, hidden) and the (vocabulary, embedding) table → (…, vocabulary)."""
        return F.linear(self.norm(self.activation(self.dense(hidden))), words, self.bias)


class ClassificationHead(nn.Module):
    """Dropout and a linear map: for sequences (on the pooled state), for tokens, and for the choices of a question."""

    def __init__(self, config: ModelConfig, num_outputs: int) -> None:
        super().__init__()
        self.dropout = config.classifier_dropout
        self.linear = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, states: Tensor) -> Tensor:
        """(…, hidden) → (…, outputs)."""
        return self.linear(F.dropout(states, self.dropout, self.training))  # type: ignore[no-any-return]


class Beam(NamedTuple):
    """The likeliest starts, and for each of them the likeliest ends, as log-probabilities and token positions."""

    start_log_probs: Tensor  # (batch, beam)
    starts: Tensor  # (batch, beam)
    end_log_probs: Tensor  # (batch, beam, beam)
    ends: Tensor  # (batch, beam, beam)


class AnswerableSpanHead(nn.Module):
    """SQuAD 2.0: where the answer starts, where it ends given its start, and whether there is one.

    In training the gold start conditions the end; otherwise the five likeliest starts do, with five ends each.
    """

    beam_size = 5

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

    def start_scores(self, hidden: Tensor, candidates: Tensor | None) -> Tensor:
        """(batch, tokens, hidden) → (batch, tokens); positions that are no candidates get the lowest score."""
        return _only(self.start(hidden).squeeze(-1), candidates)

    def end_scores(self, hidden: Tensor, starts: Tensor, candidates: Tensor | None) -> Tensor:
        """Scores of every end for each start in `starts` (batch, k): (batch, k, tokens)."""
        start_states = gather_rows(hidden, starts)[:, :, None].expand(-1, -1, hidden.shape[1], -1)
        pairs = torch.cat([hidden[:, None].expand_as(start_states), start_states], dim=-1)
        scores = self.end(self.end_norm(torch.tanh(self.end_dense(pairs)))).squeeze(-1)
        return _only(scores, None if candidates is None else candidates[:, None])

    def answerable_scores(self, hidden: Tensor, start_scores: Tensor) -> Tensor:
        """One score per text, above 0 where an answer is likely to exist: (batch,)."""
        expected_start = (start_scores.softmax(-1)[:, None] @ hidden).squeeze(1)
        states = torch.tanh(self.answerable_dense(torch.cat([expected_start, hidden[:, 0]], dim=-1)))
        return self.answerable(F.dropout(states, self.dropout, self.training)).squeeze(-1)  # type: ignore[no-any-return]

    def search(self, hidden: Tensor, start_scores: Tensor, candidates: Tensor | None) -> Beam:
        """Find the likeliest spans: five starts, five ends for each, none of them before its start."""
        width = min(self.beam_size, hidden.shape[1])
        start_log_probs, starts = start_scores.log_softmax(-1).topk(width)
        scores = self.end_scores(hidden, starts, candidates)
        is_before = torch.arange(hidden.shape[1], device=hidden.device) < starts[:, :, None]
        end_log_probs, ends = _only(scores, ~is_before).log_softmax(-1).topk(width)
        return Beam(start_log_probs, starts, end_log_probs, ends)


def _only(scores: Tensor, candidates: Tensor | None) -> Tensor:
    return scores if candidates is None else scores.masked_fill(candidates == 0, torch.finfo(scores.dtype).min)


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
    return nn.ModuleDict(modules)
