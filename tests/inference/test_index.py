"""A saved index: the same answers as the texts themselves, whole or not at all, and only with its own encoder."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import litebert
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.inference import search
from litebert.inference.index import Index
from litebert.inference.search import Passage, search_passages
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences
from tests.tasks.small import make_encoder

TEXTS = list(dict.fromkeys(make_sentences(60)))
PASSAGES = [Passage(text, f"notes.txt, line {number}") for number, text in enumerate(TEXTS)]
QUESTIONS = [TEXTS[7], "what did the captain cross?"]


@pytest.fixture(scope="module")
def encoder(small_encoder: Path) -> litebert.Pipeline:
    return litebert.load(small_encoder)


@pytest.fixture(scope="module")
def saved(encoder: litebert.Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "saved"
    encoder.index(PASSAGES, folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "copy")


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float16", 1e-3), ("int8", 2e-2)])
def test_it_finds_what_the_texts_themselves_give(
    encoder: litebert.Pipeline, tmp_path: Path, precision: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BLOCK", 17)
    index = encoder.index(iter(PASSAGES), tmp_path / "index", precision=precision)  # type: ignore[arg-type]
    expected = search_passages(encoder, QUESTIONS, PASSAGES, top=len(PASSAGES))
    for ours, theirs in zip(index.search(QUESTIONS, len(PASSAGES)), expected, strict=True):
        cosines = {hit.passage: hit.cosine for hit in theirs}
        assert {hit.passage for hit in ours} == set(PASSAGES)
        assert [hit.cosine for hit in ours] == pytest.approx([cosines[hit.passage] for hit in ours], abs=tolerance)
        assert [hit.cosine for hit in ours] == sorted((hit.cosine for hit in ours), reverse=True)
    assert index.search(TEXTS[7], 1)[0].passage == PASSAGES[7]
    assert index.vectors.dtype == precision
    assert len(index) == len(PASSAGES)


def test_a_reopened_index_gives_the_same_answers(encoder: litebert.Pipeline, saved: Path) -> None:
    fresh = encoder.index(PASSAGES)
    for opened in (Index.open(saved), Index.open(saved, encoder, verify=True)):
        assert opened.search(QUESTIONS, 4) == fresh.search(QUESTIONS, 4)
        np.testing.assert_array_equal(opened.vectors, fresh.vectors)
        assert [opened[number] for number in range(len(opened))] == PASSAGES
    assert f"{len(PASSAGES)} vectors of {encoder.config.hidden_size} numbers by small" in repr(opened)


def test_an_index_without_a_folder_leaves_nothing_behind(encoder: litebert.Pipeline) -> None:
    index = encoder.index(TEXTS, depth=1, dimensions=8)
    folder = index.folder
    assert folder.is_dir()
    assert index.search(TEXTS[3], 1)[0].passage == Passage(TEXTS[3], "3")
    assert index.vectors.shape == (len(TEXTS), 8)
    np.testing.assert_allclose(np.linalg.norm(index.vectors.astype(np.float32), axis=1), 1, atol=1e-3)
    del index
    assert not folder.parent.exists()


def test_another_encoder_is_refused(saved: Path, copy: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    other = make_encoder(tmp_path / "other", small_tokenizer, seed=1)
    with pytest.raises(RequestError, match="was made with the encoder small, and other has other weights"):
        Index.open(saved, litebert.load(other))
    info = json.loads((copy / "search-index.json").read_text(encoding="utf-8"))
    for folder, message in (
        (other, "has other weights"),
        (tmp_path / "gone", "encoder small, which is not where it was"),
    ):
        changed = {**info, "encoder_folder": str(folder)}
        (copy / "search-index.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(LitebertError, match=message):
            Index.open(copy).search("a question")


@pytest.mark.parametrize("name", ["vectors.npy", "offsets.npy", "passages.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "shorter", "longer", "empty", "other"])
def test_damaged_files_are_refused(copy: Path, name: str, damage: str) -> None:
    file = copy / name
    content = file.read_bytes()
    damaged = {"shorter": content[:-1], "longer": content + b"\n", "empty": b"", "other": b"something else entirely"}
    file.unlink() if damage == "missing" else file.write_bytes(damaged[damage])
    with pytest.raises(FolderError, match=f"{name} is missing or damaged: make the index again"):
        Index.open(copy)


def test_a_flipped_bit_is_found_on_request_or_when_the_passage_is_read(copy: Path, encoder: litebert.Pipeline) -> None:
    content = bytearray((copy / "passages.jsonl").read_bytes())
    content[2] ^= 1
    (copy / "passages.jsonl").write_bytes(content)
    with pytest.raises(FolderError, match="damaged or changed"):
        Index.open(copy, verify=True)
    with pytest.raises(FolderError, match=r"passages\.jsonl is missing or damaged"):
        Index.open(copy, encoder).search(TEXTS[0], 1)


def test_what_the_folder_says_is_checked(copy: Path, tmp_path: Path) -> None:
    info = json.loads((copy / "search-index.json").read_text(encoding="utf-8"))
    faults = {
        "another version of litebert": {**info, "format": 2},
        "is damaged": {**info, "num_vectors": "many"},
        "vectors.npy is missing or damaged": {**info, "num_vectors": 3},
    }
    for message, content in faults.items():
        (copy / "search-index.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(FolderError, match=message):
            Index.open(copy)
    with pytest.raises(FolderError, match="is no index"):
        Index.open(tmp_path)


def test_an_interrupted_build_leaves_nothing(
    encoder: litebert.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_BLOCK", 10)
    staged: list[list[str]] = []

    def stop() -> Iterator[str]:
        yield from TEXTS[:25]
        staged.append([path.name for path in tmp_path.rglob("*") if path.is_file()])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder.index(stop(), tmp_path / "index")
    assert "vectors.npy" in staged[0]  # as a kill would leave it: without what makes it an index
    assert "search-index.json" not in staged[0]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_built(encoder: litebert.Pipeline, saved: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is already there"):
        encoder.index(TEXTS, saved)
    with pytest.raises(RequestError, match="choose one of float16, float32, int8"):
        encoder.index(TEXTS, tmp_path / "index", precision="float8")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="holds no passage"):
        encoder.index([], tmp_path / "index")
    with pytest.raises(RequestError, match="the question is empty"):
        Index.open(saved).search(" ")
    with pytest.raises(RequestError, match="give a list of them"):
        encoder.index("a text", tmp_path / "index")
    with pytest.raises(RequestError, match="top must be at least 1"):
        Index.open(saved).search("a question", 0)
    assert not (tmp_path / "index").exists()


def test_any_text_comes_back_as_it_was(encoder: litebert.Pipeline) -> None:
    texts = ['two\nlines\u2028and a "quote"', "café 今天", "half of a pair: \ud83d", ""]
    index = encoder.index(texts)
    assert [index[number].text for number in range(len(texts))] == texts
    with pytest.raises(IndexError):
        index[len(texts)]
