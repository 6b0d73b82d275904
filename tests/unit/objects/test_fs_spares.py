"""Files opened ahead: used once each, replaced, and closed with the store."""

from __future__ import annotations

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


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_spares_are_refilled_and_closed(tmp_path: Path) -> None:
    before = open_files()
    spares = SpareFiles(lambda: os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    assert spares.take() is None  # Nothing is opened before the first use.
    wait_for(lambda: open_files() == before + SPARES_MAX)
    taken = [spares.take() for _ in range(SPARES_MAX)]
    assert None not in taken
    assert len(set(taken)) == SPARES_MAX
    for spare in taken:
        assert spare is not None
        os.close(spare)
    wait_for(lambda: open_files() == before + SPARES_MAX)
    spares.close()
    assert spares.take() is None
    assert open_files() == before


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
