"""With Google's vocabulary: the ids of Google's code on real text, and AutoTokenizer's, each difference explained."""

import gzip
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from litebert.text.spiece import SpieceEngine
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need
from tests.text import oracle

BOOKS_BYTES = 20_000_000


def read_lines(*files: Path) -> Iterator[str]:
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8") as lines:
            yield from lines


def read_texts(name: str, data: Path) -> Iterator[str]:
    if name == "wikitext2":
        yield from read_lines(*(data / f"text/wikitext2/wiki.{part}.raw.gz" for part in ("train", "valid", "test")))
    elif name == "books":
        size = 0
        for line in read_lines(data / "text/gutenberg.jsonl.gz"):
            text = json.loads(line)["text"]
            yield from text.split("\n\n")
            size += len(text.encode())
            if size > BOOKS_BYTES:
                return
    elif name == "imdb":
        lines = read_lines(*(data / f"imdb/{part}.jsonl.gz" for part in ("train", "test")))
        yield from (json.loads(line)["text"] for line in lines)
    elif name == "nsmc":
        yield from read_lines(*(data / f"nsmc/{part}.tsv.gz" for part in ("train", "test")))
    elif name == "chnsenticorp":
        yield from read_lines(*sorted((data / "chnsenticorp").glob("*.tsv")))
    else:
        yield from itertools.islice((text for text in oracle.fuzz(20_200) if text.strip()), 20_000)


def compare(data: Path, folder: Path, name: str, limit: int | None = None) -> str:
    """Compare in batches; give a line of the table."""
    transformers = need("transformers")

    tokenizer = Tokenizer.from_pretrained(data / "tokenizer" / "spiece.model")
    tokenizer.write_files(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    engine = tokenizer._engine
    assert isinstance(engine, SpieceEngine)
    processor = SentencePieceProcessor(model_proto=engine.model)
    texts = itertools.islice((text for text in read_texts(name, data) if text.strip()), limit)
    reasons: Counter[str] = Counter()
    count = 0
    while batch := list(itertools.islice(texts, 1000)):
        ids, counts = tokenizer.encode_plain(batch)
        found = [row.tolist() for row in np.split(ids, np.cumsum(counts)[:-1])]
        for text, ours, google in zip(batch, found, (oracle.encode(processor, text) for text in batch), strict=True):
            assert ours == google, text
        auto = theirs(batch, add_special_tokens=False)["input_ids"]
        for text, ours, other in zip(batch, found, auto, strict=True):
            if ours != other:
                reason = oracle.explain(engine.model, engine.number_commas, text, ours, other)
                assert reason != "unexplained", (text, ours, other)
                reasons[reason] += 1
        count += len(batch)
    assert count > 0
    assert reasons.total() <= 0.005 * count
    columns = ", ".join(f"{reasons[reason]} {reason}" for reason in ("tie", "number", "Unicode data"))
    return f"{name}: {count:,} texts, 0 differ from Google's code, {reasons.total()} from AutoTokenizer ({columns})"


NAMES = ["wikitext2", "books", "imdb", "nsmc", "chnsenticorp", "fuzz"]


@pytest.mark.parametrize("name", ["wikitext2", "nsmc", "fuzz"])
def test_ids_of_a_sample(real_data: Path, tmp_path: Path, name: str) -> None:
    compare(real_data, tmp_path, name, 2000)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_ids(real_data: Path, tmp_path: Path, name: str) -> None:
    print(compare(real_data, tmp_path, name))
