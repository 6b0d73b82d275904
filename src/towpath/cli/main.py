"""The entry point: every command, and one place where failures become a line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from towpath import __version__
from towpath.cli import (
    bench,
    broker,
    compactor,
    config,
    consume,
    produce,
    soak,
    sql,
    tables,
    test,
    topics,
    up,
)
from towpath.cli.command_name import command_name
from towpath.cli.errors import USAGE, CliError, complain

ROOT_HELP = """Kafka-compatible streaming on object storage.

\b
Start a broker, write a record and read it back:
  towpath up
  echo hello | towpath produce greetings
  towpath consume greetings --from earliest --count 1
"""

app = typer.Typer(
    help=ROOT_HELP,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"towpath {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("up", help=up.HELP)(up.up)
app.command("broker", help=broker.HELP)(broker.broker)
app.command("compactor", help=compactor.HELP)(compactor.compactor)
app.add_typer(topics.app, name="topics")
app.add_typer(tables.app, name="tables")
app.command("sql", help=sql.HELP)(sql.sql)
app.command("produce", help=produce.HELP)(produce.produce)
app.command("consume", help=consume.HELP)(consume.consume)
app.add_typer(config.app, name="config")
app.command("soak", help=soak.HELP)(soak.soak)
app.command("test", help=test.HELP, context_settings=test.CONTEXT_SETTINGS)(test.run_tests)
app.command("bench", help=bench.HELP)(bench.bench)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing but bugs raises."""
    command = typer.main.get_command(app)
    try:
        result = command.main(args=arguments, prog_name=command_name(), standalone_mode=False)
    except TyperException as error:
        complain(_usage_message(error))
        return error.exit_code
    except CliError as error:
        complain(str(error))
        return error.exit_code
    except typer.Abort:
        complain("aborted")
        return 1
    return result if isinstance(result, int) else 0


def _usage_message(error: TyperException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if error.exit_code != USAGE or context is None:
        return message
    return f"{message} (see {context.command_path} --help)"


def main() -> NoReturn:
    """The `towpath` command."""
    sys.exit(run())
