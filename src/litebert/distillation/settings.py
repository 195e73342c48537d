"""From a few options to the configuration of a distillation: the recipe, and settings over it in layers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from litebert.config import ModelConfig, explain
from litebert.corpus.corpus import Corpus
from litebert.distillation.config import AS_STUDENT, DistillConfig, distill_run, shape_student
from litebert.errors import RequestError
from litebert.hub import resolve
from litebert.model.model import Model
from litebert.presets import PRESETS, preset_config
from litebert.training.config import describe_differences
from litebert.training.run_folder import RunFolder
from litebert.training.settings import (
    HOW,
    RUN_OPTIONS,
    SettingsSource,
    apply_settings,
    layer_settings,
    merge_settings,
    name_settings,
    read_settings,
    seconds_of,
)

__all__ = ["DEFAULT_BUDGET", "DISTILL_OPTIONS", "choose_distillation", "read_teacher", "resume_distillation"]

DEFAULT_BUDGET = "1h"
DISTILL_OPTIONS = (
    *(name for name in RUN_OPTIONS if name not in ("objective", "compiled")),
    "model",
    "depths",
    "dimensions",
)


def choose_distillation(
    teacher: str,
    corpus: Corpus | None,
    options: Mapping[str, Any],
    config: SettingsSource = None,
    sets: Sequence[str] = (),
) -> DistillConfig:
    """Make the configuration of a new run from the options that were given, a file or mapping, and assignments.

    Without a corpus (it takes time to make one), the student has its teacher's vocabulary: enough to find mistakes.
    """
    if "budget" in options and "steps" in options:
        raise RequestError("--budget and --steps both say when a run ends: leave one of them out")
    folder, shape = read_teacher(teacher)
    located = str(folder.resolve()) if Path(teacher).exists() else teacher
    student, begin_from = _find_student(options.get("model"), shape, corpus)
    settings = read_settings(config)
    settings = merge_settings(settings, read_settings(None, name_settings(options), sets))
    if isinstance(settings.get("model"), dict):  # the recipe depends on the shape
        student = apply_settings(student, settings["model"])
    seconds = None if "steps" in options else seconds_of(options.get("budget", DEFAULT_BUDGET), "--budget")
    try:
        chosen = distill_run(
            located,
            student,
            seconds,
            options.get("steps"),
            options.get("batch"),
            options.get("length"),
            tuple(options.get("depths", ())),
            tuple(options.get("dimensions", ())),
        )
    except ValidationError as error:
        raise RequestError(explain(error)) from None
    return apply_settings(chosen.model_copy(update={"begin_from": begin_from}), settings)


def resume_distillation(
    out: Path,
    teacher: str,
    corpus: Corpus,
    options: Mapping[str, Any],
    config: SettingsSource = None,
    sets: Sequence[str] = (),
) -> DistillConfig:
    """The configuration of a run that goes on. Where and how it is computed may change; what it does may not."""
    stored = RunFolder(out).read_config(DistillConfig)
    what = {name: value for name, value in options.items() if name not in HOW}
    wanted = choose_distillation(teacher, corpus, what, config, sets)
    stored = stored.model_copy(update={"teacher": wanted.teacher})  # it may have moved; its weights are compared later
    if not (what or config is not None or sets):  # only the teacher was named
        wanted = stored
    if differences := describe_differences(stored.identity(), wanted.identity()):
        raise RequestError(f"the run has {differences}: leave these options out to go on with it")
    how = {name: value for name, value in options.items() if name in HOW}
    return layer_settings(stored, options=name_settings(how))


def read_teacher(name: str) -> tuple[Path, ModelConfig]:
    """The folder of a teacher and its shape; what is no trained ALBERT or BERT is refused."""
    if name in PRESETS and not Path(name).is_dir():
        raise RequestError(f"{name} is a preset that has learnt nothing: name a trained model to learn from")
    folder = resolve(name)
    return folder, Model.read_config(folder)


def _find_student(name: str | None, teacher: ModelConfig, corpus: Corpus | None) -> tuple[ModelConfig, str | None]:
    """The shape of the student: the teacher as an ALBERT, a preset, or a folder, whose weights it begins with."""
    vocab_size = teacher.vocab_size if corpus is None else corpus.tokenizer.vocab_size
    if name is None:
        return shape_student(teacher).updated(vocab_size=vocab_size), None
    if name in PRESETS and not Path(name).is_dir():
        shape = preset_config(name).updated(vocab_size=vocab_size, embedding_normalize=True)
        return shape.updated(hidden_dropout=0.0, attention_dropout=0.0), None
    if corpus is not None:
        corpus.check_tokenizer(name)
    shape = Model.read_config(name).updated(**AS_STUDENT)
    return shape, str(Path(name).resolve()) if Path(name).is_dir() else name
