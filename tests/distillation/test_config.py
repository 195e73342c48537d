"""The configuration of a distillation: what it refuses, and what the recipe makes of a teacher."""

from pathlib import Path
from typing import Any

import pytest

from litebert.config import ModelConfig
from litebert.distillation.config import DistillConfig, LossWeights, distill_run, shape_student
from litebert.model.cost import count_encoder_parameters
from litebert.model.hf.names import is_expressible
from litebert.model.sharing import layer_plan, max_depth
from litebert.presets import PRESETS
from litebert.training.config import Stage
from tests.conftest import small_config
from tests.distillation.runs import BERT, tiny_distillation

TEACHER = Path("teacher")
TEACHERS: dict[str, ModelConfig] = {
    "bert": ModelConfig(family="bert", sharing="none", embedding_size=768, activation="gelu", hidden_dropout=0.1),
    "a classifier": ModelConfig(family="bert", sharing="none", embedding_size=768, labels=("no", "yes")),
    "albert": ModelConfig(),
    "a square projection": ModelConfig(embedding_size=64, hidden_size=64, num_heads=2, project_square_embeddings=True),
    "tiny": small_config(**BERT),
    "of one layer": small_config(num_layers=1),
    "of seven layers": small_config(num_layers=7, **BERT),
    "of two blocks": small_config(sharing="groups", num_inner_layers=2, num_layers=3),
    "of shared attention": small_config(sharing="attention"),
    **{name: PRESETS[name].config for name in ("albert-mini", "albert-xxlarge", "bert-base", "bert-large")},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"depths": (0,)}, "depth 0 does not fit a student that runs 1 to 4 passes"),
        ({"depths": (1, 5)}, "depth 5 does not fit"),
        ({"depths": (3,), "model": {"sharing": "none"}}, "depth 3 does not fit a student that runs 1 to 2 passes"),
        ({"stages": (Stage(until=0.5, depth=5), Stage())}, "depth 5 does not fit"),
        ({"depths": ()}, "at least 1 item"),
        ({"dimensions": (24,)}, "dimension 24 is no part of a vector of 24"),
        ({"dimensions": (8, 100)}, "dimension 100 is no part"),
        ({"dimensions": (0,)}, "greater than or equal to 1"),
        ({"stream": {"length": 49}}, "length 49 is beyond the student's 48 positions"),
        ({"stages": (Stage(until=0.5), Stage(length=64))}, "length 64 is beyond"),
        ({"weights": {"states": -1.0}}, "greater than or equal to 0"),
        ({"weights": {"vectors": float("nan")}}, "finite number"),
        ({"weights": {"colour": 1.0}}, "not permitted"),
    ],
)
def test_what_does_not_fit_the_student_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tiny_distillation(TEACHER, **changes)


def test_shared_layers_may_run_twice_as_often_as_the_model_does() -> None:
    assert tiny_distillation(TEACHER, depths=(1, 4)).depths == (1, 4)


def test_a_stage_draws_depths_up_to_its_own() -> None:
    stages = (Stage(until=0.3, depth=2), Stage(until=0.6, depth=1), Stage())
    config = tiny_distillation(TEACHER, depths=(2, 3, 4), stages=stages)
    assert [config.depths_at(stage) for stage in range(3)] == [(2,), (1,), (2, 3, 4)]


def test_a_configuration_survives_its_file() -> None:
    config = tiny_distillation(TEACHER, weights={"states": 0.0}, stages=(Stage(until=0.5, depth=1), Stage()))
    assert DistillConfig.parse(config.model_dump(mode="json")) == config
    assert config.identity()["teacher"] == "teacher"
    assert LossWeights().states > 0


