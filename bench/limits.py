"""What the machine itself can do: the bounds every result is held against.

The limits are measured in each run, like a system of their own. One thread each, except where
the name says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crc32c

MB = 1_000_000
COPY_BYTES = 64 * MB
PARALLEL_WRITERS = 4
PARALLEL_FILE_BYTES = 8 * MB
"""The broker's largest object and how many it writes at once."""

SMALL_OBJECT_BYTES = 300
DESCRIPTIONS = {
    "loopback_mb_s": "TCP over loopback, 1 MB writes, one connection (MB/s)",
    "memory_copy_mb_s": "memory copy of 64 MB (MB/s)",
    "crc32c_mb_s": "CRC32C of 1 MB buffers (MB/s)",
    "append_1mb_mb_s": "append of 1 MB + fdatasync (MB/s)",
    "append_4kb_us": "append of 4 KB + fdatasync, median (µs)",
    "files_8mb_mb_s": "new 8 MB files + fdatasync + directory fsync, four threads (MB/s)",
    "synced_write_mb_s": "synced writes, the better of the two above (MB/s)",
    "three_syncs_us": "new small file + fdatasync, directory fsync, SQLite commit, median (µs)",
}


def measure(directory: Path, seconds: float) -> dict[str, float]:
    """All limits; each takes about `seconds`. The directory is on the brokers' disk."""
    directory.mkdir(parents=True, exist_ok=True)
    append_1mb = _appends_us(directory, MB, seconds)
    found = {
        "loopback_mb_s": loopback_mb_s(seconds),
        "memory_copy_mb_s": memory_copy_mb_s(seconds),
        "crc32c_mb_s": crc32c_mb_s(seconds),
        "append_1mb_mb_s": len(append_1mb) * 1e6 / sum(append_1mb),
        "append_4kb_us": statistics.median(_appends_us(directory, 4096, seconds)),
        "files_8mb_mb_s": files_mb_s(directory, seconds),
        "three_syncs_us": statistics.median(three_syncs_us(directory, seconds)),
    }
    found["synced_write_mb_s"] = max(found["append_1mb_mb_s"], found["files_8mb_mb_s"])
    return found


def repeat(work: Callable[[], object], seconds: float) -> list[float]:
    """Microseconds of each call of `work`, repeated at least once for `seconds`."""
    times_us: list[float] = []
    deadline = time.perf_counter() + seconds
    now = time.perf_counter()
    while not times_us or now < deadline:
        work()
        after = time.perf_counter()
        times_us.append((after - now) * 1e6)
        now = after
    return times_us


def memory_copy_mb_s(seconds: float) -> float:
    """Copies between two buffers that no cache holds."""
    source, target = memoryview(bytearray(COPY_BYTES)), memoryview(bytearray(COPY_BYTES))

    def copy() -> None:
        target[:] = source

    times_us = repeat(copy, seconds)
    return COPY_BYTES * len(times_us) / sum(times_us)


def crc32c_mb_s(seconds: float) -> float:
    """Checksums with the library that the broker uses."""
    data = os.urandom(MB)
    times_us = repeat(lambda: crc32c.crc32c(data), seconds)
    return MB * len(times_us) / sum(times_us)


def loopback_mb_s(seconds: float) -> float:
    """One connection, a sending and a receiving thread; both spend their time in the kernel."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        sender = stack.enter_context(socket.create_connection(listener.getsockname()))
        receiver = stack.enter_context(listener.accept()[0])
        received = 0

        def receive() -> None:
            nonlocal received
            room = bytearray(MB)
            while count := receiver.recv_into(room):
                received += count

        thread = threading.Thread(target=receive)
        thread.start()
        started = time.perf_counter()
        data = bytes(MB)
        repeat(lambda: sender.sendall(data), seconds)
        sender.shutdown(socket.SHUT_WR)
        thread.join()
        return received / MB / (time.perf_counter() - started)


def _appends_us(directory: Path, size_bytes: int, seconds: float) -> list[float]:
    data = os.urandom(size_bytes)
    path = directory / f"append-{size_bytes}"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def append() -> None:
        os.write(fd, data)
        os.fdatasync(fd)

    try:
        append()
        return repeat(append, seconds)
    finally:
        os.close(fd)
        path.unlink()


def files_mb_s(directory: Path, seconds: float) -> float:
    """The shape of the broker's largest writes: large new files, several at once."""
    data = os.urandom(PARALLEL_FILE_BYTES)
    directory_fd = os.open(directory, os.O_RDONLY)

    def write_files(writer: int) -> tuple[int, float]:
        """How many were written, and when the last one was done."""
        paths: list[Path] = []

        def write() -> None:
            paths.append(directory / f"file-{writer}-{len(paths)}")
            _write_synced(paths[-1], data, directory_fd)

        try:
            return len(repeat(write, seconds)), time.perf_counter()
        finally:
            for path in paths:
                path.unlink(missing_ok=True)

    started = time.perf_counter()
    try:
        with ThreadPoolExecutor(PARALLEL_WRITERS) as pool:
            written = list(pool.map(write_files, range(PARALLEL_WRITERS)))
    finally:
        os.close(directory_fd)
    ended = max(end for _, end in written)
    return sum(count for count, _ in written) * PARALLEL_FILE_BYTES / MB / (ended - started)


def three_syncs_us(directory: Path, seconds: float) -> list[float]:
    """What one produce waits for when it is alone: its object, the object's name, its commit."""
    data = os.urandom(SMALL_OBJECT_BYTES)
    directory_fd = os.open(directory, os.O_RDONLY)
    database = sqlite3.connect(directory / "syncs.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
    paths: list[Path] = []

    def produce() -> None:
        paths.append(directory / f"object-{len(paths)}")
        _write_synced(paths[-1], data, directory_fd)
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO entries VALUES (?, ?)", (paths[-1].name, data))
        database.execute("COMMIT")

    try:
        return repeat(produce, seconds)
    finally:
        database.close()
        os.close(directory_fd)
        for path in [*paths, *directory.glob("syncs.sqlite*")]:
            path.unlink(missing_ok=True)


def _write_synced(path: Path, data: bytes, directory_fd: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        os.write(fd, data)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    os.fsync(directory_fd)
