"""`towpath sql` without what other commands need: most of its time would be spent loading that.

It is for command lines that say nothing but a query, a data directory and a form, where nothing
else says anything about settings either. All others, wrong ones too, are left to the commands.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from towpath.environment import may_hold_settings

COMMAND = "sql"
DATA_DIR, OUTPUT = "--data-dir", "--output"
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def run(arguments: Sequence[str]) -> int | None:
    """Run the command line and return its exit code; None if it is not for here, and nothing was
    done."""
    if not arguments or arguments[0] != COMMAND or may_hold_settings(os.environ):
        return None
    found = _parsed(arguments[1:])
    return None if found is None else _carry_out(*found)


def _parsed(arguments: Sequence[str]) -> tuple[str | None, dict[str, str]] | None:
    """The query, and the flags that were given; None if anything is not plain."""
    query: str | None = None
    flags: dict[str, str] = {}
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if not argument.startswith("-"):
            if query is not None:
                return None
            query = argument
            continue
        name, equals, value = argument.partition("=")
        if not equals and left:
            value = left.pop(0)
        if name not in (DATA_DIR, OUTPUT) or name in flags or not value or value.startswith("-"):
            return None
        flags[name] = value
    return query, flags


def _carry_out(query: str | None, flags: dict[str, str]) -> int | None:
    from towpath import data_dir
    from towpath.cli.errors import CliError, complain
    from towpath.cli.sql_output import SqlOutput

    form = flags.get(OUTPUT, SqlOutput.TABLE)
    if form not in SqlOutput.__members__.values():
        return None
    try:
        from towpath.cli.sql_run import run_sql
        from towpath.query.places import DataDirectory

        places = DataDirectory.at(flags.get(DATA_DIR, data_dir.DEFAULT))
        return run_sql(places, query, SqlOutput(form))
    except CliError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
