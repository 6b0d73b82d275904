"""What is wrong with a Parquet file that was read."""

from __future__ import annotations


class BrokenParquet(Exception):
    """A file does not hold what the index says it does. The message says how it differs."""


def broken_if(condition: bool, reason: str) -> None:
    """Raise if the condition holds."""
    if condition:
        raise BrokenParquet(reason)
