"""Loads the settings of a server command from its flags; wrong settings end it with one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.errors import UsageError, complain

if TYPE_CHECKING:
    from towpath.config import Settings

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file of settings ($TOWPATH_CONFIG)."),
]
SetFlags = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, see `config show`; repeatable."),
]


def split_assignments(pairs: Iterable[str], flag: str) -> list[tuple[str, str]]:
    """`NAME=VALUE` flags as pairs."""
    split = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} wants NAME=VALUE, not '{pair}'")
        split.append((name.strip(), value))
    return split


def load(
    file: Path | None,
    assignments: Iterable[str],
    named: Mapping[str, object | None],
    *,
    warn: bool = True,
) -> Settings:
    """The settings from file, environment and flags.

    `named` holds flags of their own, by setting. What was ignored gets a line on stderr.
    """
    from towpath.config import ConfigError, load_settings
    from towpath.config.load import Given

    flags = [
        Given(name, value, f"flag --{name.replace('_', '-')}")
        for name, value in named.items()
        if value is not None
    ]
    pairs = split_assignments(assignments, "--set")
    flags += [Given(name, value, f"flag --set {name}") for name, value in pairs]
    try:
        loaded = load_settings(file, flags)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    for warning in loaded.warnings if warn else ():
        complain(f"warning: {warning}")
    return loaded.settings
