"""The model card: what a folder is, for people and for the hub that reads its first lines."""

from litebert.config import Head, ModelConfig
from litebert.model.cost import count_encoder_parameters
from litebert.model.heads import HEADS

__all__ = ["CARD", "is_generated", "render_card"]

CARD = "README.md"
_MARK = "<!-- Written by litebert; edit it and remove this line, and it is kept. -->"

_PIPELINES: dict[Head, str] = {
    "none": "feature-extraction",
    "pretraining": "fill-mask",
    "masked-lm": "fill-mask",
    "sequence-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "answerable-question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
}


def is_generated(content: bytes) -> bool:
    """Say whether a card is one of ours, unchanged in name, that a new save may replace."""
    return _MARK.encode() in content


def render_card(config: ModelConfig, head: Head, note: str = "", about: str = "") -> str:
    """Write a card with what is known now; `about` is what training and evaluation add, in Markdown."""
    kind = {"albert": "ALBERT", "bert": "BERT"}[config.family]
    suffix = HEADS[head].class_suffix
    rows = {
        "encoder parameters": f"{count_encoder_parameters(config):,}",
        "layers × hidden size": f"{config.num_layers} × {config.hidden_size}",
        "embedding size": str(config.embedding_size),
        "sharing across layers": config.sharing,
        "vocabulary": f"{config.vocab_size:,}",
        "longest input": f"{config.max_positions} tokens",
        "head": head,
    }
    if config.labels:
        rows["labels"] = ", ".join(config.labels[:20]) + (" …" if len(config.labels) > 20 else "")
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    opens = f"`transformers.{config.family.capitalize()}{suffix}`" if suffix and not note else ""
    intro = f"{note}\n\n" if note else ""
    also = f" {opens} opens it too." if opens else ""
    return f"""---
library_name: litebert
pipeline_tag: {_PIPELINES[head]}
tags:
- {config.family}
- litebert
---

{_MARK}

# {kind}, {config.num_layers} layers of {config.hidden_size}

{intro}Saved by litebert. Open it with `litebert.Model.from_pretrained(folder)`.{also}

| | |
|-|-|
{table}
{about and chr(10) + about}"""
