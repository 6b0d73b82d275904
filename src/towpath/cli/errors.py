"""How a command fails: one clear line on stderr and an exit code."""

from __future__ import annotations

import sys

FAILED = 1
"""The system refused or could not be reached."""

USAGE = 2
"""The command was called wrongly."""


class CliError(Exception):
    """Ends the command with one line on stderr."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CliError):
    """The flags or arguments make no sense."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def complain(message: str) -> None:
    """Write one line to stderr."""
    line = " ".join(message.split())
    say(f"towpath: {line}")


def say(line: str) -> None:
    """Write a line to stderr as it is. One that cannot be written (its disk is full, its reader is
    gone) is dropped: no server may end because of it."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return
