"""`litebert lab` as a user meets it."""

import json
from pathlib import Path

from litebert.corpus.corpus import Corpus
from tests.commands import fails, run
from tests.lab.test_grid import FILE


def test_table_1_is_exact_and_needs_no_text(tmp_path: Path) -> None:
    done = run("lab", "run", "table1", "--out", tmp_path / "lab")
    assert done.returncode == 0, done.stderr
    assert "| albert-xxlarge | 223M | 12 | 4,096 | 128 | all | 235M |" in done.stdout
    assert done.stdout.count("**holds**: no difference") == 3
    assert (tmp_path / "lab" / "table1" / "report.html").is_file()
    shown = run("lab", "show", "table1", "--out", tmp_path / "lab")
    assert shown.stdout.strip() in done.stdout


def test_list_and_show_know_the_paper() -> None:
    listed = run("lab", "list", "--json")
    experiments = json.loads(listed.stdout)["experiments"]
    assert experiments["table4"]["cells"] == 8
    shown = run("lab", "show", "table5")
    assert "SOP  (paper: MLM 54.0, NSP 78.9, SOP 86.5, Avg 80.1)" in shown.stdout
    assert "litebert lab run table5" in shown.stdout


def test_a_plan_says_time_and_memory_and_runs_nothing(small_corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE, encoding="utf-8")
    out = tmp_path / "lab"
    done = run("lab", "run", file, "--corpus", small_corpus.folder, "--steps", 5, "--out", out, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "3 cells × 3 seeds" in done.stdout
    assert "MB" in done.stdout
    assert not out.exists()


def test_what_is_wrong_is_said_before_anything_runs(small_corpus: Corpus, tmp_path: Path) -> None:
    corpus, out = ("--corpus", small_corpus.folder), ("--out", tmp_path / "lab")
    assert "choose from table1" in fails("lab", "run", "table99", *corpus, *out)
    assert "choose from nano" in fails("lab", "run", "table4", "--scale", "huge", *corpus, *out)
    assert "leave one of them out" in fails("lab", "run", "table4", "--steps", 5, "--budget", "1h", *corpus, *out)
    assert "--task nothing.csv" in fails("lab", "run", "table4", "--task", "nothing.csv", *corpus, *out)
    assert "--more-text" in fails("lab", "run", "table7", "--steps", 5, *corpus, *out)
    assert "`litebert prepare` makes a corpus" in fails("lab", "run", "table4", "--corpus", tmp_path / "nowhere", *out)
    assert not (tmp_path / "lab").exists()
