"""Replaced Parquet files: deleted after a grace, once no index entry and no snapshot needs them.

A file that left the table with the commit of a sequence number is needed by the snapshots before
it. Once the oldest snapshot that is kept is not older than that commit, and the file is neither in
the table nor in the index, nobody can come to it any more.
"""

from __future__ import annotations

import structlog
from google.protobuf.message import DecodeError

from towpath.gc.entries import decode_row
from towpath.gc.paging import key_after, scan_pages
from towpath.gc.summary import Summary
from towpath.lakehouse.tables import ForeignTable, Table, Tables, TopicRef
from towpath.log.object.entries import UnknownEntry
from towpath.metadata.keys import compaction, streams
from towpath.metadata.keys.compaction import FileGc
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.numbers import unpad
from towpath.metadata.store import KeyValue, MetadataStore, prefix_end
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime

ORDERS_PER_ROUND = 5_000

_Seen = dict[int, tuple[Table, frozenset[str]] | None]
"""Tables and the files they hold, by the topic's number; None for a topic without a table."""

logger = structlog.get_logger(__name__)


class FileCollector:
    """Carries out the orders that tasks and retention wrote."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        tables: Tables,
        runtime: Runtime,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._objects = objects
        self._tables = tables
        self._clock = runtime.clock
        self._metrics = metrics
        self._next = compaction.FILES_GC_PREFIX

    async def run_once(self) -> Summary:
        """One pass over the orders, or a part of one."""
        examined = removed = 0
        seen: _Seen = {}
        end = prefix_end(compaction.FILES_GC_PREFIX)
        async for page in scan_pages(self._store, self._next, end):
            for row in page:
                examined += 1
                removed += await self._tend(row, seen)
            self._next = key_after(page[-1].key)
            if examined >= ORDERS_PER_ROUND:
                return Summary(examined, removed, more=True)
        self._next = compaction.FILES_GC_PREFIX
        self._metrics.compaction_backlog_files.set(examined - removed)
        return Summary(examined, removed)

    async def _tend(self, row: KeyValue, seen: _Seen) -> bool:
        try:
            order = FileGc.decode(row.value)
            if order.delete_after_ms > self._clock.now_ms():
                return False
            return await self._carry_out(row, order, seen)
        except (UnknownValueVersion, UnknownEntry, DecodeError, ValueError) as error:
            logger.error("cannot carry out an order", key=row.key, error=str(error))
            return False

    async def _carry_out(self, row: KeyValue, order: FileGc, seen: _Seen) -> bool:
        if await self._is_indexed(order):
            # Nobody brings a name back; but a file that is named is never deleted.
            logger.error("an order would delete a file in use", path=order.path)
            await self._store.delete(row.key)
            return False
        number = unpad(row.key[len(compaction.FILES_GC_PREFIX) :].split("/", 1)[0])
        found = seen.get(number)
        is_behind = found is not None and order.sequence_number > found[0].sequence_number
        if number not in seen or is_behind:
            found = seen[number] = await self._load(TopicRef(order.topic, number, ""))
        if found is not None:
            table, files = found
            # A table that has not come so far was made anew since: it never held the file.
            is_anew = order.sequence_number > table.sequence_number
            is_kept = table.oldest_sequence_number < order.sequence_number and not is_anew
            if order.path in files or is_kept:
                return False
        await self._objects.delete(order.path)
        await self._store.delete(row.key)
        self._metrics.gc_deleted_objects.labels("parquet").inc()
        return True

    async def _is_indexed(self, order: FileGc) -> bool:
        found = await self._store.first_above(
            streams.first_entry_above(order.stream_id, order.first_offset),
            streams.index_end(order.stream_id),
        )
        if found is None:
            return False
        return any(file.path == order.path for file in decode_row(found).message.parquet)

    async def _load(self, topic: TopicRef) -> tuple[Table, frozenset[str]] | None:
        """The topic's table and the files it holds now; None if there is none any more."""
        try:
            table = await self._tables.load(topic)
        except ForeignTable:
            return None  # The topic was created again: its table is another one.
        if table is None:
            return None
        return table, frozenset(path for _, path in await self._tables.files(table))
