"""Durable files: the system calls beneath the `fs` object store. Everything here blocks.

A file gets its name only after its bytes are on the disk, and a call returns only after the name
is too. Where the file system offers it, the bytes go to a file without a name (`O_TMPFILE`), so
that a crash leaves nothing behind; elsewhere to a temporary name that the next start removes.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from towpath.objects.fs_spares import SpareFiles
from towpath.objects.paths import RESERVED_SEGMENT
from towpath.objects.store import Buffer

DIRECTORY_CACHE_ENTRIES = 256
"""Open directories kept, each one file descriptor."""

WRITEV_PARTS_MAX = 1024
"""`IOV_MAX` of Linux."""

STALE_DIRECTORY_RETRIES = 10
"""How often a put begins again because its directory was removed under it."""

TEMPORARY_DIRECTORY = f"{RESERVED_SEGMENT}/tmp"
FILE_MODE = 0o644

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC


def make_root(root: str) -> None:
    """Create the root and its parents where missing, each synced into its own parent."""
    missing = []
    path = os.path.abspath(root)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        fd = os.open(os.path.dirname(directory), _OPEN_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class Directories:
    """Open directories below a root, which this process has seen to be durable themselves.

    Safe for several threads. A descriptor is lent, and closed only when nobody borrows it.
    """

    def __init__(self, root: str, capacity: int = DIRECTORY_CACHE_ENTRIES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._root_fd = os.open(root, _OPEN_DIRECTORY)
        self._cached: OrderedDict[str, _Directory] = OrderedDict()

    @contextlib.contextmanager
    def borrow(self, path: str) -> Iterator[int]:
        """The directory's descriptor; it is created, with its parents, where missing."""
        directory = self._take(path)
        try:
            yield directory.fd
        finally:
            self._give_back(directory)

    def forget(self, path: str) -> None:
        """Open the directory and its parents anew next time: one of them may be gone."""
        with self._lock:
            while path:
                self._drop(self._cached.pop(path, None))
                path = path.rpartition("/")[0]

    def close(self) -> None:
        """Close every descriptor; nobody may be borrowing."""
        with self._lock:
            for directory in self._cached.values():
                self._drop(directory)
            self._cached.clear()
            os.close(self._root_fd)

    def _take(self, path: str) -> _Directory:
        with self._lock:
            found = self._cached.get(path)
            if found is not None:
                self._cached.move_to_end(path)
                found.users += 1
                return found
        opened = _Directory(self._open_durable(path))
        with self._lock:
            self._drop(self._cached.pop(path, None))
            self._cached[path] = opened
            opened.users += 1
            if len(self._cached) > self._capacity:
                self._drop(self._cached.popitem(last=False)[1])
        return opened

    def _open_durable(self, path: str) -> int:
        if not path:
            return os.dup(self._root_fd)
        parent, _, name = path.rpartition("/")
        with self.borrow(parent) as parent_fd:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent_fd)
            # Also when it existed: whoever made it may not have synced it yet.
            os.fsync(parent_fd)
            return os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent_fd)

    def _give_back(self, directory: _Directory) -> None:
        with self._lock:
            directory.users -= 1
            if directory.users == 0 and not directory.cached:
                os.close(directory.fd)

    def _drop(self, directory: _Directory | None) -> None:
        if directory is not None:
            directory.cached = False
            if directory.users == 0:
                os.close(directory.fd)


