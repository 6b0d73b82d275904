"""Objects of workers: whole or not at all, durable, and within the same store as the brokers'."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opendal
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from towpath.objects import worker
from towpath.objects.fs import FsObjectStore
from towpath.objects.fs_files import Directories, remove_old_temporaries
from towpath.objects.paths import InvalidObjectPath
from towpath.objects.store import ObjectExists, ObjectNotFound, ObjectStoreError
from towpath.objects.worker import (
    OPEN_FILES_MAX,
    FileObjects,
    RemovableObjects,
    WorkerObjects,
    open_worker_objects,
)
from towpath.objects.worker_opendal import PART_BYTES, OpendalObjects
from towpath.runtime import inline_runtime


class Boom(Exception):
    """Something went wrong while an object was written."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "objects"
    path.mkdir()
    return path


@pytest.fixture(params=["file", "memory"])
def objects(request: pytest.FixtureRequest, root: Path) -> RemovableObjects:
    if request.param == "file":
        return FileObjects(root)
    return OpendalObjects(opendal.Operator("memory"))


def put(objects: WorkerObjects, path: str, *parts: bytes) -> None:
    with objects.create(path) as sink:
        for part in parts:
            sink.write(part)


def put_half(objects: WorkerObjects, path: str, part: bytes) -> None:
    with objects.create(path) as sink:
        sink.write(part)
        raise Boom


