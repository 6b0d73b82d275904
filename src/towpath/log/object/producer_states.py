"""The producers of each stream, derived from the index: saved snapshot, then the entries after it.

State is rebuilt on demand and brought up to the stream's tail before a batch is judged; the commit
that follows is conditional on that tail, so state and log cannot disagree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from towpath.log.object.entries import decode_value
from towpath.log.producers import MAX_SEQUENCE, ProducerTable, SeenBatch
from towpath.metadata.keys import streams
from towpath.metadata.proto.index_pb2 import WAL, IndexEntry
from towpath.metadata.store import ABSENT, Expect, MetadataStore, VersionConflict
from towpath.runtime import Runtime

MAX_STREAMS = 10_000
"""How many streams' tables are kept in memory."""
SCAN_ENTRIES = 500
SWEEP_INTERVAL_MS = 60_000
"""How often a table is searched for producers that fell silent."""
SNAPSHOT_AFTER_ENTRIES = 2_000
"""A rebuild that had to read more entries than this saves a snapshot, so the next is short."""


class ProducerStates:
    """Tables by stream, least recently used out first."""

    def __init__(self, store: MetadataStore, runtime: Runtime, expiry_ms: int) -> None:
        self._store = store
        self._runtime = runtime
        self._expiry_ms = expiry_ms
        self._tables: OrderedDict[int, ProducerTable] = OrderedDict()

    async def at_tails(self, stream_ids: Sequence[int]) -> dict[int, ProducerTable]:
        """The streams' tables, each up to the tail that the store has now."""
        tables = {}
        for stream_id in stream_ids:
            table = self._tables.get(stream_id)
            if table is None:
                table = await self._load_snapshot(stream_id)
                self._tables[stream_id] = table
            self._tables.move_to_end(stream_id)
            tables[stream_id] = table
        tails = await self._store.tails(stream_ids)
        for (stream_id, table), tail in zip(tables.items(), tails, strict=True):
            if table.offset_end < tail.offset_end:
                scanned = await self._catch_up(stream_id, table, tail.offset_end)
                if scanned > SNAPSHOT_AFTER_ENTRIES:
                    await self._save(stream_id, table)
        self._forget_idle(tables)
        while len(self._tables) > MAX_STREAMS:
            self._tables.popitem(last=False)
        return tables

    def forget(self, stream_id: int) -> None:
        """Drop a table that may be wrong; it is rebuilt when it is needed."""
        self._tables.pop(stream_id, None)

    async def save(self, stream_id: int, upto_offset: int) -> None:
        """Make sure that entries ending at or below `upto_offset` may go without losing state."""
        found = await self._store.get(streams.producer_snapshot(stream_id))
        if found is not None and ProducerTable.decode(found.value).offset_end >= upto_offset:
            return
        tables = await self.at_tails((stream_id,))
        await self._save(stream_id, tables[stream_id])

    def _forget_idle(self, tables: dict[int, ProducerTable]) -> None:
        now_ms = self._runtime.clock.now_ms()
        for table in tables.values():
            if now_ms - table.swept_at_ms > SWEEP_INTERVAL_MS:
                table.forget_idle(now_ms - self._expiry_ms)
                table.swept_at_ms = now_ms

    async def _load_snapshot(self, stream_id: int) -> ProducerTable:
        found = await self._store.get(streams.producer_snapshot(stream_id))
        return ProducerTable() if found is None else ProducerTable.decode(found.value)

    async def _catch_up(self, stream_id: int, table: ProducerTable, tail_end: int) -> int:
        """Apply the entries between the table and the tail; return how many there were."""
        scanned = 0
        while table.offset_end < tail_end:
            found = await self._store.scan(
                streams.first_entry_above(stream_id, table.offset_end),
                streams.index_end(stream_id),
                limit=SCAN_ENTRIES,
            )
            page = [
                (streams.parse_index_entry(row.key)[1], decode_value(row.value)) for row in found
            ]
            if not page:
                break
            if _is_incomplete(table, page):
                await self._adopt_snapshot(stream_id, table)
            for offset_end, entry in page:
                # A collector's save may have brought the same table forward meanwhile.
                if offset_end > table.offset_end:
                    apply_entry(table, offset_end, entry)
            scanned += len(page)
        return scanned

    async def _adopt_snapshot(self, stream_id: int, table: ProducerTable) -> None:
        """Bring a table forward over entries that are gone: what they held was saved before."""
        saved = await self._load_snapshot(stream_id)
        if saved.offset_end > table.offset_end:
            table.become(saved)

    async def _save(self, stream_id: int, table: ProducerTable) -> None:
        key = streams.producer_snapshot(stream_id)
        while True:
            found = await self._store.get(key)
            if (
                found is not None
                and ProducerTable.decode(found.value).offset_end >= table.offset_end
            ):
                return
            expect: Expect = ABSENT if found is None else found.version
            try:
                await self._store.put(key, table.encode(), expect=expect)
            except VersionConflict:
                continue
            return


def _is_incomplete(table: ProducerTable, page: Sequence[tuple[int, IndexEntry]]) -> bool:
    """Whether entries between the table and the end of the page were removed or emptied."""
    at = table.offset_end
    for offset_end, entry in page:
        if offset_end - entry.record_count > at or entry.file_type != WAL:
            return True
        at = max(at, offset_end)
    return False


def apply_entry(table: ProducerTable, offset_end: int, entry: IndexEntry) -> None:
    """Bring a table forward over one index entry."""
    start = offset_end - entry.record_count
    for row in entry.wal.batches:
        if row.HasField("producer"):
            first = row.producer.first_sequence
            count = row.last_offset_delta - row.start_offset_delta
            seen = SeenBatch(first, (first + count) & MAX_SEQUENCE, start + row.start_offset_delta)
            table.apply(row.producer.id, row.producer.epoch, seen, entry.created_at_ms)
    table.offset_end = offset_end
