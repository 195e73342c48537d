"""Folders that can be trusted: JSON that is checked, SHA-256 of every file, writing that is never half done.

The manifest lists the files of a folder with their hashes (safetensors has no checksum of its own). Files are written
beside the folder first. A new folder then appears by one rename, whole or not at all. Over an old folder the files move
in one by one, the manifest first, so that a mixture of old and new is noticed when the folder is opened.
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litebert.errors import FolderError, LitebertError, RequestError

__all__ = [
    "MANIFEST",
    "PARTIAL",
    "RUN_FILE",
    "RUN_MODEL",
    "copy_files",
    "hash_file",
    "locate_model",
    "lock_folder",
    "model_name",
    "new_folder",
    "read_bytes",
    "read_json",
    "read_text",
    "remove_abandoned",
    "remove_folder",
    "replace_folder",
    "verify_manifest",
    "write_json",
]

MANIFEST = "manifest.json"
_UNLISTED = ("optimized.json",)  # may be written anew in a folder that stays as it is
PARTIAL = ".partial"
"""What the name of a file ends in while it is being written."""
RUN_FILE, RUN_MODEL = "run.json", "model"
"""By this file a folder is known to be a run; its model lies in this subfolder."""
_STAGING = ".saving-"


def locate_model(name: str | Path) -> str | Path:
    """The model that a name means: the model of a run if a run folder is named, else what was named."""
    folder = Path(name)
    if not (folder / RUN_FILE).is_file() or (folder / "config.json").is_file():
        return name
    if not (folder / RUN_MODEL).is_dir():
        raise FolderError(f"{folder} is a run that has no model yet: wait until it ends, or go on with --resume")
    return folder / RUN_MODEL


def model_name(name: str | Path) -> str:
    """What to call a model in a table or on a card: its folder, or the one that holds it if that is just `model`.

    >>> model_name("runs/my-run/model"), model_name("models/my-bert/"), model_name("google/bert_uncased")
    ('my-run', 'my-bert', 'bert_uncased')
    """
    path = Path(name)
    return path.parent.name if path.name == RUN_MODEL and path.parent.name else path.name


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read an ordinary file that is not too large: no endless pipe, no device, no gigabytes."""
    try:
        if not path.is_file():
            raise FolderError(f"{path} is missing" if not path.exists() else f"{path} is not an ordinary file")
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read ({type(error).__name__})") from None
    if len(content) > max_bytes:
        raise FolderError(f"{path} is larger than {max_bytes:,} bytes, which no such file should be")
    return content


