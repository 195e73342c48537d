"""The README's example runs, from text and a table to answers; and its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences, small_config

ROOT = Path(__file__).parents[1]


def test_the_python_example(tmp_path: Path, small_tokenizer: Tokenizer) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 1
    sentences = list(make_sentences(1500))
    (tmp_path / "books").mkdir()
    for number in range(60):
        text = "\n".join(sentences[25 * number : 25 * number + 25])
        (tmp_path / "books" / f"{number}.txt").write_text(text, encoding="utf-8")
    stars = ["good", "bad"]
    rows = [
        f'"{sentence}",{stars[number % 2]}' for number, sentence in enumerate(sentences[::15]) if '"' not in sentence
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,stars", *rows]) + "\n", encoding="utf-8")
    teacher = Model(small_config(family="bert", sharing="none", embedding_size=24, vocab_size=400))
    teacher.save_pretrained(tmp_path / "my-bert", small_tokenizer)
    code = blocks[0]
    for written, small in {
        "vocab_size=8000": "vocab_size=400",
        'budget="2h"': "steps=4, batch=4",
        'out="reviews-run"': 'out="reviews-run", steps=2',
    }.items():
        assert written in code
        code = code.replace(written, small)
    (tmp_path / "example.py").write_text(code, encoding="utf-8")  # workers must not run it again
    command = [sys.executable, "example.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith(")]")
    assert "in-seconds" in lines[1]
    assert lines[2].split()[1] in stars
    assert "TokenGuess" in lines[3]
    assert (tmp_path / "my-albert" / "report.html").exists()
    assert (tmp_path / "reviews-run" / "report.html").exists()


def test_it_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_the_commands_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"^make ([a-z]+)", text, re.M))
    assert named == {"quickstart", "test"}
    assert named <= targets
    assert {"quickstart", "test", "check", "bench", "soak", "docs", "help"} <= targets
