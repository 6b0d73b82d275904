"""Puts the settings together: YAML file, then environment, then flags; the later one wins.

Every value remembers where it came from, so that errors and `towpath config show` can say it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from towpath.config import yaml_file
from towpath.config.errors import ConfigError
from towpath.config.names import is_mapping, normalise, property_of, spelling, suggestion
from towpath.config.secrets import HIDDEN, shown_value
from towpath.config.settings import Settings
from towpath.environment import CONFIG_FILE, ENV_PREFIX, NOT_SETTINGS

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


@dataclass(frozen=True, slots=True)
class Given:
    """One value as somebody wrote it. `origin` tells where, for people."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and lines of warning about what was ignored."""

    settings: Settings
    warnings: tuple[str, ...]


def load_settings(
    file: Path | None = None,
    flags: Iterable[Given] = (),
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read and check everything; raises ConfigError with one clear line.

    Without a `file`, `TOWPATH_CONFIG` names one.
    """
    environ = os.environ if environ is None else environ
    if file is None and environ.get(CONFIG_FILE):
        file = Path(environ[CONFIG_FILE])
    from_environ, warnings = _from_environ(environ)
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in (_from_file(file, environ), from_environ, list(flags)):
        for setting, (value, origin) in _resolve(layer).items():
            values[setting] = value
            origins[setting] = origin
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error.errors()[0], values, origins)) from error
    settings.remember_origins(origins)
    return Loaded(settings, tuple(warnings))


def _from_file(file: Path | None, environ: Mapping[str, str]) -> list[Given]:
    if file is None:
        return []
    values = yaml_file.read(file, environ)
    return [Given(name, value, f"file {file}: {name}") for name, value in values.items()]


def _from_environ(environ: Mapping[str, str]) -> tuple[list[Given], list[str]]:
    """Known `TOWPATH_*` variables; unknown ones become warnings, they may be somebody else's."""
    given: list[Given] = []
    warnings: list[str] = []
    for variable in sorted(environ):
        if not variable.startswith(ENV_PREFIX):
            continue
        name = normalise(variable.removeprefix(ENV_PREFIX))
        if name in NOT_SETTINGS:
            continue
        if spelling(name) is None:
            warnings.append(f"unknown variable {variable} is ignored{suggestion(name)}")
        else:
            given.append(Given(name, environ[variable], f"environment {variable}"))
    return given, warnings


def _resolve(layer: list[Given]) -> dict[str, tuple[object, str]]:
    """One layer's values under their settings' own names."""
    chosen: dict[str, tuple[int, Given, object]] = {}
    for given in _gathered(layer):
        known = spelling(given.name)
        if known is None:
            raise ConfigError(
                f"unknown setting '{given.name}' ({_place(given)}){suggestion(given.name)}"
            )
        value = known.convert(given.value)
        before = chosen.get(known.setting)
        if before is not None and before[0] == known.rank and before[2] != value:
            raise ConfigError(
                f"{known.setting} is given twice: {before[1].origin} and {given.origin}"
            )
        if before is None or known.rank < before[0]:
            chosen[known.setting] = (known.rank, given, value)
    return {
        setting: (value, given.origin)
        for setting, (_, given, value) in chosen.items()
        if value is not None
    }


def _gathered(layer: list[Given]) -> list[Given]:
    """The layer with what is written as `setting.name` put together to one mapping per setting."""
    whole: list[Given] = []
    parts: dict[str, dict[str, object]] = {}
    origins: dict[str, str] = {}
    for given in layer:
        found = property_of(given.name)
        if found is None:
            whole.append(given)
            continue
        setting, name = found
        parts.setdefault(setting, {})[name] = given.value
        origins.setdefault(setting, given.origin)
    return whole + [Given(setting, parts[setting], origins[setting]) for setting in parts]


def _place(given: Given) -> str:
    """The origin without the name, which the message has said already."""
    return given.origin.removesuffix(f": {given.name}")


def _explain(error: ErrorDetails, values: Mapping[str, object], origins: Mapping[str, str]) -> str:
    """One line about the first thing that is wrong."""
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    if name not in values:
        return f"{name}: {message}"
    shown = HIDDEN if is_mapping(name) else shown_value(values[name])
    return f"{name} = {shown} ({origins[name]}): {message}"
