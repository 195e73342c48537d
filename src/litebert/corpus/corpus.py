"""`Corpus`: a folder of shards, opened and checked, with the tokenizer that made it."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litebert.corpus.shards import Shard, ShardEntry, token_type
from litebert.errors import FolderError
from litebert.folders import MANIFEST, read_json, verify_manifest
from litebert.text.tokenizer import Tokenizer

__all__ = ["HELD_OUT", "KIND", "PROGRESS", "SPLITS", "TOKENIZER", "TRAIN", "Corpus", "hash_tokenizer"]

KIND = "litebert corpus"
PROGRESS = "progress.json"
TOKENIZER = "tokenizer"
TRAIN, HELD_OUT = "train", "held_out"
SPLITS = (TRAIN, HELD_OUT)

_LARGEST_MANIFEST = 1_000_000_000


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus. `shards["train"]` is for training, `shards["held_out"]` for evaluation."""

    folder: Path
    manifest: dict[str, Any]
    shards: dict[str, list[Shard]]
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> "Corpus":
        """Open a corpus, with all hashes compared unless `verify` is off."""
        folder = Path(folder)
        if not folder.is_dir():
            raise FolderError(f"{folder} is no folder; `litebert prepare` makes a corpus")
        if not (folder / MANIFEST).exists():
            if (folder / PROGRESS).exists():
                raise FolderError(f"{folder} is not finished: run the same `litebert prepare` again, and it goes on")
            raise FolderError(f"{folder} is no corpus: it has no {MANIFEST}; `litebert prepare` makes one")
        manifest = read_json(folder / MANIFEST, _LARGEST_MANIFEST)
        if manifest.get("kind") != KIND or manifest.get("format") != 1:
            raise FolderError(f"{folder} is no corpus of this version of litebert; `litebert prepare` makes one")
        if verify:
            verify_manifest(folder, _LARGEST_MANIFEST, "prepare the corpus again")
            verify_manifest(folder / TOKENIZER)
        tokenizer = Tokenizer.from_pretrained(folder / TOKENIZER)
        try:
            recorded, files = manifest["tokenizer"], manifest["files"]
            dtype = token_type(recorded["vocab_size"])
            entries = {split: [ShardEntry(**entry) for entry in manifest["splits"][split]] for split in SPLITS}
            if recorded["vocab_size"] != tokenizer.vocab_size or recorded["sha256"] != hash_tokenizer(tokenizer):
                raise FolderError(f"{folder} was prepared with another tokenizer than the one in it; prepare it again")
            if any(files[entry.name]["sha256"] != entry.sha256 for found in entries.values() for entry in found):
                raise ValueError("two hashes of one file")
        except (KeyError, TypeError, ValueError):
            raise FolderError(f"{folder / MANIFEST} is damaged; prepare the corpus again") from None
        try:
            shards = {
                split: [Shard.open(folder / entry.name, entry, dtype) for entry in found]
                for split, found in entries.items()
            }
        except OSError as error:
            raise FolderError(f"a shard of {folder} cannot be read ({error.strerror}); prepare it again") from None
        return cls(folder, manifest, shards, tokenizer)

    @property
    def scripts(self) -> dict[str, int]:
        """Letters of each script in a sample of the text."""
        counts = self.manifest.get("counts")
        found = counts.get("scripts") if isinstance(counts, dict) else None
        return found if isinstance(found, dict) else {}

    def num_tokens(self, split: str = TRAIN) -> int:
        """Tokens of a split."""
        return sum(shard.tokens.size for shard in self.shards[split])

    def check_tokenizer(self, name: str | Path) -> None:
        """Refuse a model's tokenizer that is not the one of this corpus."""
        if hash_tokenizer(Tokenizer.from_pretrained(name)) != self.manifest["tokenizer"]["sha256"]:
            raise FolderError(
                f"{self.folder} was prepared with another tokenizer than {name}: prepare it again with "
                f"--tokenizer {name}"
            )


def hash_tokenizer(tokenizer: Tokenizer) -> str:
    """One hash for what decides about ids, in whatever files the tokenizer came."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as name:
        tokenizer.write_files(Path(name))
        for file in ("spiece.model", "tokenizer.json"):
            if (Path(name) / file).is_file():
                digest.update(file.encode() + (Path(name) / file).read_bytes())
    return digest.hexdigest()
