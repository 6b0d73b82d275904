"""A data directory with topics and their tables, made without a broker and without Spark."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.open import open_tables
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import Change, Mark, TopicRef
from towpath.metadata.keys import streams
from towpath.metadata.keys import topics as keys
from towpath.metadata.proto import index_pb2
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import Append
from towpath.runtime import inline_runtime

RUNTIME = inline_runtime(seed=3)
CLUSTER = "cluster-1"
START_MS = 1_790_000_000_000
BYTES_PER_RECORD = 100


class DataDir:
    """One data directory. Every method opens what it needs and closes it again."""

    def __init__(self, path: Path, **settings: object) -> None:
        self.settings = Settings.model_validate({"data_dir": path, **settings})
        self.path = path

    def make_topic(self, name: str, number: int, ends: Sequence[int]) -> TopicRef:
        """A topic whose partitions end at these offsets."""

        async def make() -> None:
            async with self._store() as store:
                record = keys.TopicRecord(uuid.UUID(int=number), number, len(ends))
                await store.put(keys.topic(name), record.encode())
                streams_of = [keys.stream_id(number, partition) for partition in range(len(ends))]
                appends = [_append(*pair) for pair in zip(streams_of, ends, strict=True) if pair[1]]
                await store.commit(0, appends=appends)

        asyncio.run(make())
        return TopicRef(name, number, str(uuid.UUID(int=number)))

    def set_log_start(self, topic: TopicRef, partition: int, offset: int) -> None:
        """Let records below the offset have left the log."""

        async def put() -> None:
            async with self._store() as store:
                key = streams.log_start(keys.stream_id(topic.number, partition))
                await store.put(key, streams.encode_log_start(offset))

        asyncio.run(put())

    def make_table(self, topic: TopicRef, *changes: Change) -> None:
        """Create the topic's table and commit these changes to it."""

        async def make() -> None:
            async with self._tables() as tables:
                table = await tables.load(topic) or await tables.create(topic)
                for change in changes:
                    table = await tables.commit(table, change)

        asyncio.run(make())

    def set_aside(self, topic: TopicRef) -> None:
        """Rename the table of an earlier topic of this name."""

        async def rename() -> None:
            async with self._tables() as tables:
                assert await tables.set_aside(topic)

        asyncio.run(rename())

    def contents(self) -> dict[str, tuple[int, int]]:
        """Every file with its size and time of change."""
        found = {path: path.stat() for path in sorted(self.path.rglob("*"))}
        return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[SqliteStore]:
        path = self.settings.metadata_path()
        assert path is not None
        store = await SqliteStore.open(path, RUNTIME)
        yield store
        await store.close()

    @asynccontextmanager
    async def _tables(self) -> AsyncIterator[IcebergTables]:
        tables = open_tables(self.settings, CLUSTER, RUNTIME)
        yield tables
        await tables.close()


def _append(stream: int, records: int) -> Append:
    entry = index_pb2.IndexEntry(version=1, file_type=index_pb2.PARQUET, record_count=records)
    return Append(stream, records, records * BYTES_PER_RECORD, entry.SerializeToString())


def data_file(partition: int, first: int, end: int, **fields: object) -> tuple[int, ParquetFile]:
    """A file with the records of `[first, end)`; it is only described, not written."""
    path = f"towpath/compaction/v1/p{partition}-{first}-{end}.parquet"
    described: dict[str, object] = {
        "path": path,
        "size_bytes": BYTES_PER_RECORD * (end - first),
        "footer_bytes": 10,
        "record_count": end - first,
        "first_offset": first,
        "last_offset": end - 1,
        "min_timestamp_ms": START_MS + first,
        "max_timestamp_ms": START_MS + end - 1,
    }
    return partition, ParquetFile(**{**described, **fields})  # type: ignore[arg-type]


def appended(*files: tuple[int, ParquetFile], task: str = "task") -> Change:
    """A commit that adds these files."""
    ends = {partition: file.last_offset + 1 for partition, file in files}
    return Change(_marks(ends, task), added=files)


def replaced(
    old: Sequence[tuple[int, ParquetFile]], new: Sequence[tuple[int, ParquetFile]]
) -> Change:
    """A commit that puts the same rows into other files."""
    ends = {partition: file.last_offset + 1 for partition, file in new}
    return Change(_marks(ends, "rewrite"), added=new, removed=old, changes_rows=False)


def _marks(ends: Mapping[int, int], task: str) -> dict[int, Mark]:
    return {partition: Mark(end, task) for partition, end in ends.items()}
