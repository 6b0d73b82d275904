"""Every command, and one place where failures become a line and an exit code.

A command line that names its command first loads no other command's module.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from towpath import __version__
from towpath.cli.command_name import command_name
from towpath.cli.errors import USAGE, CliError, complain

ROOT_HELP = """Kafka-compatible streaming on object storage.

\b
Start a broker, write a record and read it back:
  towpath up
  echo hello | towpath produce greetings
  towpath consume greetings --from earliest --count 1
"""

GROUP = "app"
"""In a module of several commands: those."""
COMMANDS = {
    "up": "up",
    "broker": "broker",
    "compactor": "compactor",
    "topics": GROUP,
    "groups": GROUP,
    "tables": GROUP,
    "sql": "sql",
    "produce": "produce",
    "consume": "consume",
    "config": GROUP,
    "soak": "soak",
    "test": "run_tests",
    "bench": "bench",
}
"""The command, which is also its module, and the function there. The help has them in this order,
groups last."""


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"towpath {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _names(arguments: Sequence[str]) -> list[str]:
    """The command that a command line begins with, or all of them if it does not begin so."""
    return [name for name in arguments[:1] if name in COMMANDS] or list(COMMANDS)


def _app(names: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        help=ROOT_HELP,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    for name in names:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module = importlib.import_module(f"towpath.cli.{name}")
    function = getattr(module, COMMANDS[name])
    if COMMANDS[name] == GROUP:
        app.add_typer(function, name=name)
        return
    settings = getattr(module, "CONTEXT_SETTINGS", None)
    app.command(name, help=module.HELP, context_settings=settings)(function)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but bugs raises."""
    command = typer.main.get_command(_app(_names(arguments)))
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
