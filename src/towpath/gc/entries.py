"""Letting go of index entries: what retention, DeleteRecords and deleted topics have in common.

Before an entry goes, a deref says that its stream needs its chunk of the WAL object no more. The
deref is idempotent, and the WAL collector confirms it with the index, so a crash in between is
harmless. A stream's tail entry stays as a tombstone, because its key is the log end.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from towpath.log.object.entries import decode_value
from towpath.metadata.keys import streams, wal
from towpath.metadata.proto.index_pb2 import TOMBSTONE, WAL, IndexEntry
from towpath.metadata.store import (
    ABSENT,
    ConditionFailed,
    Expect,
    KeyIs,
    KeyValue,
    MetadataStore,
    Put,
    VersionConflict,
)

SaveProducers = Callable[[int, int], Awaitable[None]]
"""`(stream_id, offset_end)`: save the producer state that entries up to the offset hold."""

ADVANCE_ATTEMPTS = 10

ENTRIES_PER_COMMIT = 50
"""Each takes a put and a delete; together they stay below etcd's 128 operations."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An index entry as read, decoded."""

    row: KeyValue
    stream_id: int
    offset_end: int
    cumulative_size: int
    message: IndexEntry

    @property
    def has_producers(self) -> bool:
        """Whether a batch of an idempotent producer is in it."""
        return any(batch.HasField("producer") for batch in self.message.wal.batches)


def decode_row(row: KeyValue) -> EntryRow:
    """The entry; raises if a newer release wrote it."""
    return EntryRow(row, *streams.parse_index_entry(row.key), decode_value(row.value))


async def read_log_start(store: MetadataStore, stream_id: int) -> int:
    """The first readable offset."""
    found = await store.get(streams.log_start(stream_id))
    return 0 if found is None else streams.decode_log_start(found.value)


async def advance_log_start(store: MetadataStore, stream_id: int, offset: int) -> int:
    """Move the log start to `offset`, never back; returns the log start now.

    It may still be below `offset` if others kept moving it: then the next round tries again.
    """
    key = streams.log_start(stream_id)
    current = 0
    for _ in range(ADVANCE_ATTEMPTS):
        found = await store.get(key)
        current = 0 if found is None else streams.decode_log_start(found.value)
        if current >= offset:
            break
        expect: Expect = ABSENT if found is None else found.version
        try:
            await store.put(key, streams.encode_log_start(offset), expect=expect)
        except VersionConflict:
            continue
        return offset
    return current


async def release_entries(
    store: MetadataStore,
    stream_id: int,
    log_start: int,
    save_producers: SaveProducers,
    *,
    limit: int,
) -> int:
    """Let go of up to `limit` entries that lie wholly below the log start, oldest first.

    Returns how many were released; fewer than `limit` means that none is left.
    """
    tail = await store.last(streams.index_prefix(stream_id), streams.index_end(stream_id))
    if tail is None:
        return 0
    page = await store.scan(
        streams.index_prefix(stream_id),
        streams.first_entry_above(stream_id, log_start),
        limit=limit,
    )
    below = [decode_row(row) for row in page if row.key < tail.key]
    last = [decode_row(row) for row in page if row.key == tail.key]
    last = [entry for entry in last if entry.message.file_type != TOMBSTONE]
    doomed = below + last
    if any(entry.has_producers for entry in doomed):
        await save_producers(stream_id, doomed[-1].offset_end)
    await drop_entries(store, below)
    for entry in last:
        await _bury(store, entry)
    return len(doomed)


async def drop_entries(store: MetadataStore, entries: Sequence[EntryRow]) -> None:
    """Deref and delete these entries, unless somebody changed them since they were read."""
    for start in range(0, len(entries), ENTRIES_PER_COMMIT):
        await _drop_some(store, entries[start : start + ENTRIES_PER_COMMIT])


async def _drop_some(store: MetadataStore, entries: Sequence[EntryRow]) -> None:
    if store.supports_conditions and store.domain_count == 1:
        derefs = [deref for entry in entries if (deref := _deref(entry)) is not None]
        try:
            await store.commit(
                0,
                puts=derefs,
                deletes=[entry.row.key for entry in entries],
                expect=[KeyIs(entry.row.key, entry.row.version) for entry in entries],
            )
        except ConditionFailed:
            pass  # Somebody else is at one of them: go on one by one.
        else:
            return
    for entry in entries:
        await put_deref(store, entry)
        try:
            await store.delete(entry.row.key, expect=entry.row.version)
        except VersionConflict:
            # Another collector or a compaction was faster. The next round sees what it left.
            continue


async def _bury(store: MetadataStore, entry: EntryRow) -> None:
    """Replace the tail entry by a tombstone: its key, count and times stay, its bytes go."""
    tombstone = IndexEntry()
    tombstone.CopyFrom(entry.message)
    tombstone.file_type = TOMBSTONE
    tombstone.ClearField("wal")
    tombstone.ClearField("parquet")
    tombstone.ClearField("wal_bytes")
    await put_deref(store, entry)
    try:
        await store.put(entry.row.key, tombstone.SerializeToString(), expect=entry.row.version)
    except VersionConflict:
        return


async def put_deref(store: MetadataStore, entry: EntryRow) -> None:
    deref = _deref(entry)
    if deref is not None:
        await store.put(deref.key, deref.value)


def _deref(entry: EntryRow) -> Put | None:
    if entry.message.file_type != WAL:
        return None
    wal_id = uuid.UUID(bytes=entry.message.wal.wal_id)
    return Put(wal.deref(wal_id, entry.stream_id), wal.Deref(entry.row.key).encode())
