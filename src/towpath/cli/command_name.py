"""The command as the user typed it, for lines to copy."""

from __future__ import annotations

import os
import sys

VARIABLE = "TOWPATH_COMMAND"
"""The wrapper in a checkout tells here how it was called."""


def command_name() -> str:
    """`./towpath` from a checkout, `towpath` when installed, else the module."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    called = os.path.basename(sys.argv[0])
    return "python -m towpath" if called == "__main__.py" else "towpath"
