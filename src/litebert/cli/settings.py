"""From options to a run's configuration: recipe, then a file, then options, then --set, each over the one before."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from litebert.errors import RequestError

if TYPE_CHECKING:
    from litebert.config import ModelConfig
    from litebert.corpus.corpus import Corpus
    from litebert.pretraining.config import PretrainConfig

__all__ = ["choose_config", "resumed_config"]

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
    shape, begin_from = _find_model(model, corpus)
    config = _apply_recipe(recipe, shape, objective, what)
    settings = config.model_dump(mode="json")
    if begin_from is not None:
        settings |= {"begin_from": begin_from, "head_start": False}
    if file is not None:
        _merge(settings, _read_settings(file))
    for place, value in _option_settings({**what, **how}).items():
        _put(settings, place, value)
    for assignment in assignments:
        place, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"write NAME=VALUE, not {assignment!r}", param_hint="--set")
        _put(settings, place.strip(), _parse_value(value.strip()))
    if "seed" in what:
        _put(settings, "stream.seed", what["seed"])
    return _validated(settings)


def resumed_config(out: Path, how: dict[str, Any]) -> "PretrainConfig":
    """The configuration of a run that goes on; only where and how it is computed may change."""
    from litebert.pretraining.run import read_run_config

    settings = read_run_config(out).model_dump(mode="json")
    for place, value in _option_settings(how).items():
        _put(settings, place, value)
    return _validated(settings)


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


def _put(settings: dict[str, Any], place: str, value: Any) -> None:
    """Set `train.optim.lr` and the like."""
    *path, last = place.split(".")
    for name in path:
        if not isinstance(settings.get(name), dict):
            raise typer.BadParameter(f"there is no setting {place}", param_hint="--set")
        settings = settings[name]
    if last not in settings:
        raise typer.BadParameter(f"there is no setting {place}", param_hint="--set")
    settings[last] = value


def _parse_value(text: str) -> Any:
    """A JSON value, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _validated(settings: dict[str, Any]) -> "PretrainConfig":
    from pydantic import ValidationError

    from litebert.config import explain
    from litebert.pretraining.run import parse_config

    try:
        return parse_config(settings)
    except ValidationError as error:
        raise typer.BadParameter(explain(error)) from None
