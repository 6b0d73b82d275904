"""Reads SQLite files that others may be writing, and leaves nothing behind.

A database in WAL mode that nobody has open gets two new files beside it from any ordinary reader,
a read-only one too. Such a file is therefore read as one that does not change; should somebody
open it meanwhile, it is read again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from towpath.metadata.store import StoreUnavailable

BUSY_TIMEOUT_S = 10.0
ATTEMPTS = 5

T = TypeVar("T")


def read_sqlite(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """What `work` reads in one transaction of an existing file. Raises StoreUnavailable."""
    for _ in range(ATTEMPTS):
        at_rest = not _log_of(path).exists()
        try:
            before = path.stat()
            result = _read(path, work, at_rest=at_rest)
            after = path.stat()
        except (OSError, sqlite3.Error) as error:
            if at_rest and _log_of(path).exists():
                continue
            raise StoreUnavailable(f"cannot read {path}: {error}") from error
        if not at_rest or (before.st_mtime_ns == after.st_mtime_ns and not _log_of(path).exists()):
            return result
    raise StoreUnavailable(f"cannot read {path}: it is opened and closed all the time")


def _read(path: Path, work: Callable[[sqlite3.Connection], T], *, at_rest: bool) -> T:
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    with closing(connection):
        connection.execute("BEGIN")
        return work(connection)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
