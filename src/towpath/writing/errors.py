"""What can go wrong with a write. Nothing of a write that failed is in the topic, unless it says
that the outcome is unknown."""

from __future__ import annotations

from towpath.errors import TowpathError


class WriteRefused(TowpathError):
    """The rows, or what was asked for, are not acceptable; says why in one line."""


class WriteFailed(TowpathError):
    """The stores did not carry it out; the same write may be tried again."""


class WriteUnknown(WriteFailed):
    """The metadata store did not say whether it took the commit, and it cannot be seen yet."""
