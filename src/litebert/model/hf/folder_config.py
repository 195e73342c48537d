"""`config.json`: transformers' words on disk, `ModelConfig` in memory.

A key that changes what a model computes is either understood or refused; a key that is only bookkeeping is passed
over; any other key is an error, because a misspelt one would otherwise fall back to a default without a word.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from litebert.config import Family, Head, ModelConfig, explain
from litebert.errors import FolderError
from litebert.model.heads import HEADS
from litebert.model.hf.names import is_expressible

__all__ = ["class_name", "parse_config", "render_config", "stored_head"]

_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_token_types",
    "hidden_act": "activation",
    "hidden_dropout_prob": "hidden_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "problem_type": "problem_type",
}
_ALBERT_FIELDS = {
    "embedding_size": "embedding_size",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_layers",
    "classifier_dropout_prob": "classifier_dropout",
}
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_ACTIVATION_ALIASES = {"gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu", "swish": "silu"}
_BERT_DEFAULTS = {
    "activation": "gelu",
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "bos_token_id": None,
    "eos_token_id": None,
}

# Values that leave the computation as we have it; any other value is refused.
_ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "chunk_size_feed_forward": (0,),
    "ln_type": ("postln",),
    "net_structure_type": (0,),
    "down_scale_factor": (1,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
}
_BOOKKEEPING = {
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attn_implementation_autoset",
    "cls_token_id",
    "custom_pipelines",
    "directionality",
    "dtype",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "layers_to_keep",
    "litebert",
    "model_type",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "use_cache",
}


def parse_config(raw: dict[str, Any], file: Path) -> ModelConfig:
    """Make a `ModelConfig` of what `config.json` says."""
    if "auto_map" in raw:
        raise FolderError(f"{file} asks to run code that lies in the folder (auto_map); litebert never does that")
    own = raw.get("litebert")
    if isinstance(own, dict) and "config" in own:
        return _own_config(own["config"], file)
    family = _family(raw, file)
    fields = _FIELDS | (_ALBERT_FIELDS if family == "albert" else {})
    allowed = set(fields) | set(_ONLY) | _BOOKKEEPING | {"classifier_dropout", "embedding_size"}
    for key in raw:
        if key not in allowed:
            raise FolderError(f"{file} has the unknown key {key!r}; remove it if it is harmless, or mend its spelling")
    for key, accepted in _ONLY.items():
        if key in raw and raw[key] not in accepted:
            raise FolderError(f"{file} sets {key} to {raw[key]!r}, which litebert's encoders cannot do")
    for key in _REQUIRED:
        if key not in raw:
            raise FolderError(f"{file} lacks {key}")
    values: dict[str, Any] = dict(_BERT_DEFAULTS) if family == "bert" else {}
    values |= {own: raw[key] for key, own in fields.items() if raw.get(key) is not None}
    for key in ("bos_token_id", "eos_token_id"):
        if key in raw:
            values[key] = raw[key]  # None says that there is no such token
    values["family"] = family
    activation = values.get("activation")
    if isinstance(activation, str):
        values["activation"] = _ACTIVATION_ALIASES.get(activation, activation)
    values["labels"] = _labels(raw, file)
    if family == "bert":
        values["embedding_size"] = raw["hidden_size"]
        values["classifier_dropout"] = raw.get("classifier_dropout")
        if values["classifier_dropout"] is None:
            values["classifier_dropout"] = values["hidden_dropout"]
    values["sharing"] = _sharing(values, family)
    if values["sharing"] != "groups":
        values.pop("num_groups", None)
        values.pop("num_inner_layers", None)
    try:
        config = ModelConfig(**values)
    except ValidationError as error:
        raise FolderError(f"{file}: {explain(error)}") from None
    if not is_expressible(config):
        raise FolderError(f"{file}: num_hidden_groups must divide num_hidden_layers")
    return config


def _own_config(values: Any, file: Path) -> ModelConfig:
    try:
        return ModelConfig.model_validate_json(json.dumps(values))
    except (ValidationError, ValueError) as error:
        what = explain(error) if isinstance(error, ValidationError) else str(error)
        raise FolderError(f"{file}: {what}") from None


def _family(raw: dict[str, Any], file: Path) -> Family:
    kind = raw.get("model_type", "albert" if "embedding_size" in raw else "bert")
    if kind in ("albert", "bert"):
        return kind  # type: ignore[no-any-return]
    raise FolderError(f"{file} describes a model of type {kind!r}; litebert opens albert and bert")


def _sharing(values: dict[str, Any], family: Family) -> str:
    if family == "bert":
        return "none"
    groups, inner = values.get("num_groups", 1), values.get("num_inner_layers", 1)
    if (groups, inner) == (1, 1):
        return "all"
    return "none" if (groups, inner) == (values.get("num_layers"), 1) else "groups"


def _labels(raw: dict[str, Any], file: Path) -> tuple[str, ...]:
    names = raw.get("id2label")
    if names is None:
        count = raw.get("num_labels")
        return tuple(f"LABEL_{i}" for i in range(count)) if isinstance(count, int) and 0 < count <= 100_000 else ()
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise FolderError(f"{file}: id2label must map numbers to names")
    try:
        return tuple(names[key] for key in _in_order(names))
    except (KeyError, ValueError):
        raise FolderError(f"{file}: id2label must number its labels 0, 1, 2, …") from None


def _in_order(names: dict[str, str]) -> list[str]:
    keys = sorted(names, key=int)
    if [int(key) for key in keys] != list(range(len(keys))):
        raise ValueError("gaps")
    return keys


def stored_head(raw: dict[str, Any], names: set[str]) -> Head:
    """Say which head a folder has: by its class name, else by the tensors that are there."""
    own = raw.get("litebert")
    if isinstance(own, dict) and isinstance(own.get("head"), str) and own["head"] in HEADS:
        return own["head"]  # type: ignore[no-any-return]
    architectures = raw.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        for head, kind in HEADS.items():
            if kind.class_suffix and architectures[0] in (f"Albert{kind.class_suffix}", f"Bert{kind.class_suffix}"):
                return head
    if any(name.startswith(("sop_classifier.", "cls.seq_relationship.")) for name in names):
        return "pretraining"
    if any(name.startswith(("predictions.", "cls.predictions.")) for name in names):
        return "masked-lm"
    if any(name.startswith("qa_outputs.") for name in names):
        return "question-answering"
    return "none"


def class_name(config: ModelConfig, head: Head, expand_sharing: bool = False) -> str:
    """Name the class of transformers that opens this model; one of our own where it has none."""
    suffix = HEADS[head].class_suffix
    if suffix is None or not is_expressible(config, expand_sharing):
        return "Litebert" + (suffix or "ForAnswerableQuestionAnswering")
    return {"albert": "Albert", "bert": "Bert"}[config.family] + suffix


def render_config(config: ModelConfig, head: Head, expand_sharing: bool = False) -> dict[str, Any]:
    """Write a config as transformers does, or in our own form where transformers has no words for it."""
    if not is_expressible(config, expand_sharing):
        form = {"format": 1, "head": head, "config": config.model_dump(mode="json")}
        return {"model_type": "litebert", "architectures": [class_name(config, head)], "litebert": form}
    values = dict(config)
    rendered: dict[str, Any] = {
        "model_type": config.family,
        "architectures": [class_name(config, head, expand_sharing)],
    }
    rendered |= {key: values[own] for key, own in _FIELDS.items() if values[own] is not None or own != "problem_type"}
    if config.family == "bert":
        rendered["classifier_dropout"] = config.classifier_dropout
    else:
        rendered |= {key: values[own] for key, own in _ALBERT_FIELDS.items()}
        if config.sharing == "none" or (expand_sharing and config.sharing != "all"):
            rendered["num_hidden_groups"] = config.num_layers
    # Other heads have two outputs whatever the labels, but transformers would size some of them by these.
    if config.labels and head in ("sequence-classification", "token-classification"):
        rendered["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
        rendered["label2id"] = {label: i for i, label in enumerate(config.labels)}
    if HEADS[head].class_suffix is None:
        rendered["litebert"] = {"format": 1, "head": head}
    return rendered | {"dtype": "float32", "tie_word_embeddings": True}
