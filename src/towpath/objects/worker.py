"""Objects for workers in other processes (Spark tasks): blocking calls, no event loop, no threads.

Workers read ranges of WAL objects and write data files that are too large to be held in memory, so
an object is written through a file-like sink here, which Arrow takes as it is.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from towpath.objects.early_sync import EarlySyncFile
from towpath.objects.fs_files import (
    FILE_MODE,
    STALE_DIRECTORY_RETRIES,
    TEMPORARY_DIRECTORY,
    Directories,
)
from towpath.objects.paths import check_path
from towpath.objects.store import Buffer, ObjectExists, ObjectNotFound, ObjectStoreError

OPEN_FILES_MAX = 64
"""Files kept open for the next read, each one descriptor."""
READ_CALL_MAX_BYTES = 8 * 1024 * 1024
CLEARED_MAX_BYTES = 64 * 1024
"""Clearing so much memory before it is filled takes a microsecond or two."""

_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class WorkerObjects(Protocol):
    """Objects by path, as in `ObjectStore`. Safe for several threads. What it keeps open is closed
    with the last reference to it."""

    reads_at_once: int
    """How many reads at the same time are worth their threads: 1 where a read does not wait."""

    def read(self, path: str, offset: int, length: int) -> Buffer:
        """Exactly `length` bytes from `offset`, the caller's own; ObjectNotFound, or
        ObjectStoreError if the object is shorter or the store fails."""

    def create(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A sink for a new object, which tells its position.

        The object is complete and survives power loss once the context has been left without an
        exception. If it was left with one there is no object: nobody ever sees a part of it. The
        sink must not be used afterwards. Leaving raises ObjectExists, or ObjectStoreError; an
        object whose very last call failed may exist, as with `ObjectStore.put`.
        """


class RemovableObjects(WorkerObjects, Protocol):
    """Objects of which a worker can take back what it made."""

    def delete(self, path: str) -> None:
        """Remove the object; no error if there is none. Raises ObjectStoreError."""


