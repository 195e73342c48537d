"""Configuration files of a model folder: keys of transformers and sentence-transformers there, `ModelConfig` here.

A key of `config.json` that changes what a model computes is either understood or refused. A key that is only
bookkeeping is ignored. Any other key is an error, because a misspelt one would otherwise fall back to a default unseen.

A folder with `modules.json` is one of sentence-transformers. It opens with the sentence-embedding head if it says mean
pooling, with or without normalisation; that head writes the same files.
"""

import json
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from litebert.config import Family, Head, ModelConfig, explain
from litebert.errors import FolderError
from litebert.folders import read_json, read_text
from litebert.model.head_kinds import HEADS
from litebert.model.hf.names import is_expressible

__all__ = [
    "MODULES",
    "class_name",
    "parse_config",
    "parse_modules",
    "render_config",
    "render_modules",
    "stored_head",
]

MODULES = "modules.json"
"""The file by which sentence-transformers knows a folder."""
_TRANSFORMER_FILE = "sentence_bert_config.json"
_MODEL_FILE = "config_sentence_transformers.json"
_POOLING_FOLDER = "1_Pooling"

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
    values["sharing"] = _sharing(values, family, raw)
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


def _sharing(values: dict[str, Any], family: Family, raw: dict[str, Any]) -> str:
    if family == "bert":
        return "none"
    own = raw.get("litebert")
    if isinstance(own, dict) and own.get("sharing") == "groups":
        return "groups"
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


def stored_head(raw: dict[str, Any], names: Collection[str]) -> Head:
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
        return _own_class(head)
    return {"albert": "Albert", "bert": "Bert"}[config.family] + suffix


def _own_class(head: Head) -> str:
    return "Litebert" + (HEADS[head].class_suffix or "ForAnswerableQuestionAnswering")


def render_config(config: ModelConfig, head: Head, expand_sharing: bool = False, int8: bool = False) -> dict[str, Any]:
    """Write a config as transformers does, or in our own form where transformers has no keys for it.

    Weights of eight bits are always in our own form.
    """
    if int8 or not is_expressible(config, expand_sharing):
        form: dict[str, Any] = {"format": 1, "head": head, "config": config.model_dump(mode="json")}
        form |= {"weights": "int8"} if int8 else {}
        return {"model_type": "litebert", "architectures": [_own_class(head)], "litebert": form}
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
    own: dict[str, Any] = {} if HEADS[head].class_suffix is not None else {"head": head}
    if config.sharing == "groups" and config.num_groups == config.num_layers and not expand_sharing:
        own["sharing"] = "groups"  # as good as none for transformers; here, fewer layers are spread over them
    rendered |= {"litebert": {"format": 1, **own}} if own else {}
    return rendered | {"dtype": "float32", "tie_word_embeddings": True}


def parse_modules(folder: Path, config: ModelConfig) -> ModelConfig | None:
    """Read the files of sentence-transformers; None where they ask for more than mean pooling and normalisation."""
    modules = _read_modules(folder)
    kinds = [kind for kind, _ in modules]
    settings = _read_optional(folder / _TRANSFORMER_FILE)
    prompts = _read_optional(folder / _MODEL_FILE)
    pooling = read_json(folder / modules[1][1] / "config.json") if kinds[1:2] == ["Pooling"] else {}
    understood = (
        kinds in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
        and modules[0][1] == ""
        and _pooling_modes(pooling) == ["mean"]
        and not settings.get("do_lower_case")
        and not prompts.get("default_prompt_name")
    )
    if not understood:
        message = f"{folder / MODULES} asks for more than mean pooling, which litebert does not have"
        warnings.warn(f"{message}: it opens the encoder alone", stacklevel=2)
        return None
    longest = settings.get("max_seq_length")
    if longest is None:  # newer versions leave it to the tokenizer
        longest = _read_optional(folder / "tokenizer_config.json").get("model_max_length")
    is_shorter = isinstance(longest, int) and 0 < longest < config.max_positions
    taught = prompts.get("litebert", {})
    sizes = taught.get("dimensions") if isinstance(taught, dict) else None
    return config.updated(
        embedding_normalize=kinds[-1] == "Normalize",
        embedding_max_length=longest if is_shorter else None,
        embedding_dimensions=tuple(sizes) if isinstance(sizes, list) else (),
    )


def _read_modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and subfolder of each module, in order."""
    file = folder / MODULES
    try:
        modules = [(str(module["type"]), str(module["path"])) for module in json.loads(read_text(file))]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FolderError(f"{file} must list modules with a type and a path; save or download it again") from None
    for _, path in modules:
        if path and (Path(path).name != path or path == ".."):
            raise FolderError(f"{file} names {path!r}, which is no subfolder of this folder")
    return [(kind.rpartition(".")[2], path) for kind, path in modules]


def _read_optional(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _pooling_modes(pooling: dict[str, Any]) -> list[str]:
    """How token states are pooled, in the form of newer versions ("pooling_mode") or of older ones (a key a mode)."""
    modes = pooling.get("pooling_mode")
    if modes is not None:
        return [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]
    prefix, suffix = "pooling_mode_", "_tokens"
    chosen = [key for key, value in pooling.items() if key.startswith(prefix) and value]
    return [key.removeprefix(prefix).removesuffix(suffix) for key in chosen]


def render_modules(config: ModelConfig) -> dict[str, str]:
    """The files that sentence-transformers needs beside those of transformers, by path; old versions read them too."""
    kinds = [("Transformer", ""), ("Pooling", _POOLING_FOLDER)]
    kinds += [("Normalize", "2_Normalize")] if config.embedding_normalize else []
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(kinds)
    ]
    pooling = {
        "word_embedding_dimension": config.hidden_size,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "include_prompt": True,
    }
    about: dict[str, Any] = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    if config.embedding_dimensions:  # which sentence-transformers passes over
        about["litebert"] = {"dimensions": list(config.embedding_dimensions)}
    contents: dict[str, Any] = {
        MODULES: modules,
        f"{_POOLING_FOLDER}/config.json": pooling,
        _TRANSFORMER_FILE: {
            "max_seq_length": config.embedding_max_length or config.max_positions,
            "do_lower_case": False,
        },
        _MODEL_FILE: about,
    }
    return {path: json.dumps(content, indent=2) + "\n" for path, content in contents.items()}
