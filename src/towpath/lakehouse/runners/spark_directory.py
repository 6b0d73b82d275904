"""The directory of one session's files, which is removed with it.

A session whose process was killed cannot remove its directory; the next one in the same place does.
The lock on a directory goes with its process, so that a directory in use is never taken for one
that was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "session-"
TRIES_MAX = 10


class SessionDirectory:
    """A private directory, locked for as long as this process has it open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls, work_dir: Path) -> SessionDirectory:
        """Remove what dead processes left in `work_dir`, and make a new directory in it."""
        work_dir.mkdir(parents=True, exist_ok=True)
        remove_abandoned(work_dir)
        for _ in range(TRIES_MAX):
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=work_dir))
            descriptor = _lock(path)
            if descriptor is not None and path.exists():
                return cls(path, descriptor)
            if descriptor is not None:
                os.close(descriptor)
        raise OSError(f"no directory in {work_dir} could be locked")

    def subdirectory(self, name: str) -> Path:
        """A directory in it, made if needed."""
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def remove(self) -> None:
        """Remove it with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def remove_abandoned(work_dir: Path) -> None:
    """Remove the directories of sessions whose processes have ended."""
    for path in work_dir.glob(PREFIX + "*"):
        descriptor = _lock(path)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """The open and locked directory; None if it is gone or another process has it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None
