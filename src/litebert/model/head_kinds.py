"""The heads that a model can have: what each needs of the encoder, and what transformers calls it. Without torch."""

from dataclasses import dataclass

from litebert.config import Head

__all__ = ["BEAM_SIZE", "EXIT_HEADS", "HEADS", "HeadKind"]

BEAM_SIZE = 5
"""How many starts of an answer the head for SQuAD 2.0 follows, and how many ends of each."""

EXIT_HEADS: tuple[Head, ...] = ("sequence-classification", "multiple-choice", "question-answering")
"""Heads whose answers tell how certain they are, so that they may be given before the last pass."""


@dataclass(frozen=True)
class HeadKind:
    """What a head needs of the encoder, and what transformers calls it."""

    pools: bool
    """Whether the model has a pooler."""
    class_suffix: str | None
    """How the name of its class in transformers ends; None where transformers has no such class."""


HEADS: dict[Head, HeadKind] = {
    "none": HeadKind(pools=True, class_suffix="Model"),
    "pretraining": HeadKind(pools=True, class_suffix="ForPreTraining"),
    "masked-lm": HeadKind(pools=False, class_suffix="ForMaskedLM"),
    "sequence-classification": HeadKind(pools=True, class_suffix="ForSequenceClassification"),
    "token-classification": HeadKind(pools=False, class_suffix="ForTokenClassification"),
    "question-answering": HeadKind(pools=False, class_suffix="ForQuestionAnswering"),
    "answerable-question-answering": HeadKind(pools=False, class_suffix=None),
    "multiple-choice": HeadKind(pools=True, class_suffix="ForMultipleChoice"),
    # The pooler is not used here; it stays because transformers' plain encoder, which this is on disk, has one.
    "sentence-embedding": HeadKind(pools=True, class_suffix="Model"),
}
