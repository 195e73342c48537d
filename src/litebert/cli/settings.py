"""From options to a run's configuration: recipe, then a file, then options, then --set, each over the one before."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.config import ModelConfig
    from litebert.corpus.corpus import Corpus
    from litebert.pretraining.config import PretrainConfig

__all__ = ["choose_config", "resumed_config"]

Config = TypeVar("Config")

# Options, and the settings that they are.
_PLACES = {
    "lr": "train.optim.lr",
    "optimizer": "train.optim.optimizer",
    "seed": "train.seed",
    "rows_at_once": "train.rows_at_once",
    "precision": "train.precision",
    "parallel": "train.parallel",
    "compiled": "train.compiled",
    "keep": "train.keep",
}


def choose_config(
    corpus: "Corpus",
    model: str,
    recipe: str,
    objective: str,
    what: dict[str, Any],
    how: dict[str, Any],
    file: Path | None,
    assignments: list[str],
) -> "PretrainConfig":
    """Make the configuration of a new run from the options that were given."""
    if objective not in ("sop", "nsp", "none"):
        raise typer.BadParameter("choose sop, nsp or none", param_hint="--objective")
    changes = _gather_changes(what, how, file, assignments)
    shape, begin_from = _find_model(model, corpus)
    if "model" in changes:  # a recipe depends on the shape
        shape = _reshape(shape, changes.pop("model"))
    settings = _checked(lambda: _apply_recipe(recipe, shape, objective, what)).model_dump(mode="json")
    if begin_from is not None:
        settings |= {"begin_from": begin_from, "head_start": False}
    _merge(settings, changes)
    return _validated(settings)


def resumed_config(out: Path, how: dict[str, Any]) -> "PretrainConfig":
    """The configuration of a run that goes on; only where and how it is computed may change."""
    from litebert.pretraining.run import read_run_config

    settings = read_run_config(out).model_dump(mode="json")
    _merge(settings, _nest(_option_settings(how)))
    return _validated(settings)


def _gather_changes(
    what: dict[str, Any], how: dict[str, Any], file: Path | None, assignments: list[str]
) -> dict[str, Any]:
    """All that is to be changed in a recipe, as nested settings."""
    changes: dict[str, Any] = {}
    if file is not None:
        _merge(changes, _read_settings(file))
    _merge(changes, _nest(_option_settings({**what, **how})))
    for assignment in assignments:
        place, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"write NAME=VALUE, not {assignment!r}", param_hint="--set")
        _merge(changes, _nest({place.strip(): _parse_value(value.strip())}))
    return changes


def _reshape(shape: "ModelConfig", changes: Any) -> "ModelConfig":
    from litebert.config import ModelConfig

    if not isinstance(changes, dict):
        raise typer.BadParameter("model must be a table of settings", param_hint="--set")
    return _checked(lambda: ModelConfig.model_validate_json(json.dumps({**shape.model_dump(mode="json"), **changes})))


def _find_model(name: str, corpus: "Corpus") -> "tuple[ModelConfig, str | None]":
    """The shape of a preset, with the corpus' vocabulary; or that of a folder, whose weights the run begins with."""
    from litebert.lab.planner import preset_config
    from litebert.model.model import Model

    if not Path(name).is_dir():
        return preset_config(name).updated(vocab_size=corpus.tokenizer.vocab_size), None
    corpus.check_tokenizer(name)
    return Model.from_pretrained(name).config, name


def _apply_recipe(recipe: str, shape: "ModelConfig", objective: Any, what: dict[str, Any]) -> "PretrainConfig":
    from litebert.lab.quantities import parse_duration
    from litebert.pretraining.recipes import budget_run, paper_run

    if "budget" in what and "steps" in what:
        raise typer.BadParameter("a run ends after a time or after steps: leave one of them out", param_hint="--budget")
    wishes = {"batch_size": what.get("batch"), "length": what.get("length"), "steps": what.get("steps")}
    given = {name: value for name, value in wishes.items() if value is not None}
    if recipe == "paper":
        if "budget" in what:
            config = paper_run(shape, pairs=objective, **given)
            train = config.train.model_copy(update={"steps": None, "seconds": parse_duration(what["budget"])})
            return config.model_copy(update={"train": train})
        return paper_run(shape, pairs=objective, **given)
    if recipe != "budget":
        raise typer.BadParameter("choose budget or paper", param_hint="--recipe")
    seconds = parse_duration(what["budget"]) if "budget" in what else None
    return budget_run(shape, seconds, pairs=objective, **given)


def _option_settings(options: dict[str, Any]) -> dict[str, Any]:
    from litebert.lab.quantities import parse_duration

    settings = {_PLACES[name]: value for name, value in options.items() if name in _PLACES}
    if "seed" in options:
        settings["stream.seed"] = options["seed"]
    if "save_every" in options:
        every = options["save_every"]
        in_steps = every.isdigit() and int(every) > 0
        settings["train.save_steps"] = int(every) if in_steps else None
        settings["train.save_seconds"] = None if in_steps else parse_duration(every)
    return settings


def _read_settings(file: Path) -> dict[str, Any]:
    from litebert.folders import read_json, read_text

    if file.suffix == ".json":
        content = read_json(file)
        return content["config"] if isinstance(content.get("config"), dict) else content
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{file} is no TOML: {error}") from None


def _merge(settings: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            _merge(settings[name], value)
        else:
            settings[name] = value


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


def _validated(settings: dict[str, Any]) -> "PretrainConfig":
    from litebert.pretraining.run import parse_config

    return _checked(lambda: parse_config(settings))


def _checked(make: Callable[[], Config]) -> Config:
    """Make a configuration; what is wrong with it is said in one sentence."""
    from pydantic import ValidationError

    from litebert.config import explain

    try:
        return make()
    except ValidationError as error:
        if error.errors()[0]["type"] == "extra_forbidden":
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise typer.BadParameter(f"there is no setting {place}") from None
        raise typer.BadParameter(explain(error)) from None
