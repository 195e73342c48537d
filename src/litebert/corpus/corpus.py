"""`Corpus`: a folder of shards, opened and checked, with the tokenizer that made it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from litebert.corpus.shards import Shard, ShardEntry, token_type
from litebert.errors import FolderError
from litebert.folders import MANIFEST, read_json, verify_manifest
from litebert.text.tokenizer import Tokenizer

__all__ = ["HELD_OUT", "KIND", "PROGRESS", "SPLITS", "TOKENIZER", "TRAIN", "Corpus", "tokenizer_hash"]

KIND = "litebert corpus"
PROGRESS = "progress.json"
TOKENIZER = "tokenizer"
TRAIN, HELD_OUT = "train", "held_out"
SPLITS = (TRAIN, HELD_OUT)


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
        manifest = read_json(folder / MANIFEST, max_bytes=1_000_000_000)
        if manifest.get("kind") != KIND or manifest.get("format") != 1:
            raise FolderError(f"{folder} is no corpus of this version of litebert; `litebert prepare` makes one")
        if verify:
            verify_manifest(folder)
            verify_manifest(folder / TOKENIZER)
        tokenizer = Tokenizer.from_pretrained(folder / TOKENIZER)
        try:
            said = manifest["tokenizer"]
            dtype = token_type(said["vocab_size"])
            entries = {split: [ShardEntry(**entry) for entry in manifest["splits"][split]] for split in SPLITS}
        except (KeyError, TypeError):
            raise FolderError(f"{folder / MANIFEST} is damaged; prepare the corpus again") from None
        if said["sha256"] != tokenizer_hash(folder / TOKENIZER) or said["vocab_size"] != tokenizer.vocab_size:
            raise FolderError(f"{folder} was prepared with another tokenizer than the one in it; prepare it again")
        try:
            shards = {
                split: [Shard.open(folder / entry.name, entry, dtype) for entry in found]
                for split, found in entries.items()
            }
        except OSError as error:
            raise FolderError(f"a shard of {folder} cannot be read ({error.strerror}); prepare it again") from None
        return cls(folder, manifest, shards, tokenizer)

    def num_tokens(self, split: str = TRAIN) -> int:
        """Tokens of a split."""
        return sum(shard.tokens.size for shard in self.shards[split])

    def check_tokenizer(self, tokenizer_folder: Path) -> None:
        """Refuse a model's tokenizer that is not the one of this corpus."""
        if tokenizer_hash(tokenizer_folder) != self.manifest["tokenizer"]["sha256"]:
            raise FolderError(
                f"{self.folder} was prepared with another tokenizer than {tokenizer_folder}: prepare it again with "
                f"--tokenizer {tokenizer_folder}"
            )

    def sentence_count(self, split: str = TRAIN) -> int:
        """Sentences of a split."""
        return int(np.sum([shard.sentence_ends.size for shard in self.shards[split]]))


def tokenizer_hash(folder: Path) -> str:
    """One hash for what decides about ids, whatever else lies in the folder."""
    import hashlib

    digest = hashlib.sha256()
    for name in ("spiece.model", "tokenizer.json", "vocab.txt"):
        if (folder / name).is_file():
            digest.update(name.encode() + (folder / name).read_bytes())
    return digest.hexdigest()
