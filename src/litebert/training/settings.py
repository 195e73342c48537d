"""Settings of a run in layers: a file, then options, then assignments `NAME=VALUE`, each over the one before.

The same for every run: names are those of the configuration, such as `train.optim.lr`.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from litebert.config import explain
from litebert.errors import RequestError
from litebert.folders import read_json, read_text
from litebert.quantities import parse_duration
from litebert.training.config import rename_old_settings

__all__ = [
    "HOW",
    "RUN_OPTIONS",
    "SettingsSource",
    "apply_settings",
    "layer_settings",
    "merge_settings",
    "name_settings",
    "read_settings",
    "seconds_of",
]

Config = TypeVar("Config", bound=BaseModel)
Settings = dict[str, Any]
SettingsSource = str | os.PathLike[str] | Mapping[str, Any] | None
"""A file of settings, or the settings themselves."""

HOW = ("micro_batch", "precision", "parallel", "compiled", "save_every", "keep")
"""Options that say how a run is computed, not what it is: they may change when it goes on."""
# Options, and the settings that they stand for.
_OPTIONS = {
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
RUN_OPTIONS = (*_OPTIONS, "budget", "save_every")
"""The options that `name_settings` knows."""


def layer_settings(
    base: Config, file: SettingsSource = None, options: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
) -> Config:
    """Put settings over a configuration: those of a file, then options by dotted names, then assignments.

    What is wrong is a `RequestError` of one sentence.
    """
    return apply_settings(base, read_settings(file, options, assignments))


def read_settings(
    file: SettingsSource = None, options: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
) -> Settings:
    """The layers as one, not yet validated; a file is TOML, or JSON such as the one that a run folder has.

    >>> read_settings(options={"train.steps": 3, "model.num_layers": 2}, assignments=["train.optim.lr=1e-3"])
    {'train': {'steps': 3, 'optim': {'lr': 0.001}}, 'model': {'num_layers': 2}}
    """
    settings: Settings = {}
    if file is not None:
        settings = _rename(dict(file) if isinstance(file, Mapping) else _read_file(Path(file)))
    for name, value in (options or {}).items():
        settings = merge_settings(settings, _nest(name, value))
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise RequestError(f"write NAME=VALUE, not {assignment!r}")
        settings = merge_settings(settings, _nest(name.strip(), _parse_value(text.strip())))
    return settings


def apply_settings(base: Config, settings: Settings) -> Config:
    """A configuration with other settings, validated like a new one."""
    try:
        return type(base).model_validate_json(json.dumps(merge_settings(base.model_dump(mode="json"), settings)))
    except ValidationError as error:
        guess = ""
        if error.errors()[0]["type"] == "extra_forbidden":
            guess = _guess_setting(base, ".".join(map(str, error.errors()[0]["loc"])))
        raise RequestError(explain(error) + guess) from None


def _guess_setting(base: BaseModel, name: str) -> str:
    """End the sentence about a setting that does not exist: with the one that may be meant, if any is near."""
    known = list(_list_settings(base.model_dump(mode="json")))
    last = name.rpartition(".")[2]
    same = [one for one in known if one.rpartition(".")[2] == last]
    near = same or difflib.get_close_matches(name, known, 1)
    return f": did you mean {near[0]}?" if near else ""


def _list_settings(settings: Settings, prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _list_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def merge_settings(below: Settings, above: Settings) -> Settings:
    """Settings over others. A run ends after steps or after a time, so that setting one unsets the other.

    >>> merge_settings({"train": {"steps": 3, "seed": 1}}, {"train": {"seconds": 60.0}})
    {'train': {'steps': None, 'seed': 1, 'seconds': 60.0}}
    """
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = merge_settings(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    for name, other in (("steps", "seconds"), ("seconds", "steps")):
        if above.get(name) is not None and above.get(other) is None and merged.get(other) is not None:
            merged[other] = None
    return merged


def _read_file(file: Path) -> Settings:
    if file.suffix == ".json":
        content = read_json(file)
        return content["config"] if isinstance(content.get("config"), dict) else content
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{file} is no TOML: {error}") from None


def _nest(name: str, value: Any) -> Settings:
    """`train.optim.lr` and 1 as `{"train": {"optim": {"lr": 1}}}`."""
    settings = value
    for part in reversed(name.split(".")):
        settings = {part: settings}
    return _rename(settings)


def _rename(settings: Settings) -> Settings:
    """Settings of any version by their names of today."""
    train = settings.get("train")
    return {**settings, "train": rename_old_settings(train)} if isinstance(train, dict) else settings


def _parse_value(text: str) -> Any:
    """A JSON value, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def name_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names of the settings."""
    settings = {_OPTIONS[name]: value for name, value in options.items() if name in _OPTIONS}
    if "seed" in options:
        settings["stream.seed"] = options["seed"]
    if "budget" in options:
        settings["train.seconds"] = seconds_of(options["budget"], "--budget")
    if "save_every" in options:
        every = str(options["save_every"])
        in_steps = every.isdigit() and int(every) > 0
        settings["train.save_steps"] = int(every) if in_steps else None
        settings["train.save_seconds"] = None if in_steps else seconds_of(every, "--save-every")
    return settings


def seconds_of(duration: str | float, option: str) -> float:
    """A time as a number of seconds, or written like 90s."""
    if not isinstance(duration, str):
        return float(duration)
    try:
        return parse_duration(duration)
    except RequestError as error:
        raise RequestError(f"{option}: {error}") from None
