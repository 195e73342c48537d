"""ALBERTs that are built differently, brought to the form of ours.

brightmart's Chinese models (albert_zh) factorize the word embeddings alone: a word is looked up at size E, mapped to H
by `word_embeddings_2` (no bias), and only then meets positions and token types of size H. Multiplying the word table
with that map once gives an ordinary ALBERT with E = H and the same outputs, input and output side alike.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from litebert.errors import FolderError

__all__ = ["fold_word_factorization", "is_word_factorized"]

_WORDS = "bert.embeddings.word_embeddings.weight"
_MAP = "bert.embeddings.word_embeddings_2.weight"
_LARGEST_TABLE = 10**9
_UNUSED = ("cls.predictions.project_layer.weight", "cls.predictions.decoder.weight")
_LAYER = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
}
_PREFIXES = {
    "bert.embeddings.": "albert.embeddings.",
    "bert.pooler.dense.": "albert.pooler.",
    "cls.predictions.transform.": "predictions.",
    "cls.predictions.": "predictions.",
    "cls.seq_relationship.": "sop_classifier.classifier.",
}


def is_word_factorized(tensors: Mapping[str, Tensor]) -> bool:
    """Say whether these are weights of brightmart's variant."""
    return _MAP in tensors


def fold_word_factorization(
    raw: dict[str, Any], tensors: Mapping[str, Tensor], file: Path
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config and tensors of the ordinary ALBERT that computes the same."""
    vocab_size, embedding_size, hidden_size = (raw.get(k) for k in ("vocab_size", "embedding_size", "hidden_size"))
    shapes = [tuple(tensors[name].shape) if name in tensors else None for name in (_WORDS, _MAP)]
    if shapes != [(vocab_size, embedding_size), (hidden_size, embedding_size)]:
        raise FolderError(f"{file}: word_embeddings and word_embeddings_2 do not fit together and to config.json")
    if not isinstance(hidden_size, int) or not isinstance(vocab_size, int) or vocab_size * hidden_size > _LARGEST_TABLE:
        raise FolderError(f"{file}: the word table would become too large")
    folded = {
        "albert.embeddings.word_embeddings.weight": tensors[_WORDS] @ tensors[_MAP].T,
        "albert.encoder.embedding_hidden_mapping_in.weight": torch.eye(hidden_size),
        "albert.encoder.embedding_hidden_mapping_in.bias": torch.zeros(hidden_size),
    }
    for name, tensor in tensors.items():
        if name not in (_WORDS, _MAP, *_UNUSED):
            folded[_rename(name)] = tensor
    return {**raw, "model_type": "albert", "embedding_size": hidden_size}, folded


def _rename(name: str) -> str:
    layer, kind = "bert.encoder.layer_shared.", name.rpartition(".")[2]
    if name.startswith(layer):
        part = name.removeprefix(layer).removesuffix(f".{kind}")
        return f"albert.encoder.albert_layer_groups.0.albert_layers.0.{_LAYER.get(part, part)}.{kind}"
    for old, new in _PREFIXES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
