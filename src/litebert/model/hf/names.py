"""One table between our tensor names and those of transformers.

In memory a layer has one `qkv` matrix and a shared tensor exists once; on disk the names are transformers' own. The
table maps each name on disk to a tensor in memory, or to a third of one. Nothing else knows foreign names.

The last part brings ALBERTs that are built differently to the form of ours.
"""

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.config import Head, ModelConfig
from litebert.errors import FolderError
from litebert.model.head_kinds import HEADS
from litebert.model.sharing import layer_plan

__all__ = [
    "Source",
    "canonical_name",
    "disk_table",
    "export_tensors",
    "fold_word_factorization",
    "folded_config",
    "import_tensors",
    "is_expressible",
    "is_word_factorized",
    "known_names",
]


Array = NDArray[Any]


class Source(NamedTuple):
    """Where a tensor on disk comes from: a tensor in memory, or one third of a `qkv`."""

    name: str
    third: int | None = None


_IDENTITY = "(identity)"
"""Stands for the projection that transformers' ALBERT always has and ours has only where it does something."""

_ALBERT_LAYER = {
    "attention.dense": "attention.{a}.output",
    "attention.LayerNorm": "attention.{a}.norm",
    "ffn": "feed_forward.{f}.up",
    "ffn_output": "feed_forward.{f}.down",
    "full_layer_layer_norm": "feed_forward.{f}.norm",
}
_BERT_LAYER = {
    "attention.output.dense": "attention.{a}.output",
    "attention.output.LayerNorm": "attention.{a}.norm",
    "intermediate.dense": "feed_forward.{f}.up",
    "output.dense": "feed_forward.{f}.down",
    "output.LayerNorm": "feed_forward.{f}.norm",
}
_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "embeddings.words.weight",
    "embeddings.position_embeddings.weight": "embeddings.positions.weight",
    "embeddings.token_type_embeddings.weight": "embeddings.token_types.weight",
    "embeddings.LayerNorm.weight": "embeddings.norm.weight",
    "embeddings.LayerNorm.bias": "embeddings.norm.bias",
}
_MASKED_LM = {
    "albert": {"predictions.dense": "dense", "predictions.LayerNorm": "norm"},
    "bert": {"cls.predictions.transform.dense": "dense", "cls.predictions.transform.LayerNorm": "norm"},
}
_PREDICTIONS = {"albert": "predictions", "bert": "cls.predictions"}
_SENTENCE = {"albert": "sop_classifier.classifier", "bert": "cls.seq_relationship"}
_ANSWERABLE = ("start", "end_dense", "end_norm", "end", "answerable_dense", "answerable")


