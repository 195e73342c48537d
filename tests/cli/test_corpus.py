"""The way from text to batches on the command line, as a user goes it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import run, run_fresh
from tests.conftest import make_sentences, need
from tests.corpus.conftest import make_documents, write_documents


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text and a tokenizer that the command line trained on it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "text.txt").write_text("\n\n".join(make_sentences(1500)), encoding="utf-8")
    write_documents(folder / "documents.jsonl", make_documents(800))
    done = run("tokenizer", "train", folder, "--vocab-size", 500, "--coverage", 1.0, "--out", folder / "tok")
    assert done.returncode == 0, done.stderr
    assert "500 pieces" in done.stdout
    return folder


def test_from_text_to_lint(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    prepared = run("prepare", home / "documents.jsonl", "-t", home / "tok", "-o", out, "--json", "--held-out", 0.05)
    assert prepared.returncode == 0, prepared.stderr
    said = json.loads(prepared.stdout)
    assert said["documents_read"] == 800
    assert said["tokens"]["train"] > 10 * said["tokens"]["held_out"] > 0
    found = run("lint", out, "--json", "--length", 64, "--tokenizer", home / "tok")
    assert found.returncode == 0, found.stdout
    report = json.loads(found.stdout)
    assert report["verdict"] in ("good", "look")
    assert report["measures"]["mask_rate"] == pytest.approx(0.15, abs=0.01)
    again = run("prepare", home / "documents.jsonl", "-t", home / "tok", "-o", out)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "already holds a corpus" in again.stderr


def test_lines_without_blank_ones_are_one_document_and_it_says_so(home: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(make_sentences(50)), encoding="utf-8")
    said = run("prepare", tmp_path / "lines.txt", "-t", home / "tok", "-o", tmp_path / "corpus", "--held-out", 0.5)
    assert (said.returncode, said.stderr.count("only one, since a blank line ends a document")) == (0, 1), said.stderr
    assert "larger --held-out" not in said.stderr  # it would not help


def test_encode_and_decode(home: Path) -> None:
    text = "The naïve king, ＡＢＣ 한국어 ½\n\nIn 1990, nobody [MASK] it."
    encoded = run("tokenizer", "encode", "--tokenizer", home / "tok", "--json", input=text)
    rows = [json.loads(line) for line in encoded.stdout.splitlines()]
    lines = text.split("\n")
    assert len(rows) == 3
    assert rows[1] == {"ids": [], "pieces": [], "offsets": []}
    peer = need("transformers").AutoTokenizer.from_pretrained(home / "tok")
    for row, line in zip(rows, lines, strict=True):
        assert row["ids"] == peer(line, add_special_tokens=False)["input_ids"]
        assert len(row["ids"]) == len(row["pieces"]) == len(row["offsets"])
        for piece, (begin, end) in zip(row["pieces"], row["offsets"], strict=True):
            assert piece == "▁" or line[begin:end]
    assert [lines[0][slice(*place)] for place in rows[0]["offsets"]][-1] == "½"
    decoded = run("tokenizer", "decode", "--tokenizer", home / "tok", input=encoded.stdout)
    assert decoded.stdout.splitlines()[0].startswith("the naive king, abc 한국어")
    plain = run("tokenizer", "encode", "--tokenizer", home / "tok", home / "text.txt")
    assert plain.stdout.count("\n") == len((home / "text.txt").read_text(encoding="utf-8").split("\n"))


def test_inspect(home: Path) -> None:
    found = json.loads(run("tokenizer", "inspect", home / "text.txt", "-t", home / "tok", "--json").stdout)
    assert found["vocab_size"] == 500
    assert found["unknown_rate"] == 0
    assert found["coverage"] == 1
    assert 1 < found["fertility"] < 5
    assert set(found["scripts"]) == {"LATIN", "HANGUL", "CJK"}
    assert "fertility" in run("tokenizer", "inspect", home / "text.txt", "-t", home / "tok").stdout


def test_standard_input_is_a_source(home: Path, tmp_path: Path) -> None:
    done = run(
        "prepare", "-", "-t", home / "tok", "-o", tmp_path / "c", "--workers", 1, input="One. Two.\n\nThree.\n\n\nFour."
    )
    assert done.returncode == 0, done.stderr
    assert "from 3 documents" in done.stdout
    lines = json.dumps({"text": "A long line. " * 20_000}).encode() + b"\n" + (home / "documents.jsonl").read_bytes()
    done = run("prepare", "-", "-t", home / "tok", "-o", tmp_path / "json", "--workers", 1, input=lines)
    assert "from 801 documents" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["prepare", "nothing.txt"], 1, "nothing.txt cannot be read"),
        (["prepare", "{home}/empty"], 1, "holds no file that can be read"),
        (["prepare", "{home}/documents.jsonl", "--column", "body"], 1, "(there are: 'text')"),
        (["prepare", "{home}/documents.jsonl", "--held-out", "0.9"], 2, "--held-out"),
        (["prepare", "{home}/documents.jsonl", "--tokenizer", "{home}/empty"], 1, "has no tokenizer"),
        (["prepare", "{home}/documents.jsonl", "--workers", "0"], 2, "--workers"),
        (["prepare", "{home}/broken.jsonl.gz"], 1, "truncated or damaged"),
        (["prepare", "{home}/latin.txt"], 1, "is not UTF-8"),
        (["lint", "{home}"], 1, "is no corpus"),
        (["lint", "{home}", "--pairs", "both"], 2, "--pairs"),
        (["tokenizer", "train", "{home}/documents.jsonl", "--vocab-size", "100000"], 1, "choose --vocab-size"),
        (["tokenizer", "train", "{home}/documents.jsonl", "--form", "nfc"], 2, "--form"),
        (["tokenizer", "encode", "--tokenizer", "{home}/none/at/all"], 1, ""),
        (["tokenizer", "encode", "--tokenizer", "{home}/tok", "{home}/latin.txt"], 1, "line 1, is not UTF-8"),
        (["tokenizer", "decode", "--tokenizer", "{home}/tok", "{home}/text.txt"], 1, "line 1 holds no ids"),
        (["tokenizer"], 2, ""),
    ],
)
def test_faults_are_one_sentence(home: Path, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    (home / "empty").mkdir(exist_ok=True)
    (home / "latin.txt").write_bytes("ein schönes Wort\n".encode("latin-1"))
    (home / "broken.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00 broken")
    filled = [argument.format(home=home) for argument in arguments]
    if filled[0] == "prepare":
        filled += ["--out", str(tmp_path / "out")]
        filled += [] if "--tokenizer" in filled else ["--tokenizer", str(home / "tok")]
    result = run(*filled, cwd=tmp_path)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    if code == 1:
        assert [line for line in result.stderr.splitlines() if line.startswith("litebert: ")]


def listen_to_ctrl_c() -> None:
    """Undo what a shell does to programs that it runs in the background: they do not hear Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("moment", ["at the start", "in the middle"])
