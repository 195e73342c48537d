"""What a fine-tuning run refuses, and what its configuration is made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from litebert.config import ModelConfig
from litebert.errors import FolderError, RequestError
from litebert.tasks.config import FinetuneConfig, configure, measure_volume
from litebert.tasks.finetune import open_encoder
from litebert.tasks.readers.sources import OFFICIAL
from litebert.tasks.saved import read_saved_task
from litebert.tasks.task import ChoiceExample, Dataset, Example, QuestionExample, Task, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.conftest import small_config
from tests.tasks.small import TASKS, finetune_here, make_data, small_run

# --- what is refused --------------------------------------------------------------------------------------------------


def test_there_must_be_something_to_learn(small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    data = make_data("classification")
    config = small_run(data, small_encoder, small_tokenizer, steps=1)
    cases: list[dict[str, Sequence[Example]]] = [{}, {"train": []}, {"dev": data.splits["dev"]}]
    for splits in cases:
        with pytest.raises(RequestError, match="who has no training examples here"):
            finetune_here(Dataset(data.task, splits), tmp_path / "run", config, small_tokenizer)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("classification", TextExample("7", "the river", location="own.csv, line 8")),
        ("questions", QuestionExample("7", "Who?", "the river", location="own.csv, line 8")),
        ("choice", ChoiceExample("7", "the river", "Who?", ("a", "b"), location="own.csv, line 8")),
    ],
)
def test_training_examples_have_labels(
    name: str, example: Example, small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = make_data(name)
    config = small_run(data, small_encoder, small_tokenizer, steps=1)
    unlabelled = Dataset(data.task, {"train": [*data.splits["train"], example]})
    with pytest.raises(RequestError, match=r"own\.csv, line 8 has no label") as caught:
        finetune_here(unlabelled, tmp_path / "run", config, small_tokenizer)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_presets_and_folders_without_a_task(small_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="albert-base is a preset without a vocabulary"):
        open_encoder("albert-base")
    with pytest.raises(FolderError, match=r"has no task\.json"):
        read_saved_task(small_encoder)
    (tmp_path / "task.json").write_text('{"format": 1, "task": {"name": 3}}')
    with pytest.raises(FolderError, match="was not written by this version"):
        read_saved_task(tmp_path)
    shape, tokenizer, folder = open_encoder(str(small_encoder))
    assert (shape.vocab_size, folder) == (tokenizer.vocab_size, str(small_encoder))


# --- configurations ---------------------------------------------------------------------------------------------------


def test_a_recipe_is_taken_as_it_is() -> None:
    config = configure(OFFICIAL["rte"], 2490, ModelConfig(), "folder", seed=7)
    train = config.train
    assert (train.steps, train.batch_size, train.seed, train.seconds) == (800, 32, 7, None)
    assert (train.optim.optimizer, train.optim.lr, train.optim.warmup) == ("adamw", 3e-5, 200 / 800)
    assert (config.model.hidden_dropout, config.model.attention_dropout) == (0.1, 0.1)
    assert (config.model.labels, config.model.problem_type) == (
        ("entailment", "not_entailment"),
        "single_label_classification",
    )
    assert config.max_length == 512
    assert (train.micro_batch_size or 0) * config.max_length <= 16_384
    squad = configure(OFFICIAL["squad2"], 130_000, small_config(max_positions=512), None)
    assert squad.windows is not None
    assert (squad.windows.max_length, squad.windows.stride, squad.windows.max_query) == (512, 128, 64)
    assert squad.head == "answerable-question-answering"


def test_small_encoders_have_a_recipe_of_their_own() -> None:
    shape = small_config(hidden_size=384, num_heads=12, max_positions=512)
    config = configure(OFFICIAL["rte"], 2490, shape, "folder")
    assert (config.train.steps, config.train.batch_size, config.train.optim.lr) == (234, 32, 2e-4)
    assert (config.model.hidden_dropout, config.max_length) == (0.0, 512)
    squad = configure(OFFICIAL["squad1"], 9, shape, None)
    assert squad.windows is not None
    assert squad.windows.max_length == 384


def test_wishes_go_before_the_recipe() -> None:
    def steps(**wishes: Any) -> int | None:
        return configure(OFFICIAL["cola"], 100, ModelConfig(), None, **wishes).train.steps

    assert steps() == 5336
    assert steps(epochs=2.0) == 14  # seven batches of sixteen in an epoch
    assert steps(epochs=0.5, batch_size=50) == 1
    assert steps(steps=9) == 9
    assert steps(seconds=60.0) is None
    own = Task(name="own", kind="classification", labels=("a", "b"), metrics=("accuracy",))
    assert configure(own, 320, small_config(), None).train.steps == 150  # three epochs would be 30
    assert configure(own, 3200, small_config(), None).train.steps == 300
    config = configure(own, 320, small_config(), None, seconds=60.0, lr=1e-3, patience=4, max_length=16)
    assert (config.train.seconds, config.train.optim.lr, config.train.patience) == (60.0, 1e-3, 4)
    assert config.max_length == 16
    assert configure(own, 320, small_config(max_positions=48), None).max_length == 48  # rows fit the model
    assert configure(TASKS["regression"], 320, small_config(), None).model.labels == ("score",)
    for length in (16, 40, 48):
        windows = configure(OFFICIAL["squad1"], 9, small_config(), None, max_length=length).windows
        assert windows is not None
        assert windows.max_length == length


def test_rows_must_fit_the_model() -> None:
    config = configure(OFFICIAL["cola"], 9, small_config(max_positions=48), None)
    with pytest.raises(ValueError, match="max_length 49 is beyond the model's 48 positions"):
        FinetuneConfig.model_validate({**dict(config), "max_length": 49})


def test_a_configuration_survives_its_file(small_encoder: Path, small_tokenizer: Tokenizer) -> None:
    for name in TASKS:
        config = small_run(make_data(name), small_encoder, small_tokenizer)
        assert FinetuneConfig.model_validate_json(config.model_dump_json()) == config


def test_kernels_are_compiled_for_long_runs_only(small_encoder: Path, small_tokenizer: Tokenizer) -> None:
    data = make_data("classification")
    shape, _, location = open_encoder(str(small_encoder))
    volume = measure_volume(data.task, data.splits["train"], small_tokenizer, 48)
    assert (volume.num_items, volume.rows_per_item) == (len(data.splits["train"]), 1)
    assert volume.tokens_per_row is not None
    assert 4 < volume.tokens_per_row < 48
    for steps, expected in ((100, False), (10**9, True)):
        assert configure(data.task, volume, shape, location, steps=steps).train.compiled is expected
    assert measure_volume(data.task, [], small_tokenizer, 48).num_items == 0
