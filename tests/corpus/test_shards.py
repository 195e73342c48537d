"""Shards and the corpus around them: what goes in comes out, and whatever is damaged is named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.shards import EncodedText, Shard, ShardWriter, token_type
from litebert.errors import FolderError
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary
from tests.conftest import make_sentences

documents_of_ids = st.lists(
    st.lists(st.lists(st.integers(0, 65535), min_size=1, max_size=9), min_size=1, max_size=5), max_size=8
)


@settings(max_examples=60)
@given(st.lists(documents_of_ids, max_size=3), st.sampled_from([60_000, 100_000]))
def test_documents_come_back(tmp_path_factory: pytest.TempPathFactory, chunks: list, vocab_size: int) -> None:
    path = tmp_path_factory.mktemp("shard") / "train-00000.shard"
    writer = ShardWriter(path, token_type(vocab_size))
    for documents in chunks:
        sentences = [sentence for document in documents for sentence in document]
        writer.append(
            EncodedText(
                np.array([token for sentence in sentences for token in sentence], np.int64),
                np.array([len(sentence) for sentence in sentences], np.uint32),
                np.array([len(document) for document in documents], np.uint32),
            )
        )
    assert not path.exists()
    shard = Shard.open(path, writer.finish(), token_type(vocab_size))
    found = [[s.tolist() for s in shard.document(i)] for i in range(shard.document_ends.size)]
    assert found == [document for documents in chunks for document in documents]


@pytest.fixture
def corpus(small_corpus: Corpus, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(small_corpus.folder, tmp_path / "corpus"))


def test_every_flipped_bit_is_found(corpus: Path) -> None:
    """Row 5 of the faults: a bit flips in a shard, and opening names the file."""
    generator = np.random.default_rng(0)
    shards = sorted(corpus.glob("*.shard"))
    found = 0
    for _ in range(1000):
        shard = shards[generator.integers(len(shards))]
        place, bit = int(generator.integers(shard.stat().st_size)), 1 << int(generator.integers(8))
        with shard.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ bit]))
            file.flush()
            with pytest.raises(FolderError, match=shard.name):
                Corpus.open(corpus)
            found += 1
            file.seek(place)
            file.write(bytes([byte]))
    Corpus.open(corpus)
    print(f"bit flips in shards: {found}/1000 found")


def test_shards_that_are_missing_truncated_or_foreign(corpus: Path) -> None:
    shard = corpus / "train-00001.shard"
    content = shard.read_bytes()
    shard.write_bytes(content[:-5])
    for verify in (True, False):
        with pytest.raises(FolderError, match=r"train-00001\.shard"):
            Corpus.open(corpus, verify)
    shard.unlink()
    with pytest.raises(FolderError, match=r"train-00001\.shard is missing"):
        Corpus.open(corpus)
    with pytest.raises(FolderError, match="prepare it again"):
        Corpus.open(corpus, verify=False)
    shard.write_bytes((corpus / "train-00000.shard").read_bytes())
    with pytest.raises(FolderError, match=r"train-00001\.shard"):
        Corpus.open(corpus)


def test_a_corpus_with_another_tokenizer(corpus: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    other = train_vocabulary(make_sentences(300), VocabularyConfig(vocab_size=300, coverage=1.0))
    (tmp_path / "other").mkdir()
    other.write_files(tmp_path / "other")
    with pytest.raises(FolderError, match="another tokenizer"):
        small_corpus.check_tokenizer(tmp_path / "other")
    small_corpus.check_tokenizer(small_corpus.folder / "tokenizer")
    small_corpus.check_tokenizer(small_corpus.folder / "tokenizer" / "spiece.model")
    shutil.rmtree(corpus / "tokenizer")
    shutil.copytree(tmp_path / "other", corpus / "tokenizer")
    with pytest.raises(FolderError, match="another tokenizer"):
        Corpus.open(corpus)


@pytest.mark.parametrize("change", [{"format": 2}, {"kind": "x"}, {"splits": 3}, {"tokenizer": None}, {"splits": {}}])
def test_a_manifest_that_is_not_one(corpus: Path, change: dict) -> None:
    path = corpus / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FolderError, match=r"prepare"):
        Corpus.open(corpus)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "../../outside.shard"),
        ("name", 3),
        ("tokens", "x"),
        ("tokens", None),
        ("sentences", 1),
        ("sha256", "0"),
    ],
)
def test_a_manifest_that_lies_about_a_shard(corpus: Path, key: str, value: object) -> None:
    path = corpus / "manifest.json"
    content = json.loads(path.read_text())
    content["splits"]["train"][0][key] = value
    path.write_text(json.dumps(content))
    for verify in (True, False):
        with pytest.raises(FolderError, match="prepare"):
            Corpus.open(corpus, verify)


def test_folders_that_are_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is no folder"):
        Corpus.open(tmp_path / "nothing")
    with pytest.raises(FolderError, match=r"has no manifest\.json"):
        Corpus.open(tmp_path)
    (tmp_path / "progress.json").write_text("{}")
    with pytest.raises(FolderError, match="is not finished"):
        Corpus.open(tmp_path)


def test_counts_are_those_of_the_arrays(small_corpus: Corpus, small_tokenizer: Tokenizer) -> None:
    for split in (TRAIN, HELD_OUT):
        said = small_corpus.manifest["splits"][split]
        assert sum(entry["tokens"] for entry in said) == small_corpus.num_tokens(split)
    assert small_corpus.tokenizer.vocab_size == small_tokenizer.vocab_size
    assert len(small_corpus.shards[TRAIN]) >= 3
