"""A service of Apache OpenDAL as object store: S3, GCS, Azure, and `memory` for tests.

Every call ends, by a time-out if need be. One that failed for a while is repeated a few times with
growing, jittered pauses. A repeated put that finds its object there compares it with its own bytes:
then the first try, whose answer got lost, had succeeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import opendal
from opendal.layers import TimeoutLayer

from towpath.objects.opendal_errors import FAILURES, explain, is_temporary, translate
from towpath.objects.paths import check_path
from towpath.objects.services import Service
from towpath.objects.sorted_listing import TREE_OBJECTS_MAX, sorted_listing
from towpath.objects.store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreError,
)
from towpath.runtime import Runtime

ATTEMPTS_MAX = 4
FIRST_PAUSE_MS = 50
PAUSE_MAX_MS = 2_000
CALL_TIMEOUT_S = 30.0
"""Of a stat, a delete or a page of a listing."""
TRANSFER_TIMEOUT_S = 60.0
"""Of a read, a part of an object, or an object that is written as a whole."""
READ_CALL_MAX_BYTES = 8 * 1024 * 1024
"""Longer reads are cut: the client copies each answer while it holds the interpreter."""
WHOLE_MAX_BYTES = 32 * 1024 * 1024
"""Larger objects are written in parts, some at a time: no transfer takes long."""
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
CLOSE_PAUSE_S = 0.01
"""The library's threads let go of the last call after it was answered; where the process ends
before, the interpreter ends them, and the library aborts the process (seen in one of four)."""

R = TypeVar("R")


def open_service(service: Service) -> opendal.AsyncOperator:
    """The operator of a service, not asked yet; ObjectStoreError if its options are not enough."""
    try:
        operator = opendal.AsyncOperator(service.scheme, **service.options)
    except FAILURES as error:
        raise ObjectStoreError(f"objects_options: {explain(error)}") from None
    return operator.layer(TimeoutLayer(timeout=CALL_TIMEOUT_S, io_timeout=TRANSFER_TIMEOUT_S))


class OpendalStore(ObjectStore):
    """An OpenDAL operator behind the interface."""

    def __init__(self, operator: opendal.AsyncOperator, runtime: Runtime) -> None:
        self._operator = operator
        self._runtime = runtime
        known = operator.capability()
        self._exclusive = bool(known.write_with_if_not_exists)
        self._in_parts = bool(known.write_can_multi)

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        check_path(path)
        attempts = 0

        async def write() -> None:
            nonlocal attempts
            attempts += 1
            await self._operator.write(path, content, **self._write_options(len(content)))

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
        async for info in sorted_listing(prefix, self._list_tree, self._list_level):
            yield info

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
        await asyncio.sleep(CLOSE_PAUSE_S)

    def _write_options(self, size_bytes: int) -> dict[str, Any]:
        options: dict[str, Any] = {"if_not_exists": True} if self._exclusive else {}
        if self._in_parts and size_bytes > WHOLE_MAX_BYTES:
            options |= {"chunk": PART_BYTES, "concurrent": PARTS_AT_ONCE}
        return options

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

    async def _list_tree(self, prefix: str) -> Sequence[ObjectInfo] | None:
        """Listings come in pages of the service's own size; metadata comes with them."""

        async def ask() -> Sequence[ObjectInfo] | None:
            found: list[ObjectInfo] = []
            async for entry in await self._operator.list(prefix, recursive=True):
                if len(found) == TREE_OBJECTS_MAX:
                    return None
                found.append(_info(entry.path, entry.metadata))
            return found

        try:
            return await self._retry("list", prefix, ask)
        except ObjectNotFound:
            return []

    async def _list_level(self, prefix: str) -> Sequence[ObjectInfo]:
        async def ask() -> Sequence[ObjectInfo]:
            entries = await self._operator.list(prefix)
            return [_info(entry.path, entry.metadata) async for entry in entries]

        try:
            return await self._retry("list", prefix, ask)
        except ObjectNotFound:
            return []

    async def _retry(self, operation: str, path: str, call: Callable[[], Awaitable[R]]) -> R:
        pause_ms = FIRST_PAUSE_MS
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await call()
            except FAILURES as error:
                if attempt == ATTEMPTS_MAX or not is_temporary(error):
                    raise translate(operation, path, error) from None
            await asyncio.sleep(pause_ms * (0.5 + self._runtime.random.random()) / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)
        raise AssertionError("unreachable: the last attempt returns or raises")


def _info(path: str, found: opendal.types.Metadata) -> ObjectInfo:
    """`modified_at_ms` is 0 where the service does not tell."""
    modified = found.last_modified
    return ObjectInfo(
        path, found.content_length, int(modified.timestamp() * 1000) if modified is not None else 0
    )