@pytest.mark.parametrize("name", TEACHERS)
def test_a_student_is_an_albert_that_is_no_larger_than_its_teacher(name: str) -> None:
    teacher = TEACHERS[name]
    student = shape_student(teacher)
    assert student.family == "albert"
    assert is_expressible(student)  # transformers opens it
    assert (student.hidden_size, student.vocab_size) == (teacher.hidden_size, teacher.vocab_size)
    depth = teacher.num_layers * teacher.num_inner_layers
    assert student.num_layers * student.num_inner_layers in (depth, depth - 1)
    assert (student.hidden_dropout, student.attention_dropout) == (0.0, 0.0)
    assert (student.labels, student.problem_type, student.embedding_normalize) == ((), None, True)
    assert count_encoder_parameters(student) <= count_encoder_parameters(teacher)


@pytest.mark.parametrize("name", TEACHERS)
def test_the_recipe_fits_every_student(name: str) -> None:
    student = shape_student(TEACHERS[name])
    for seconds in (60.0, 36_000.0):
        budget = distill_run("teacher", student, seconds).train
        assert (budget.steps, budget.seconds) == (None, seconds)
    config = distill_run("teacher", student, steps=10)
    assert (config.train.steps, config.train.seconds) == (10, None)
    assert config.depths == tuple(sorted(set(config.depths)))
    assert max(config.depths) == student.num_layers <= max_depth(student)
    assert all(size < student.hidden_size for size in config.dimensions)
    assert all((stage.length or config.stream.length) <= student.max_positions for stage in config.train.stages)
    last = len(config.train.stages) - 1
    assert config.depths_at(last) == config.depths  # in the end it learns at all of them
    assert DistillConfig.parse(config.model_dump(mode="json")) == config


def test_what_is_asked_for_is_in_the_recipe() -> None:
    student = small_config(num_layers=6)
    config = distill_run("teacher", student, steps=7, batch_size=3, length=24, depths=(4, 2, 4), dimensions=(6,))
    assert (config.train.steps, config.train.batch_size, config.stream.length) == (7, 3, 24)
    assert (config.depths, config.dimensions) == ((2, 4), (6,))
    assert (config.stream.pairs, config.stream.mask_rate) == ("none", 0.0)  # whole texts, as they are


def test_a_student_with_layers_of_its_own_learns_at_its_own_depth() -> None:
    for shape in ({"sharing": "none"}, {"sharing": "attention"}):
        assert distill_run("teacher", small_config(**shape), steps=1).depths == (4,)


def test_several_blocks_learn_together_before_all_depths_are_drawn() -> None:
    config = distill_run("teacher", small_config(num_layers=6, sharing="groups", num_groups=3), steps=1)
    assert config.depths == (2, 3, 4, 5, 6)
    assert (config.depths_at(0), config.depths_at(1)) == ((2, 3), config.depths)
    one_block = distill_run("teacher", small_config(num_layers=6), steps=1)
    assert one_block.depths == (1, 2, 3, 4, 5, 6)
    assert one_block.depths_at(0) == (1, 2)


def test_the_default_student_of_a_bert_has_narrow_blocks() -> None:
    teacher = ModelConfig(
        family="bert", sharing="none", embedding_size=384, hidden_size=384, num_heads=12, num_layers=6
    )
    student = shape_student(teacher.updated(intermediate_size=1536, vocab_size=20000))
    assert layer_plan(student) == [(number, number) for number in range(5)], "one layer less, each with its own"
    assert (student.embedding_size, student.intermediate_size) == (96, 224)
    assert count_encoder_parameters(student) == 5_982_304
    assert distill_run("teacher", student, steps=1).depths == (2, 3, 4, 5)
    deep = shape_student(teacher.updated(intermediate_size=1536, num_layers=12))
    assert layer_plan(deep) == [(number // 4, number // 4) for number in range(12)], "many layers share three"
    assert (deep.embedding_size, deep.intermediate_size) == (96, 448)
    assert shape_student(TEACHERS["tiny"]).intermediate_size == int(0.15 * TEACHERS["tiny"].intermediate_size)
