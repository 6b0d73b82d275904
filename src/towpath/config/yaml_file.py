"""Reads the YAML file: nested mappings become dotted names, `${VAR}` comes from the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from towpath.config.errors import ConfigError

FILE_MAX_BYTES = 1_048_576
"""Settings files are small; a larger file is a mistake and is not read."""

DEPTH_MAX = 16
"""The deepest nesting of mappings."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def read(path: Path, environ: Mapping[str, str]) -> dict[str, object]:
    """Dotted name to value; raises ConfigError with one line when the file is not acceptable."""
    import yaml

    try:
        with path.open("rb") as file:
            text = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(text) > FILE_MAX_BYTES:
        raise ConfigError(f"{path} is larger than {FILE_MAX_BYTES} bytes")
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML{_place(error)}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold names and values, not {type(tree).__name__}")
    return {name: _expand(value, name, path, environ) for name, value in _flatten(tree, path)}


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or ""
    where = f" (line {mark.line + 1})" if mark is not None else ""
    return f"{where}: {problem}" if problem else where


def _flatten(
    tree: Mapping[object, object], path: Path, prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, object]]:
    if depth > DEPTH_MAX:
        raise ConfigError(f"{path}: {prefix} is nested too deeply")
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, path, f"{name}.", depth + 1)
        elif isinstance(value, list):
            yield name, ",".join(str(item) for item in value)
        else:
            yield name, value


def _expand(value: object, name: str, path: Path, environ: Mapping[str, str]) -> object:
    """Text with every `${VAR}` replaced; `${VAR:-default}` where the variable may be missing."""
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = environ.get(match[1], match[2])
        if found is None:
            raise ConfigError(f"{path}: {name} uses ${{{match[1]}}}, which is not set")
        return found

    return _VARIABLE.sub(replace, value)
