"""Settings in layers: what is said last counts, and what is wrong is said in a sentence."""

import json
from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.training.settings import layer_settings
from tests.pretraining.runs import tiny_run


def test_each_layer_lies_over_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[train]\nseed = 1\nkeep = 5\nbatch_size = 2\n[train.optim]\nlr = 0.5\n")
    base = tiny_run()
    config = layer_settings(base, file, {"train.seed": 2, "train.batch_size": 4}, ["train.seed=3"])
    assert (config.train.keep, config.train.batch_size, config.train.seed) == (5, 4, 3)
    assert (config.train.optim.lr, config.train.optim.warmup) == (0.5, base.train.optim.warmup)
    assert layer_settings(base) == base


def test_a_time_takes_the_place_of_steps() -> None:
    config = layer_settings(tiny_run(), options={"train.seconds": 60.0})
    assert (config.train.steps, config.train.seconds) == (None, 60.0)
    config = layer_settings(config, assignments=["train.steps=7"])
    assert (config.train.steps, config.train.seconds) == (7, None)


def test_files_of_before_are_read_by_the_names_of_today(tmp_path: Path) -> None:
    settings = tiny_run(micro_batch_size=2).model_dump(mode="json")
    settings["train"]["rows_at_once"] = settings["train"].pop("micro_batch_size")
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"config": settings}))
    base = tiny_run(micro_batch_size=8)
    assert type(base).parse(settings).train.micro_batch_size == 2
    assert layer_settings(base, file).train.micro_batch_size == 2
    assert layer_settings(base, file, None, ["train.rows_at_once=4"]).train.micro_batch_size == 4


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("lr", "write NAME=VALUE, not 'lr'"),
        ("train.optim.lrr=3", "there is no setting train.optim.lrr: did you mean train.optim.lr?"),
        ("train.optim.speed=3", "there is no setting train.optim.speed"),
        ("train.optim.lr=fast", "train.optim.lr"),
        ("train.steps=null", "either a number of steps or a time"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(assignment: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        layer_settings(tiny_run(), assignments=[assignment])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
