"""The environment variables that are Towpath's. Imports nothing of this project, so that a command
can look at them before the settings are loaded."""

from __future__ import annotations

from collections.abc import Mapping

ENV_PREFIX = "TOWPATH_"

NOT_SETTINGS = frozenset(
    {
        "config",
        "bootstrap",
        "command",
        "python",
        "fault_point",
        "fault_after",
        "fault_action",
        "fault_rounds",
        "simulation_seeds",
        "test_peer",
    }
)
"""`TOWPATH_*` variables with a meaning of their own."""

CONFIG_FILE = "TOWPATH_CONFIG"
"""Names a file of settings."""


def may_hold_settings(environ: Mapping[str, str]) -> bool:
    """Whether some variable may say something about settings, if only that it is misspelt."""
    return bool(environ.get(CONFIG_FILE)) or any(
        name.startswith(ENV_PREFIX) and name.removeprefix(ENV_PREFIX).lower() not in NOT_SETTINGS
        for name in environ
    )
