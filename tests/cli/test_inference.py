"""`litebert embed`, `similarity`, `search` and `index`, with the encoder that comes with litebert and with others."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import litebert
from tests.commands import fails, run_here
from tests.conftest import make_sentences

NOTES = """To reset your password, open the settings and choose a new one.

The cafeteria is open from eleven to two on weekdays.

Expense reports are due on the last Friday of the month."""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text(NOTES, encoding="utf-8")
    return tmp_path / "notes.txt"


def test_search_finds_what_has_other_words(notes: Path, tmp_path: Path) -> None:
    page = tmp_path / "found.html"
    done = run_here("search", notes, "when can I have lunch?", "--also", "I forgot my login", "--page", page)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "when can I have lunch?"
    assert "The cafeteria is open" in lines[1]
    assert "notes.txt, line 3" in lines[2]
    assert "Looked through 3 passages of" in done.stderr
    content = page.read_text(encoding="utf-8")
    assert content.index("cafeteria") < content.index("I forgot my login")
    found = json.loads(run_here("search", notes, "I forgot my login", "--json", "--top", 1).output)
    assert found[0]["found"][0]["text"].startswith("To reset your password")


def test_search_says_what_is_missing(notes: Path, tmp_path: Path) -> None:
    assert run_here("search", notes).exit_code == 2
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    assert "holds no passage" in fails("search", tmp_path / "empty.txt", "a question")
    assert "cannot be read" in fails("search", tmp_path / "nothing.txt", "a question")


def test_embed_writes_and_prints_vectors(notes: Path, tmp_path: Path, small_encoder: Path) -> None:
    out = tmp_path / "vectors.npy"
    done = run_here("embed", "--file", notes, "--out", out, "--dimensions", 64)
    assert "3 vectors of 64 numbers" in done.output
    lines = [line for line in NOTES.splitlines() if line]
    np.testing.assert_allclose(np.load(out), litebert.load().embed(lines, dimensions=64), atol=1e-6)
    printed = [
        json.loads(line) for line in run_here("embed", "a text", "another", "-m", small_encoder).output.splitlines()
    ]
    assert [row["text"] for row in printed] == ["a text", "another"]
    np.testing.assert_allclose(printed[0]["vector"], litebert.load(small_encoder).embed("a text"), atol=1e-5)
    piped = run_here("embed", "--file", "-", "--out", out, input="one text\n\nanother one\n")
    assert "2 vectors of 384 numbers" in piped.output
    assert "1 of 3 lines of - are empty and left out" in piped.stderr


def test_embed_reads_tables_and_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("review,stars\ngood film,5\nbad film,1\n", encoding="utf-8")
    done = run_here("embed", "--file", table, "--column", "review", "--depth", 1)
    assert [json.loads(line)["text"] for line in done.output.splitlines()] == ["good film", "bad film"]
    assert run_here("embed").exit_code == 2
    assert run_here("embed", "a", "--out", tmp_path / "vectors.txt").exit_code == 2
    assert "depth must be between" in fails("embed", "a text", "--depth", 50)


def test_similarity_sorts_by_meaning() -> None:
    done = run_here("similarity", "a cat is asleep", "stocks fell on Monday", "the kitten sleeps")
    lines = done.output.splitlines()
    assert lines[0].endswith("the kitten sleeps")
    assert float(lines[0].split()[0]) > float(lines[1].split()[0])
    rows = json.loads(run_here("similarity", "a cat", "a cat", "a dog", "--json").output)
    assert rows[0]["cosine"] == pytest.approx(1.0, abs=1e-4)


def test_what_was_cut_is_said_once(tmp_path: Path) -> None:
    done = run_here("similarity", "a text", "word " * 400, "word " * 500)
    assert done.output.count("litebert: 2 texts were longer than the 256 tokens") == 1
    (tmp_path / "long.txt").write_text("word," * 500 + "\n", encoding="utf-8")
    assert "longer than" in run_here("search", tmp_path / "long.txt", "a word").output


# The command, in windows of eight texts, until it is killed with its third window.
KILLED = """
import os, sys
from litebert.cli import main
from litebert.inference.load import Pipeline