def files_below(root: Path) -> list[str]:
    """Every file, temporary ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# What every kind does


def test_what_was_deleted_is_gone_and_may_be_written_again(objects: RemovableObjects) -> None:
    put(objects, "a/b/c", b"1")
    put(objects, "a/b/d", b"2")
    for _ in range(2):
        objects.delete("a/b/c")
    with pytest.raises(ObjectNotFound):
        objects.read("a/b/c", 0, 1)
    assert bytes(objects.read("a/b/d", 0, 1)) == b"2"
    put(objects, "a/b/c", b"3")
    assert bytes(objects.read("a/b/c", 0, 1)) == b"3"


def test_what_was_written_is_read_in_ranges(objects: WorkerObjects) -> None:
    with objects.create("a/b/c") as sink:
        sink.write(b"hello ")
        assert sink.tell() == 6
        sink.write(memoryview(bytearray(b"world")))
        assert sink.tell() == 11
    assert bytes(objects.read("a/b/c", 0, 11)) == b"hello world"
    assert bytes(objects.read("a/b/c", 6, 5)) == b"world"
    assert bytes(objects.read("a/b/c", 3, 0)) == b""


def test_objects_larger_than_a_part(objects: WorkerObjects) -> None:
    content = os.urandom(1 << 20) * (2 * PART_BYTES >> 20) + b"end"
    put(objects, "large", b"start", content, b"more")
    size_bytes = 5 + len(content) + 4
    assert bytes(objects.read("large", 0, size_bytes)) == b"start" + content + b"more"
    assert bytes(objects.read("large", size_bytes - 7, 7)) == b"endmore"


def test_an_empty_object(objects: WorkerObjects) -> None:
    put(objects, "empty")
    assert bytes(objects.read("empty", 0, 0)) == b""


def test_arrow_writes_into_the_sink(objects: WorkerObjects) -> None:
    table = pa.table({"x": list(range(100_000)), "y": [os.urandom(20) for _ in range(100_000)]})
    with objects.create("t.parquet") as sink:
        with pq.ParquetWriter(sink, table.schema) as writer:
            writer.write_table(table, row_group_size=30_000)
        size_bytes = sink.tell()
    content = objects.read("t.parquet", 0, size_bytes)
    assert pq.read_table(pa.BufferReader(content)).equals(table)


def test_missing_objects(objects: WorkerObjects) -> None:
    for length in (0, 1):
        with pytest.raises(ObjectNotFound):
            objects.read("no/such/object", 0, length)


@pytest.mark.parametrize(("offset", "length"), [(0, 4), (2, 2), (4, 1), (-1, 1), (0, -1)])
def test_reading_beyond_the_end_is_an_error(
    objects: WorkerObjects, offset: int, length: int
) -> None:
    put(objects, "a", b"abc")
    with pytest.raises(ObjectStoreError):
        objects.read("a", offset, length)


@pytest.mark.parametrize("size_bytes", [0, 3, PART_BYTES + 1])
def test_a_failure_leaves_no_object(objects: WorkerObjects, size_bytes: int, root: Path) -> None:
    with pytest.raises(Boom):
        put_half(objects, "dir/a", bytes(size_bytes))
    with pytest.raises(ObjectNotFound):
        objects.read("dir/a", 0, 1)
    if isinstance(objects, FileObjects):
        assert files_below(root) == []
    put(objects, "dir/a", b"second try")
    assert bytes(objects.read("dir/a", 0, 6)) == b"second"


def test_an_existing_object_is_not_touched(objects: WorkerObjects) -> None:
    put(objects, "a", b"first")
    with pytest.raises(ObjectExists):
        put(objects, "a", b"second")
    assert bytes(objects.read("a", 0, 5)) == b"first"


@pytest.mark.parametrize("path", ["", "/a", "../a", "a//b", ".towpath/tmp/a"])
def test_paths_are_checked(objects: WorkerObjects, path: str) -> None:
    with pytest.raises(InvalidObjectPath):
        objects.read(path, 0, 1)
    with pytest.raises(InvalidObjectPath):
        put(objects, path, b"x")


# Files


async def test_brokers_and_workers_share_objects(root: Path) -> None:
    store = FsObjectStore(root, inline_runtime(1))
    objects = FileObjects(root)
    await store.put("wal/a", [b"from the broker"])
    assert bytes(objects.read("wal/a", 9, 6)) == b"broker"
    with objects.create("data/b") as sink:
        sink.write(b"half")
        sink.flush()
        assert [info.path async for info in store.list("")] == ["wal/a"]
    assert bytes(await store.read("data/b", 0, 4)) == b"half"
    assert [info.path async for info in store.list("")] == ["data/b", "wal/a"]
    await store.close()


def test_bytes_are_synced_before_the_name_and_the_name_before_success(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FileObjects(root)
    put(objects, "new/dir/warm", b"")
    steps: list[str] = []

    def spied(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            steps.append(name)
            return original(*args, **kwargs)

        return call

    for name in ("fdatasync", "link", "fsync"):
        monkeypatch.setattr(os, name, spied(name))
    put(objects, "new/dir/a", b"x")
    assert steps == ["fdatasync", "link", "fsync"]
    steps.clear()
    put(objects, "other/dir/a", b"x")
    # Two new directories, each synced into its parent, before the name.
    assert steps == ["fdatasync", "fsync", "fsync", "link", "fsync"]


@pytest.mark.parametrize("step", ["fdatasync", "link", "fsync"])
def test_a_step_that_fails_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    objects = FileObjects(root)
    put(objects, "dir/warm", b"")

    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(ObjectStoreError, match="broken disk"):
            put(objects, "dir/a", b"x")
    assert files_below(root) == ["dir/warm"]
    put(objects, "dir/a", b"x")


def test_a_directory_removed_meanwhile_is_made_again(root: Path) -> None:
    objects = FileObjects(root)
    with objects.create("data/day/a") as sink:
        put(objects, "data/day/b", b"")
        (root / "data/day/b").unlink()
        (root / "data/day").rmdir()
        (root / "data").rmdir()
        sink.write(b"x")
    assert bytes(objects.read("data/day/a", 0, 1)) == b"x"


def test_what_a_dead_worker_left_is_collected(root: Path) -> None:
    """And a worker that lives after all finds out when it wants to name its file."""
    objects = FileObjects(root)
    writing = objects.create("data/a")
    writing.__enter__().write(b"x")
    (temporary,) = (root / ".towpath/tmp").iterdir()
    os.utime(temporary, (1, 1))
    directories = Directories(str(root))
    assert remove_old_temporaries(directories, before_ms=2000) == 1
    directories.close()
    with pytest.raises(ObjectStoreError, match="cannot write data/a"):
        writing.__exit__(None, None, None)
    assert files_below(root) == []


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_are_bounded_and_given_back(root: Path) -> None:
    gc.collect()
    before = open_descriptors()
    objects = FileObjects(root)
    count = 2 * OPEN_FILES_MAX
    for number in range(count):
        put(objects, f"f{number}", b"%d" % number)
    opened = open_descriptors()
    for number in [*range(count), *range(count)]:
        assert bytes(objects.read(f"f{number}", 0, 1)) == (b"%d" % number)[:1]
    assert open_descriptors() == opened + OPEN_FILES_MAX
    del objects
    gc.collect()
    assert open_descriptors() == before


def test_a_file_in_use_survives_its_eviction(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "OPEN_FILES_MAX", 1)
    objects = FileObjects(root)
    for name in ("a", "b"):
        put(objects, name, name.encode())
    used = objects._file("a")
    assert bytes(objects.read("b", 0, 1)) == b"b"
    assert os.pread(used.fd, 1, 0) == b"a"


def test_reads_are_the_callers_own(root: Path) -> None:
    objects = FileObjects(root)
    put(objects, "a", b"abc")
    objects.read("a", 0, 3)[0] = ord("x")
    assert bytes(objects.read("a", 0, 3)) == b"abc"


def test_a_root_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ObjectStoreError, match="cannot open"):
        FileObjects(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


# URLs


@pytest.fixture
def spaced(tmp_path: Path) -> Path:
    path = tmp_path / "with space"
    path.mkdir()
    (path / "a").write_bytes(b"x")
    return path


def test_urls_of_files(spaced: Path) -> None:
    for url in (str(spaced), spaced.as_uri(), spaced.as_uri().replace("://", "://localhost")):
        assert bytes(open_worker_objects(url).read("a", 0, 1)) == b"x"


def test_urls_of_services() -> None:
    objects = open_worker_objects("s3://bucket/root", {"region": "eu-west-1"})
    assert isinstance(objects, OpendalObjects)
    with pytest.raises(ObjectStoreError, match=r"objects_options: .*region is missing"):
        open_worker_objects("s3://bucket/root", {"disable-config-load": "true"})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file://host/path",
        "file:///",
        "memory://",
        "fs:///tmp",
        "nonsense://bucket",
        "s3:///root",
        "s3://bucket/root?region=eu-west-1",
    ],
)
def test_urls_of_nothing(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|directory|process|unknown|bucket"):
        open_worker_objects(url)
