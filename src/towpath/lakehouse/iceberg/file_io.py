"""pyiceberg's file access, made durable.

pyiceberg does not sync the metadata it writes to local files. The catalog does: after a power loss
it could name a file that is empty. Here a file is on disk, and its name in the directory, before
`close` returns. Object stores promise that by themselves.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

FILE_IO = f"{__name__}.SyncedFileIO"
"""What pyiceberg's property `py-io-impl` is set to."""

BUFFER_BYTES = 256 << 10
AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")


class SyncedFileIO(PyArrowFileIO):
    """Reads and writes as PyArrowFileIO does, with local files synced. Constructed by pyiceberg."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Scheme, host and path; Arrow wants Azure's paths to begin with the container alone."""
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        if scheme in AZURE_SCHEMES:
            container, at, _ = host.partition("@")
            path = container + path[len(host) :] if at else path
        return scheme, host, path

    def new_output(self, location: str) -> PyArrowFile:
        """A file to write to; see the module."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _SyncedFile(location, path, self.fs_by_scheme(scheme, netloc))


class _SyncedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        path = Path(self._path)
        _make_directory(path.parent)
        return _SyncedStream(path, overwrite)


class _SyncedStream:
    """A file that is being written; `close` makes it durable."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        self._path = path
        self._file: BinaryIO = path.open("wb" if overwrite else "xb", buffering=BUFFER_BYTES)

    def write(self, b: bytes) -> int:
        return self._file.write(b)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self._file.closed:
            return
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        _sync_directory(self._path.parent)

    def __enter__(self) -> _SyncedStream:
        return self

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        self.close()


def _make_directory(path: Path) -> None:
    """Make it and its parents; each new name is durable."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
