"""From options to a configuration: what counts when several say something, and what may change when a run goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from litebert.corpus.corpus import Corpus
from litebert.distillation.config import DistillConfig
from litebert.distillation.settings import choose_distillation, resume_distillation
from litebert.errors import LitebertError, RequestError
from litebert.model.model import Model
from litebert.presets import preset_config
from litebert.text.tokenizer import Tokenizer
from litebert.training.run_folder import RunFolder
from tests.distillation.runs import BERT, make_teacher


def choose(teacher: object, corpus: Corpus, *sets: str, config: Any = None, **options: Any) -> DistillConfig:
    return choose_distillation(str(teacher), corpus, {"steps": 10, "length": 32, **options}, config, sets)


def refuse(teacher: object, corpus: Corpus, *sets: str, **options: Any) -> str:
    """The sentence with which a choice is refused."""
    with pytest.raises(LitebertError) as caught:
        choose(teacher, corpus, *sets, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- a new run --------------------------------------------------------------------------------------------------------


def test_options_reach_the_configuration(bert: Path, small_corpus: Corpus) -> None:
    options = {"batch": 6, "depths": [1, 2], "dimensions": [4], "lr": 0.5, "optimizer": "lamb", "seed": 7}
    how = {"micro_batch": 3, "precision": "bf16", "parallel": "fsdp", "save_every": "9", "keep": 4}
    config = choose(bert, small_corpus, "model.sharing=all", "model.num_groups=1", **options, **how)
    train = config.train
    assert (train.steps, train.seconds, train.batch_size, config.stream.length) == (10, None, 6, 32)
    assert (config.depths, config.dimensions) == ((1, 2), (4,))
    assert (train.optim.lr, train.optim.optimizer) == (0.5, "lamb")
    assert (train.seed, config.stream.seed) == (7, 7)  # the weights, and the order of the text
    assert (train.micro_batch_size, train.precision, train.parallel) == (3, "bf16", "fsdp")
    assert (train.save_steps, train.save_seconds, train.keep) == (9, None, 4)
    assert config.teacher == str(bert.resolve())
    assert config.begin_from is None


def test_a_budget_ends_a_run_by_the_clock(bert: Path, small_corpus: Corpus) -> None:
    for options, seconds in (({}, 3600.0), ({"budget": "2m"}, 120.0), ({"budget": 90}, 90.0)):
        train = choose_distillation(str(bert), small_corpus, {"length": 32, **options}).train
        assert (train.steps, train.seconds) == (None, seconds)


def test_what_is_said_last_counts(bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[train]\nseed = 7\nlog_steps = 3\n[train.optim]\nlr = 0.5\n[weights]\nstates = 2.0\n")
    config = choose(bert, small_corpus, "train.optim.lr=0.125", "weights.vectors=0", config=file, lr=0.25, seed=8)
    assert (config.train.optim.lr, config.train.seed, config.train.log_steps) == (0.125, 8, 3)
    assert (config.weights.states, config.weights.vectors) == (2.0, 0.0)
    assert choose(bert, small_corpus, config={"train": {"seed": 5}}).train.seed == 5


def test_the_recipe_follows_the_shape_that_is_set(bert: Path, small_corpus: Corpus) -> None:
    config = choose(bert, small_corpus, "model.sharing=all", "model.num_groups=1", "model.num_layers=5")
    assert config.depths == (1, 2, 3, 4, 5)
    short = choose_distillation(str(bert), small_corpus, {"steps": 1}, None, ["model.max_positions=16"])
    assert max(short.stream.length, *(stage.length or 0 for stage in short.train.stages)) == 16


@pytest.mark.parametrize(
    ("options", "sets", "words"),
    [
        ({"budget": "1m"}, [], "leave one of them out"),
        ({"depths": (99,)}, [], "depth 99 does not fit"),
        ({"depths": (0, 1)}, [], "depth 0 does not fit"),
        ({"dimensions": (24,)}, [], "dimension 24 is no part of a vector of 24"),
        ({"length": 64}, [], "length 64 is beyond the student's 48 positions"),
        ({"batch": 0}, [], "batch_size"),
        ({"lr": -1.0}, [], "train.optim.lr"),
        ({"optimizer": "magic"}, [], "train.optim.optimizer"),
        ({"save_every": "soon"}, [], "is no duration"),
        ({"model": "./albert-huge"}, [], "there is no file or folder './albert-huge'"),
        ({}, ["colour=red"], "there is no setting colour"),
        ({}, ["model.colour=red"], "there is no setting"),
        ({}, ["depths=[99]"], "depth 99 does not fit"),
        ({}, ["lr"], "NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_said_in_a_sentence(
    options: dict[str, Any], sets: list[str], words: str, bert: Path, small_corpus: Corpus
) -> None:
    assert words in refuse(bert, small_corpus, *sets, **options)


# --- teacher and student ----------------------------------------------------------------------------------------------


def test_a_run_is_a_teacher_too(bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "run" / "model")
    (tmp_path / "run" / "run.json").write_text("{}")
    assert choose(tmp_path / "run", small_corpus).teacher == str((tmp_path / "run" / "model").resolve())
    shutil.rmtree(tmp_path / "run" / "model")
    assert "has no model yet" in refuse(tmp_path / "run", small_corpus)


def test_the_student_has_the_vocabulary_of_its_text(
    bert: Path, small_tokenizer: Tokenizer, small_corpus: Corpus, other_corpus: Corpus, tmp_path: Path
) -> None:
    """Neither rows that a teacher's table has beyond its tokenizer, nor those of a larger vocabulary."""
    padded = make_teacher(tmp_path / "padded", small_tokenizer, **{**BERT, "vocab_size": 448})
    assert choose(padded, small_corpus).model.vocab_size == 400
    assert choose(bert, other_corpus).model.vocab_size == 300
    assert choose(bert, other_corpus, model="albert-mini").model.vocab_size == 300


