"""From options to a run's configuration: recipe, then a file, then options, then --set, each over the one before.

Only `litebert pretrain` imports this module, when it runs.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import typer

from litebert.cli.options import sound
from litebert.config import ModelConfig
from litebert.corpus.corpus import Corpus
from litebert.errors import RequestError
from litebert.folders import read_json, read_text
from litebert.model.model import Model
from litebert.planning.planner import preset_config
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.quantities import parse_duration
from litebert.training.loop import describe_differences
from litebert.training.run import identify, parse_config, read_run_config

__all__ = ["DEFAULT_BUDGET", "DEFAULT_MODEL", "choose_config", "resumed_config"]

_OF_THE_MODEL = ("model", "begin_from", "head_start")
Config = TypeVar("Config")

# Options, and the settings that they are.
_PLACES = {
    "steps": "train.steps",
    "batch": "train.batch_size",
    "length": "stream.length",
    "objective": "stream.pairs",
    "lr": "train.optim.lr",
    "optimizer": "train.optim.optimizer",
    "seed": "train.seed",
    "rows_at_once": "train.rows_at_once",
    "precision": "train.precision",
    "parallel": "train.parallel",
    "compiled": "train.compiled",
    "keep": "train.keep",
}
DEFAULT_MODEL, DEFAULT_BUDGET = "albert-mini", "30m"


def choose_config(corpus: Corpus, options: dict[str, Any], file: Path | None, assignments: list[str]) -> PretrainConfig:
    """Make the configuration of a new run from the options that were given."""
    if options.get("objective", "sop") not in ("sop", "nsp", "none"):
        raise typer.BadParameter("choose sop, nsp or none", param_hint="--objective")
    if "budget" in options and "steps" in options:
        raise typer.BadParameter("a run ends after a time or after steps: leave one of them out", param_hint="--budget")
    layers = [_read_settings(file) if file is not None else {}]
    if "model" in options:  # what was named is meant, not what the file has
        layers[0] = {name: value for name, value in layers[0].items() if name not in _OF_THE_MODEL}
    layers += [_nest(_option_settings(options)), *map(_parse_assignment, assignments)]
    shape, begin_from = _find_model(options.get("model", DEFAULT_MODEL), corpus)
    of_model = [{"model": layer["model"]} for layer in layers if "model" in layer]
    settings: dict[str, Any] = {"model": shape.model_dump(mode="json")}
    for layer in of_model:  # a recipe depends on the shape
        _merge(settings, layer)
    shape = sound(lambda: ModelConfig.model_validate_json(json.dumps(settings["model"])))
    settings = sound(lambda: _apply_recipe(options, shape)).model_dump(mode="json")
    if begin_from is not None:
        settings |= {"begin_from": begin_from, "head_start": False, "model": shape.model_dump(mode="json")}
    for layer in layers:
        _merge(settings, layer)
    return sound(lambda: parse_config(PretrainConfig, settings))


def resumed_config(
    out: Path, corpus: Corpus, what: dict[str, Any], how: dict[str, Any], file: Path | None, assignments: list[str]
) -> PretrainConfig:
    """The configuration of a run that goes on. Where and how it is computed may change; what it does may not."""
    config = read_run_config(out, PretrainConfig)
    if what or file is not None or assignments:
        wanted = choose_config(corpus, what, file, assignments)
        if differences := describe_differences(identify(config), identify(wanted)):
            raise typer.BadParameter(f"the run has {differences}: leave these options out to go on with it")
    settings = config.model_dump(mode="json")
    _merge(settings, _nest(_option_settings(how)))
    return sound(lambda: parse_config(PretrainConfig, settings))


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
            if "budget" not in options:
                return config
            return config.model_copy(
                update={"train": config.train.model_copy(update={"steps": None, "seconds": seconds})}
            )
        case _:
            raise typer.BadParameter("choose budget or paper", param_hint="--recipe")


def _option_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of the settings."""
    settings = {_PLACES[name]: value for name, value in options.items() if name in _PLACES}
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


def _parse_assignment(assignment: str) -> dict[str, Any]:
    """`train.optim.lr=1e-3` as a layer of settings."""
    place, equals, value = assignment.partition("=")
    if not equals:
        raise typer.BadParameter(f"write NAME=VALUE, not {assignment!r}", param_hint="--set")
    return _nest({place.strip(): _parse_value(value.strip())})


def _read_settings(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        content = read_json(file)
        return content["config"] if isinstance(content.get("config"), dict) else content
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{file} is no TOML: {error}") from None


def _merge(settings: dict[str, Any], layer: dict[str, Any]) -> None:
    """Put a layer over settings. A run ends after steps or after a time, so that setting one unsets the other."""
    for name, value in layer.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            _merge(settings[name], value)
        else:
            settings[name] = value
    for name, other in (("steps", "seconds"), ("seconds", "steps")):
        if layer.get(name) is not None and layer.get(other) is None and settings.get(other) is not None:
            settings[other] = None


def _nest(settings: dict[str, Any]) -> dict[str, Any]:
    """`{"train.optim.lr": 1}` as `{"train": {"optim": {"lr": 1}}}`."""
    nested: dict[str, Any] = {}
    for place, value in settings.items():
        *path, last = place.split(".")
        inner = nested
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return nested


def _parse_value(text: str) -> Any:
    """A JSON value, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
