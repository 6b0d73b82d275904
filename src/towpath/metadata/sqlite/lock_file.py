"""The lock that writers of all processes queue for."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockFile:
    """An exclusive `flock` beside the database.

    SQLite's own lock polls with growing pauses and starves some processes for seconds; the kernel
    queues those who wait for this one. It also keeps two processes from checkpointing at once.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; blocks the thread until it is free. Raises OSError."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)
