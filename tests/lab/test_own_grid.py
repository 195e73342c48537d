"""The grid of docs/lab.md runs as it is written there."""

import re
from pathlib import Path

from litebert.corpus.corpus import Corpus
from litebert.lab.experiment import open_experiment
from litebert.lab.grid import GridOptions, plan_grid
from litebert.lab.results import collect, render_markdown
from tests.lab.test_grid import run_here
from tests.pretraining.runs import ROOT


def test_the_grid_of_the_docs_runs(small_corpus: Corpus, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert block is not None
    file = tmp_path / "rates.toml"
    file.write_text(block.group(1), encoding="utf-8")
    name, experiment = open_experiment(str(file))
    options = GridOptions(small_corpus.folder, steps=2, seeds=1)
    grid = plan_grid({name: experiment}, tmp_path / "lab", options)
    assert len(grid.cells) == 6
    run_here(grid)
    table = render_markdown(collect(grid, name))
    assert "| lr 0.0005, sharing none |" in table
    assert "one seed allows no claim" in table
