"""Objects of a service, for workers in other processes: blocking calls through Apache OpenDAL."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import BinaryIO, cast

import opendal
from opendal.layers import RetryLayer, TimeoutLayer

from towpath.objects.opendal_errors import FAILURES, explain, translate
from towpath.objects.paths import check_path
from towpath.objects.services import Service
from towpath.objects.store import Buffer, ObjectStoreError

READS_AT_ONCE = 8
PART_BYTES = 8 * 1024 * 1024
"""Size of the parts in which a service gets an object; S3 wants 5 MiB at least."""
RETRIES_MAX = 4
CALL_TIMEOUT_S = 30.0
TRANSFER_TIMEOUT_S = 120.0
"""Of a read or a part."""


def open_service(service: Service) -> opendal.Operator:
    """The operator of a service, not asked yet; ObjectStoreError if its options are not enough."""
    try:
        return opendal.Operator(service.scheme, **service.options)
    except FAILURES as error:
        raise ObjectStoreError(f"objects_options: {explain(error)}") from None


class OpendalObjects:
    """A service of Apache OpenDAL where an upload that is not completed is no object (S3, GCS,
    Azure). Temporary failures are repeated a few times inside."""

    reads_at_once = READS_AT_ONCE

    def __init__(self, operator: opendal.Operator) -> None:
        timed = operator.layer(TimeoutLayer(timeout=CALL_TIMEOUT_S, io_timeout=TRANSFER_TIMEOUT_S))
        self._operator = timed.layer(RetryLayer(max_times=RETRIES_MAX, jitter=True))
        self._exclusive = bool(operator.capability().write_with_if_not_exists)

    def read(self, path: str, offset: int, length: int) -> bytes:
        check_path(path)
        if offset < 0 or length < 0:
            raise ObjectStoreError(f"{path}: cannot read {length} bytes from {offset}")
        try:
            if length == 0:
                # Services differ on ranges without bytes, so they are never asked for one.
                self._operator.stat(path)
                return b""
            content = self._operator.read(path, offset=offset, size=length)
        except FAILURES as error:
            raise translate("read", path, error) from None
        if len(content) != length:
            raise ObjectStoreError(f"{path}: {length} bytes from {offset} lie beyond its end")
        return content

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        check_path(path)
        try:
            if self._exclusive:
                file = self._operator.open(path, "wb", chunk=PART_BYTES, if_not_exists=True)
            else:
                file = self._operator.open(path, "wb", chunk=PART_BYTES)
        except FAILURES as error:
            raise translate("write", path, error) from None
        upload = _Upload(file)
        sink = io.BufferedWriter(upload, PART_BYTES)
        try:
            yield cast(BinaryIO, sink)
            sink.flush()
            file.close()
        except FAILURES as error:
            raise translate("write", path, error) from None
        finally:
            upload.drop()
            sink.close()

    def delete(self, path: str) -> None:
        check_path(path)
        try:
            self._operator.delete(path)
        except FAILURES as error:
            raise translate("delete", path, error) from None


class _Upload(io.RawIOBase):
    """The raw end of a sink. An upload that is dropped before its file was closed never becomes an
    object; what is still written then goes nowhere."""

    def __init__(self, file: opendal.file.File) -> None:
        self._file: opendal.file.File | None = file
        self._size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(cast(Buffer, data)).cast("B")
        if self._file is not None:
            self._file.write(bytes(view))
        self._size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size_bytes

    def drop(self) -> None:
        self._file = None