def open_worker_objects(url: str, options: Mapping[str, str] | None = None) -> RemovableObjects:
    """The objects of a store that exists: `file:///path`, a plain path, or a service with its
    `options` (see `services`).

    ValueError for a URL that names none; `memory://` has no meaning in another process.
    ObjectStoreError if it cannot be opened.
    """
    if not url:
        raise ValueError("the object store's URL is empty")
    if "://" not in url:
        return FileObjects(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or parts.path in ("", "/"):
            raise ValueError(f"{url!r} names no directory; write file:///path/to/objects")
        return FileObjects(unquote(parts.path))
    if parts.scheme == "memory":
        raise ValueError("memory:// lives in one process; workers cannot reach it")
    # Take time to load, and files do not need them.
    from towpath.objects.services import service_of
    from towpath.objects.worker_opendal import OpendalObjects, open_service

    service = service_of(url, options or {})
    return OpendalObjects(open_service(service))


class _OpenFile:
    """An open file, closed with its last user: an evicted one may be in use by another thread."""

    __slots__ = ("fd", "size_bytes")

    def __init__(self, name: str) -> None:
        self.fd = -1
        self.fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size_bytes = os.fstat(self.fd).st_size

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound here, because at the interpreter's end there is no module `os` any more.
        if self.fd >= 0:
            close(self.fd)


class FileObjects:
    """Files below a root, as `FsObjectStore` keeps them: it may be open in other processes."""

    reads_at_once = 1

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)
        try:
            self._directories = Directories(self._root)
        except OSError as error:
            raise ObjectStoreError(f"cannot open the object store: {error}") from error
        # Whoever keeps stores open lets go of them without a word.
        weakref.finalize(self, self._directories.close)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()

    def read(self, path: str, offset: int, length: int) -> memoryview:
        check_path(path)
        try:
            file = self._file(path)
            if offset < 0 or not 0 <= length <= file.size_bytes - offset:
                raise ObjectStoreError(f"{path}: {length} bytes from {offset} lie beyond its end")
            return _read(file.fd, offset, length)
        except _MISSING as error:
            raise ObjectNotFound(path) from error
        except OSError as error:
            raise _failure("read", path, error) from error

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        check_path(path)
        temporary = f"{os.getpid()}-{uuid.uuid4().hex}"
        fd = self._open_temporary(temporary, path)
        try:
            with EarlySyncFile(fd) as sink:
                yield sink
                self._sync(sink, path)
            self._name(temporary, path)
        finally:
            with (
                self._directories.borrow(TEMPORARY_DIRECTORY) as temporary_fd,
                contextlib.suppress(FileNotFoundError),
            ):
                os.unlink(temporary, dir_fd=temporary_fd)

    def delete(self, path: str) -> None:
        check_path(path)
        try:
            os.unlink(f"{self._root}/{path}")
        except _MISSING:
            return
        except OSError as error:
            raise _failure("delete", path, error) from error

    def _file(self, path: str) -> _OpenFile:
        with self._lock:
            found = self._open.get(path)
            if found is not None:
                self._open.move_to_end(path)
                return found
        opened = _OpenFile(f"{self._root}/{path}")
        with self._lock:
            self._open[path] = opened
            if len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)
        return opened

    def _open_temporary(self, temporary: str, path: str) -> int:
        # Like a put's own temporary file: listings pass over it, and the next start removes it.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        try:
            with self._directories.borrow(TEMPORARY_DIRECTORY) as temporary_fd:
                return os.open(temporary, flags, FILE_MODE, dir_fd=temporary_fd)
        except OSError as error:
            raise _failure("write", path, error) from error

    def _sync(self, sink: BinaryIO, path: str) -> None:
        try:
            sink.flush()
            os.fdatasync(sink.fileno())
        except OSError as error:
            raise _failure("write", path, error) from error

    def _name(self, temporary: str, path: str) -> None:
        """Give the file its name, durably. A collector may remove the directory while it is empty:
        then it all begins again in a new one."""
        directory, _, name = path.rpartition("/")
        retries_left = STALE_DIRECTORY_RETRIES
        while True:
            try:
                return self._link(temporary, directory, name)
            except FileExistsError as error:
                raise ObjectExists(path) from error
            except FileNotFoundError as error:
                self._directories.forget(directory)
                if retries_left == 0:
                    raise _failure("write", path, error) from error
                retries_left -= 1
            except OSError as error:
                raise _failure("write", path, error) from error

    def _link(self, temporary: str, directory: str, name: str) -> None:
        with (
            self._directories.borrow(TEMPORARY_DIRECTORY) as temporary_fd,
            self._directories.borrow(directory) as directory_fd,
        ):
            # Unlike a rename, a link never replaces an object.
            os.link(temporary, name, src_dir_fd=temporary_fd, dst_dir_fd=directory_fd)
            try:
                os.fsync(directory_fd)
            except OSError:
                # The caller is told that it failed: do not leave a name that may not survive.
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=directory_fd)
                raise


def _read(fd: int, offset: int, length: int) -> memoryview:
    view = _new_memory(length)
    done = 0
    while done < length:
        count = os.preadv(fd, [view[done : done + READ_CALL_MAX_BYTES]], offset + done)
        if count == 0:
            raise ObjectStoreError(f"a file became shorter while {length} bytes were read from it")
        done += count
    return view


def _new_memory(length: int) -> memoryview:
    if length <= CLEARED_MAX_BYTES:
        return memoryview(bytearray(length))
    # Does not clear what is written over anyway; takes time to load, so not for a few bytes.
    import numpy as np

    return np.empty(length, np.uint8).data


def _failure(operation: str, path: str, error: OSError) -> ObjectStoreError:
    return ObjectStoreError(f"cannot {operation} {path}: {error.strerror or error}")