def is_expressible(config: ModelConfig, expand_sharing: bool = False) -> bool:
    """Say whether transformers' classes can hold this encoder."""
    if config.head_size is not None:
        return False
    if config.family == "bert":
        return (config.sharing == "none" or expand_sharing) and not config.projects_embeddings
    if config.sharing == "groups":  # transformers finds a layer's group by floats, which goes wrong for some counts
        layers, groups = config.num_layers, config.num_groups
        routed_alike = all(int(i / (layers / groups)) == i * groups // layers for i in range(layers))
        return routed_alike or (expand_sharing and config.num_inner_layers == 1)
    return config.sharing in ("all", "none") or expand_sharing


def disk_table(config: ModelConfig, head: Head, expand_sharing: bool = False) -> dict[str, Source]:
    """Map each name on disk, without the leading `albert.` or `bert.`, to what it is in memory."""
    table = {name: Source(f"encoder.{own}") for name, own in _EMBEDDINGS.items()}
    if config.family == "albert":
        projection = "encoder.embeddings.projection" if config.projects_embeddings else _IDENTITY
        table |= _pair("encoder.embedding_hidden_mapping_in", projection)
    for prefix, attention, feed_forward in _layers(config, expand_sharing):
        inner = "attention." if config.family == "albert" else "attention.self."
        for third, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                table[f"{prefix}{inner}{part}.{kind}"] = Source(f"encoder.attention.{attention}.qkv.{kind}", third)
        for name, own in (_ALBERT_LAYER if config.family == "albert" else _BERT_LAYER).items():
            table |= _pair(prefix + name, "encoder." + own.format(a=attention, f=feed_forward))
    if HEADS[head].pools:
        table |= _pair("pooler" if config.family == "albert" else "pooler.dense", "encoder.pooler")
    return table | _head_table(config, head)


def _layers(config: ModelConfig, expand_sharing: bool) -> Iterable[tuple[str, int, int]]:
    """Prefix on disk, attention block and feed-forward block of every layer that the file holds."""
    if config.family == "bert":
        return [(f"encoder.layer.{i}.", a, f) for i, (a, f) in enumerate(layer_plan(config))]
    prefix = "encoder.albert_layer_groups.{}.albert_layers.{}."
    if config.sharing in ("all", "groups") and not expand_sharing:
        inner = config.num_inner_layers
        blocks = [(group, i) for group in range(config.num_groups) for i in range(inner)]
        return [(prefix.format(group, i), group * inner + i, group * inner + i) for group, i in blocks]
    return [(prefix.format(i, 0), a, f) for i, (a, f) in enumerate(layer_plan(config))]


def _head_table(config: ModelConfig, head: Head) -> dict[str, Source]:
    table: dict[str, Source] = {}
    if head in ("pretraining", "masked-lm"):
        table[f"{_PREDICTIONS[config.family]}.bias"] = Source("heads.masked_lm.bias")
        for name, own in _MASKED_LM[config.family].items():
            table |= _pair(name, f"heads.masked_lm.{own}")
    if head == "pretraining":
        table |= _pair(_SENTENCE[config.family], "heads.sentence")
    elif head in ("sequence-classification", "token-classification", "multiple-choice"):
        table |= _pair("classifier", "heads.classifier.linear")
    elif head == "question-answering":
        table |= _pair("qa_outputs", "heads.spans")
    elif head == "answerable-question-answering":  # our own names: transformers has no such head
        for name in _ANSWERABLE:
            table |= _pair(f"answerable_spans.{name}", f"heads.answerable_spans.{name}")
    return table


def _pair(name: str, own: str) -> dict[str, Source]:
    return {f"{name}.{kind}": Source(f"{own}.{kind}") for kind in ("weight", "bias")}


def canonical_name(name: str) -> str:
    """Bring a foreign name to the form of the table: no model prefix, no TensorFlow names for LayerNorm."""
    name = re.sub(r"^(albert|bert)\.", "", name)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def known_names(config: ModelConfig) -> set[str]:
    """Every name that a file of this encoder may hold, whichever head it has, in canonical form."""
    names = {name for head in HEADS for name in disk_table(config, head)}
    predictions = _PREDICTIONS[config.family]
    return names | {f"{predictions}.decoder.weight", f"{predictions}.decoder.bias", "embeddings.position_ids"}


def export_tensors(
    tensors: Mapping[str, Array], config: ModelConfig, head: Head, expand_sharing: bool = False
) -> dict[str, Array]:
    """Name and cut our tensors as transformers does."""
    exported = {}
    for name, source in disk_table(config, head, expand_sharing).items():
        if source.name.startswith(_IDENTITY):
            size = config.hidden_size
            tensor = np.eye(size, dtype=np.float32) if name.endswith("weight") else np.zeros(size, np.float32)
        else:
            tensor = tensors[source.name]
            tensor = tensor if source.third is None else np.split(tensor, 3)[source.third]
        exported[_with_prefix(name, config, head)] = np.ascontiguousarray(tensor)
    return exported


def _with_prefix(name: str, config: ModelConfig, head: Head) -> str:
    inside = name.startswith(("embeddings.", "encoder.", "pooler."))
    return f"{config.family}.{name}" if inside and head != "none" else name


def import_tensors(stored: Mapping[str, Array], config: ModelConfig, head: Head, file: str) -> dict[str, Array]:
    """Give stored tensors (canonical names) our names; what the file lacks is left out, and the caller decides."""
    tensors: dict[str, Array] = {}
    thirds: dict[str, dict[int, Array]] = {}
    for name, source in disk_table(config, head).items():
        if name not in stored or source.name.startswith(_IDENTITY):
            continue
        if source.third is None:
            tensors[source.name] = stored[name]
        else:
            thirds.setdefault(source.name, {})[source.third] = stored[name]
    for own, parts in thirds.items():
        if len(parts) != 3:
            raise FolderError(f"{file} holds only a part of {own} (query, key and value belong together)")
        try:
            tensors[own] = np.concatenate([parts[third] for third in range(3)])
        except ValueError:
            shapes = ", ".join(str(tuple(parts[third].shape)) for third in range(3))
            raise FolderError(f"{file}: query, key and value of {own} do not fit together ({shapes})") from None
    return tensors


# brightmart's Chinese models (albert_zh) factorize the word embeddings alone: a word is looked up at size E, mapped to
# H by `word_embeddings_2` (no bias), and only then positions and token types of size H are added. Multiplying the word
# table with that map once gives an ordinary ALBERT with E = H and the same outputs, input and output side alike.
_WORDS = "bert.embeddings.word_embeddings.weight"
_MAP = "bert.embeddings.word_embeddings_2.weight"
_LARGEST_TABLE = 10**9
_UNUSED = ("cls.predictions.project_layer.weight", "cls.predictions.decoder.weight")
_SHARED_LAYER = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
}
_SHARED_PREFIXES = {
    "bert.embeddings.": "albert.embeddings.",
    "bert.pooler.dense.": "albert.pooler.",
    "cls.predictions.transform.": "predictions.",
    "cls.predictions.": "predictions.",
    "cls.seq_relationship.": "sop_classifier.classifier.",
}


