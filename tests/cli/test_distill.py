"""Distillation on the command line, as a user goes it."""

import json
import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from litebert.distillation.job import Distillation
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary
from tests.commands import fails, run, run_here
from tests.conftest import make_sentences
from tests.corpus.conftest import make_documents, write_documents
from tests.distillation.runs import BERT, make_teacher

SMALL = ("--length", 32, "--batch", 4, "--precision", "fp32", "--set", "held_out_rows=32")


@pytest.fixture(scope="module")
def teacher(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT."""
    return make_teacher(tmp_path_factory.mktemp("teacher") / "bert", small_tokenizer, num_layers=2, **BERT)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of text."""
    return write_documents(tmp_path_factory.mktemp("text") / "text.jsonl", make_documents(200))


@pytest.fixture(scope="module")
def finished(teacher: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    out = tmp_path_factory.mktemp("cli") / "run"
    done = run("distill", teacher, text, "--steps", 4, "-o", out, *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["status"], said["step"], said["folder"]) == ("finished", 4, str(out))
    assert -1 <= said["metrics"]["agreement"] <= 1
    assert said["tokens"] > 0
    assert Path(said["report"]) == out / "report.html"
    return out


def test_what_is_wrong_is_said_before_text_is_cut(teacher: Path, text: Path, tmp_path: Path) -> None:
    for wrong in (("--depths", "99"), ("--dimensions", "9999"), ("--set", "colour=red")):
        fails("distill", teacher, text, "--steps", 4, "-o", tmp_path / "run", *wrong)
    assert not (tmp_path / "run").exists()


def test_a_run_leaves_a_model_and_a_page(finished: Path) -> None:
    assert "<svg" in (finished / "report.html").read_text(encoding="utf-8")
    assert "## Distillation" in (finished / "model" / "README.md").read_text(encoding="utf-8")


def test_a_folder_with_a_run_is_not_overwritten_but_gone_on_with(finished: Path, teacher: Path, text: Path) -> None:
    again = run("distill", teacher, text, "--steps", 4, "-o", finished, *SMALL)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "already holds a run at step 4: go on with --resume" in again.stderr
    resumed = run("distill", teacher, text, "-o", finished, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "its similarities correlate" in resumed.stdout
    assert f"Next:  litebert finetune your-file.csv --model {finished}" in resumed.stdout
    other = run("distill", teacher, text, "--steps", 5, "-o", finished, *SMALL, "--resume")
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)
    assert "the run has train.steps 4 instead of 5" in other.stderr


def test_the_help_has_examples() -> None:
    shown = run_here("distill", "--help")
    assert shown.exit_code == 0
    assert "Examples:  litebert distill my-bert books/" in shown.output
    for option in ("--rated", "--depths", "--dimensions", "--tokenizer", "--resume"):
        assert option in shown.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--depths", "2,x"), "write numbers with commas between, such as 2,4,6, not '2,x'"),
        (("--dimensions", "8;4"), "not '8;4'"),
        (("--steps", 0), "greater than or equal to 1"),
        (("--length", 4), "greater than or equal to 8"),
    ],
)
def test_an_option_that_is_none_is_refused(options: tuple[object, ...], words: str, text: Path, tmp_path: Path) -> None:
    done = run_here("distill", "teacher", text, "-o", tmp_path / "run", *options)
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--depths", "1,99"), "depth 99 does not fit"),
        (("--dimensions", 24), "dimension 24 is no part of a vector of 24"),
        (("--budget", "1m"), "leave one of them out"),
        (("--rated", "nothing.csv"), "nothing.csv"),
        (("--set", "colour=red"), "there is no setting colour"),
        (("--model", "./nobody"), "./nobody"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(
    options: tuple[object, ...], words: str, teacher: Path, finished: Path, tmp_path: Path
) -> None:
    shown = fails("distill", teacher, finished / "corpus", "-o", tmp_path / "run", "--steps", 3, *SMALL, *options)
    assert words in shown
    assert "\n" not in shown
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["missing", "preset", "foreign", "damaged"])
def test_a_teacher_that_cannot_teach_is_one_sentence(kind: str, teacher: Path, text: Path, tmp_path: Path) -> None:
    named: Any = {"missing": tmp_path / "nobody", "preset": "albert-base"}.get(kind)
    if named is None:
        named = shutil.copytree(teacher, tmp_path / "teacher")
        file = named / ("config.json" if kind == "foreign" else "model.safetensors")
        file.write_text('{"model_type": "gpt2"}' if kind == "foreign" else "weights")
        (named / "manifest.json").unlink()
    done = run("distill", named, text, "-o", tmp_path / "run", "--steps", 3, *SMALL)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("litebert: ")
    assert not (tmp_path / "run").exists()


def interrupt(job: Distillation, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """An evaluation in which the user presses Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    return {"agreement": 0.0}, []


def test_ctrl_c_saves_and_says_how_to_go_on(teacher: Path, text: Path, tmp_path: Path) -> None:
    """The command that it names goes on to the end, with the word pieces and the rated pairs of the run."""
    out = tmp_path / "run"
    pieces = train_vocabulary(make_sentences(300, seed=1), VocabularyConfig(vocab_size=300, coverage=1.0))
    pieces.save_pretrained(tmp_path / "pieces")
    (tmp_path / "rated.csv").write_text("text,pair,label\na river,a boat,3.5\ntwo sailors,an apple,0.5\na,b,1.5\n")
    own = ("--tokenizer", tmp_path / "pieces", "--rated", tmp_path / "rated.csv", "--depths", "1,2")
    begin = ("distill", teacher, text, "-o", out, "--steps", 10, "--set", "train.evaluations=5", *SMALL, *own)
    with mock.patch.object(Distillation, "evaluate", interrupt):
        stopped = run_here(*begin)
    assert stopped.exit_code == 130, stopped.output
    assert "Stopped at step 3, and saved. Go on with:  litebert distill" in stopped.stdout
    assert not (out / "model").exists()
    assert (out / "report.html").exists()
    name, *command = shlex.split(stopped.stdout.partition("Go on with:  ")[2])
    assert name == "litebert"
    resumed = run_here(*command)
    assert resumed.exit_code == 0, resumed.output
    assert "went on from step 3" in resumed.stderr
    assert "with the rated pairs; 10 steps" in resumed.stdout
    assert "at depth 1: agreement" in resumed.stdout