embed, stream = Pipeline.embed, Pipeline.embed_stream
calls = iter([embed, embed])
Pipeline.embed = lambda *given, **how: next(calls, lambda *given, **how: os.kill(os.getpid(), 9))(*given, **how)
Pipeline.embed_stream = lambda *given, **how: stream(*given, window=8, **how)
main()
"""


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Windows of eight texts; the list has the signal that comes with each of the next ones."""
    embed, stream = litebert.Pipeline.embed, litebert.Pipeline.embed_stream
    signals: list[int] = []

    def interrupt(self: litebert.Pipeline, texts: list[str], **how: Any) -> Any:
        if signals and (number := signals.pop(0)):
            os.kill(os.getpid(), number)
        return embed(self, texts, **how)

    monkeypatch.setattr(litebert.Pipeline, "embed", interrupt)
    monkeypatch.setattr(litebert.Pipeline, "embed_stream", lambda *given, **how: stream(*given, window=8, **how))
    return signals


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_embed_goes_on_to_the_same_bytes(
    tmp_path: Path, small_encoder: Path, number: int, windows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(make_sentences(50)), encoding="utf-8")
    command = ("embed", "--file", "texts.txt", "-m", small_encoder, "--out")
    assert "50 vectors" in run_here(*command, "whole.npy").stdout
    if number == signal.SIGKILL:
        words = [sys.executable, "-c", KILLED, *map(str, command), "out.npy"]
        assert subprocess.run(words, check=False).returncode == -number
    else:
        windows += [0, 0, number]
        stopped = run_here(*command, "out.npy")
        assert stopped.exit_code == 130
        assert stopped.stderr == "litebert: interrupted; the same command goes on with what is done\n"
    assert not Path("out.npy").exists()
    assert "going on after 16 vectors" in run_here(*command, "out.npy").stderr
    assert Path("out.npy").read_bytes() == Path("whole.npy").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "texts.txt", "whole.npy"]


def test_embed_finds_a_bad_line_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litebert.Pipeline, "embed", lambda *given, **how: pytest.fail("it began"))
    (tmp_path / "texts.txt").write_bytes(b"a text\nnot \xff UTF-8\n")
    assert "texts.txt, line 2" in fails("embed", "--file", tmp_path / "texts.txt", "--out", tmp_path / "out.npy")
    (tmp_path / "texts.txt").write_bytes(b"\n\n")
    assert "holds no text" in fails("embed", "--file", tmp_path / "texts.txt", "--out", tmp_path / "out.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_an_index_answers_as_its_files_do(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "my-index"
    done = run_here("index", notes, "--out", out)
    assert done.exit_code == 0, done.output
    assert f"{out}: 3 passages, vectors of 384 numbers" in done.stdout
    asked = ("when can I have lunch?", "--also", "I forgot my login", "--json")
    ours, theirs = (json.loads(run_here("search", source, *asked).stdout) for source in (out, notes))
    for one, other in zip(ours, theirs, strict=True):
        assert [hit["location"] for hit in one["found"]] == [hit["location"] for hit in other["found"]]
        assert [hit["cosine"] for hit in one["found"]] == pytest.approx(
            [hit["cosine"] for hit in other["found"]], abs=1e-3
        )
    page = tmp_path / "found.html"
    shown = run_here("search", out, "when can I have lunch?", "--top", 1, "--page", page)
    assert "The cafeteria is open" in shown.stdout
    assert "Looked through 3 passages of" in shown.stderr
    assert "litebert-en" in page.read_text(encoding="utf-8")


def test_index_takes_options_and_says_what_cannot_be(notes: Path, tmp_path: Path, small_encoder: Path) -> None:
    out = tmp_path / "my-index"
    made = run_here("index", notes, "-o", out, "--most", 2, "--dimensions", 64, "--precision", "int8", "--json")
    facts = json.loads(made.stdout)
    assert (facts["num_vectors"], facts["size"], facts["precision"]) == (2, 64, "int8")
    assert run_here("search", out, "a question", "--model", "litebert-en").exit_code == 0
    assert "is already there" in fails("index", notes, "-o", out)
    assert "choose one of float16" in fails("index", notes, "-o", tmp_path / "other", "--precision", "half")
    assert "an index is searched alone" in fails("search", out, notes, "a question")
    assert "an index is searched alone" in fails("search", out, out, "a question")
    assert "leave --per-document out" in fails("search", out, "a question", "--per-document", 1)
    assert "has other weights" in fails("search", out, "a question", "--model", small_encoder)
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    assert "holds no text" in fails("index", tmp_path / "empty.txt", "-o", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    piped = run_here("index", "-", "-o", tmp_path / "other", input=NOTES)
    assert "3 passages" in piped.output
