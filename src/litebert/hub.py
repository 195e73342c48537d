"""From a name to a folder: one on this machine, or a model of the Hugging Face hub that is fetched into its cache."""

from pathlib import Path

from litebert.errors import FolderError, RequestError

__all__ = ["resolve"]

_FILES = ["*.json", "*.txt", "*.model", "README.md"]


def resolve(name: str | Path, revision: str | None = None) -> Path:
    """Return the folder of a model; offline mode (`HF_HUB_OFFLINE=1`) uses what the cache has."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.exists():
        raise FolderError(f"{path} is a file; a model is a folder with config.json and model.safetensors")
    text = str(name)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text or not text:
        raise FolderError(f"there is no folder {text!r}")
    return _fetch(text, revision)


def _fetch(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    weights = ["*.safetensors"]
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, *weights]))
        if not any(folder.glob("*.safetensors")):  # an old repository
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=[*_FILES, "pytorch_model.bin"]))
    except HFValidationError:
        raise RequestError(f"{name!r} is no folder, no preset (`litebert models`) and no name of a hub model") from None
    except LocalEntryNotFoundError:
        raise FolderError(f"{name!r} is no folder and no preset, and the hub cannot be reached for it") from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise FolderError(f"the hub did not give {name!r}: {reason}") from None
    return folder
