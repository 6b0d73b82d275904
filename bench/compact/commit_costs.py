"""A process that commits to a table again and again: `python -m bench.compact.commit_costs DIR`.

Each question is `{"points": [1, 10, ...]}`. Every commit adds one small data file, written as the
compaction job writes them, to a table in the default catalog with the default settings. The tables'
clock moves on by what lies between two commits of an active topic, and upkeep runs as often on that
clock as in the product, so that snapshots age and expire as they do there. Small files are not
merged meanwhile: the table has as many live files as commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.shared.answering import failure, next_question, take_stdout
from bench.shared.payload import values
from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.open import CATALOG_FILE, open_tables
from towpath.lakehouse.jobs.parquet_out import ParquetOut
from towpath.lakehouse.plan import Job, JobKind, ParquetFile
from towpath.lakehouse.saga import output_dir
from towpath.lakehouse.tables import Change, Mark, Table, Tables, TopicRef
from towpath.objects.worker import WorkerObjects, open_worker_objects
from towpath.records.table import arrow_schema
from towpath.runtime import Runtime, ThreadOffload
from towpath.threads import WorkThreads

RECORDS_PER_FILE = 100
RECORD_BYTES = 100
THREADS = 2
TENTH = 10
AROUND = 5
"""How many commits on either side of a point are measured."""
MS_PER_S = 1000


class PacedClock:
    """A clock that is moved on by hand."""

    def __init__(self) -> None:
        self._now_ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def pass_ms(self, duration_ms: int) -> None:
        """Move on."""
        self._now_ms += duration_ms


def around(point: int) -> range:
    """The commits whose median stands for one: the first few for the first."""
    return range(max(1, point - AROUND), point + (AROUND if point > 1 else 2) + 1)


@dataclass(frozen=True)
class Stores:
    """What tables need, by the default settings in a directory."""

    settings: Settings
    tables: Tables
    objects: WorkerObjects
    clock: PacedClock

    @property
    def catalog_file(self) -> Path:
        """The default catalog."""
        return self.settings.data_dir / CATALOG_FILE


@contextlib.asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Stores]:
    """The stores of a data directory, made if it is missing."""
    settings = Settings(data_dir=directory)
    root = settings.objects_path()
    assert root is not None
    root.mkdir(parents=True, exist_ok=True)
    clock, threads = PacedClock(), WorkThreads(THREADS, "offload")
    runtime = Runtime(clock, random.SystemRandom(), ThreadOffload(threads))
    tables = open_tables(settings, "bench", runtime)
    try:
        yield Stores(settings, tables, open_worker_objects(settings.objects_url), clock)
    finally:
        await tables.close()
        threads.close(wait=False)


class GrowingTable:
    """A topic's table, one commit after the other."""

    def __init__(self, stores: Stores) -> None:
        self._settings = stores.settings
        self._tables = stores.tables
        self._objects = stores.objects
        self._clock = stores.clock
        self._table: Table
        self.times_ms: list[float] = []
        """Of each commit."""

    async def open(self, name: str, number: int) -> None:
        """Create it."""
        self._table = await self._tables.create(TopicRef(name, number, f"id-{number}"))

    async def grow_to(self, commits: int) -> None:
        """Commit until there are so many, with upkeep in between."""
        settings = self._settings
        every = settings.compaction_maintenance_interval_ms // settings.compaction_wal_max_age_ms
        while len(self.times_ms) < commits:
            await self._commit()
            self._clock.pass_ms(settings.compaction_wal_max_age_ms)
            if len(self.times_ms) % every == 0:
                self._table = (await self._tables.maintain(self._table)).table

    def cost_ms(self, point: int) -> float:
        """The median of the commits around a point."""
        return statistics.median(self.times_ms[number - 1] for number in around(point))

    def metadata(self) -> dict[str, int]:
        """What the table's metadata directory holds."""
        root = self._settings.objects_path()
        assert root is not None
        prefix = f"{self._settings.cluster_prefix}/iceberg/topic={self._table.topic.name}/metadata"
        sizes = [entry.stat().st_size for entry in os.scandir(root / prefix)]
        return {"files": len(sizes), "bytes": sum(sizes)}

    async def _commit(self) -> None:
        start = len(self.times_ms) * RECORDS_PER_FILE
        file = self._write(start)
        mark = Mark(file.last_offset + 1, f"task-{start}")
        began = time.perf_counter()
        self._table = await self._tables.commit(
            self._table, Change(marks={0: mark}, added=[(0, file)])
        )
        self.times_ms.append((time.perf_counter() - began) * MS_PER_S)

    def _write(self, start: int) -> ParquetFile:
        name = self._table.topic.name
        job = Job(
            task_id=f"task-{start}",
            kind=JobKind.COMPACT,
            topic=name,
            partition=0,
            start=start,
            end=start + RECORDS_PER_FILE,
            output_dir=output_dir(self._settings.cluster_prefix, name, 0, self._clock.now_ms()),
            objects_url=self._settings.objects_url,
            field_ids=self._table.field_ids,
        )
        with ParquetOut(job, self._objects, "0") as out:
            out.write(_rows(self._table, start, self._clock.now_ms()))
            (file,) = out.finish()
        return file


def _rows(table: Table, start: int, timestamp_ms: int) -> pa.RecordBatch:
    texts = values(RECORD_BYTES)
    rows: list[dict[str, Any]] = [
        {
            "partition": 0,
            "offset": offset,
            "timestamp": timestamp_ms * MS_PER_S,
            "key": None,
            "value": texts[offset % len(texts)],
            "headers": [],
            "producer_id": None,
            "producer_epoch": None,
            "base_sequence": None,
            "attributes": 0,
        }
        for offset in range(start, start + RECORDS_PER_FILE)
    ]
    return pa.RecordBatch.from_pylist(rows, arrow_schema(table.field_ids))


async def _warm_up(stores: Stores) -> None:
    """Some commits to another table, so that the first one that counts meets a process at work."""
    other = GrowingTable(stores)
    await other.open("warm-up", 0)
    await other.grow_to(TENTH)


async def measure(directory: Path, points: list[int]) -> dict[str, Any]:
    """The cost of a commit at each point, beside that of the tenth one of a new table right after
    it, and the size of the metadata then."""
    told: dict[int, dict[str, Any]] = {}
    async with opened(directory) as stores:
        await _warm_up(stores)
        growing = GrowingTable(stores)
        await growing.open("growing", 1)
        for number, point in enumerate(points, 2):
            await growing.grow_to(around(point)[-1])
            fresh = GrowingTable(stores)
            await fresh.open(f"fresh-{number}", number)
            await fresh.grow_to(around(TENTH)[-1])
            told[point] = {
                "ms": growing.cost_ms(point),
                "tenth_ms": fresh.cost_ms(TENTH),
                "metadata": growing.metadata(),
                "tenth_metadata": fresh.metadata(),
            }
    return {"points": told, "times_ms": [round(taken_ms, 2) for taken_ms in growing.times_ms]}


async def main(directory: Path) -> None:
    """Answer until stdin ends."""
    answer = take_stdout()
    answer({"ready": True})
    while (question := next_question()) is not None:
        try:
            answer(await measure(directory, question["points"]))
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it.
            answer(failure(error))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
