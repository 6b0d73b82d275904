"""The one failure of the settings."""

from __future__ import annotations


class ConfigError(Exception):
    """A setting is unknown, malformed or out of range. The message is one clear line."""
