"""A model folder: read it with suspicion, write it whole.

Weights come from safetensors, or from an old `pytorch_model.bin` read with `weights_only=True`. Nothing in a folder
is ever run. Every fault is a `FolderError` that names the file.
"""

import json
import shutil
import warnings
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from litebert.config import Head, ModelConfig
from litebert.errors import FolderError, LitebertError
from litebert.folders import read_json, replace_folder, verify_manifest
from litebert.model.heads import HEADS
from litebert.model.hf.card import CARD, is_generated, render_card
from litebert.model.hf.folder_config import parse_config, render_config, stored_head
from litebert.model.hf.names import canonical_name, export_tensors, import_tensors, is_expressible, known_names
from litebert.model.hf.variants import fold_word_factorization, is_word_factorized

if TYPE_CHECKING:
    from litebert.text.tokenizer import Tokenizer

__all__ = ["StoredModel", "fit_tensors", "read_folder", "write_folder"]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OLD_WEIGHTS = "pytorch_model.bin"
_CODE = (".py", ".pyc", ".so", ".pkl", ".pickle", ".pt2", ".dill", ".joblib")
_CLASSIFIER = "heads.classifier."
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class StoredModel:
    """What a folder holds: its tensors under transformers' names, or under ours where `own_names` is set."""

    file: Path
    config: ModelConfig
    head: Head
    tensors: Mapping[str, Tensor]
    own_names: bool


def read_folder(folder: Path) -> StoredModel:
    """Read and check a model folder."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder")
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _CODE:
            raise FolderError(f"{path} could hold code; litebert opens no folder with such a file: remove it first")
    verify_manifest(folder)
    config_file = folder / "config.json"
    raw = read_json(config_file)
    file, tensors = _read_weights(folder)
    own_names = raw.get("model_type") == "litebert"
    if not own_names and is_word_factorized(tensors):
        raw, tensors = fold_word_factorization(raw, tensors, file)
    config = parse_config(raw, config_file)
    if not own_names:
        tensors = _canonical(tensors, file)
        _refuse_unknown(tensors, config, file)
        config = _keep_square_projection(config, tensors)
    return StoredModel(file, config, stored_head(raw, set(tensors)), tensors, own_names)


def _read_weights(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS, _read_safetensors(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return folder / INDEX, _read_shards(folder)
    if (folder / OLD_WEIGHTS).is_file():
        return folder / OLD_WEIGHTS, _read_old(folder / OLD_WEIGHTS)
    raise FolderError(f"{folder / WEIGHTS} is missing ({OLD_WEIGHTS} would do, other formats are not read)")


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: _as_float32(file.get_tensor(name), name, path) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise FolderError(f"{path} is damaged or no safetensors file ({error}); save or download it again") from None


def _read_shards(folder: Path) -> dict[str, Tensor]:
    shards = read_json(folder / INDEX).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise FolderError(f"{folder / INDEX} must map tensors to files under 'weight_map'")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(shards.values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise FolderError(f"{folder / INDEX} names {name!r}, which is not a safetensors file of this folder")
        if not (folder / name).is_file():
            raise FolderError(f"{folder / name} is missing, though {INDEX} names it")
        tensors |= _read_safetensors(folder / name)
    return tensors


def _read_old(path: Path) -> dict[str, Tensor]:
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
    return {str(name): _as_float32(tensor, str(name), path) for name, tensor in content.items()}


def _is_plain(tensor: object) -> bool:
    """Whether it is a dense tensor whose numbers are all there, not one of them stretched over gigabytes."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return not tensor.is_quantized and tensor.nbytes <= tensor.untyped_storage().nbytes()


def _as_float32(tensor: Tensor, name: str, path: Path) -> Tensor:
    """A copy in fp32: weights must not live in a mapped file that somebody may cut short."""
    if name.endswith("position_ids"):
        return tensor
    if tensor.dtype not in _FLOATS:
        raise FolderError(f"{path}: {name} has the type {tensor.dtype}; weights must be floating-point numbers")
    return tensor.to(torch.float32, copy=True)