def test_a_preset_is_a_student_but_no_teacher(bert: Path, small_corpus: Corpus) -> None:
    config = choose(bert, small_corpus, model="albert-mini")
    shape = preset_config("albert-mini")
    assert (config.model.hidden_size, config.model.num_layers) == (shape.hidden_size, shape.num_layers)
    assert (config.model.hidden_dropout, config.model.embedding_normalize) == (0.0, True)
    assert "a preset that has learnt nothing" in refuse("albert-base", small_corpus)


def test_a_folder_is_a_student_to_begin_with(
    bert: Path, albert: Path, small_corpus: Corpus, other_corpus: Corpus, tmp_path: Path
) -> None:
    config = choose(bert, small_corpus, model=str(albert))
    assert config.begin_from == str(albert.resolve())
    assert config.model == Model.read_config(albert).updated(embedding_normalize=True)
    assert "prepared with another tokenizer" in refuse(bert, other_corpus, model=str(albert))


# --- a run that goes on -----------------------------------------------------------------------------------------------


@pytest.fixture
def begun(bert: Path, small_corpus: Corpus, tmp_path: Path) -> tuple[Path, DistillConfig]:
    """The folder of a run, and its configuration."""
    config = choose(bert, small_corpus, "held_out_rows=32", batch=4)
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").write_about({"config": json.loads(config.model_dump_json())})
    return tmp_path / "run", config


def test_a_run_goes_on_as_it_was_begun(begun: tuple[Path, DistillConfig], bert: Path, small_corpus: Corpus) -> None:
    out, config = begun
    assert resume_distillation(out, str(bert), small_corpus, {}) == config
    same = {"steps": 10, "length": 32, "batch": 4}
    assert resume_distillation(out, str(bert), small_corpus, same, None, ["held_out_rows=32"]) == config
    changed = resume_distillation(out, str(bert), small_corpus, {"micro_batch": 2, "keep": 5, "save_every": "3m"})
    assert (changed.train.micro_batch_size, changed.train.keep, changed.train.save_seconds) == (2, 5, 180.0)
    assert changed.identity() == config.identity()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 11}, "train.steps 10 instead of 11"),
        ({"steps": 10, "length": 16}, "stream.length 32 instead of 16"),
        ({"steps": 10, "length": 32, "seed": 3}, "train.seed 0 instead of 3"),
        ({"steps": 10, "length": 32, "depths": (1,)}, "depths"),
    ],
)
def test_what_a_run_does_may_not_change(
    options: dict[str, Any], words: str, begun: tuple[Path, DistillConfig], bert: Path, small_corpus: Corpus
) -> None:
    with pytest.raises(RequestError, match=r"^the run has .*: leave these options out to go on with it$") as caught:
        resume_distillation(begun[0], str(bert), small_corpus, options)
    assert words in str(caught.value)


def test_a_teacher_may_move(
    begun: tuple[Path, DistillConfig], bert: Path, small_corpus: Corpus, tmp_path: Path
) -> None:
    """Which weights it has decides about the run, not where they lie; `test_job` shows that."""
    moved = shutil.copytree(bert, tmp_path / "elsewhere")
    resumed = resume_distillation(begun[0], str(moved), small_corpus, {})
    assert resumed == begun[1].model_copy(update={"teacher": str(moved.resolve())})


def test_there_must_be_a_run_to_go_on_with(bert: Path, small_corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(LitebertError, match="holds no run"):
        resume_distillation(tmp_path, str(bert), small_corpus, {})
