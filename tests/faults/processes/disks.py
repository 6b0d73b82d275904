"""Disks that a test can fill or make read-only under a running broker.

As root `chmod` does not bind, and a mount over a directory does not reach descriptors that are open
already; so the directory is a small tmpfs of its own, which is filled, or remounted read-only.
Where mounting is refused the test is skipped; `file_size_limit` works everywhere.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILL_STEP_BYTES = 4096


def _mount(*arguments: str) -> str:
    """Run `mount`; what it complained of, or nothing."""
    if shutil.which("mount") is None:
        return "there is no mount command"
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    return done.stderr.strip() or "refused" if done.returncode else ""


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[Path]:
    """A tmpfs of this size at the directory; skips the test where it cannot be mounted."""
    directory.mkdir(parents=True)
    problem = _mount("-t", "tmpfs", "-o", f"size={size_bytes}", "towpath-test", str(directory))
    if problem:
        pytest.skip(f"a tmpfs cannot be mounted here: {problem}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No room at all is left on the disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(FILL_STEP_BYTES))
        except OSError:
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """No file can be made, named, opened for writing or removed on the disk, not even by root.

    (A disk with files open for writing, as the broker has, cannot be mounted read-only.)
    """
    problem = _set_immutable("+i", disk)
    if problem:
        pytest.skip(f"files cannot be made immutable here: {problem}")
    try:
        yield
    finally:
        problem = _set_immutable("-i", disk)
        assert not problem, problem


def _set_immutable(flag: str, disk: Path) -> str:
    """The first line of what was wrong, empty if nothing was."""
    command = ["chattr", "-R", flag, str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.partition("\n")[0] or ("" if done.returncode == 0 else "it failed")


@contextmanager
def file_size_limit(pid: int) -> Iterator[None]:
    """The process cannot make any file longer (EFBIG): what a disk quota does to it."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
