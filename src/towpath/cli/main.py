"""The entry point. Only what every command needs is loaded here, and less for the quickest ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from towpath.cli import quick_sql


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing but bugs raises."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code = quick_sql.run(given)
    return _run_any(given) if code is None else code


def main() -> NoReturn:
    """The `towpath` command."""
    given = sys.argv[1:]
    code = quick_sql.run(given)
    if code is None:
        sys.exit(_run_any(given))
    _leave(code)


def _run_any(arguments: Sequence[str]) -> int:
    # Takes longer to load than a query takes.
    from towpath.cli import commands

    return commands.run(arguments)


def _leave(code: int) -> NoReturn:
    """End the process after a command that has let go of everything. To take apart what was loaded
    takes longer than most queries, and nobody would be the better for it."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # Python tells what cannot be written.
    os._exit(code)
