"""Pretraining on the command line, as a user goes it."""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from litebert.corpus.corpus import Corpus
from litebert.model.model import Model
from tests.commands import run, start
from tests.corpus.conftest import make_documents, write_documents
from tests.reports.test_unfinished import begin as begin_tuning

SMALL = ("--length", 32, "--batch", 4, "--set", "held_out_rows=32", "--set", "model.num_layers=2")


@pytest.fixture(scope="module")
def finished(small_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    out = tmp_path_factory.mktemp("cli") / "run"
    done = run("pretrain", small_corpus.folder, "--steps", 6, "-o", out, *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["status"], said["step"]) == ("finished", 6)
    assert 0 <= said["metrics"]["mlm_accuracy"] <= 1
    return out


def test_a_run_leaves_a_model_that_fills_masks_and_a_page(finished: Path) -> None:
    assert "<svg" in (finished / "report.html").read_text(encoding="utf-8")
    assert "## Evaluation" in (finished / "model" / "README.md").read_text(encoding="utf-8")
    asked = run("fill-mask", finished / "model", "the river [MASK] the bridge", "--top", 3, "--json")
    assert asked.returncode == 0, asked.stderr
    (answer,) = json.loads(asked.stdout)
    assert len(answer["masks"][0]) == 3
    plain = run("fill-mask", finished / "model", "no gap at all")
    assert (plain.returncode, plain.stderr.count("\n")) == (1, 1)


def test_a_folder_with_a_run_is_not_overwritten_but_gone_on_with(finished: Path, small_corpus: Corpus) -> None:
    again = run("pretrain", small_corpus.folder, "--steps", 6, "-o", finished, *SMALL)
    assert again.returncode == 1
    assert "already holds a run at step 6: go on with --resume" in again.stderr
    resumed = run("pretrain", small_corpus.folder, "-o", finished, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "of the masked words of held-out text are right" in resumed.stdout
    same = run("pretrain", small_corpus.folder, "--steps", 6, "-o", finished, *SMALL, "--resume")
    assert same.returncode == 0, same.stderr
    for option in (("--lr", 0.1), ("--objective", "none"), ("--model", "albert-base")):
        other = run("pretrain", small_corpus.folder, "--steps", 6, "-o", finished, *SMALL, "--resume", *option)
        assert other.returncode == 2
        assert "the run has" in other.stderr
    nothing = run("pretrain", small_corpus.folder, "-o", finished.parent / "nothing", "--resume")
    assert nothing.returncode == 1
    assert "holds no run" in nothing.stderr
    assert not (finished.parent / "nothing").exists()


def test_a_run_begins_with_the_weights_of_another(finished: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    common = ("--length", 32, "--batch", 4, "--steps", 2, "--set", "held_out_rows=32", "--lr", 1e-9)
    for recipe in ("budget", "paper"):
        out = tmp_path / recipe
        done = run("pretrain", small_corpus.folder, "-m", finished / "model", "-o", out, "--recipe", recipe, *common)
        assert done.returncode == 0, done.stderr
        old, new = (Model.from_pretrained(folder / "model").state_dict() for folder in (finished, out))
        assert all(torch.allclose(old[name], new[name], atol=1e-6) for name in old)
    shutil.rmtree(tmp_path / "paper" / "model")
    moved = finished.rename(finished.with_name("elsewhere"))  # going on needs the checkpoint alone
    try:
        assert run("pretrain", small_corpus.folder, "-o", tmp_path / "paper", "--resume").returncode == 0
    finally:
        moved.rename(finished)


def test_what_is_said_last_counts(finished: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    def effective(*options: object) -> dict[str, Any]:
        done = run("pretrain", small_corpus.folder, "-o", tmp_path / "x", "--dry-run", "--json", *options)
        assert done.returncode == 0, done.stderr
        config: dict[str, Any] = json.loads(done.stdout)["config"]
        return config

    told = effective("--config", finished / "run.json", "--budget", "1m", "--batch", 2, "--objective", "none")
    assert (told["train"]["steps"], told["train"]["seconds"], told["train"]["batch_size"]) == (None, 60.0, 2)
    assert told["stream"]["pairs"] == "none"
    assert told["model"]["num_layers"] == 2  # of the file
    told = effective("--config", finished / "run.json", "--model", "albert-mini", "--set", "train.steps=3")
    assert (told["train"]["steps"], told["train"]["seconds"], told["model"]["num_layers"]) == (3, None, 6)
    for option in (("--rows-at-once", 2), ("--micro-batch", 2), ("--set", "train.rows_at_once=2")):
        assert effective(*SMALL, *option)["train"]["micro_batch_size"] == 2
    told = effective(*SMALL, "--set", "model.initializer_range=0.01", "--set", "train.steps=3")
    assert (told["model"]["initializer_range"], told["train"]["seconds"]) == (0.01, None)


def test_a_report_can_be_drawn_at_any_time(finished: Path, tmp_path: Path) -> None:
    done = run("report", finished, "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert "What it fills in" in (tmp_path / "page.html").read_text(encoding="utf-8")
    run("report", finished, "--out", tmp_path / "page.html", "--no-samples")
    assert "What it fills in" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    missing = run("report", tmp_path)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)


def test_a_report_of_a_fine_tuning_run(tmp_path: Path) -> None:
    folder = begin_tuning(tmp_path / "run")
    done = run("report", folder)
    assert (done.returncode, done.stdout) == (0, f"{folder / 'report.html'}\n"), done.stderr
    assert "Task colours" in (folder / "report.html").read_text(encoding="utf-8")
    (folder / "report.html").write_text("the full one")
    refused = run("report", folder)
    assert (refused.returncode != 0, refused.stderr.count("\n")) == (True, 1)
    assert str(folder / "report.html") in refused.stderr
    assert (folder / "report.html").read_text() == "the full one"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "1m", "--steps", 3), "leave one of them out"),
        (("--recipe", "magic"), "budget or paper"),
        (("--objective", "poetry"), "sop, nsp or none"),
        (("--set", "train.optim.speed=3"), "there is no setting train.optim.speed"),
        (("--set", "train.optim.lr=fast"), "train.optim.lr"),
        (("--set", "lr"), "NAME=VALUE"),
        (("--lr", -1), "train.optim.lr"),
        (("--budget", "soon"), "is no duration"),
        (("--save-every", "0s"), "is no duration"),
        (("--length", 5000), "positions"),
    ],
)
def test_a_wrong_call_is_said_in_a_sentence(
    options: tuple[object, ...], words: str, small_corpus: Corpus, tmp_path: Path
) -> None:
    done = run("pretrain", small_corpus.folder, "-o", tmp_path / "run", *options)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_settings_come_from_a_file_and_the_plan_is_shown(small_corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[train]\nseed = 7\n[train.optim]\nlr = 0.5\noptimizer = "lamb"\n')
    common = ("pretrain", small_corpus.folder, "-o", tmp_path / "run", "--dry-run", "--steps", 50, *SMALL)
    done = run(*common, "--config", tmp_path / "run.toml", "--lr", 0.25, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["config"]["train"]["optim"]["optimizer"] == "lamb"
    assert (said["config"]["train"]["optim"]["lr"], said["config"]["train"]["seed"]) == (0.25, 7)
    assert sum(stage["tokens"] for stage in said["plan"]["stages"]) == pytest.approx(50 * 4 * 32, rel=0.1)
    shown = run(*common, "--recipe", "paper")
    assert "lamb" in shown.stdout
    assert "Nothing was trained" in shown.stdout
    assert not (tmp_path / "run").exists()


def test_half_precision_trains_where_it_is_asked_for(small_corpus: Corpus, tmp_path: Path) -> None:
    common = ("pretrain", small_corpus.folder, "--steps", 3, *SMALL, "--json")
    losses = []
    for precision in ("fp32", "bf16"):
        done = run(*common, "-o", tmp_path / precision, "--precision", precision)
        assert done.returncode == 0, done.stderr
        losses.append(json.loads(done.stdout)["metrics"]["mlm_loss"])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_ctrl_c_saves_and_says_how_to_go_on(small_corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ["pretrain", small_corpus.folder, "--steps", 100_000, "-o", out, *SMALL, "--set", "train.log_steps=1"]
    child = start(*command)
    while not (out / "metrics.jsonl").exists() or '"step"' not in (out / "metrics.jsonl").read_text(encoding="utf-8"):
        assert child.poll() is None, child.communicate()
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    said, errors = child.communicate(timeout=600)
    assert child.returncode == 130, errors
    assert "Go on with:  litebert pretrain" in said
    assert "--resume" in said
    assert len(list((out / "checkpoints").iterdir())) == 2  # the beginning, and where it stopped


def test_the_quickstart_goes_the_whole_way_and_deletes_nothing_of_others(tmp_path: Path) -> None:
    text = write_documents(tmp_path / "text.jsonl", make_documents(1500))
    done = run("quickstart", text, "--out", tmp_path / "quick", "--budget", "3s", "--vocab-size", 400)
    assert done.returncode == 0, done.stderr
    assert "$ litebert lint" in done.stdout
    assert "By counting alone" in done.stdout
    assert "this function [MASK] a list" in done.stdout
    assert "Commands to go on with:" in done.stdout
    assert "Search by meaning" in (tmp_path / "quick" / "search.html").read_text(encoding="utf-8")
    assert "<svg" in (tmp_path / "quick" / "run" / "report.html").read_text(encoding="utf-8")
    anew = run("quickstart", tmp_path / "nothing.txt", "--out", tmp_path / "quick")
    assert "nothing.txt cannot be read" in anew.stderr
    assert not (tmp_path / "quick" / "run").exists()  # it was one of its own
    (tmp_path / "mine" / "run").mkdir(parents=True)
    refused = run("quickstart", text, "--out", tmp_path / "mine")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert (tmp_path / "mine" / "run").is_dir()