def test_ctrl_c_says_how_to_go_on(home: Path, tmp_path: Path, moment: str) -> None:
    source = write_documents(tmp_path / "many.jsonl", make_documents(8000, seed=4))
    command = [sys.executable, "-m", "litebert", "prepare", str(source), "-t", str(home / "tok"), "--workers", "2"]
    command += ["-o", str(tmp_path / "c"), "--shard-tokens", "50000"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=listen_to_ctrl_c
    )
    while moment == "in the middle" and not list(tmp_path.glob("c/train-*.shard")):
        time.sleep(0.01)
        assert process.poll() is None
    while (
        moment == "at the start" and len(need("psutil").Process(process.pid).children()) < 2
    ):  # the workers are starting
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to workers, too
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "goes on" in errors
    assert run(*command[3:]).returncode == 0


@pytest.mark.parametrize("command", ["models --json", "tokenizer encode {home}/text.txt -t {home}/tok", "--help"])
def test_a_full_disk_behind_standard_output(home: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        line = [sys.executable, "-m", "litebert", *command.format(home=home).split()]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "litebert: No space left on device; check the disk and the permissions\n"


def test_closed_streams_and_other_encodings(home: Path) -> None:
    for command in (f"tokenizer encode -t {home}/tok", f"prepare - -t {home}/tok -o {home}/closed"):
        done = subprocess.run(f"{sys.executable} -m litebert {command} <&-", shell=True, capture_output=True, text=True)
        assert done.stderr == "litebert: standard input is closed: name a file\n"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = run_fresh("tokenizer", "encode", "-t", home / "tok", input="한국어", env=environment)
    assert "한국어" in done.stdout.replace(" ", "")


@pytest.mark.parametrize(
    "line", ["[Infinity]", "[" * 100_000, "-1", "9" * 30, '{"ids": "12"}', "[1.5]", "[true]", "999"]
)
@pytest.mark.parametrize("file", ["spiece.model", "tokenizer.json"])
def test_ids_that_are_none(home: Path, line: str, file: str) -> None:
    done = run("tokenizer", "decode", "-t", home / "tok" / file, input=line)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_a_tokenizer_takes_no_folder_of_another(home: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = run("tokenizer", "train", home / "text.txt", "--vocab-size", 500, "--out", tmp_path)
    assert done.returncode == 1
    assert "holds config.json" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_reader_that_goes_away(home: Path) -> None:
    command = f"{sys.executable} -m litebert tokenizer encode -t {home / 'tok'} {home / 'text.txt'} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
