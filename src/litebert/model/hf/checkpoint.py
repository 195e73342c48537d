"""A model folder: check everything when reading it, write it whole.

Weights come from safetensors, or from an old `pytorch_model.bin` read with `weights_only=True`. Nothing in a folder
is ever run. Every fault is a `FolderError` that names the file. The model card is written here as well.
"""

import hashlib
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file

from litebert.config import Head, ModelConfig
from litebert.errors import FolderError, LitebertError
from litebert.folders import hash_file, read_json, replace_folder, verify_manifest
from litebert.model.cost import count_encoder_parameters
from litebert.model.head_kinds import HEADS
from litebert.model.hf.folder_config import (
    MODULES,
    parse_config,
    parse_modules,
    render_config,
    render_modules,
    stored_head,
)
from litebert.model.hf.int8 import SCALE, dequantize, quantize_tensors
from litebert.model.hf.names import (
    Array,
    canonical_name,
    export_tensors,
    fold_word_factorization,
    folded_config,
    import_tensors,
    is_expressible,
    is_word_factorized,
    known_names,
)
from litebert.model.shapes import tensor_shapes

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.text.tokenizer import Tokenizer

__all__ = [
    "StoredModel",
    "fit_tensors",
    "hash_weights",
    "is_half",
    "is_int8",
    "measure_weights",
    "read_config",
    "read_folder",
    "render_card",
    "write_folder",
]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OLD_WEIGHTS = "pytorch_model.bin"
CARD = "README.md"
_CARD_MARK = "<!-- Written by litebert; edit it and remove this line, and it is kept. -->"
_CODE = (".py", ".pyc", ".so", ".pkl", ".pickle", ".pt2", ".dill", ".joblib")
_CLASSIFIER = "heads.classifier."
_PROJECTION = "encoder.embedding_hidden_mapping_in.weight"


@dataclass(frozen=True)
class StoredModel:
    """What a folder holds: its tensors under transformers' names, or under ours where `own_names` is set."""

    file: Path
    config: ModelConfig
    head: Head
    tensors: Mapping[str, Array]
    own_names: bool


def read_folder(folder: Path) -> StoredModel:
    """Read and check a model folder."""
    _refuse_code(folder)
    verify_manifest(folder)
    config_file = folder / "config.json"
    raw = read_json(config_file)
    own_names = raw.get("model_type") == "litebert"
    file, tensors = _read_weights(folder, int8=own_names and _is_int8(raw))
    if not own_names and is_word_factorized(tensors):
        raw, tensors = fold_word_factorization(raw, tensors, file)
    config = parse_config(raw, config_file)
    if not own_names:
        tensors = _canonical(tensors, file)
        _refuse_unknown(tensors, config, file)
        config = _keep_square_projection(config, tensors)
    config, head = _find_head(folder, config, raw, tensors)
    return StoredModel(file, config, head, tensors, own_names)


def read_config(folder: Path) -> tuple[ModelConfig, Head]:
    """Configuration and head of a model folder. Of the weights only the names are read, wherever these are enough."""
    _refuse_code(folder)
    config_file = folder / "config.json"
    raw = read_json(config_file)
    names = [canonical_name(name) for name in _read_names(folder)]
    is_factorized = is_word_factorized(names)
    config = parse_config(folded_config(raw) if is_factorized else raw, config_file)
    has_odd_projection = not is_factorized and not config.projects_embeddings and _PROJECTION in names
    if has_odd_projection or not names:  # its values decide what it is; an old file does not list its names
        stored = read_folder(folder)
        return stored.config, stored.head
    return _find_head(folder, config, raw, names)


def _refuse_code(folder: Path) -> None:
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder")
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _CODE:
            raise FolderError(f"{path} could hold code; litebert opens no folder with such a file: remove it first")


