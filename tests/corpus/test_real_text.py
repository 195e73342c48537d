"""On real text: nothing but the words tells the order of two segments, and lint finds nothing wrong."""

from pathlib import Path

import pytest

from litebert.corpus.corpus import Corpus
from litebert.corpus.lint import lint
from litebert.corpus.prepare import prepare
from litebert.corpus.stream import StreamConfig
from litebert.text.sources import Reader, ReadOptions, find_sources
from litebert.text.tokenizer import Tokenizer


@pytest.mark.soak
@pytest.mark.parametrize("name", ["enwik8_articles", "gutenberg", "imdb_unsup"])
def test_borders_tell_nothing(real_data: Path, tmp_path: Path, name: str) -> None:
    sources = find_sources([str(real_data / "text" / f"{name}.jsonl.gz")])
    tokenizer = Tokenizer.from_pretrained(real_data / "tokenizer" / "spiece.model")
    prepare(Reader(sources, ReadOptions(columns=("text", "paras"))), tokenizer, tmp_path / "c", num_workers=2)
    corpus = Corpus.open(tmp_path / "c")
    for length in (128, 512):
        report = lint(corpus, StreamConfig(length=length), num_sequences=40_000)
        measures = report.measures
        print(f"{name}, length {length}: borders tell {measures.border_accuracy:.2%} of {measures.num_pairs:,} pairs")
        assert report.verdict != "bad"
        assert measures.border_accuracy is not None
        assert measures.border_accuracy <= 0.52
        assert measures.mixed_documents == 0
