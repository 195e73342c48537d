"""`litebert embed`, `similarity` and `search`, with the encoder that comes with litebert and with others."""

import json
from pathlib import Path

import numpy as np
import pytest

import litebert
from tests.commands import fails, run_here

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
    assert "1 of 3 lines of - are empty and have no vector" in piped.stderr


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
