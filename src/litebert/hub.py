"""From a name to a folder: one on this machine, or a model of the Hugging Face hub that is fetched into its cache."""

from pathlib import Path
from typing import Literal

from litebert.errors import FolderError, RequestError

__all__ = ["resolve"]

_MADE_BY = {
    "model": "with config.json and model.safetensors",
    "tokenizer": "and `litebert tokenizer train` makes one",
}
_FILES = ["*.json", "*.txt", "*.model", "README.md"]


def resolve(name: str | Path, revision: str | None = None, what: Literal["model", "tokenizer"] = "model") -> Path:
    """Return the folder of a model or of its tokenizer; offline mode (`HF_HUB_OFFLINE=1`) uses what the cache has."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.exists():
        raise FolderError(f"{path} is no folder; a {what} is one, {_MADE_BY[what]}")
    text = str(name)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text or not text:
        raise FolderError(f"there is no folder {text!r}; a {what} is one, {_MADE_BY[what]}")
    return _fetch(text, revision, what)


def _fetch(name: str, revision: str | None, what: Literal["model", "tokenizer"]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    weights = ["*.safetensors"] if what == "model" else []
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, *weights]))
        if what == "model" and not any(folder.glob("*.safetensors")):  # an old repository
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, "pytorch_model.bin"]))
    except HFValidationError:
        preset = ", no preset (`litebert models`)" if what == "model" else ""
        raise RequestError(f"{name!r} is no folder{preset} and no name of a hub model") from None
    except LocalEntryNotFoundError:
        preset = " and no preset" if what == "model" else f" ({_MADE_BY[what]})"
        raise FolderError(f"{name!r} is no folder{preset}, and the hub cannot be reached for it") from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FolderError(f"the hub did not give {name!r}: {reason}") from None
    return folder
