"""`towpath config show`: every setting, its value, where it came from and what it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towpath.cli.output import Output, OutputFlag, table
from towpath.cli.settings import ConfigFile, SetFlags, load

if TYPE_CHECKING:
    from towpath.config import Settings

app = typer.Typer(help="Look at the settings.", rich_markup_mode=None)

SHOW_HELP = """Show every setting, its value, where it came from and what it does.

\b
Examples:
  towpath config show
  towpath config show --config towpath.yaml --output json
  TOWPATH_LINGER_MS=50 towpath config show --set num.partitions=3
"""


@app.callback(invoke_without_command=True)
def _config(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("show", help=SHOW_HELP)
def show(
    config: ConfigFile = None,
    assignments: SetFlags = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """Print the effective settings."""
    settings = load(config, assignments or [], {})
    rows = _rows(settings)
    if output is Output.JSON:
        print(json.dumps(rows, indent=2))
        return
    columns = ("setting", "value", "source", "what it does")
    table(columns, [[_cell(cell) for cell in row.values()] for row in rows])


def _cell(value: object) -> str:
    """A value as it would be written in the file."""
    if isinstance(value, dict):
        return ",".join(f"{name}={found}" for name, found in value.items())
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(settings: Settings) -> list[dict[str, object]]:
    from towpath.config import Settings
    from towpath.config.secrets import shown_properties

    rows: list[dict[str, object]] = []
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        shown = str(value) if isinstance(value, Path) else value
        if isinstance(value, dict):
            shown = shown_properties(value)
        rows.append(
            {
                "setting": name,
                "value": shown,
                "source": settings.origin(name),
                "doc": field.description,
            }
        )
    return rows
