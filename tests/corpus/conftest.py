"""Documents of random words, and what is prepared from them."""

import json
import random
from pathlib import Path

from litebert.corpus.corpus import Corpus
from litebert.corpus.prepare import PrepareConfig, prepare
from litebert.text.sources import Reader, find_sources
from litebert.text.tokenizer import Tokenizer
from tests.conftest import PARTS

WORDS = [word for phrases in PARTS.values() for word in phrases.replace("|", " ").split()]


def make_documents(count: int, seed: int = 0) -> list[str]:
    """Documents of 1 to 14 sentences of random words, hardly two of them alike."""
    generator = random.Random(seed)

    def sentence() -> str:
        words = generator.choices(WORDS, k=generator.randint(4, 16))
        return f"{words[0].capitalize()} {' '.join(words[1:])} {generator.randrange(1000)}."

    return [" ".join(sentence() for _ in range(generator.randint(1, 14))) for _ in range(count)]


def write_documents(path: Path, documents: list[str]) -> Path:
    """Write documents as JSON lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    return path


def prepare_documents(folder: Path, documents: list[str], tokenizer: Tokenizer, **settings: object) -> Corpus:
    """Prepare documents into a folder, and open the corpus."""
    source = write_documents(folder.with_suffix(".jsonl"), documents)
    prepare(Reader(find_sources([str(source)])), tokenizer, folder, PrepareConfig(**settings))  # type: ignore[arg-type]
    return Corpus.open(folder)
