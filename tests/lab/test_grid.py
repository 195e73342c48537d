"""The grid runner: the same tables killed or not, failed cells reported, cells shared between tables."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from litebert.corpus.corpus import Corpus
from litebert.errors import RequestError
from litebert.lab.cell import CellRun, CellStatus, is_measured, read_result, run_cell
from litebert.lab.experiment import CURVES, METRICS, open_experiment
from litebert.lab.grid import Grid, _Run, plan_grid, run_grid
from litebert.lab.results import collect, render_markdown, write_outputs
from tests.conftest import need, soak_count
from tests.lab.small import small_experiment, small_grid
from tests.pretraining.runs import ENVIRONMENT, ROOT

FILE = """
title = "Table 0: small"
about = "Something to try."
settings = { "model.hidden_size" = 24, "model.num_heads" = 3, "model.intermediate_size" = 40, \
"model.embedding_size" = 12, "model.num_layers" = 2, "stream.length" = 32, "train.batch_size" = 4, \
"train.save_steps" = 3, "held_out_rows" = 32 }
cells = [{ name = "shared" }, { name = "apart", settings = { "model.sharing" = "none" } }, \
{ name = "deeper", begin_from = "shared", settings = { "model.num_layers" = 4 } }]
columns = [{ metric = "mlm_loss", title = "loss", form = "number" }]
"""


def run_here(grid: Grid) -> None:
    """All cells in this process, parents first."""
    for task in _Run(grid, lambda event: None).tasks:
        status = run_cell(task.run)
        assert status.status == "done", status.message


@pytest.fixture(scope="module")
def finished(small_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    grid = small_grid(small_corpus.folder, tmp_path_factory.mktemp("lab") / "grid")
    run_here(grid)
    return grid


def test_cells_are_trained_and_measured(finished: Grid) -> None:
    table = collect(finished, "table0")
    assert [row.name for row in table.rows] == ["shared", "apart", "deeper"]
    for row in table.rows:
        assert {*row.metrics} == {0, 1}
        assert row.metrics[0]["mlm_loss"] != row.metrics[1]["mlm_loss"]
    assert table.rows[2].facts["num_layers"] == 4
    assert table.rows[2].facts["steps"] == 3
    assert table.verdicts[0].seeds == 2
    parent, child = (finished.folder_of(finished.keys["table0"][name], 0) for name in ("shared", "deeper"))
    assert json.loads((child / "run.json").read_text())["config"]["begin_from"] == str((parent / "model").resolve())
    assert not (parent / "checkpoints").exists()  # the model is all that is kept


def test_outputs_are_for_people_and_machines(finished: Grid) -> None:
    write_outputs(finished, ["table0"])
    folder = finished.folder / "table0"
    markdown = (folder / "table.md").read_text(encoding="utf-8")
    assert "| shared |" in markdown
    assert "| 80.1 |" in markdown  # the paper's
    assert "apart is better" in markdown
    lines = (folder / "table.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 3 * 2
    stored = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert [cell["name"] for cell in stored["cells"]] == ["shared", "apart", "deeper"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "lab run table0.toml --scale nano" in page  # how to repeat it
    assert 'href="table.csv"' in page
    assert ", fp32, litebert" in page  # of whatever machine
    assert 'href="table0/report.html"' in (finished.folder / "index.html").read_text(encoding="utf-8")


def test_what_is_done_is_not_done_again(finished: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("litebert.lab.grid.open_workers", refuse)
    result = run_grid(finished)
    assert (result.done, result.total, result.failures) == (6, 6, {})


def test_tables_share_the_cells_that_they_have_in_common(small_corpus: Corpus, tmp_path: Path) -> None:
    other = small_experiment(cells=[{"name": "everything shared"}], findings=[], measures=["masked", "layers"])
    options = small_grid(small_corpus.folder, tmp_path).options
    grid = plan_grid({"table0": small_experiment(), "table00": other}, tmp_path, options)
    assert len(grid.cells) == 3
    assert grid.keys["table00"]["everything shared"] == grid.keys["table0"]["shared"]
    assert grid.cell(grid.keys["table0"]["shared"]).measures == ("layers", "masked")


def test_a_new_measure_is_taken_of_the_model_that_is_there(finished: Grid) -> None:
    task = _Run(finished, lambda event: None).tasks[0]
    before = read_result(Path(task.run.folder))
    assert before is not None
    weights = (Path(task.run.folder) / "model" / "model.safetensors").stat().st_mtime_ns
    assert run_cell(replace(task.run, measures=("masked", "layers", "probes"))).status == "done"
    after = read_result(Path(task.run.folder))
    assert after is not None
    assert after["metrics"].items() > before["metrics"].items()
    assert len(after["series"]["distance"]) == 2  # layers
    assert {*after["metrics"]} == {*METRICS["masked"], *METRICS["layers"], *METRICS["probes"]}
    assert {*after["series"]} == {*CURVES["curves"], *CURVES["layers"]}
    assert (Path(task.run.folder) / "model" / "model.safetensors").stat().st_mtime_ns == weights


def test_numbers_are_enough_unless_a_cell_begins_from_them(finished: Grid, tmp_path: Path) -> None:
    copy = replace(finished, folder=tmp_path / "copy")
    for file in finished.folder.glob("cells/*/seed-*/result.json"):
        kept = copy.folder / file.relative_to(finished.folder)
        kept.parent.mkdir(parents=True)
        kept.write_bytes(file.read_bytes())
    assert all(is_measured(task.run) for task in _Run(copy, lambda event: None).tasks)  # nothing is left to do
    child = copy.folder_of(copy.keys["table0"]["deeper"], 1)
    (child / "result.json").unlink()
    left = [task.cell.name for task in _Run(copy, lambda event: None).tasks if not is_measured(task.run)]
    assert left == ["table0: shared", "table0: deeper"]
    run_here(copy)
    assert collect(copy, "table0").rows[2].metrics == collect(finished, "table0").rows[2].metrics


def test_the_same_number_of_steps_takes_as_long(small_corpus: Corpus, tmp_path: Path) -> None:
    cells = [{"name": "slow", "settings": {"model.num_layers": 4}}, {"name": "quick", "equal_time": "slow"}]
    grid = small_grid(small_corpus.folder, tmp_path, small_experiment(cells=cells, findings=[]), steps=100)
    paces = {key.partition("x")[0]: seconds for key, seconds in grid.pace.items()}  # by layers
    slow, quick = (grid.cell(grid.keys["table0"][name]).config.train.steps for name in ("slow", "quick"))
    assert slow == 100
    assert quick == round(100 * paces["4"] / paces["2"])


def test_a_budget_decides_about_the_steps(small_corpus: Corpus, tmp_path: Path) -> None:
    grids = [
        small_grid(small_corpus.folder, tmp_path, steps=None, budget=seconds, workers=2, seeds=1)
        for seconds in (40.0, 400.0)
    ]
    assert 20 <= grids[0].steps < grids[1].steps
    planned = sum(cell.seconds or 0.0 for cell in grids[1].cells) / 2
    assert planned == pytest.approx(400.0, rel=0.5)  # the pace was measured twice
    with pytest.raises(RequestError, match="so short a --budget"):
        small_grid(small_corpus.folder, tmp_path, steps=None, budget=1.0)


def test_a_grid_stays_what_it_was_begun_as(finished: Grid) -> None:
    run_grid(finished)
    with pytest.raises(RequestError, match="holds a grid with steps 6"):
        small_grid(finished.options.corpus, finished.folder, steps=7)
    with pytest.raises(RequestError, match="holds a grid with scale nano"):
        small_grid(finished.options.corpus, finished.folder, scale="mini")
    assert small_grid(finished.options.corpus, finished.folder, steps=None).steps == 6


def test_a_table_that_trains_nothing_leaves_a_grid_as_it_is(finished: Grid) -> None:
    run_grid(finished)
    described = small_experiment(trains=False, findings=[])
    options = replace(finished.options, corpus=Path("nowhere"), steps=None)
    run_grid(plan_grid({"table00": described}, finished.folder, options))
    assert small_grid(finished.options.corpus, finished.folder, steps=None).steps == 6


def test_more_text_must_be_named(small_corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="--more-text"):
        small_grid(
            small_corpus.folder, tmp_path, small_experiment(cells=[{"name": "a", "more_text": True}], findings=[])
        )


def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(small_corpus: Corpus, tmp_path: Path) -> None:
    cells = [
        {"name": "fails", "settings": {"model.sharing": "none"}},
        {"name": "child", "begin_from": "fails", "settings": {"model.sharing": "none"}},
        {"name": "works"},
    ]
    grid = small_grid(small_corpus.folder, tmp_path / "lab", small_experiment(cells=cells, findings=[]), seeds=1)
    broken = grid.folder_of(grid.keys["table0"]["fails"], 0)
    broken.mkdir(parents=True)
    (broken / "foreign.txt").write_text("not a run", encoding="utf-8")
    messages: list[str] = []
    result = run_grid(grid, lambda event: messages.append(event.message))
    assert (result.done, result.total) == (1, 3)
    assert sorted(result.failures.values())[1] == "the cell that it begins from failed"
    assert any("fails, seed 0: failed" in message and "not empty" in message for message in messages)
    assert "| works |" in render_markdown(collect(grid, "table0"))


# --- killed ---------------------------------------------------------------------------------------------------------


def start_grid(file: Path, corpus: Path, out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "litebert", "lab", "run", str(file), "--corpus", str(corpus), "--out", str(out)]
    command += ["--steps", "12", "--seeds", "2", "--workers", "2"]
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True)


def read_numbers(out: Path) -> Any:
    stored = json.loads((out / "mine" / "results.json").read_text(encoding="utf-8"))
    return [
        (cell["name"], seed, found["metrics"], found["series"])
        for cell in stored["cells"]
        for seed, found in cell["seeds"].items()
    ]


def kill_grid(corpus: Path, folder: Path, count: int) -> int:
    """Run a grid undisturbed, and one that is killed so many times; say how often the latter was."""
    file = folder / "mine.toml"
    file.write_text(FILE, encoding="utf-8")
    _, experiment = open_experiment(str(file))
    grid = small_grid(corpus, folder / "expected", experiment, "mine", steps=12, seeds=2)
    run_here(grid)
    write_outputs(grid, ["mine"])
    kills, generator = 0, random.Random(count)
    while True:
        process = start_grid(file, corpus, folder / "killed")
        if kills < count:
            while process.poll() is None and len([*folder.glob("killed/cells/*/seed-*/run.json")]) <= kills:
                time.sleep(0.02)  # until another cell has begun
            time.sleep(generator.uniform(0.0, 0.3))
            process.send_signal(signal.SIGKILL)  # the main process alone: its workers must end by themselves
        if process.wait() == 0:
            break
        assert process.returncode == -signal.SIGKILL, (folder / "killed.log").read_text()
        kills += 1
    assert read_numbers(folder / "killed") == read_numbers(folder / "expected")
    return kills


@pytest.mark.soak
def test_twenty_kills_change_no_table(small_corpus: Corpus, tmp_path: Path) -> None:
    kills = sum(kill_grid(small_corpus.folder, tmp_path / str(number), 4) for number in _folders(tmp_path, 5))
    print(f"grids killed at random points: {kills} kills, all tables equal")
    assert kills >= soak_count(20) // 2


def _folders(tmp_path: Path, count: int) -> range:
    numbers = range(soak_count(count))
    for number in numbers:
        (tmp_path / str(number)).mkdir()
    return numbers


def test_ctrl_c_saves_and_says_how_to_go_on(small_corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE, encoding="utf-8")
    out = tmp_path / "lab"
    command = [sys.executable, "-m", "litebert", "lab", "run", str(file), "--corpus", str(small_corpus.folder)]
    command += ["--out", str(out), "--steps", "100000", "--seeds", "1", "--workers", "1"]
    process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, start_new_session=True)
    while not any(out.glob("cells/*/seed-0/checkpoints/step-*3")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert b"0 of 3 cells are done" in said
    assert b"Go on with the same command" in said


def test_a_cell_whose_process_is_killed_is_reported(
    small_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = small_grid(small_corpus.folder, tmp_path / "lab", seeds=1)
    monkeypatch.setattr("litebert.lab.grid.run_cell", _kill_the_first)
    result = run_grid(grid)
    assert (result.done, len(result.failures)) == (1, 2)  # the one that begins from it cannot run
    assert any("its process was lost" in reason for reason in result.failures.values())


def _kill_the_first(run: CellRun) -> CellStatus:
    """A worker's part: one cell brings its process to an end, as the kernel does where memory is short."""
    if run.config["model"]["sharing"] == "all" and run.begin_from is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return CellStatus(run.folder, "done")


def test_cells_run_on_a_cluster(small_corpus: Corpus, tmp_path: Path) -> None:
    distributed = need("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        grid = small_grid(small_corpus.folder, tmp_path / "lab", seeds=1, scheduler=cluster.scheduler_address)
        result = run_grid(grid)
    assert (result.done, result.failures) == (3, {})
