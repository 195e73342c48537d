"""From a few options to the configuration of a pretraining run: a recipe, and settings over it in layers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from litebert.config import NO_EMBEDDING, ModelConfig
from litebert.corpus.corpus import Corpus
from litebert.errors import RequestError
from litebert.hub import packaged_encoders, resolve
from litebert.model.model import Model
from litebert.presets import PRESETS, preset_config
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.training.config import Stage, describe_differences
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

__all__ = ["DEFAULT_BUDGET", "DEFAULT_MODEL", "PRETRAIN_OPTIONS", "choose_pretraining", "resume_pretraining"]

DEFAULT_MODEL, DEFAULT_BUDGET = "albert-micro", "30m"
PRETRAIN_OPTIONS = (*RUN_OPTIONS, "model", "recipe")
_LATER = {name: PretrainConfig.model_fields[name].default for name in ("replaced_rate", "replaced_weight")}
"""Settings that runs of before have not, and what they did."""
_OF_THE_MODEL = ("model", "begin_from", "head_start")


def choose_pretraining(
    corpus: Corpus, options: Mapping[str, Any], config: SettingsSource = None, assignments: Sequence[str] = ()
) -> PretrainConfig:
    """Make the configuration of a new run from the options that were given, a file or mapping, and assignments."""
    if options.get("objective", "sop") not in ("sop", "nsp", "none"):
        raise RequestError("--objective: choose sop, nsp or none")
    if "budget" in options and "steps" in options:
        raise RequestError("--budget and --steps both say when a run ends: leave one of them out")
    shape, begin_from = _find_model(options.get("model", DEFAULT_MODEL), corpus)
    settings = read_settings(config)
    if settings.keys() >= PretrainConfig.model_fields.keys() - _LATER:
        settings = {**_LATER, **settings}  # the whole of an older run: what it could not know, it did not do
    if "model" in options:  # what was named is meant, not what the file has
        settings = {name: value for name, value in settings.items() if name not in _OF_THE_MODEL}
    settings = merge_settings(settings, read_settings(None, name_settings(options), assignments))
    if isinstance(settings.get("model"), dict):  # a recipe depends on the shape
        shape = apply_settings(shape, settings["model"])
    chosen = _apply_recipe(options, shape, settings.get("train"))
    if begin_from is not None:
        chosen = _go_on_from(begin_from, shape, chosen)
    return apply_settings(chosen, settings)


def resume_pretraining(
    out: Path,
    corpus: Corpus,
    options: Mapping[str, Any],
    config: SettingsSource = None,
    assignments: Sequence[str] = (),
) -> PretrainConfig:
    """The configuration of a run that goes on. Where and how it is computed may change; what it does may not."""
    stored = RunFolder(out).read_config(PretrainConfig)
    what = {name: value for name, value in options.items() if name not in HOW}
    if what or config is not None or assignments:
        wanted = choose_pretraining(corpus, what, config, assignments)
        known = stored.model_fields_set | read_settings(config, {}, assignments).keys()
        # The recipe of today may ask for what the run could not know.
        wanted = wanted.model_copy(update={name: value for name, value in _LATER.items() if name not in known})
        if differences := describe_differences(stored.identity(), wanted.identity()):
            raise RequestError(f"the run has {differences}: leave these options out to go on with it")
    how = {name: value for name, value in options.items() if name in HOW}
    return layer_settings(stored, options=name_settings(how))


def _find_model(name: str, corpus: Corpus) -> tuple[ModelConfig, str | None]:
    """The shape of a preset, with the corpus' vocabulary; or that of a folder, whose weights the run begins with.

    What a folder says about its sentence vectors is not about those that come out of the run.
    """
    if name in PRESETS or not (Path(name).is_dir() or name in packaged_encoders()):
        return preset_config(name).updated(vocab_size=corpus.tokenizer.vocab_size), None
    corpus.check_tokenizer(name)
    folder = resolve(name)
    return Model.read_config(folder).updated(**NO_EMBEDDING), str(folder.resolve())


def _go_on_from(folder: str, shape: ModelConfig, chosen: PretrainConfig) -> PretrainConfig:
    """The same run from trained weights: their heads stay, and their passes, since fewer would unlearn the others."""
    train = chosen.train.model_copy(update={"stages": (Stage(),)})
    return chosen.model_copy(update={"begin_from": folder, "head_start": False, "model": shape, "train": train})


def _apply_recipe(options: Mapping[str, Any], shape: ModelConfig, train: Any) -> PretrainConfig:
    """A recipe for the steps or the time that training shall take, as an option or a setting says it."""
    steps = _read_positive(train, "steps")
    seconds = None
    if steps is None:
        seconds = _read_positive(train, "seconds") or seconds_of(DEFAULT_BUDGET, "--budget")
    match options.get("recipe", "budget"):
        case "budget":
            pairs = options.get("objective", "nsp")
            count = None if steps is None else int(steps)
            return budget_run(shape, seconds, count, options.get("batch"), options.get("length"), pairs)
        case "paper":
            wishes = {"steps": options.get("steps"), "batch_size": options.get("batch")}
            given = {name: value for name, value in wishes.items() if value is not None}
            return paper_run(shape, length=options.get("length"), pairs=options.get("objective", "sop"), **given)
        case _:
            raise RequestError("--recipe: choose budget or paper")


def _read_positive(settings: Any, name: str) -> float | None:
    """A number above 0 among settings that nobody has checked yet; what is none, or far off, is refused later."""
    value = settings.get(name) if isinstance(settings, Mapping) else None
    return value if isinstance(value, int | float) and 0 < value <= 1e9 else None