def _find_head(
    folder: Path, config: ModelConfig, raw: dict[str, Any], names: Collection[str]
) -> tuple[ModelConfig, Head]:
    """The head of a folder, and the configuration with what sentence-transformers' files add to it."""
    head = stored_head(raw, names)
    if head != "none" or not (folder / MODULES).is_file():
        return config, head
    embedding = parse_modules(folder, config)
    return (config, "none") if embedding is None else (embedding, "sentence-embedding")


def _read_names(folder: Path) -> list[str]:
    """Names of the stored tensors; none if only reading the weights would tell."""
    if (folder / WEIGHTS).is_file():
        try:
            with safe_open(folder / WEIGHTS, framework="np") as file:
                return list(file.keys())
        except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
            raise _damaged(folder / WEIGHTS, error) from None
    return list(_read_index(folder)) if (folder / INDEX).is_file() else []


def _is_int8(raw: dict[str, Any]) -> bool:
    own = raw.get("litebert")
    return isinstance(own, dict) and own.get("weights") == "int8"


def measure_weights(folder: Path) -> int:
    """Bytes of the files that hold the weights of a folder."""
    return sum(path.stat().st_size for path in _list_weights(folder))


def hash_weights(folder: Path) -> str:
    """What identifies the weights of a folder: the SHA-256 of their file, or of those of several."""
    hashes = [hash_file(path) for path in _list_weights(folder) if path.is_file()]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _list_weights(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    names = {*_read_index(folder).values()} if (folder / INDEX).is_file() else {OLD_WEIGHTS}
    return [folder / name for name in sorted(names)]


def is_half(folder: Path) -> bool:
    """Whether the weights of a folder are stored as fp16, in one file."""
    if not (folder / WEIGHTS).is_file():
        return False
    with safe_open(folder / WEIGHTS, framework="np") as file:
        return all(file.get_slice(name).get_dtype() == "F16" for name in file.keys())  # noqa: SIM118


def is_int8(folder: Path) -> bool:
    """Whether the weights of a folder are stored with eight bits."""
    return _is_int8(read_json(folder / "config.json"))


def _read_weights(folder: Path, int8: bool = False) -> tuple[Path, dict[str, Array]]:
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS, _read_safetensors(folder / WEIGHTS, int8)
    if (folder / INDEX).is_file():
        return folder / INDEX, _read_shards(folder)
    if (folder / OLD_WEIGHTS).is_file():
        return folder / OLD_WEIGHTS, _read_old(folder / OLD_WEIGHTS)
    raise FolderError(f"{folder / WEIGHTS} is missing ({OLD_WEIGHTS} would do, other formats are not read)")


def _read_safetensors(path: Path, int8: bool = False) -> dict[str, Array]:
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            if any(file.get_slice(name).get_dtype() == "BF16" for name in names):
                tensors = _read_bfloat16(path)
            else:
                tensors = {name: file.get_tensor(name) for name in names}
        if int8:
            tensors = _restore_rows(tensors, path)
        return {name: _as_float32(tensor, name, path) for name, tensor in tensors.items()}
    except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise _damaged(path, error) from None


def _read_bfloat16(path: Path) -> dict[str, Array]:
    """The tensors of a file with numbers of bf16, which NumPy does not know: they are the first half of fp32."""
    tensors = {}
    for name, stored in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        if stored["dtype"] == "BF16":
            halves = np.frombuffer(stored["data"], np.uint16).astype(np.uint32)
            tensors[name] = (halves << 16).view(np.float32).reshape(stored["shape"])
        else:
            kind = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64}.get(stored["dtype"])
            if kind is None:
                raise FolderError(
                    f"{path}: {name} has the type {stored['dtype']}; weights must be floating-point numbers"
                )
            tensors[name] = np.frombuffer(stored["data"], kind).reshape(stored["shape"])
    return tensors


