"""How DuckDB reaches a topic's Parquet files on a service (S3, GCS, Azure): through OpenDAL.

DuckDB's own reader asks for ranges of files, so that it fetches the columns and row groups that a
query needs and no others. No extension of DuckDB is loaded, which would have to be downloaded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem

from towpath.log.object.stretches import DataFile
from towpath.objects.range_file import RangeFile
from towpath.objects.store import Buffer, ObjectNotFound, ObjectStoreError
from towpath.objects.worker import WorkerObjects

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PROTOCOL = "towpath"
TAIL_BYTES = 64 << 10
"""The end of a file that is read at once; more if its footer is larger."""
TAILS_MAX_BYTES = 64 << 20
"""Ends of files that are kept. DuckDB reads each when it makes its plan and again when it carries
it out, in one part or several; they never change."""
NEVER_CHANGED = datetime(2000, 1, 1, tzinfo=UTC)


class ServiceFiles:
    """The files of an object store, for one connection."""

    def __init__(self, objects: WorkerObjects, connection: DuckDBPyConnection) -> None:
        self._files: dict[str, DataFile] = {}
        self._failure: ObjectStoreError | None = None
        self._objects = objects
        self._tails = _Tails(objects)
        connection.register_filesystem(_FileSystem(self))

    def forget(self) -> None:
        self._files = {}
        self._failure = None

    def name(self, file: DataFile) -> str:
        self._files[file.path] = file
        return f"{PROTOCOL}://{file.path}"

    def failure(self, files: Iterable[DataFile]) -> ObjectStoreError | None:
        return self._failure

    def find(self, name: str) -> DataFile | None:
        """The file of a name."""
        return self._files.get(name.removeprefix(f"{PROTOCOL}://"))

    def read(self, path: str, offset: int, length: int) -> Buffer:
        """A range of a file. DuckDB tells of an exception only as text, so it is also kept."""
        file = self._files[path]
        tail_at = _tail_at(file)
        try:
            if tail_at <= offset:
                return self._tails.of(file)[offset - tail_at : offset - tail_at + length]
            return self._objects.read(path, offset, length)
        except ObjectStoreError as error:
            # What is gone has a remedy; and the first failure is the one that others follow from.
            if self._failure is None or isinstance(error, ObjectNotFound):
                self._failure = error
            raise


class _Tails:
    """The last bytes of files, the latest ones kept. Safe for several threads."""

    def __init__(self, objects: WorkerObjects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    def of(self, file: DataFile) -> bytes:
        with self._lock:
            found = self._kept.get(file.path)
            if found is not None:
                self._kept.move_to_end(file.path)
                return found
        start = _tail_at(file)
        tail = bytes(self._objects.read(file.path, start, file.size_bytes - start))
        with self._lock:
            if file.path not in self._kept:
                self._kept[file.path] = tail
                self._kept_bytes += len(tail)
            while self._kept_bytes > TAILS_MAX_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return tail


def _tail_at(file: DataFile) -> int:
    return max(0, file.size_bytes - max(file.footer_bytes, TAIL_BYTES))


class _FileSystem(AbstractFileSystem):  # type: ignore[misc]
    """What DuckDB asks of a file system of Python's, and nothing more: names are those that
    `ServiceFiles` gave out, so nothing is listed and no size is asked for."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, files: ServiceFiles) -> None:
        super().__init__()
        self._service_files = files

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if self.isfile(path) else []

    def unstrip_protocol(self, name: str) -> str:
        return name

    def isfile(self, path: str) -> bool:
        return self._service_files.find(path) is not None

    def isdir(self, path: str) -> bool:
        return False

    def size(self, path: str) -> int:
        return self._found(path).size_bytes

    def modified(self, path: str) -> datetime:
        """Objects are written once, and their names are never used again."""
        return NEVER_CHANGED

    def open(self, path: str, mode: str = "rb", **_: Any) -> RangeFile:
        if mode != "rb":
            raise PermissionError(f"{path}: topics are written by producers only")
        file = self._found(path)
        return RangeFile(self._service_files, file.path, file.size_bytes)

    def _found(self, path: str) -> DataFile:
        file = self._service_files.find(path)
        if file is None:
            raise FileNotFoundError(path)
        return file
