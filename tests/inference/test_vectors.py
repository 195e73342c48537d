"""Vectors of a stream: those of `embed`, in order, into a file that goes on where it was interrupted."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import litebert
from litebert.errors import RequestError
from litebert.inference import vectors
from litebert.inference.vectors import NpyWriter, embed_file
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences
from tests.tasks.small import make_encoder

TEXTS = list(make_sentences(50))


@pytest.fixture(scope="module")
def encoder(small_encoder: Path) -> litebert.Pipeline:
    return litebert.load(small_encoder)


@pytest.fixture
def in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight texts."""
    stream = litebert.Pipeline.embed_stream
    monkeypatch.setattr(litebert.Pipeline, "embed_stream", lambda *given, **how: stream(*given, window=8, **how))


def test_a_stream_has_the_vectors_of_embed(encoder: litebert.Pipeline) -> None:
    taken: list[str] = []
    done: list[int] = []

    def give() -> Iterator[str]:
        for text in TEXTS:
            taken.append(text)
            yield text

    blocks = encoder.embed_stream(give(), window=16, depth=1, dimensions=8, on_progress=done.append)
    first = next(blocks)
    assert len(taken) == len(first) == 16  # no more is read than is embedded
    found = np.concatenate([first, *blocks])
    np.testing.assert_allclose(found, encoder.embed(TEXTS, depth=1, dimensions=8), atol=1e-6)
    with pytest.raises(RequestError, match="give an iterable"):
        next(encoder.embed_stream("a text"))
    assert done == sorted(done)
    assert done[-1] == len(TEXTS)


def test_a_file_that_grows_is_what_numpy_saves(tmp_path: Path) -> None:
    rows = np.arange(30, dtype=np.float16).reshape(10, 3)
    with (tmp_path / "grown.npy").open("w+b") as stream:
        writer = NpyWriter(stream, np.float16, (3,))
        writer.append(rows[:4])
        writer.append(rows[4:])
        writer.finish()
    np.save(tmp_path / "saved.npy", rows)
    assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "saved.npy").read_bytes()


def interrupt(encoder: litebert.Pipeline, out: Path, count: int = 20) -> None:
    """Begin a file and stop while the texts are being read."""

    def give() -> Iterator[str]:
        yield from TEXTS[:count]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_file(encoder, give(), out, {"file": "texts"}, depth=1)


@pytest.mark.usefixtures("in_windows")
def test_it_goes_on_to_the_same_bytes(
    encoder: litebert.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.npy", tmp_path / "out.npy"
    assert embed_file(encoder, TEXTS, whole, {"file": "texts"}, depth=1) == (len(TEXTS), encoder.config.hidden_size)
    np.testing.assert_allclose(np.load(whole), encoder.embed(TEXTS, depth=1), atol=1e-6)
    interrupt(encoder, out)
    assert not out.exists()
    partial = tmp_path / "out.npy.partial"
    with partial.open("ab") as stream:
        stream.write(b"what a kill left of the next window")
    embedded: list[str] = []
    embed = litebert.Pipeline.embed
    monkeypatch.setattr(
        litebert.Pipeline, "embed", lambda self, texts, **how: embedded.extend(texts) or embed(self, texts, **how)
    )
    messages: list[str] = []
    embed_file(encoder, TEXTS, out, {"file": "texts"}, depth=1, on_message=messages.append)
    assert messages == [f"going on after 16 vectors that are in {partial}"]
    assert embedded == TEXTS[16:]
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "whole.npy"]


@pytest.mark.usefixtures("in_windows")
@pytest.mark.parametrize("change", ["origin", "no origin", "options", "weights", "file", "note"])
def test_what_changed_starts_over(
    encoder: litebert.Pipeline, tmp_path: Path, small_tokenizer: Tokenizer, change: str
) -> None:
    out, partial = tmp_path / "out.npy", tmp_path / "out.npy.partial"
    interrupt(encoder, out)
    asked, how, origin = encoder, {"depth": 1}, {"file": "texts"}
    if change == "weights":
        asked = litebert.load(make_encoder(tmp_path / "other", small_tokenizer, seed=1))
    elif change == "options":
        how = {"depth": 2}
    elif change == "file":
        partial.write_bytes(partial.read_bytes()[:200])
    elif change == "note":
        (tmp_path / "out.npy.partial.json").write_text("{", encoding="utf-8")
    else:
        origin = None if change == "no origin" else {"file": "others"}
    messages: list[str] = []
    embed_file(asked, TEXTS, out, origin, on_message=messages.append, **how)
    assert [message.endswith("starting over") for message in messages] == [True]
    np.testing.assert_allclose(np.load(out), asked.embed(TEXTS, **how), atol=1e-6)


@pytest.mark.usefixtures("in_windows")
def test_no_texts_leave_no_file_and_two_writers_do_not_meet(encoder: litebert.Pipeline, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    with pytest.raises(RequestError, match="holds no text"):
        embed_file(encoder, [], out)
    assert list(tmp_path.iterdir()) == []

    def give() -> Iterator[str]:
        yield TEXTS[0]
        with pytest.raises(RequestError, match="another litebert embed is writing"):
            embed_file(encoder, TEXTS, out)

    assert embed_file(encoder, give(), out)[0] == 1


def test_an_encoder_is_known_by_weights_and_tokenizer(
    encoder: litebert.Pipeline, small_encoder: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(small_encoder, tmp_path / "moved")
    (moved / "README.md").write_text("another card", encoding="utf-8")
    (moved / "manifest.json").unlink()
    assert vectors.hash_encoder(litebert.load(moved)) == vectors.hash_encoder(encoder)
    (moved / "tokenizer.json").write_text("{}", encoding="utf-8")
    changed = replace(encoder, members=(replace(encoder.members[0], folder=moved),))
    assert vectors.hash_encoder(changed) != vectors.hash_encoder(encoder)