def _restore_rows(tensors: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """Multiply rows of eight bits with their scales."""
    restored = {}
    for name, tensor in tensors.items():
        scales = tensors.get(name + SCALE)
        if tensor.dtype == np.int8:
            if tensor.ndim != 2 or scales is None or scales.dtype != np.float32 or scales.shape != tensor.shape[:1]:
                raise FolderError(f"{path}: {name} has no scale for each of its rows; save it again")
            restored[name] = dequantize(tensor, scales)
        elif not (name.endswith(SCALE) and name.removesuffix(SCALE) in tensors):
            restored[name] = tensor
    return restored


def _damaged(path: Path, error: Exception) -> FolderError:
    return FolderError(f"{path} is damaged or no safetensors file ({error}); save or download it again")


def _read_index(folder: Path) -> dict[str, str]:
    """Which file holds which tensor, of weights in several files."""
    shards = read_json(folder / INDEX).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise FolderError(f"{folder / INDEX} must map tensors to files under 'weight_map'")
    return shards


def _read_shards(folder: Path) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for name in sorted(set(_read_index(folder).values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise FolderError(f"{folder / INDEX} names {name!r}, which is not a safetensors file of this folder")
        if not (folder / name).is_file():
            raise FolderError(f"{folder / name} is missing, though {INDEX} names it")
        tensors |= _read_safetensors(folder / name)
    return tensors


def _read_old(path: Path) -> dict[str, Array]:
    try:
        import torch
    except ModuleNotFoundError:
        raise FolderError(f"{path} is of the old kind, which only PyTorch reads: install torch to open it") from None
    try:
        if zipfile.is_zipfile(path) and any(entry.compress_type for entry in zipfile.ZipFile(path).infolist()):
            raise FolderError(f"{path} is a compressed archive; weights never are, so it is refused")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FolderError:
        raise
    except Exception as error:  # a hostile pickle can fail in any way; none of them may pass
        reason = str(error).partition("\n")[0][:200]
        raise FolderError(f"{path} is damaged or holds more than tensors, so it is refused ({reason})") from None
    if not isinstance(content, dict) or not all(_is_plain(x) for x in content.values()):
        raise FolderError(f"{path} must hold ordinary tensors by name and nothing else")
    return {str(name): _as_float32(_as_array(tensor), str(name), path) for name, tensor in content.items()}


def _as_array(tensor: "Tensor") -> Array:
    array: Array = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return array


def _is_plain(tensor: object) -> bool:
    """Whether it is a dense tensor whose numbers are all there, not one of them stretched over gigabytes."""
    import torch
    from torch import Tensor

    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return not tensor.is_quantized and tensor.nbytes <= tensor.untyped_storage().nbytes()


def _as_float32(tensor: Array, name: str, path: Path) -> Array:
    """A copy in fp32: weights must not live in a mapped file that somebody may cut short."""
    if name.endswith("position_ids"):
        return tensor
    if tensor.dtype.kind != "f":
        raise FolderError(f"{path}: {name} has the type {tensor.dtype}; weights must be floating-point numbers")
    return tensor.astype(np.float32, order="C")


def _canonical(tensors: Mapping[str, Array], file: Path) -> dict[str, Array]:
    renamed = {canonical_name(name): tensor for name, tensor in tensors.items()}
    if len(renamed) != len(tensors):
        raise FolderError(f"{file} holds the same tensor under two names")
    return renamed


def _refuse_unknown(tensors: Mapping[str, Array], config: ModelConfig, file: Path) -> None:
    unknown = sorted(set(tensors) - known_names(config))
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise FolderError(f"{file} holds the unknown tensor {unknown[0]}{more}: not an encoder of this configuration")
    decoder = tensors.get("predictions.decoder.weight", tensors.get("cls.predictions.decoder.weight"))
    words = tensors.get("embeddings.word_embeddings.weight")
    if decoder is not None and words is not None and not np.array_equal(decoder, words):
        raise FolderError(f"{file} has an output matrix of its own; litebert ties it to the word embeddings")


def _keep_square_projection(config: ModelConfig, tensors: Mapping[str, Array]) -> ModelConfig:
    """Where E = H, a stored projection that is the identity is dropped; any other is kept, and must fit."""
    weight = tensors.get(_PROJECTION)
    bias = tensors.get("encoder.embedding_hidden_mapping_in.bias")
    if config.projects_embeddings or (weight is None and bias is None):
        return config
    size = config.hidden_size
    is_identity = (
        weight is not None
        and bias is not None
        and np.array_equal(weight, np.eye(size))
        and np.array_equal(bias, np.zeros(size))
    )
    return config if is_identity else config.updated(project_square_embeddings=True)


def fit_tensors(
    stored: StoredModel,
    config: ModelConfig,
    head: Head,
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Find the tensors of a model of this shape and head; also name those that must be drawn afresh.

    Afresh are only those beyond the tensors that a model with the stored head has, a pooler that is not there, and a
    classifier for other labels than the stored ones; anything else that is missing is a fault.
    """
    shapes, promised = tensor_shapes(config, head), list(tensor_shapes(stored.config, stored.head))
    if stored.own_names:
        unknown = sorted(set(stored.tensors) - set(promised))
        if unknown:
            raise FolderError(f"{stored.file} holds the unknown tensor {unknown[0]}")
        tensors = {name: tensor for name, tensor in stored.tensors.items() if name in shapes}
    else:
        tensors = import_tensors(stored.tensors, config, head, str(stored.file))
    no_pooler = not any(name.startswith("encoder.pooler.") for name in tensors)
    if config.labels != stored.config.labels:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(_CLASSIFIER)}
        promised = [name for name in promised if not name.startswith(_CLASSIFIER)]
    fresh = []
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is not None and tuple(tensor.shape) == shape:
            continue
        afresh = name not in promised or (no_pooler and name.startswith("encoder.pooler."))
        if tensor is not None or not afresh:
            found = "is missing" if tensor is None else f"has the shape {tuple(tensor.shape)}, not {shape}"
            raise FolderError(f"{stored.file}: {name} {found}, so the weights do not belong to this config.json")
        fresh.append(name)
    return tensors, tuple(fresh)


def write_folder(
    folder: Path,
    config: ModelConfig,
    head: Head,
    tensors: Mapping[str, Array],
    tokenizer: "Tokenizer | None" = None,
    expand_sharing: bool = False,
    about: str | Callable[[int], str] = "",
    extra_files: Mapping[str, str | bytes] | None = None,
    half: bool = False,
    int8: bool = False,
) -> Path:
    """Write a model folder; `folders.replace_folder` says how it comes to stand complete.

    `about` joins the model card: how the weights were trained, what they can do; a function makes it of the bytes that
    the weights take. `extra_files` lie beside the weights. `half` stores the weights as fp16: half the bytes; they are
    read as fp32, here and in transformers. `int8` stores them as `hf/int8.py` says, in our own form.
    """
    assert not (half and int8), "weights are stored in one way"
    expand_sharing = expand_sharing and not is_expressible(config) and is_expressible(config, expand_sharing=True)
    expressible = is_expressible(config, expand_sharing) and not int8
    note = _export_note(config, head, expand_sharing, int8)
    if note:
        warnings.warn(note, stacklevel=3)
    named = export_tensors(tensors, config, head, expand_sharing) if expressible else dict(tensors)
    stored = np.float16 if half else np.float32
    named = {name: np.asarray(tensor, stored, order="C") for name, tensor in named.items()}
    named = quantize_tensors(named) if int8 else named
    rendered = render_config(config, head, expand_sharing, int8)
    with replace_folder(folder) as staging:
        try:
            save_file(named, staging / WEIGHTS, metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk comes as this, not as OSError
            raise LitebertError(f"cannot save to {folder}: {error}") from None
        (staging / "config.json").write_text(
            json.dumps(rendered, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        shutil.copymode(staging / "config.json", staging / WEIGHTS)  # others may read it, as they may the rest
        if tokenizer is not None:
            tokenizer.write_files(staging, config.embedding_max_length or config.max_positions)
        modules = render_modules(config) if expressible and head == "sentence-embedding" else {}
        for name, content in {**modules, **(extra_files or {})}.items():
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_bytes(content.encode() if isinstance(content, str) else content)
        card = folder / CARD
        if card.is_file() and _CARD_MARK.encode() not in card.read_bytes():
            shutil.copyfile(card, staging / CARD)  # somebody wrote this one
        else:
            told = about if isinstance(about, str) else about((staging / WEIGHTS).stat().st_size)
            (staging / CARD).write_text(render_card(config, head, note, told), encoding="utf-8")
    if not modules:
        (folder / MODULES).unlink(missing_ok=True)  # of a model with another head that was here before
    return folder


def _export_note(config: ModelConfig, head: Head, expand_sharing: bool, int8: bool = False) -> str:
    """Say in a sentence what transformers will not find in this folder, or nothing."""
    if int8:
        return "transformers cannot read weights of eight bits: saved in litebert's own form, for litebert alone"
    if expand_sharing:
        return f"sharing '{config.sharing}' was written out layer by layer: transformers opens it, but no longer shares"
    if not is_expressible(config):
        shape = f"{config.family}, sharing '{config.sharing}', E {config.embedding_size}, H {config.hidden_size}"
        shape += "" if config.head_size is None else f", {config.num_heads} heads of {config.head_size}"
        return f"transformers cannot hold this encoder ({shape}): saved in litebert's own form, for litebert alone"
    if HEADS[head].class_suffix is None:
        return "transformers has no head with answerability: it opens the encoder of this folder, litebert opens all"
    return ""


_PIPELINES: dict[Head, str] = {
    "none": "feature-extraction",
    "pretraining": "fill-mask",
    "masked-lm": "fill-mask",
    "sequence-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "answerable-question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
    "sentence-embedding": "sentence-similarity",
}


def render_card(config: ModelConfig, head: Head, note: str = "", about: str = "") -> str:
    """Write a card with what is known now; `about` is what training and evaluation add, in Markdown."""
    kind = {"albert": "ALBERT", "bert": "BERT"}[config.family]
    suffix = HEADS[head].class_suffix
    num_layers = config.num_layers * config.num_inner_layers
    passes = f" ({config.num_layers} passes of {config.num_inner_layers} blocks)" if config.num_inner_layers > 1 else ""
    rows = {
        "encoder parameters": f"{count_encoder_parameters(config):,}",
        "layers × hidden size": f"{num_layers} × {config.hidden_size}{passes}",
        "embedding size": str(config.embedding_size),
        "attention heads": f"{config.num_heads} of {config.attention_size // config.num_heads}",
        "feed-forward units": f"{config.intermediate_size:,}",
        "sharing across layers": config.sharing,
        "vocabulary": f"{config.vocab_size:,}",
        "longest input": f"{config.max_positions} tokens",
        "head": head,
    }
    if config.labels:
        rows["labels"] = ", ".join(config.labels[:20]) + (" …" if len(config.labels) > 20 else "")
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    opens = f"`transformers.{config.family.capitalize()}{suffix}`" if suffix and not note else ""
    if opens and head == "sentence-embedding":
        opens = "`sentence_transformers.SentenceTransformer`"
    intro = f"{note}\n\n" if note else ""
    also = f" {opens} opens it too." if opens else ""
    return f"""---
library_name: litebert
pipeline_tag: {_PIPELINES[head]}
tags:
- {config.family}
- litebert
---

{_CARD_MARK}

# {kind}, {num_layers} layers of {config.hidden_size}

{intro}Saved by litebert. Open it with `litebert.Model.from_pretrained(folder)`.{also}

| | |
|-|-|
{table}
{about and chr(10) + about}"""
