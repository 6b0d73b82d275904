"""Any service of Apache OpenDAL as object store: `memory` today, S3, GCS and Azure by scheme.

A failed call that OpenDAL calls temporary is repeated a few times with growing, jittered pauses. A
repeated put that finds its object there compares it with its own bytes: then the first try, whose
answer got lost, had succeeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import opendal
from opendal import exceptions

from towpath.objects.paths import check_path
from towpath.objects.store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreError,
)
from towpath.objects.walk import walk
from towpath.runtime import Runtime

ATTEMPTS_MAX = 4
FIRST_PAUSE_MS = 50
PAUSE_MAX_MS = 2_000
READ_CALL_MAX_BYTES = 8 * 1024 * 1024
"""Longer reads are cut: the client copies each answer while it holds the interpreter."""

_FAILURES = (
    exceptions.Error,
    exceptions.Unexpected,
    exceptions.Unsupported,
    exceptions.ConfigInvalid,
    exceptions.NotFound,
    exceptions.PermissionDenied,
    exceptions.IsADirectory,
    exceptions.NotADirectory,
    exceptions.AlreadyExists,
    exceptions.IsSameFile,
    exceptions.ConditionNotMatch,
    exceptions.RateLimited,
    exceptions.RangeNotSatisfied,
    exceptions.Conflict,
)
_EXISTS = (exceptions.ConditionNotMatch, exceptions.AlreadyExists)

R = TypeVar("R")


class OpendalStore(ObjectStore):
    """An OpenDAL operator behind the interface."""

    def __init__(self, operator: opendal.AsyncOperator, runtime: Runtime) -> None:
        self._operator = operator
        self._runtime = runtime
        self._exclusive = bool(operator.capability().write_with_if_not_exists)

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        check_path(path)
        attempts = 0

        async def write() -> None:
            nonlocal attempts
            attempts += 1
            if self._exclusive:
                await self._operator.write(path, content, if_not_exists=True)
            else:
                await self._operator.write(path, content)

        try:
            await self._retry("write", path, write)
        except ObjectExists:
            if attempts == 1 or not await self._holds(path, content):
                raise

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        check_path(path)
        if offset < 0 or length < 0:
            raise ObjectStoreError(f"{path}: cannot read {length} bytes from {offset}")
        if length == 0:
            return await self._read_nothing(path, offset)
        pieces = []
        for start in range(0, length, READ_CALL_MAX_BYTES):
            size = min(READ_CALL_MAX_BYTES, length - start)
            pieces.append(await self._read_once(path, offset + start, size))
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    async def stat(self, path: str) -> ObjectInfo:
        check_path(path)

        async def ask() -> ObjectInfo:
            return _info(path, await self._operator.stat(path))

        return await self._retry("stat", path, ask)

    async def delete(self, path: str) -> None:
        check_path(path)

        async def remove() -> None:
            await self._operator.delete(path)

        try:
            await self._retry("delete", path, remove)
        except ObjectNotFound:
            return

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for run in walk(prefix, self._list_directory):
            for path in run:
                try:
                    yield await self.stat(path)
                except ObjectNotFound:  # Deleted since its directory was listed.
                    continue

    async def probe(self) -> None:
        path = f"probe/{self._runtime.uuid4()}"
        await self.put(path, [b"probe"])
        try:
            found = bytes(await self.read(path, 0, 5))
        finally:
            await self.delete(path)
        if found != b"probe":
            raise ObjectStoreError("the probe read back other bytes than it wrote")

    async def close(self) -> None:
        """The operator has no connections to close; it goes with the last reference."""

    async def _read_once(self, path: str, offset: int, length: int) -> bytes:
        async def ask() -> bytes:
            return await self._operator.read(path, offset=offset, size=length)

        content = await self._retry("read", path, ask)
        if len(content) != length:
            raise ObjectStoreError(f"{path}: {length} bytes from {offset} lie beyond its end")
        return content

    async def _read_nothing(self, path: str, offset: int) -> memoryview:
        # Services differ on ranges without bytes, so they are never asked for one.
        if offset > (await self.stat(path)).size_bytes:
            raise ObjectStoreError(f"{path}: offset {offset} lies beyond its end")
        return memoryview(b"")

    async def _holds(self, path: str, content: bytes) -> bool:
        if (await self.stat(path)).size_bytes != len(content):
            return False
        return bytes(await self.read(path, 0, len(content))) == content

    async def _list_directory(self, directory: str) -> Sequence[str]:
        at = f"{directory}/" if directory else ""

        async def ask() -> Sequence[str]:
            entries = await self._operator.list(at)
            paths = [entry.path async for entry in entries]
            return [path[len(at) :] for path in paths if len(path) > len(at)]

        try:
            return await self._retry("list", at, ask)
        except ObjectNotFound:
            return []

    async def _retry(self, operation: str, path: str, call: Callable[[], Awaitable[R]]) -> R:
        pause_ms = FIRST_PAUSE_MS
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await call()
            except _FAILURES as error:
                if attempt == ATTEMPTS_MAX or not _temporary(error):
                    raise _translate(operation, path, error) from error
            await asyncio.sleep(pause_ms * (0.5 + self._runtime.random.random()) / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)
        raise AssertionError("unreachable: the last attempt returns or raises")


def _temporary(error: Exception) -> bool:
    # The binding tells a temporary failure from a permanent one in the text alone.
    return isinstance(error, exceptions.RateLimited) or "(temporary)" in str(error)


def _translate(operation: str, path: str, error: Exception) -> ObjectStoreError:
    if isinstance(error, exceptions.NotFound):
        return ObjectNotFound(path)
    if isinstance(error, _EXISTS) and operation == "write":
        return ObjectExists(path)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return ObjectStoreError(f"cannot {operation} {path}: {reason}")


def _info(path: str, found: opendal.types.Metadata) -> ObjectInfo:
    """`modified_at_ms` is 0 where the service does not tell."""
    modified = found.last_modified
    return ObjectInfo(
        path, found.content_length, int(modified.timestamp() * 1000) if modified is not None else 0
    )
