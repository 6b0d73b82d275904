"""Tables on a temporary directory, with real Parquet files in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table as IcebergTable

from towpath.lakehouse.iceberg.catalog import CatalogSettings, sqlite_settings
from towpath.lakehouse.iceberg.maintenance import UpkeepSettings
from towpath.lakehouse.iceberg.settings import IcebergSettings
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.plan import ColumnSizes, ParquetFile
from towpath.lakehouse.tables import Change, Mark, Table, TopicRef
from towpath.records.table import FieldIds, arrow_schema
from towpath.runtime import InlineOffload

CLUSTER = "cluster-1"
PREFIX = "towpath"
TOPIC = TopicRef("orders.eu-1", 7, "topic-id")
START_MS = 1_790_000_000_000
"""The time of records."""
CLOCK_MS = 4_000_000_000_000
"""Where clocks of tests begin: later than the machine's, which catalogs use for new tables."""
DAY_MS = 86_400_000

_names = count()


@dataclass
class SettableClock:
    """A clock that tests move."""

    time_ms: int = CLOCK_MS

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


@dataclass
class Lake:
    """A directory with objects and a catalog, and any number of users of it."""

    root: Path
    clock: Any
    catalog: CatalogSettings

    @classmethod
    def at(cls, root: Path) -> Lake:
        return cls(root, SettableClock(), sqlite_settings(root / "catalog.sqlite"))

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    def settings(self, **changes: Any) -> IcebergSettings:
        plain = IcebergSettings(self.catalog, f"file://{self.objects}", PREFIX, CLUSTER)
        return replace(plain, **changes)

    def tables(self, upkeep: UpkeepSettings | None = None, **changes: Any) -> IcebergTables:
        """Another user of the same catalog."""
        settings = self.settings(upkeep=upkeep or UpkeepSettings(), **changes)
        return IcebergTables(settings, InlineOffload(), self.clock)

    def write(
        self,
        ids: FieldIds,
        partition: int,
        offsets: Sequence[int],
        *,
        topic: str = TOPIC.name,
        timestamp_ms: int = START_MS,
        day: int | None = None,
        name: str | None = None,
    ) -> ParquetFile:
        """A Parquet file with one record for each offset, a millisecond apart."""
        path = (
            f"{PREFIX}/compaction/v1/topic={topic}/partition={partition}/date=2026/09/21/"
            f"{name or next(_names)}.parquet"
        )
        file = self.objects / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_rows(ids, partition, offsets, timestamp_ms), file)
        return _described(file, path, offsets, timestamp_ms, day)

    def metadata_files(self, topic: str = TOPIC.name) -> set[str]:
        """The names of all files in a table's metadata directory."""
        directory = self.objects / PREFIX / "iceberg" / f"topic={topic}" / "metadata"
        return {file.name for file in directory.iterdir()} if directory.exists() else set()


def _rows(ids: FieldIds, partition: int, offsets: Sequence[int], timestamp_ms: int) -> pa.Table:
    rows = [
        {
            "partition": partition,
            "offset": offset,
            "timestamp": (timestamp_ms + index) * 1000,
            "key": b"k%d" % offset if offset % 2 else None,
            "value": b"v%d" % offset,
            "headers": [{"key": "h", "value": None}, {"key": "h", "value": b"x"}],
            "producer_id": None,
            "producer_epoch": None,
            "base_sequence": None,
            "attributes": 0,
        }
        for index, offset in enumerate(offsets)
    ]
    return pa.Table.from_pylist(rows, arrow_schema(ids))


def _described(
    file: Path, path: str, offsets: Sequence[int], timestamp_ms: int, day: int | None
) -> ParquetFile:
    footer = pq.read_metadata(file)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    columns: dict[str, ColumnSizes] = {}
    for index in range(footer.num_columns):
        chunks = [group.column(index) for group in groups]
        name = chunks[0].path_in_schema.replace("headers.list.", "headers.")
        columns[name] = ColumnSizes(
            sum(chunk.total_compressed_size for chunk in chunks),
            sum(chunk.num_values for chunk in chunks),
            sum(chunk.statistics.null_count if chunk.statistics else 0 for chunk in chunks),
        )
    return ParquetFile(
        path=path,
        size_bytes=file.stat().st_size,
        footer_bytes=footer.serialized_size + 8,
        record_count=len(offsets),
        first_offset=offsets[0],
        last_offset=offsets[-1],
        min_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms + len(offsets) - 1,
        day=day,
        columns=columns,
        split_offsets=(4,),
    )


def handle(table: Table) -> IcebergTable:
    """pyiceberg's table behind ours."""
    assert isinstance(table.handle, IcebergTable)
    return table.handle


def append(table: Table, *files: tuple[int, ParquetFile], task: str = "task-1") -> Change:
    """A change that appends files, with the marks that belong to them."""
    marks: dict[int, Mark] = {}
    for partition, file in files:
        end = max(file.last_offset + 1, marks.get(partition, table.mark(partition)).end)
        marks[partition] = Mark(end, task, table.mark(partition).rewrite_id)
    return Change(marks, list(files))


def offsets_by_pyiceberg(table: Table, snapshot_id: int | None = None) -> list[tuple[int, int]]:
    """Partition and offset of every row, read with pyiceberg."""
    rows = handle(table).scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def offsets_by_duckdb(table: Table) -> list[tuple[int, int]]:
    """The same, read with DuckDB from the files that the current snapshot names."""
    files = [task.file.file_path for task in handle(table).scan().plan_files()]
    if not files:
        return []
    paths = [file.removeprefix("file://") for file in files]
    query = 'SELECT "partition", "offset" FROM read_parquet($1) ORDER BY ALL'
    return list(duckdb.execute(query, [paths]).fetchall())


def operations(table: Table) -> list[str]:
    """What each snapshot did, the oldest first."""
    return [
        snapshot.summary.operation.value
        for snapshot in handle(table).metadata.snapshots
        if snapshot.summary is not None
    ]


def numbered() -> Iterator[str]:
    """Task ids."""
    return (f"task-{number}" for number in count())
