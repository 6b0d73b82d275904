"""The object store's interface. Objects are immutable; names are unique and never reused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview


class ObjectStoreError(Exception):
    """The store failed; the call may be repeated. A failed put may have left the object."""


class ObjectNotFound(ObjectStoreError):
    """There is no such object."""

    def __init__(self, path: str) -> None:
        super().__init__(f"object not found: {path}")
        self.path = path


class ObjectExists(ObjectStoreError):
    """An object of this name exists already; it was not touched."""

    def __init__(self, path: str) -> None:
        super().__init__(f"object exists: {path}")
        self.path = path


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or a stat tells."""

    path: str
    size_bytes: int
    modified_at_ms: int


class ObjectStore(ABC):
    """Paths are relative to the store's root, with `/` between segments and no leading `/`."""

    reads_are_cached = False
    """Whether reading the same bytes again costs little, because the kernel keeps them."""

    @abstractmethod
    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Write a new object made of `parts`; when this returns it survives power loss.

        Readers never see a part of it. The caller keeps `parts` unchanged until this returns.
        """

    @abstractmethod
    async def read(self, path: str, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from `offset`; ObjectStoreError if the object is shorter.

        If the memory is writable, it is the caller's own.
        """

    @abstractmethod
    async def stat(self, path: str) -> ObjectInfo:
        """The object's size; ObjectNotFound if there is none."""

    @abstractmethod
    async def delete(self, path: str) -> None:
        """Remove the object; no error if it is gone already."""

    @abstractmethod
    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Every object whose path starts with `prefix` (any string), in ascending path order."""

    @abstractmethod
    async def probe(self) -> None:
        """Raise ObjectStoreError unless an object can be written, read and deleted right now."""

    @abstractmethod
    async def close(self) -> None:
        """Release the store's resources."""
