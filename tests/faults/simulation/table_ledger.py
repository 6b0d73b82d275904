"""Judges tables and the files they name while they change: every snapshot against the log's truth.

A file is read when it first becomes visible, and compared record by record with what was committed
to the log. A snapshot must hold every offset of a partition from the log start up to its mark, and
none of them twice.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import Content, Ledger

from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import NO_MARK, Mark, TopicRef
from towpath.log.object.entries import Entry
from towpath.metadata.keys.topics import split_stream_id, stream_id
from towpath.records import table
from towpath.typed.names import ERROR, RESERVED


class Snapshot(Protocol):
    """What the ledger looks at in a snapshot."""

    @property
    def operation(self) -> str: ...

    @property
    def files(self) -> Mapping[str, tuple[int, ParquetFile]]: ...


class TableLedger:
    """Knows every file that was ever visible, and what is in it."""

    def __init__(
        self, journal: Journal, ledger: Ledger, content: Callable[[str], bytes | None]
    ) -> None:
        self._journal = journal
        self._ledger = ledger
        self._content = content
        self._offsets: dict[str, tuple[int, ...]] = {}
        self.ever_in_table: set[str] = set()
        """Files that a table named once."""
        self.counts: Counter[str] = Counter()
        ledger.on_parquet_entry = self._swapped

    # What the catalog reports

    def created(self, topic: TopicRef) -> None:
        """A table was created."""
        self._journal.note(f"table {topic.name} created")

    def adding(self, topic: TopicRef, path: str, *, already: bool) -> None:
        """A commit brings a file into a table."""
        self.ever_in_table.add(path)
        if already:
            self._journal.fail(f"{path} is added to table {topic.name}, which has it")

    def committed(
        self,
        topic: TopicRef,
        before: Mapping[int, Mark],
        after: Mapping[int, Mark],
        snapshot: Snapshot,
    ) -> None:
        """A commit of the pipeline made a snapshot."""
        ends = {partition: mark.end for partition, mark in after.items()}
        self.counts[f"table {snapshot.operation}"] += 1
        self._journal.note(
            f"table {topic.name} {snapshot.operation}: {len(snapshot.files)} files up to {ends}"
        )
        if self._ledger.is_deleted_number(topic.number):
            return
        for partition, mark in after.items():
            old = before.get(partition, NO_MARK)
            where = f"table {topic.name}, partition {partition}"
            if mark.end < old.end:
                self._journal.fail(f"{where}: its mark went back from {old.end} to {mark.end}")
        for partition in {*after, *(number for number, _ in snapshot.files.values())}:
            self._check_partition(topic, partition, after.get(partition, NO_MARK), snapshot)

    def _check_partition(
        self, topic: TopicRef, partition: int, mark: Mark, snapshot: Snapshot
    ) -> None:
        """Every readable offset below the mark once, and nothing else."""
        where = f"table {topic.name}, partition {partition}"
        held = self.held(snapshot.files, topic.number, partition)
        twice = sorted(offset for offset, times in held.items() if times > 1)
        if twice:
            self._journal.fail(f"{where}: offsets {twice} are there twice")
        beyond = sorted(offset for offset in held if offset >= mark.end)
        if beyond:
            self._journal.fail(f"{where}: offsets {beyond} lie beyond its mark {mark.end}")
        stream = self._ledger.stream(stream_id(topic.number, partition))
        if mark.end > len(stream.records):
            self._journal.fail(f"{where}: its mark {mark.end} is beyond the log's end")
        missing = [at for at in range(stream.log_start, mark.end) if at not in held]
        if missing:
            self._journal.fail(f"{where}: offsets {missing} below its mark are missing")

    def held(
        self, files: Mapping[str, tuple[int, ParquetFile]], number: int, partition: int
    ) -> Counter[int]:
        """How often each offset of a partition is in these files."""
        held: Counter[int] = Counter()
        for path, (place, _) in files.items():
            if place == partition:
                held.update(self._offsets_of(path, stream_id(number, partition)))
        return held

    # What the index reports

    def _swapped(self, entry: Entry) -> None:
        """An index entry names Parquet files now."""
        paths = [file.path for stretch in entry.stretches for file in stretch.files]
        where = f"stream {entry.stream_id:x} [{entry.start}, {entry.end})"
        self._journal.note(f"swap {where}: {len(set(paths))} files")
        self.counts["swapped entries"] += 1
        unknown = [path for path in paths if path not in self.ever_in_table]
        if unknown:
            self._journal.fail(f"{where} names {unknown}, which never were in a table")
        offsets: Counter[int] = Counter()
        for path in dict.fromkeys(paths):
            offsets.update(self._offsets_of(path, entry.stream_id))
        if sorted(offsets.elements()) != list(range(entry.start, entry.end)):
            self._journal.fail(f"{where} names files with {sorted(offsets.elements())}")

    # Files

    def _offsets_of(self, path: str, stream: int) -> tuple[int, ...]:
        """The offsets in a file, whose records are checked when it is first asked for."""
        found = self._offsets.get(path)
        if found is None:
            found = self._offsets[path] = self._read(path, stream)
        return found

    def _read(self, path: str, stream: int) -> tuple[int, ...]:
        data = self._content(path)
        if data is None:
            self._journal.fail(f"{path} is named and does not exist")
            return ()
        records = self._ledger.stream(stream).records
        rows = _rows(data)
        self._check_typed(path, data)
        _, partition = split_stream_id(stream)
        for place, offset, content in rows:
            truth = records[offset].content if offset < len(records) else None
            if place != partition or content != truth:
                self._journal.fail(f"{path} has {content} at {offset} of {stream:x}, not {truth}")
                break
        return tuple(offset for _, offset, _ in rows)

    def _check_typed(self, path: str, data: bytes) -> None:
        """A value is in its column, or the file says why not: one or the other."""
        with pq.ParquetFile(io.BytesIO(data)) as file:
            rows = file.read(use_threads=False).to_pylist()
        for row in rows:
            if ERROR not in row:
                return
            self.counts["typed rows"] += 1
            is_json = row[table.VALUE].endswith(b"}")
            typed = {name: row[name] for name in row if name not in RESERVED}
            wanted = json.loads(row[table.VALUE]) if is_json else {}
            present = {name: value for name, value in typed.items() if value is not None}
            fits = row[ERROR] is None
            # A given schema leaves the fields out that it does not name.
            right = present == {name: wanted[name] for name in wanted if name in typed}
            if fits != is_json or not right or (not fits and present):
                self._journal.fail(
                    f"{path} has {typed} and {row[ERROR]!r} for {row[table.VALUE]!r}"
                )
                return


def _rows(data: bytes) -> list[tuple[int, int, Content]]:
    """Partition, offset and content of every record of a file."""
    with pq.ParquetFile(io.BytesIO(data)) as file:
        found = file.read(use_threads=False)
    columns = {
        name: found.column(name).to_pylist()
        for name in (table.PARTITION, table.OFFSET, table.KEY, table.VALUE, table.HEADERS)
    }
    times_us = found.column(table.TIMESTAMP).cast(pa.int64()).to_pylist()
    headers = [tuple((one["key"], one["value"]) for one in many) for many in columns[table.HEADERS]]
    contents = [
        Content(time_us // table.MICROSECONDS_PER_MS, *parts)
        for time_us, *parts in zip(
            times_us, columns[table.KEY], columns[table.VALUE], headers, strict=True
        )
    ]
    return list(zip(columns[table.PARTITION], columns[table.OFFSET], contents, strict=True))
