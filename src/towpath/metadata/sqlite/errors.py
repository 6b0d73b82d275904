"""SQLite's failures as the metadata store's."""

from __future__ import annotations

import sqlite3

from towpath.metadata.store import MetadataError, OutcomeUnknown, StoreUnavailable

_NEVER_APPLIED = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY}
)
"""Primary codes of a failed COMMIT after which no commit record can be in the log.

A full disk tears the last frame, whose checksum is then wrong. After an I/O error, on the other
hand, the frame may be complete on the disk and only its sync have failed.
"""


class UnsupportedDatabase(MetadataError):
    """The file is not a metadata store of this release; nothing was changed."""


def describe(error: sqlite3.Error) -> str:
    """SQLite's message with the name of its code."""
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)


def unavailable(error: sqlite3.Error) -> StoreUnavailable:
    """A failure outside COMMIT: nothing was changed."""
    return StoreUnavailable(f"the metadata database failed: {describe(error)}")


def failed_commit(error: sqlite3.Error) -> MetadataError:
    """A failure of COMMIT itself."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _NEVER_APPLIED:
        return unavailable(error)
    return OutcomeUnknown(f"the metadata database failed while committing: {describe(error)}")
