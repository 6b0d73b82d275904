"""Batches of WAL objects: from the cache, or read and verified one by one (length, CRC32C)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from crc32c import crc32c

from towpath.errors import LogUnavailable
from towpath.log.object.damage import Damage, Moved
from towpath.log.object.entries import LEADER_EPOCH, Entry, Row
from towpath.log.object.range_cache import RangeCache
from towpath.objects.store import Buffer, ObjectNotFound, ObjectStore, ObjectStoreError
from towpath.records import batch as record_batch
from towpath.records.batch import stamp

MAX_READ_BYTES = 8 << 20
"""A larger read of a file would hold up the event loop (facts: 64 MiB stop it for 193 ms)."""
MAX_PARALLEL_READS = 8
_LENGTH_AND_CRC = struct.Struct(">8xi5xI")
"""Of a batch's header; between them leader epoch and magic."""


class WalReader:
    """Serves rows of WAL entries. Raises Moved, LogDamaged, LogUnavailable."""

    def __init__(self, objects: ObjectStore, ranges: RangeCache, damage: Damage) -> None:
        self._objects = objects
        self._ranges = ranges
        self._damage = damage
        self._parallel = asyncio.Semaphore(MAX_PARALLEL_READS)

    def cached(self, entry: Entry, rows: Sequence[Row]) -> list[Buffer] | None:
        """The batches, if all of them are in the cache."""
        found = []
        for row in rows:
            batch = self._ranges.get(entry.wal_id, row.position)
            if batch is None:
                return None
            found.append(batch)
        return found

    async def load(self, entry: Entry, rows: Sequence[Row]) -> list[Buffer]:
        """The batches, from the object in reads of bounded size."""
        batches: list[Buffer] = []
        keep = not self._objects.reads_are_cached
        for group in _groups(rows):
            first, last = group[0], group[-1]
            length = last.position + last.length - first.position
            async with self._parallel:
                data = await self._read_range(entry, first.position, length)
            if data.readonly:
                data = memoryview(bytearray(data))
            for row in group:
                at = row.position - first.position
                batch = data[at : at + row.length]
                self._verify(entry, row, batch)
                stamp(batch, row.base_offset, LEADER_EPOCH)
                if keep:
                    self._ranges.add(entry.wal_id, row.position, batch)
                batches.append(batch)
        return batches

    async def _read_range(self, entry: Entry, position: int, length: int) -> memoryview:
        try:
            return await self._objects.read(entry.path, position, length)
        except ObjectNotFound as error:
            raise Moved(entry, entry.path) from error
        except ObjectStoreError as error:
            raise LogUnavailable(f"cannot read {entry.path}: {error}") from error

    def _verify(self, entry: Entry, row: Row, batch: memoryview) -> None:
        length, stored_crc = _LENGTH_AND_CRC.unpack_from(batch)
        if (
            length + record_batch.LENGTH_PREFIX_BYTES != row.length
            or crc32c(batch[record_batch.ATTRIBUTES_AT :]) != stored_crc
        ):
            raise self._damage.of_object(entry, entry.path, f"is damaged at byte {row.position}")


def _groups(rows: Sequence[Row]) -> Sequence[Sequence[Row]]:
    """Neighbouring rows that one read may take together."""
    if rows[-1].position + rows[-1].length - rows[0].position <= MAX_READ_BYTES:
        return [rows]
    groups: list[list[Row]] = []
    for row in rows:
        if groups and row.position + row.length - groups[-1][0].position <= MAX_READ_BYTES:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
