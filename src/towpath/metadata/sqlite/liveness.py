"""Proof of life between processes of one host: a lock file that its holder keeps locked.

The kernel drops the lock when the holder dies, so that its sessions can be ended at once instead of
after their time to live. A process that is only stopped keeps its lock; the time to live decides.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Liveness:
    """This process's lock file, and the look at those of others."""

    def __init__(self, database: Path, name: str) -> None:
        self._directory = database.with_name(f"{database.name}.alive")
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self.name = name
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._directory / name, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_dead(self, name: str) -> bool:
        """Whether the holder of this name is certainly gone. An unknown name proves nothing."""
        if name == self.name:
            return False
        path = self._directory / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self, name: str) -> None:
        """Remove a dead holder's file, once its sessions are ended."""
        (self._directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove this process's file; its sessions must be ended by now."""
        self.forget(self.name)
        os.close(self._descriptor)
