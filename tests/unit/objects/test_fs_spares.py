"""Files opened ahead: used once each, replaced, and closed with the store."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from towpath.objects.fs_files import Directories, DurableWriter
from towpath.objects.fs_spares import SPARES_MAX, SpareFiles


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("it did not happen within five seconds")


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_spares_are_refilled_and_closed(tmp_path: Path) -> None:
    opened: list[int] = []

    def open_one() -> int:
        opened.append(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
        return opened[-1]

    spares = SpareFiles(open_one)
    assert not opened  # Nothing is opened before the first use.
    assert spares.take() is None
    wait_for(lambda: len(spares._spares) == SPARES_MAX)
    taken = [spare for _ in range(3) if (spare := spares.take()) is not None]
    assert taken == opened[:3]
    wait_for(lambda: len(spares._spares) >= SPARES_MAX - 3)
    spares.close()
    assert spares.take() is None
    assert all(is_open(spare) for spare in taken)  # They are the takers' own.
    assert len(spares._spares) == 0
    for spare in taken:
        os.close(spare)


def test_closing_closes_the_spares(tmp_path: Path) -> None:
    spares = SpareFiles(lambda: os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    assert spares.take() is None
    wait_for(lambda: len(spares._spares) == SPARES_MAX)
    targets = [os.readlink(f"/proc/self/fd/{spare}") for spare in spares._spares]
    spares.close()
    left = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            left.append(os.readlink(f"/proc/self/fd/{number}"))
    assert not set(targets) & set(left)


def test_a_failing_open_leaves_no_spare_and_is_tried_again(tmp_path: Path) -> None:
    failures = [OSError(errno.ENOSPC, "full")]

    def open_one() -> int:
        if failures:
            raise failures.pop()
        return os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY)

    spares = SpareFiles(open_one)
    assert spares.take() is None
    wait_for(lambda: not failures)

    def take() -> bool:
        spare = spares.take()
        if spare is not None:
            os.close(spare)
        return spare is not None

    wait_for(take)
    spares.close()


def test_a_put_uses_a_spare_and_its_file_is_the_object(tmp_path: Path) -> None:
    writer = DurableWriter(Directories(str(tmp_path)))
    writer.write("a/first", [b"first"])
    wait_for(lambda: len(writer._spares._spares) == SPARES_MAX)
    inode = os.fstat(writer._spares._spares[0]).st_ino
    writer.write("a/second", [b"sec", b"ond"])
    assert (tmp_path / "a/second").read_bytes() == b"second"
    assert (tmp_path / "a/second").stat().st_ino == inode
    with pytest.raises(FileExistsError):
        writer.write("a/second", [b"other"])
    assert (tmp_path / "a/second").read_bytes() == b"second"
    writer.close()


def test_a_directory_on_another_file_system_takes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = DurableWriter(Directories(str(tmp_path)))
    writer.write("a/first", [b"first"])
    wait_for(lambda: len(writer._spares._spares) == SPARES_MAX)
    link = os.link
    refused: list[object] = []

    def refuse_once(*args: object, **kwargs: object) -> None:
        if not refused:
            refused.append(args)
            raise OSError(errno.EXDEV, "another file system")
        link(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", refuse_once)
    writer.write("a/second", [b"second"])
    assert refused
    assert (tmp_path / "a/second").read_bytes() == b"second"
    writer.close()
