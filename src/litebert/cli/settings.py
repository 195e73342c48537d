"""From the options of `litebert pretrain` to a configuration: a recipe, and settings over it in layers.

Only `litebert pretrain` imports this module, when it runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from litebert.config import ModelConfig, explain
from litebert.corpus.corpus import Corpus
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.planning.planner import preset_config
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.quantities import parse_duration
from litebert.training.config import describe_differences
from litebert.training.run_folder import RunFolder
from litebert.training.settings import apply_settings, layer_settings, merge_settings, read_settings

__all__ = ["DEFAULT_BUDGET", "DEFAULT_MODEL", "choose_config", "resumed_config"]

DEFAULT_MODEL, DEFAULT_BUDGET = "albert-mini", "30m"
_OF_THE_MODEL = ("model", "begin_from", "head_start")
# Options, and the settings that they stand for.
_SETTINGS = {
    "steps": "train.steps",
    "batch": "train.batch_size",
    "length": "stream.length",
    "objective": "stream.pairs",
    "lr": "train.optim.lr",
    "optimizer": "train.optim.optimizer",
    "seed": "train.seed",
    "micro_batch": "train.micro_batch_size",
    "precision": "train.precision",
    "parallel": "train.parallel",
    "compiled": "train.compiled",
    "keep": "train.keep",
}


def choose_config(corpus: Corpus, options: dict[str, Any], file: Path | None, assignments: list[str]) -> PretrainConfig:
    """Make the configuration of a new run from the options that were given."""
    if options.get("objective", "sop") not in ("sop", "nsp", "none"):
        raise typer.BadParameter("choose sop, nsp or none", param_hint="--objective")
    if "budget" in options and "steps" in options:
        raise typer.BadParameter("a run ends after a time or after steps: leave one of them out", param_hint="--budget")
    shape, begin_from = _find_model(options.get("model", DEFAULT_MODEL), corpus)
    with _saying_what_is_wrong():
        settings = read_settings(file)
        if "model" in options:  # what was named is meant, not what the file has
            settings = {name: value for name, value in settings.items() if name not in _OF_THE_MODEL}
        settings = merge_settings(settings, read_settings(None, _name_settings(options), assignments))
        if isinstance(settings.get("model"), dict):  # a recipe depends on the shape
            shape = apply_settings(shape, settings["model"])
        config = _apply_recipe(options, shape)
        if begin_from is not None:
            config = config.model_copy(update={"begin_from": begin_from, "head_start": False, "model": shape})
        return apply_settings(config, settings)


def resumed_config(
    out: Path, corpus: Corpus, what: dict[str, Any], how: dict[str, Any], file: Path | None, assignments: list[str]
) -> PretrainConfig:
    """The configuration of a run that goes on. Where and how it is computed may change; what it does may not."""
    config = RunFolder(out).read_config(PretrainConfig)
    if what or file is not None or assignments:
        wanted = choose_config(corpus, what, file, assignments)
        if differences := describe_differences(config.identity(), wanted.identity()):
            raise typer.BadParameter(f"the run has {differences}: leave these options out to go on with it")
    with _saying_what_is_wrong():
        return layer_settings(config, options=_name_settings(how))


@contextmanager
def _saying_what_is_wrong() -> Iterator[None]:
    """Turn settings that do not work into a wrong call."""
    try:
        yield
    except ValidationError as error:
        raise typer.BadParameter(explain(error)) from None
    except RequestError as error:
        raise typer.BadParameter(str(error)) from None


def _find_model(name: str, corpus: Corpus) -> tuple[ModelConfig, str | None]:
    """The shape of a preset, with the corpus' vocabulary; or that of a folder, whose weights the run begins with."""
    if name in PRESETS or not Path(name).is_dir():
        return preset_config(name).updated(vocab_size=corpus.tokenizer.vocab_size), None
    corpus.check_tokenizer(name)
    return Model.read_config(name), str(Path(name).resolve())


def _apply_recipe(options: dict[str, Any], shape: ModelConfig) -> PretrainConfig:
    seconds = None if "steps" in options else _parse_duration(options.get("budget", DEFAULT_BUDGET), "--budget")
    pairs = options.get("objective", "sop")
    match options.get("recipe", "budget"):
        case "budget":
            return budget_run(shape, seconds, options.get("steps"), options.get("batch"), options.get("length"), pairs)
        case "paper":
            wishes = {"steps": options.get("steps"), "batch_size": options.get("batch")}
            given = {name: value for name, value in wishes.items() if value is not None}
            config = paper_run(shape, length=options.get("length"), pairs=pairs, **given)
            return config if "budget" not in options else layer_settings(config, options={"train.seconds": seconds})
        case _:
            raise typer.BadParameter("choose budget or paper", param_hint="--recipe")


def _name_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of the settings."""
    settings = {_SETTINGS[name]: value for name, value in options.items() if name in _SETTINGS}
    if "seed" in options:
        settings["stream.seed"] = options["seed"]
    if "budget" in options:
        settings["train.seconds"] = _parse_duration(options["budget"], "--budget")
    if "save_every" in options:
        every = options["save_every"]
        in_steps = every.isdigit() and int(every) > 0
        settings["train.save_steps"] = int(every) if in_steps else None
        settings["train.save_seconds"] = None if in_steps else _parse_duration(every, "--save-every")
    return settings


def _parse_duration(text: str, option: str) -> float:
    try:
        return parse_duration(text)
    except RequestError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
