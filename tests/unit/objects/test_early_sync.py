"""A file that is synced while it is written: all its bytes, and each part begun once, in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from towpath.objects.early_sync import PART_BYTES, EarlySyncFile


def open_new(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)


def test_every_part_is_begun_after_it_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    begun: list[tuple[int, int]] = []

    def begin(fd: int, position: int, length: int) -> None:
        assert os.fstat(fd).st_size >= position + length
        begun.append((position, length))

    pieces = [os.urandom(size) for size in (1, PART_BYTES - 1, 3, PART_BYTES * 2, 100)]
    with EarlySyncFile(open_new(path), begin) as sink:
        for piece in pieces:
            assert sink.write(piece) == len(piece)
        assert sink.tell() == sum(map(len, pieces))
    assert path.read_bytes() == b"".join(pieces)
    assert begun == [(0, PART_BYTES), (PART_BYTES, PART_BYTES * 2 + 3)]


@pytest.mark.parametrize("size_bytes", [0, 10, PART_BYTES * 3 + 1])
def test_the_system_s_own_call_leaves_the_bytes_alone(tmp_path: Path, size_bytes: int) -> None:
    path = tmp_path / "file"
    content = os.urandom(size_bytes)
    with EarlySyncFile(open_new(path)) as sink:
        sink.write(content)
    assert path.read_bytes() == content


def test_without_such_a_call_it_is_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = os.urandom(PART_BYTES + 1)
    with EarlySyncFile(open_new(path), None) as sink:
        sink.write(memoryview(content))
    assert path.read_bytes() == content