def _canonical(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    renamed = {canonical_name(name): tensor for name, tensor in tensors.items()}
    if len(renamed) != len(tensors):
        raise FolderError(f"{file} holds the same tensor under two names")
    return renamed


def _refuse_unknown(tensors: Mapping[str, Tensor], config: ModelConfig, file: Path) -> None:
    unknown = sorted(set(tensors) - known_names(config))
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise FolderError(f"{file} holds the unknown tensor {unknown[0]}{more}: not an encoder of this configuration")
    decoder = tensors.get("predictions.decoder.weight", tensors.get("cls.predictions.decoder.weight"))
    words = tensors.get("embeddings.word_embeddings.weight")
    if decoder is not None and words is not None and not torch.equal(decoder, words):
        raise FolderError(f"{file} has an output matrix of its own; litebert ties it to the word embeddings")


def _keep_square_projection(config: ModelConfig, tensors: Mapping[str, Tensor]) -> ModelConfig:
    """Where E = H, a stored projection that is the identity is dropped; any other is kept, and must fit."""
    weight = tensors.get("encoder.embedding_hidden_mapping_in.weight")
    bias = tensors.get("encoder.embedding_hidden_mapping_in.bias")
    if config.projects_embeddings or (weight is None and bias is None):
        return config
    size = config.hidden_size
    is_identity = (
        weight is not None
        and bias is not None
        and torch.equal(weight, torch.eye(size))
        and torch.equal(bias, torch.zeros(size))
    )
    return config if is_identity else config.updated(project_square_embeddings=True)


def fit_tensors(
    stored: StoredModel,
    config: ModelConfig,
    head: Head,
    shapes: Mapping[str, tuple[int, ...]],
    promised: Collection[str],
    new_labels: bool,
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Find the tensors of a model with these names and shapes; also name those that must be drawn afresh.

    `promised` are the tensors that a model with the stored head has. Afresh are only those beyond them, a pooler that
    is not there, and a classifier for new labels; anything else that is missing is a fault.
    """
    if stored.own_names:
        unknown = sorted(set(stored.tensors) - set(promised))
        if unknown:
            raise FolderError(f"{stored.file} holds the unknown tensor {unknown[0]}")
        tensors = {name: tensor for name, tensor in stored.tensors.items() if name in shapes}
    else:
        tensors = import_tensors(stored.tensors, config, head, str(stored.file))
    no_pooler = not any(name.startswith("encoder.pooler.") for name in tensors)
    if new_labels:
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
    tensors: Mapping[str, Tensor],
    tokenizer: "Tokenizer | None" = None,
    expand_sharing: bool = False,
    about: str = "",
    extra_files: Mapping[str, str] | None = None,
) -> Path:
    """Write a model folder; `folders.replace_folder` says how it comes to stand complete.

    `about` joins the model card: how the weights were trained, what they can do. `extra_files` lie beside the weights.
    """
    expand_sharing = expand_sharing and not is_expressible(config) and is_expressible(config, expand_sharing=True)
    expressible = is_expressible(config, expand_sharing)
    note = _export_note(config, head, expand_sharing)
    if note:
        warnings.warn(note, stacklevel=3)
    if expressible:
        named = export_tensors(tensors, config, head, expand_sharing)
    else:
        named = {name: tensor.contiguous() for name, tensor in tensors.items()}
    named = {name: tensor.detach().cpu().clone() for name, tensor in named.items()}
    rendered = render_config(config, head, expand_sharing)
    with replace_folder(folder) as staging:
        try:
            save_file(named, staging / WEIGHTS, metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk comes as this, not as OSError
            raise LitebertError(f"cannot save to {folder}: {error}") from None
        (staging / "config.json").write_text(
            json.dumps(rendered, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        if tokenizer is not None:
            tokenizer.write_files(staging, config.max_positions)
        for name, text in (extra_files or {}).items():
            (staging / name).write_text(text, encoding="utf-8")
        card = folder / CARD
        if card.is_file() and not is_generated(card.read_bytes()):
            shutil.copyfile(card, staging / CARD)  # somebody's own words
        else:
            (staging / CARD).write_text(render_card(config, head, note, about), encoding="utf-8")
    return folder


def _export_note(config: ModelConfig, head: Head, expand_sharing: bool) -> str:
    """Say in a sentence what transformers will not find in this folder, or nothing."""
    if expand_sharing:
        return f"sharing '{config.sharing}' was written out layer by layer: transformers opens it, but no longer shares"
    if not is_expressible(config):
        shape = f"{config.family}, sharing '{config.sharing}', E {config.embedding_size}, H {config.hidden_size}"
        return f"transformers cannot hold this encoder ({shape}): saved in litebert's own form, for litebert alone"
    if HEADS[head].class_suffix is None:
        return "transformers has no head with answerability: it opens the encoder of this folder, litebert opens all"
    return ""