def read_text(path: Path, max_bytes: int = 100_000_000) -> str:
    """Read a UTF-8 file that is not too large."""
    try:
        return read_bytes(path, max_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise FolderError(f"{path} cannot be read as UTF-8 text; save or download it again") from None


def read_json(path: Path, max_bytes: int = 16_000_000) -> dict[str, Any]:
    """Read a JSON object from a file that is not too large."""
    try:
        content = json.loads(read_text(path, max_bytes))
    except (ValueError, RecursionError):
        raise FolderError(f"{path} cannot be read as JSON; save or download it again") from None
    if not isinstance(content, dict):
        raise FolderError(f"{path} must hold one JSON object")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_manifest(
    folder: Path, max_bytes: int = 16_000_000, advice: str = f"restore it, or delete {MANIFEST}"
) -> None:
    """Compare a folder with its manifest, if it has one; folders of other tools have none."""
    path = folder / MANIFEST
    if not path.exists():
        return
    files = read_json(path, max_bytes).get("files")
    if not isinstance(files, dict):
        raise FolderError(f"{path} must hold an object named 'files'")
    for name, expected in files.items():
        if not isinstance(expected, dict) or not _is_inside(name):
            raise FolderError(f"{path} has a bad entry {name!r}")
        file = folder / name
        try:
            if file.stat().st_size == expected.get("bytes") and hash_file(file) == expected.get("sha256"):
                continue
        except (FileNotFoundError, ValueError):
            raise FolderError(f"{file} is missing, though {MANIFEST} names it; save the folder again") from None
        except OSError as error:
            raise FolderError(f"{file} cannot be read ({error.strerror}); check its permissions") from None
        raise FolderError(f"{file} is not what {MANIFEST} says (damaged or changed): {advice}")


def _is_inside(name: str) -> bool:
    """Whether this is the name of a file in a folder, or in a subfolder of it."""
    parts = name.split("/")
    return len(parts) <= 2 and all(Path(part).name == part and part not in ("", ".", "..") for part in parts)


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Give a staging folder to fill; when the block ends well, its files and their manifest move into the folder."""
    with _staging_folder(folder) as staging:
        yield staging
        _write_manifest(staging)
        if folder.exists():
            for file in sorted(_files(staging), key=lambda path: path.name != MANIFEST):
                target = folder / file.relative_to(staging)
                target.parent.mkdir(exist_ok=True)
                file.replace(target)
        else:
            _move_in(staging, folder)
        _sync(folder)
        _sync(folder.parent)


def copy_files(folder: Path, staging: Path) -> None:
    """Copy what belongs to a model: not its manifest, nor files of caches and of version control."""
    shutil.copytree(folder, staging, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST, ".*"))


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a staging folder to fill with folders; when the block ends well, it takes its name, whole or not at all."""
    with _staging_folder(folder) as staging:
        if folder.exists():
            raise FolderError(f"{folder} is already there")
        yield staging
        _sync(staging)
        _move_in(staging, folder)
        _sync(folder.parent)


def remove_folder(folder: Path) -> None:
    """Delete a folder such that no part of it is ever seen without the rest."""
    away = folder.with_name(f".{folder.name}{_STAGING}{os.getpid()}-old")  # takes no space, which may be short
    shutil.rmtree(away, ignore_errors=True)
    try:
        folder.replace(away)
    except OSError as error:
        raise LitebertError(f"cannot remove {folder}: {error.strerror or error}") from error
    shutil.rmtree(away, ignore_errors=True)


def lock_folder(folder: Path, whose: str) -> int:
    """Keep a folder for this process; closing the descriptor, or the end of the process, lets go of it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RequestError(f"another {whose} is writing to {folder}: wait for it, or choose another --out") from None
    return descriptor


@contextlib.contextmanager
def _staging_folder(folder: Path) -> Iterator[Path]:
    staging: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() and not folder.is_dir():
            raise FolderError(f"{folder} is a file; name a folder to save into")
        remove_abandoned(folder.parent, folder.name)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}{_STAGING}{os.getpid()}-", dir=folder.parent))
        yield staging
    except OSError as error:
        raise LitebertError(f"cannot save to {folder}: {error.strerror or error}") from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)


def _move_in(staging: Path, folder: Path) -> None:
    staging.chmod(0o755)  # a temporary folder is private; a saved one is as readable as any other
    staging.replace(folder)


def remove_abandoned(parent: Path, name: str | None = None) -> None:
    """Remove what killed processes left behind while they saved a folder.

    Without a name, everything is removed: the caller holds the parent and knows that nobody else saves there.
    """
    for path in parent.glob(f".{glob.escape(name) if name else '*'}{_STAGING}*"):
        owner = path.name.rpartition(_STAGING)[2].partition("-")[0]
        is_dead = owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists()
        if is_dead or name is None:
            shutil.rmtree(path, ignore_errors=True)


def _write_manifest(folder: Path) -> None:
    """Hash the files, and make sure that they are on disk."""
    entries = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": hash_file(path)}
        for path in _files(folder)
        if path.name not in (MANIFEST, *_UNLISTED)
    }
    (folder / MANIFEST).write_text(json.dumps({"format": 1, "files": entries}, indent=2) + "\n", encoding="utf-8")
    for path in folder.rglob("*"):
        _sync(path)


def _files(folder: Path) -> list[Path]:
    """All files of a folder and its subfolders, sorted."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def _sync(path: Path) -> None:
    """Wait until a file or the entries of a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
