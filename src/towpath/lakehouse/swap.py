"""The index swap: a task's Parquet entry takes the place of the entries it replaces.

It overwrites the key of the last one by compare-and-set, which decides who wins; then the others
are deleted. "The first key whose end lies above x" is right in every state in between, so a reader
never sees a partial index. Each step can be repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from enum import Enum

from towpath.gc.entries import EntryRow, SaveProducers, decode_row, drop_entries, put_deref
from towpath.gc.paging import scan_pages
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.planner import start_of
from towpath.lakehouse.tasks import Task
from towpath.log.object.entries import ENTRY_VERSION
from towpath.metadata.keys import streams
from towpath.metadata.keys.compaction import TaskRecord
from towpath.metadata.proto import index_pb2
from towpath.metadata.store import KeyValue, MetadataStore, OutcomeUnknown, VersionConflict

FileName = Callable[[str], str]
"""The name by which the table knows a file of the object store."""


class Swapped(Enum):
    """What became of a swap."""

    DONE = "done"
    """The index names the task's files."""
    GONE = "gone"
    """Retention removed the range meanwhile: there is nothing to swap."""
    LOST = "lost"
    """Another task replaced the range: this one's files are not in the index."""


class IndexSwap:
    """Swaps index entries for tasks."""

    def __init__(
        self, store: MetadataStore, save_producers: SaveProducers, file_name: FileName
    ) -> None:
        self._store = store
        self._save_producers = save_producers
        self._file_name = file_name

    async def put(self, task: Task) -> Swapped:
        """Let the last replaced key name the task's files."""
        record = task.record
        value = self._entry(record)
        found = await self._store.get(record.last_key)
        if found is None:
            return Swapped.GONE
        if found.version == record.last_version:
            outcome = await self._overwrite(task, found, value)
            if outcome is not None:
                return outcome
            found = await self._store.get(record.last_key)
        return self._judge(found, record, value)

    async def clear(self, task: Task) -> None:
        """Delete the replaced entries that lie before the new one."""
        record = task.record
        start = streams.first_entry_above(task.stream_id, record.start)
        async for page in scan_pages(self._store, start, record.last_key):
            replaced = [decode_row(row) for row in page]
            await drop_entries(
                self._store, [entry for entry in replaced if start_of(entry) >= record.start]
            )

    async def _overwrite(self, task: Task, found: KeyValue, value: bytes) -> Swapped | None:
        """None if somebody else was faster, or nobody knows."""
        await self._keep_producers(task)
        # The deref comes first: once the key is overwritten, nothing tells its WAL object.
        await put_deref(self._store, decode_row(found))
        try:
            await self._store.put(found.key, value, expect=found.version)
        except (VersionConflict, OutcomeUnknown):
            return None
        return Swapped.DONE

    async def _keep_producers(self, task: Task) -> None:
        """Save what the entries tell of idempotent producers before it goes with them."""
        record = task.record
        start = streams.first_entry_above(task.stream_id, record.start)
        async for page in scan_pages(self._store, start, record.last_key + "\0"):
            if any(_has_producers(row) for row in page):
                await self._save_producers(task.stream_id, record.end)
                return

    def _judge(self, found: KeyValue | None, record: TaskRecord, value: bytes) -> Swapped:
        if found is None:
            return Swapped.GONE
        if found.value == value:
            return Swapped.DONE
        if found.version == record.last_version:
            # Our write may still be on its way; whoever repeats it finds out.
            raise OutcomeUnknown(f"{found.key} is still at version {found.version}")
        if decode_row(found).message.file_type == index_pb2.TOMBSTONE:
            return Swapped.GONE
        return Swapped.LOST

    def _entry(self, record: TaskRecord) -> bytes:
        """The new entry. It depends on the task alone, so that a repetition is recognised."""
        return index_pb2.IndexEntry(
            version=ENTRY_VERSION,
            file_type=index_pb2.PARQUET,
            record_count=record.end - record.start,
            created_at_ms=record.written_at_ms,
            min_timestamp_ms=record.min_timestamp_ms,
            max_timestamp_ms=record.max_timestamp_ms,
            parquet=[self._file(record, ParquetFile.from_json(fields)) for fields in record.files],
            wal_bytes=record.wal_bytes,
        ).SerializeToString(deterministic=True)

    def _file(self, record: TaskRecord, file: ParquetFile) -> index_pb2.ParquetFile:
        return index_pb2.ParquetFile(
            parquet_id=uuid.uuid5(uuid.NAMESPACE_URL, file.path).bytes,
            path=file.path,
            size_bytes=file.size_bytes,
            iceberg_data_file_id=self._file_name(file.path),
            record_count=file.record_count,
            first_offset_delta=file.first_offset - record.start,
            last_offset_delta=file.last_offset - record.start,
            min_timestamp_ms=file.min_timestamp_ms,
            max_timestamp_ms=file.max_timestamp_ms,
            footer_bytes=file.footer_bytes,
            value_stamp=file.value_stamp,
        )


def _has_producers(row: KeyValue) -> bool:
    entry: EntryRow = decode_row(row)
    return entry.has_producers
