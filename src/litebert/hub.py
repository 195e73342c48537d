"""From a name to a folder: one on this machine, a run, an encoder that comes with litebert, or a model of the hub."""

from pathlib import Path
from typing import Literal

from litebert.errors import FolderError, RequestError
from litebert.folders import locate_model

__all__ = ["DEFAULT_ENCODER", "packaged_encoders", "resolve"]

DEFAULT_ENCODER = "litebert-en"
"""The encoder that comes with litebert, and that is meant where none is named."""
_PACKAGED = Path(__file__).parent / "encoders"

_FILES = ["*.json", "*.txt", "*.model", "README.md"]
_ADVICE = {
    "model": "name a folder with config.json and model.safetensors, or a run",
    "tokenizer": "name a model folder, or make a tokenizer with `litebert tokenizer train`",
}


def resolve(name: str | Path, revision: str | None = None, what: Literal["model", "tokenizer"] = "model") -> Path:
    """Return the folder of a model or of its tokenizer; offline mode (`HF_HUB_OFFLINE=1`) uses what the cache has.

    A folder on this machine comes before an encoder of litebert's own, and that before a model of the hub.
    """
    path = Path(locate_model(name))
    if path.is_dir():
        return path
    if str(name) in packaged_encoders():
        return _PACKAGED / str(name)
    if path.exists():
        raise FolderError(f"{path} is a file, but a {what} is a folder: {_ADVICE[what]}")
    text = str(name)
    is_path = isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text
    if is_path or not text:
        missing = "folder" if what == "model" else "file or folder"
        raise FolderError(f"there is no {missing} {text!r}: {_ADVICE[what]}")
    return _fetch(text, revision, what)


def packaged_encoders() -> list[str]:
    """The names of the encoders that come with litebert."""
    return sorted(path.parent.name for path in _PACKAGED.glob("*/config.json"))


def _fetch(name: str, revision: str | None, what: Literal["model", "tokenizer"]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    weights = ["*.safetensors"] if what == "model" else []
    missing = f"there is no folder {'or preset ' if what == 'model' else ''}{name!r}, and"
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, *weights]))
        if what == "model" and not any(folder.glob("*.safetensors")):  # an old repository
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, "pytorch_model.bin"]))
    except HFValidationError:
        raise RequestError(f"{missing} it is no name of a hub model: {_ADVICE[what]}") from None
    except LocalEntryNotFoundError:
        raise FolderError(f"{missing} the hub could not be reached: check the spelling, or go online") from None
    except RepositoryNotFoundError:
        raise FolderError(f"{missing} the hub has no such model: check the spelling") from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FolderError(f"{missing} the hub did not give such a model: {reason}") from None
    return folder
