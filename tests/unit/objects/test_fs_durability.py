"""The `fs` store keeps what it promised: the order of its system calls, kill -9, full disks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.unit.objects.fs_child import content

from towpath.objects import fs_files
from towpath.objects.fs import TEMPORARY_AGE_MAX_MS, FsObjectStore
from towpath.objects.fs_spares import SPARES_MAX
from towpath.objects.store import ObjectNotFound, ObjectStoreError
from towpath.runtime import inline_runtime

REPOSITORY = Path(__file__).parents[3]
CHILD = [sys.executable, "-m", "tests.unit.objects.fs_child"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"}
TRACED = "openat,write,writev,fdatasync,fsync,link,linkat,rename,renameat,renameat2,mkdir,mkdirat"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FsObjectStore]:
    store = FsObjectStore(root, inline_runtime(1))
    yield store
    await store.close()


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# The order of system calls


def trace_one_put(root: Path, path: str, tmp_path: Path) -> list[str]:
    """The system calls of one put in a process of its own, with descriptors as paths (`-y`)."""
    if shutil.which("strace") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("strace is not installed: the order of syncs cannot be checked")
        pytest.skip("strace is not installed")
    output = tmp_path / "trace"
    command = ["strace", "-f", "-y", "-s", "64", "-e", f"trace={TRACED}", "-o", str(output)]
    subprocess.run(
        [*command, *CHILD, str(root), "one", path],
        env=ENVIRONMENT,
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        timeout=60,
    )
    lines = whole_calls(output.read_text())
    opened = next(n for n, line in enumerate(lines) if "opened" in line)
    returned = next(n for n, line in enumerate(lines) if "returned" in line)
    return lines[opened + 1 : returned]


def whole_calls(trace: str) -> list[str]:
    """The calls in the order of their ends; those that another thread interrupted in one piece."""
    begun: dict[str, str] = {}
    calls = []
    for line in trace.splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>")
            continue
        if call.startswith("<... "):
            call = begun.pop(thread) + call.partition("resumed>")[2]
        calls.append(call)
    return calls


def position(lines: list[str], pattern: str, after: int = -1) -> int:
    """The first line after a position that matches; fails with the whole trace if there is none."""
    for number, line in enumerate(lines):
        if number > after and re.search(pattern, line):
            return number
    pytest.fail(f"no {pattern!r} after line {after} of:\n" + "\n".join(lines))


def test_the_name_comes_after_the_bytes_and_both_are_synced(root: Path, tmp_path: Path) -> None:
    lines = trace_one_put(root, "new/dir/object.wo", tmp_path)
    at = re.escape(str(root))
    mkdir_outer = position(lines, rf'mkdir\w*\(\d+<{at}>, "new"')
    sync_root = position(lines, rf"^fsync\(\d+<{at}>", mkdir_outer)
    mkdir_inner = position(lines, rf'mkdir\w*\(\d+<{at}/new>, "dir"')
    sync_outer = position(lines, rf"^fsync\(\d+<{at}/new>", mkdir_inner)
    temporary = position(lines, r"openat\(\d+<.*/new/dir>.*O_TMPFILE")
    write = position(lines, r"writev\(.*first .*second", temporary)
    sync_file = position(lines, r"^(fdatasync|fsync)\(\d+<.*/new/dir/#\d+.*= 0", write)
    name = position(lines, rf'linkat\(.*<{at}/new/dir>, "object.wo".*= 0', sync_file)
    sync_directory = position(lines, rf"^fsync\(\d+<{at}/new/dir>.*= 0", name)
    assert sync_root < mkdir_inner
    assert sync_outer < temporary
    assert sync_directory > name
    assert sum("writev(" in line for line in lines) == 1


def test_a_known_directory_costs_no_mkdir(root: Path, tmp_path: Path) -> None:
    lines = trace_one_put(root, "object.wo", tmp_path)
    assert not [line for line in lines if line.startswith("mkdir")]
    position(lines, rf"^fsync\(\d+<{re.escape(str(root))}>.*= 0", position(lines, "linkat"))


# Crashes


@pytest.mark.parametrize("named", [False, True])
async def test_kill_9_never_leaves_a_torn_object(root: Path, named: bool) -> None:
    size_bytes = 1_500_000
    acknowledged: set[str] = set()
    for attempt in range(6):
        child = await asyncio.create_subprocess_exec(
            *(CHILD if not named else [sys.executable, "-c", NAMED_CHILD]),
            *(str(root), "flood", str(size_bytes), f"run{attempt}"),
            env=ENVIRONMENT,
            cwd=REPOSITORY,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        for _ in range(attempt % 3 + 1):
            acknowledged.add((await child.stdout.readline()).decode().strip())
        child.kill()
        rest = await child.stdout.read()
        acknowledged |= set(rest.decode().rpartition("\n")[0].split())
        await child.wait()
    store = FsObjectStore(root, inline_runtime(1))
    visible = [info async for info in store.list("")]
    assert acknowledged <= {info.path for info in visible}
    for info in visible:
        assert bytes(await store.read(info.path, 0, size_bytes)) == content(info.path, size_bytes)
        assert info.size_bytes == size_bytes
    await store.close()


NAMED_CHILD = """
import asyncio, sys
from tests.unit.objects import fs_child
from towpath.objects.fs_files import DurableWriter
DurableWriter._try_unnamed = lambda self: False
asyncio.run(fs_child.flood(sys.argv[1], int(sys.argv[3]), sys.argv[4]))
"""


async def test_old_temporaries_are_removed_at_open(root: Path) -> None:
    await FsObjectStore(root, inline_runtime(1)).close()
    temporary = root / ".towpath/tmp"
    (temporary / "old").write_bytes(b"x")
    (temporary / "fresh").write_bytes(b"x")
    age_s = TEMPORARY_AGE_MAX_MS / 1000 + 60
    stamp = (temporary / "old").stat().st_mtime - age_s
    os.utime(temporary / "old", (stamp, stamp))
    store = FsObjectStore(root, inline_runtime(1))
    assert files_below(root) == [".towpath/tmp/fresh"]
    assert [info async for info in store.list("")] == []
    await store.close()


async def test_a_put_whose_temporary_was_taken_begins_again(
    root: Path, store: FsObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._writer.unnamed_files = False
    fill = fs_files._fill
    taken: list[str] = []

    def fill_and_lose(fd: int, parts: object) -> None:
        fill(fd, parts)  # type: ignore[arg-type]
        if not taken:
            taken.append(os.readlink(f"/proc/self/fd/{fd}"))
            os.unlink(taken[0])

    monkeypatch.setattr(fs_files, "_fill", fill_and_lose)
    await store.put("a/b", [b"12"])
    assert taken
    assert files_below(root) == ["a/b"]


# Failures


async def test_a_file_that_may_not_grow_leaves_nothing(root: Path, store: FsObjectStore) -> None:
    await store.put("dir/before", [b"1"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        for unnamed in (True, False):
            store._writer.unnamed_files = unnamed
            with pytest.raises(ObjectStoreError, match="File too large"):
                await store.put("dir/large", [bytes(60_000), bytes(60_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files_below(root) == ["dir/before"]
    await store.put("dir/large", [bytes(120_000)])


@pytest.mark.parametrize("unnamed", [True, False])
async def test_a_failed_sync_leaves_nothing_and_is_told(
    root: Path, store: FsObjectStore, monkeypatch: pytest.MonkeyPatch, unnamed: bool
) -> None:
    store._writer.unnamed_files = unnamed
    await store.put("dir/before", [b"1"])

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    for call in ("fdatasync", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(ObjectStoreError, match="Input/output error"):
                await store.put("dir/object", [b"12"])
        assert files_below(root) == ["dir/before"]
    await store.put("dir/object", [b"12"])


async def test_a_directory_that_cannot_be_made_fails(root: Path, store: FsObjectStore) -> None:
    await store.put("file", [b"1"])
    with pytest.raises(ObjectStoreError):
        await store.put("file/below", [b"1"])
    with pytest.raises(ObjectStoreError, match="too long"):
        await store.put("x" * 300, [b"1"])
    assert files_below(root) == ["file"]


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everywhere: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_read_only_directory_fails() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        root = Path(directory)
        store = FsObjectStore(root, inline_runtime(1))
        await store.put("dir/before", [b"1"])
        for path in (root, root / "dir"):
            os.chmod(path, 0o555)
        with unprivileged():
            for name in ("dir/object", "new/object"):
                with pytest.raises(ObjectStoreError, match="Permission denied"):
                    await store.put(name, [b"1"])
            with pytest.raises(ObjectStoreError, match="Permission denied"):
                await store.delete("dir/before")
        assert files_below(root) == ["dir/before"]
        for path in (root, root / "dir"):
            os.chmod(path, 0o755)
        await store.close()


def test_a_root_that_is_a_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ObjectStoreError, match="cannot open"):
        FsObjectStore(tmp_path / "file", inline_runtime(1))


async def test_a_lost_root_fails_the_probe(root: Path, store: FsObjectStore) -> None:
    await store.probe()
    shutil.rmtree(root)
    with pytest.raises(ObjectStoreError):
        await store.probe()


# Directories and sharing


@pytest.mark.parametrize("unnamed", [True, False])
async def test_a_writer_notices_that_its_open_directory_was_removed(
    root: Path, store: FsObjectStore, unnamed: bool
) -> None:
    store._writer.unnamed_files = unnamed
    collector = FsObjectStore(root, inline_runtime(2))
    for n in range(5):
        await store.put(f"day/hour/{n}", [b"1"])
        await collector.delete(f"day/hour/{n}")
        assert os.listdir(root) == [".towpath"]
    await store.put("day/hour/last", [b"1"])
    assert files_below(root) == ["day/hour/last"]
    await collector.close()


async def test_empty_directories_go_and_come_back_under_a_writer(root: Path) -> None:
    """One process removes a directory each time it is empty, another one holds it open."""
    writer = FsObjectStore(root, inline_runtime(1))
    collector = FsObjectStore(root, inline_runtime(2))
    for n in range(100):
        path = f"day/hour/{n}"
        deletes = [collector.delete(f"day/hour/{older}") for older in range(max(0, n - 2), n)]
        await asyncio.gather(writer.put(path, [b"1"]), *deletes)
        assert (await collector.stat(path)).size_bytes == 1
    await collector.delete("day/hour/99")
    assert os.listdir(root) == [".towpath"]
    await writer.close()
    await collector.close()


async def test_the_cache_of_directories_is_bounded(
    root: Path, store: FsObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._directories, "_capacity", 4)
    before = len(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(store.put(f"d{n}/e/object", [b"1"]) for n in range(40)))
    assert len(store._directories._cached) <= 4
    assert len(os.listdir("/proc/self/fd")) <= before + 4 + SPARES_MAX


async def test_a_cancelled_put_returns_after_the_thread_is_done_with_its_buffers(
    store: FsObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    go_on = threading.Event()
    fill = fs_files._fill

    def wait_and_fill(fd: int, parts: object) -> None:
        loop.call_soon_threadsafe(started.set)
        assert go_on.wait(30)
        fill(fd, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(fs_files, "_fill", wait_and_fill)
    task = asyncio.create_task(store.put("object", [b"bytes"]))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bytes(await store.read("object", 0, 5)) == b"bytes"


async def test_foreign_files_are_not_objects(root: Path, store: FsObjectStore) -> None:
    await store.put("dir/object", [b"1"])
    (root / "dir/link").symlink_to(root / "dir/object")
    (root / "linked").symlink_to(root / "dir", target_is_directory=True)
    os.mknod(bytes(root / "dir") + b"/not-utf8-\xff")
    assert [info.path async for info in store.list("")] == ["dir/object"]
    with pytest.raises(ObjectNotFound):
        await store.stat("dir/link")


async def test_a_closed_store_refuses(root: Path) -> None:
    store = FsObjectStore(root, inline_runtime(1))
    await store.put("a", [b"1"])
    await asyncio.gather(store.delete("a"), store.close(), store.close())
    assert files_below(root) == []
    for call in (store.put("b", [b"1"]), store.read("a", 0, 1), store.stat("a"), store.delete("a")):
        with pytest.raises(ObjectStoreError, match="closed"):
            await call