def is_word_factorized(names: Container[str]) -> bool:
    """Say whether these are the tensor names of brightmart's variant, in canonical form or not."""
    return _MAP in names or canonical_name(_MAP) in names


def folded_config(raw: dict[str, Any]) -> dict[str, Any]:
    """The `config.json` of the ordinary ALBERT that computes the same."""
    return {**raw, "model_type": "albert", "embedding_size": raw.get("hidden_size")}


def fold_word_factorization(
    raw: dict[str, Any], tensors: Mapping[str, Array], file: Path
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return config and tensors of the ordinary ALBERT that computes the same."""
    vocab_size, embedding_size, hidden_size = (raw.get(k) for k in ("vocab_size", "embedding_size", "hidden_size"))
    shapes = [tuple(tensors[name].shape) if name in tensors else None for name in (_WORDS, _MAP)]
    if shapes != [(vocab_size, embedding_size), (hidden_size, embedding_size)]:
        raise FolderError(f"{file}: word_embeddings and word_embeddings_2 do not fit together and to config.json")
    if not isinstance(hidden_size, int) or not isinstance(vocab_size, int) or vocab_size * hidden_size > _LARGEST_TABLE:
        raise FolderError(f"{file}: the word table would become too large")
    folded = {
        "albert.embeddings.word_embeddings.weight": tensors[_WORDS] @ tensors[_MAP].T,
        "albert.encoder.embedding_hidden_mapping_in.weight": np.eye(hidden_size, dtype=np.float32),
        "albert.encoder.embedding_hidden_mapping_in.bias": np.zeros(hidden_size, np.float32),
    }
    for name, tensor in tensors.items():
        if name not in (_WORDS, _MAP, *_UNUSED):
            folded[_rename(name)] = tensor
    return folded_config(raw), folded


def _rename(name: str) -> str:
    layer, kind = "bert.encoder.layer_shared.", name.rpartition(".")[2]
    if name.startswith(layer):
        part = name.removeprefix(layer).removesuffix(f".{kind}")
        return f"albert.encoder.albert_layer_groups.0.albert_layers.0.{_SHARED_LAYER.get(part, part)}.{kind}"
    for old, new in _SHARED_PREFIXES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
