"""Experiments are files: the paper's are whole, and what is wrong in one's own is said in a sentence."""

from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.lab.experiment import list_experiments, open_experiment
from litebert.lab.scales import SCALES
from litebert.presets import PRESETS
from tests.lab.small import small_experiment


def test_every_table_and_figure_is_there() -> None:
    tables = [f"table{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13)]
    assert list(list_experiments()) == [*tables, "figure1", "figure2"]


@pytest.mark.parametrize("name", list_experiments())
def test_the_papers_experiments_fit_every_scale(name: str) -> None:
    experiment = list_experiments()[name]
    metrics = {column.metric for column in experiment.columns}
    for cell in experiment.all_cells():
        for scale in SCALES.values():
            preset = cell.preset or experiment.preset
            shape = scale.shape(preset, 1000)
            assert shape.sharing == PRESETS[preset].config.sharing
            scale.run(shape)
    assert {finding.metric for finding in experiment.findings} <= metrics | {"last_angle"}


def test_scales_keep_the_order_of_the_papers_sizes() -> None:
    for scale in SCALES.values():
        for sizes in (scale.layers, scale.hidden, scale.words):
            ordered = [sizes[size] for size in sorted(sizes)]
            assert ordered == sorted(set(ordered))  # none falls together with another


def test_the_scale_of_the_paper_changes_nothing() -> None:
    for name, preset in PRESETS.items():
        assert SCALES["paper"].shape(name, preset.config.vocab_size) == preset.config


def test_words_as_wide_as_states_stay_so() -> None:
    shape = SCALES["nano"].shape("albert-base-e768-all", 1000)
    assert shape.embedding_size == shape.hidden_size
    assert SCALES["nano"].shape("albert-base", 1000).embedding_size < shape.embedding_size


def test_what_varies_makes_all_combinations() -> None:
    experiment = small_experiment(
        cells=[], findings=[], vary={"train.optim.lr": [0.001, 0.002, 0.003], "model.sharing": ["all", "none"]}
    )
    cells = experiment.all_cells()
    assert len(cells) == 6
    assert cells[1].name == "lr 0.001, sharing none"
    assert experiment.settings_of(cells[1])["model"]["sharing"] == "none"
    assert experiment.settings_of(cells[1])["model"]["hidden_size"] == 24  # of the experiment


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("title = 3", "title"),
        ("title = ", "is no TOML"),
        ('title = "a"\nabout = "b"', "needs cells, or settings to vary"),
        ('title = "a"\nabout = "b"\ncells = [{name = "x"}, {name = "x"}]', "two cells are called 'x'"),
        ('title = "a"\nabout = "b"\ncells = [{name = "x", begin_from = "y"}]', "which is no cell before it"),
        ('title = "a"\nabout = "b"\ncells = [{name = "x", colour = 1}]', "no setting cells.0.colour: choose from name"),
        (
            'title = "a"\nabout = "b"\ncells = [{name = "x"}]\n[[findings]]\nclaim = "c"\nmetric = "mlm_loss"\n'
            "above = 0.0\ncontrast = { y = 1.0 }",
            "names 'y', which is no cell: the cells are 'x'",
        ),
        (
            'title = "a"\nabout = "b"\ncells = [{name = "x"}]\ncolumns = [{metric = "mlm_acuracy", title = "t"}]',
            "no metric 'mlm_acuracy': did you mean mlm_accuracy",
        ),
        (
            'title = "a"\nabout = "b"\ncells = [{name = "x"}]\ncolumns = [{metric = "sop_probe", title = "t"}]',
            "'sop_probe' needs \"probes\" in measures",
        ),
        (
            'title = "a"\nabout = "b"\ncells = [{name = "x"}]\n[[plots]]\nkind = "curves"\n'
            'metric = "mlm_loss"\ntitle = "t"',
            "only of curve_mlm_accuracy and curve_sop_accuracy",
        ),
        ('title = "a"\nabout = "b"\nmesures = ["masked"]', "no setting mesures: did you mean measures"),
        (
            'title = "a"\nabout = "b"\ncells = [{name = "x"}]\n[[findings]]\nclaim = "c"\nmetric = "mlm_loss"\n'
            "contrast = { x = 1.0 }",
            "needs one of above and within",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RequestError, match=sentence):
        open_experiment(str(file))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(RequestError, match="table4"):
        open_experiment("table44")