class _Directory:
    """An open directory and how many threads use it."""

    __slots__ = ("cached", "fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0
        self.cached = True


class DurableWriter:
    """Writes whole files into directories. Safe for several threads."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._names = itertools.count()
        self.unnamed_files = self._try_unnamed()
        self._spares = SpareFiles(self._open_spare)

    def close(self) -> None:
        """Let go of what is kept open; no write may be under way."""
        self._spares.close()

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Write a new file; FileExistsError leaves an existing one as it is.

        The directory may be removed by a collector between any two steps (`rmdir` of an empty
        one): a step then fails, and it all begins again in a new directory.
        """
        directory, _, name = path.rpartition("/")
        retries_left = STALE_DIRECTORY_RETRIES
        while True:
            try:
                with (
                    self._directories.borrow(directory) as directory_fd,
                    _stale_is_missing(directory_fd),
                ):
                    self._write_in(directory_fd, name, parts)
                return
            except FileNotFoundError:
                self._directories.forget(directory)
                if retries_left == 0:
                    raise
                retries_left -= 1

    def _write_in(self, directory_fd: int, name: str, parts: Sequence[Buffer]) -> None:
        if self.unnamed_files:
            self._write_unnamed(self._spares.take(), directory_fd, name, parts)
        else:
            with self._directories.borrow(TEMPORARY_DIRECTORY) as temporary_fd:
                self._write_by_link(temporary_fd, directory_fd, name, parts)
        try:
            os.fsync(directory_fd)
        except OSError:
            # The caller is told that it failed: do not leave a name that may not survive.
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory_fd)
            raise

    def _write_unnamed(
        self, spare_fd: int | None, directory_fd: int, name: str, parts: Sequence[Buffer]
    ) -> None:
        fd = _open_unnamed(directory_fd) if spare_fd is None else spare_fd
        try:
            _fill(fd, parts)
            _link_unnamed(fd, directory_fd, name)
            return
        except OSError as error:
            # A directory on another file system than the root takes only files of its own, and a
            # process that gave up privileges may not name what it opened with them.
            if spare_fd is None or error.errno not in (errno.EXDEV, errno.EPERM):
                raise
        finally:
            os.close(fd)
        self._write_unnamed(None, directory_fd, name, parts)

    def _write_by_link(
        self, temporary_fd: int, directory_fd: int, name: str, parts: Sequence[Buffer]
    ) -> None:
        temporary = f"{os.getpid()}-{id(self):x}-{next(self._names)}"
        fd = os.open(temporary, _OPEN_NEW, FILE_MODE, dir_fd=temporary_fd)
        try:
            _fill(fd, parts)
            os.link(temporary, name, src_dir_fd=temporary_fd, dst_dir_fd=directory_fd)
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=temporary_fd)

    def _open_spare(self) -> int:
        with self._directories.borrow(TEMPORARY_DIRECTORY) as temporary_fd:
            return _open_unnamed(temporary_fd)

    def _try_unnamed(self) -> bool:
        """Whether this file system can name an unnamed file (it needs O_TMPFILE and /proc)."""
        name = f"try-{os.getpid()}-{id(self):x}"
        try:
            with self._directories.borrow(TEMPORARY_DIRECTORY) as fd:
                file_fd = _open_unnamed(fd)
                try:
                    _link_unnamed(file_fd, fd, name)
                finally:
                    os.close(file_fd)
                os.unlink(name, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO):
                raise
            return False
        return True


@contextlib.contextmanager
def _stale_is_missing(directory_fd: int) -> Iterator[None]:
    """Make every failure in a directory that was removed a FileNotFoundError.

    (Naming a file there fails with ENOENT, but on ext4 O_TMPFILE fails with EPERM before that.)
    """
    try:
        yield
    except OSError as error:
        if os.fstat(directory_fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the directory was removed") from error
        raise


def _open_unnamed(directory_fd: int) -> int:
    return os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE, dir_fd=directory_fd)


def _link_unnamed(fd: int, directory_fd: int, name: str) -> None:
    # The descriptors make Python call linkat with AT_SYMLINK_FOLLOW, which link() does not do.
    os.link(
        f"/proc/self/fd/{fd}",
        name,
        src_dir_fd=directory_fd,
        dst_dir_fd=directory_fd,
        follow_symlinks=True,
    )


def _fill(fd: int, parts: Sequence[Buffer]) -> None:
    """Write all parts, without joining them, and sync them."""
    views = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    first = 0
    while first < len(views):
        written = os.writev(fd, views[first : first + WRITEV_PARTS_MAX])
        while first < len(views) and written >= views[first].nbytes:
            written -= views[first].nbytes
            first += 1
        if written:
            views[first] = views[first][written:]
    os.fdatasync(fd)


def remove_old_temporaries(directories: Directories, before_ms: int) -> int:
    """Remove temporary files last written before `before_ms`; returns how many.

    Taking one from a writer that still lives is harmless: its link fails, and so does its put.
    """
    removed = 0
    with directories.borrow(TEMPORARY_DIRECTORY) as fd, os.scandir(fd) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 < before_ms:
                    os.unlink(entry.name, dir_fd=fd)
                    removed += 1
    return removed
