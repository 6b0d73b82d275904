"""Keys of WAL objects: staging blocks, committed objects, let-go chunks, and due deletions.

A staging marker reserves a block of walIds before any of them is PUT. The walIds of a block share
their first 12 bytes; the last four count up from 0. All objects of a block lie under the date of
the marker, so that a collector finds them by listing one prefix.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from towpath.metadata.keys import ROOT, json_value
from towpath.metadata.keys.numbers import pad

STAGING_PREFIX = f"{ROOT}/wal/staging/"
OBJECTS_PREFIX = f"{ROOT}/wal/objects/"
DEREFS_PREFIX = f"{ROOT}/wal/derefs/"
GC_PREFIX = f"{ROOT}/wal/gc/"

BLOCK_SIZE_IDS = 1 << 16
"""How many walIds one staging marker reserves at most (the counter has four bytes)."""


def wal_id(block: uuid.UUID, number: int) -> uuid.UUID:
    """The `number`-th walId of a block (a block's own last four bytes are zero)."""
    if block != block_of(block) or not 0 <= number < BLOCK_SIZE_IDS:
        raise ValueError(f"block {block} has no walId number {number}")
    return uuid.UUID(int=block.int | number)


def drawn_wal_id(block: uuid.UUID, random_bits: int) -> uuid.UUID:
    """A walId of a block that several writers share: the low 32 of these bits are its number. Who
    draws one that is taken finds the object there, and draws again."""
    if block != block_of(block):
        raise ValueError(f"{block} is no block")
    return uuid.UUID(int=block.int | random_bits & 0xFFFF_FFFF)


def new_block(random_bits: int) -> uuid.UUID:
    """A block id out of 128 random bits: version 4, the last four bytes cleared."""
    return uuid.UUID(int=uuid.UUID(int=random_bits, version=4).int & ~0xFFFF_FFFF)


def block_of(wal: uuid.UUID) -> uuid.UUID:
    """The block that a walId belongs to."""
    return uuid.UUID(int=wal.int & ~0xFFFF_FFFF)


def staging(domain: int, block: uuid.UUID) -> str:
    """The staging marker of a block."""
    return f"{STAGING_PREFIX}{domain:05d}/{block.hex}"


def staging_prefix(domain: int) -> str:
    """Every staging marker of a domain."""
    return f"{STAGING_PREFIX}{domain:05d}/"


def wal_object(domain: int, wal: uuid.UUID) -> str:
    """The record of a committed WAL object."""
    return f"{OBJECTS_PREFIX}{domain:05d}/{wal.hex}"


def wal_objects_of_block(domain: int, block: uuid.UUID) -> str:
    """The prefix of the committed objects of a block: its first 12 bytes in hex."""
    return f"{OBJECTS_PREFIX}{domain:05d}/{block.hex[:24]}"


def wal_objects_prefix(domain: int) -> str:
    """Every committed WAL object of a domain."""
    return f"{OBJECTS_PREFIX}{domain:05d}/"


def deref(wal: uuid.UUID, stream_id: int) -> str:
    """The mark that a stream no longer needs its chunk of an object."""
    return f"{DEREFS_PREFIX}{wal.hex}/{pad(stream_id)}"


def derefs_prefix(wal: uuid.UUID) -> str:
    """Every deref of one object."""
    return f"{DEREFS_PREFIX}{wal.hex}/"


def gc(domain: int, wal: uuid.UUID) -> str:
    """The order to delete an object after a time."""
    return f"{GC_PREFIX}{domain:05d}/{wal.hex}"


def gc_prefix(domain: int) -> str:
    """Every deletion order of a domain."""
    return f"{GC_PREFIX}{domain:05d}/"


def parse_last_uuid(key: str) -> uuid.UUID:
    """The UUID in the last segment of a staging, object or gc key."""
    text = key.rpartition("/")[2]
    found = uuid.UUID(hex=text)
    if found.hex != text:
        raise ValueError(f"{key!r} does not end with a UUID in plain hex")
    return found


@dataclass(frozen=True, slots=True)
class StagingBlock:
    """A reserved block of walIds. `path_prefix` + walId + ".wo" is the path of each object."""

    path_prefix: str
    created_at_ms: int
    broker_id: int
    condemned_at_ms: int | None = None
    """Set by the orphan collector: from then on no commit of this block can succeed."""

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "path": self.path_prefix,
                "createdAt": self.created_at_ms,
                "brokerId": self.broker_id,
                "condemnedAt": self.condemned_at_ms,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> StagingBlock:
        fields = json_value.decode(value, 1, "staging marker")
        return cls(fields["path"], fields["createdAt"], fields["brokerId"], fields["condemnedAt"])


@dataclass(frozen=True, slots=True)
class WalObject:
    """A committed object and the streams that have a chunk in it."""

    path: str
    created_at_ms: int
    size_bytes: int
    stream_ids: tuple[int, ...]

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "path": self.path,
                "refCount": len(self.stream_ids),
                "createdAt": self.created_at_ms,
                "sizeBytes": self.size_bytes,
                "streamIds": self.stream_ids,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> WalObject:
        fields = json_value.decode(value, 1, "WAL object")
        return cls(
            fields["path"], fields["createdAt"], fields["sizeBytes"], tuple(fields["streamIds"])
        )


@dataclass(frozen=True, slots=True)
class Deref:
    """Which index entry let the chunk go, so that the collector can confirm it."""

    entry_key: str

    def encode(self) -> bytes:
        return json_value.encode(1, {"entryKey": self.entry_key})

    @classmethod
    def decode(cls, value: bytes) -> Deref:
        return cls(json_value.decode(value, 1, "deref")["entryKey"])


@dataclass(frozen=True, slots=True)
class GcOrder:
    """Delete this object once `delete_after_ms` has passed."""

    path: str
    delete_after_ms: int

    def encode(self) -> bytes:
        return json_value.encode(1, {"deleteAfterMs": self.delete_after_ms, "path": self.path})

    @classmethod
    def decode(cls, value: bytes) -> GcOrder:
        fields = json_value.decode(value, 1, "gc order")
        return cls(fields["path"], fields["deleteAfterMs"])
