"""What must hold of tables and their files when the faults have stopped and nothing is due."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.faults.simulation.catalog import SharedCatalog
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import TASKS, Ledger
from tests.faults.simulation.objects import SharedObjects
from tests.faults.simulation.observer import Observer
from tests.faults.simulation.state import SharedState
from tests.faults.simulation.table_ledger import TableLedger

from towpath.log.object.entries import decode_value
from towpath.metadata.keys import ROOT, compaction, streams, topics
from towpath.metadata.keys.numbers import unpad
from towpath.metadata.keys.topics import split_stream_id
from towpath.metadata.proto.index_pb2 import WAL
from towpath.typed.declaration import declared

LOOK_S = 0.5
"""The pause between two looks whether something is due."""
DATA_SUFFIX = ".parquet"


@dataclass(slots=True)
class TableChecks:
    """The checks after the faults."""

    journal: Journal
    state: SharedState
    objects: SharedObjects
    ledger: Ledger
    table_ledger: TableLedger
    catalog: SharedCatalog
    observer: Observer

    async def settle(self, most_s: float) -> None:
        """Wait until all records are compacted and no task is unfinished."""
        for _ in range(int(most_s / LOOK_S)):
            if not self._due():
                return
            await asyncio.sleep(LOOK_S)
        self.journal.fail(f"compaction does not come to an end: {self._due()[:5]}")

    def check(self) -> None:
        """Everything that holds once the compactors have stopped."""
        for topic in self.observer.usable():
            for partition in range(self.observer.created[topic]):
                self._check_partition(topic, partition)
        self._check_nothing_left()
        self._check_files()

    def _due(self) -> list[str]:
        """Keys of what is left to do for topics that exist."""
        return [*self._unfinished(), *self._wal_entries(), *self._behind()]

    def _unfinished(self) -> list[str]:
        tasks = [key for key in self.state.keys_under(streams.STREAMS_PREFIX) if TASKS in key]
        return [*self.state.keys_under(compaction.ACTIVE_PREFIX), *tasks]

    def _wal_entries(self) -> list[str]:
        alive = {topic.number for topic in self.ledger.topics.values() if not topic.deleted}
        return [
            key
            for key in self.state.keys_under(streams.STREAMS_PREFIX)
            if streams.is_index_entry(key)
            and split_stream_id(streams.parse_stream_id(key))[0] in alive
            and (found := self.state.get(key)) is not None
            and decode_value(found.value).file_type == WAL
        ]

    def _behind(self) -> list[str]:
        """Keys of entries whose files have other columns than their topic declares."""
        stamps: dict[int, str] = {}
        for topic in self.ledger.topics.values():
            found = self.state.get(topics.topic(topic.name))
            if found is not None and not topic.deleted:
                declaration = declared(topics.TopicRecord.decode(found.value).config)
                if declaration is not None:
                    stamps[topic.number] = declaration.stamp
        behind = []
        for key in self.state.keys_under(streams.STREAMS_PREFIX) if stamps else ():
            found = self.state.get(key) if streams.is_index_entry(key) else None
            stamp = stamps.get(split_stream_id(streams.parse_stream_id(key))[0])
            if found is not None and stamp is not None:
                files = decode_value(found.value).parquet
                if any(file.value_stamp != stamp for file in files):
                    behind.append(key)
        return behind

    def _check_partition(self, topic: str, partition: int) -> None:
        """The table holds every readable record once, and no file of removed ones only."""
        table, number = self.catalog.find(topic), self.ledger.topics[topic].number
        files = table.files if table is not None else {}
        held = self.table_ledger.held(files, number, partition)
        stream = self.ledger.stream(self.observer.stream(topic, partition))
        wanted = range(stream.log_start, len(stream.records))
        wrong = [at for at in wanted if held[at] != 1]
        self.journal.expect(not wrong, f"table {topic}, partition {partition}: {wrong} are wrong")
        removed = [
            path
            for path, (place, file) in files.items()
            if place == partition
            and file.last_offset < stream.log_start
            and path not in self.ledger.referenced_paths()
        ]
        self.journal.expect(not removed, f"table {topic} holds removed records: {removed}")

    def _check_nothing_left(self) -> None:
        left = self._unfinished()
        left += self.state.keys_under(compaction.LOCKS_PREFIX)
        left += self.state.keys_under(f"{ROOT}/iceberg/")
        left += [key for key in self._orders() if not self._is_of_kept_table(key)]
        self.journal.expect(not left, f"the pipeline left behind: {left}")

    def _orders(self) -> list[str]:
        return self.state.keys_under(compaction.FILES_GC_PREFIX)

    def _is_of_kept_table(self, order: str) -> bool:
        """Whether the file belongs to the table of a deleted topic, which nobody tends any more."""
        number = unpad(order.removeprefix(compaction.FILES_GC_PREFIX).split("/")[0])
        return self.ledger.is_deleted_number(number) and any(
            table.topic.number == number for table in self.catalog.tables.values()
        )

    def _check_files(self) -> None:
        """Every data file is named by the index or a snapshot."""
        paths = {path for path in self.objects.paths() if path.endswith(DATA_SUFFIX)}
        named = {path for path in self.ledger.referenced_paths() if path.endswith(DATA_SUFFIX)}
        named |= self.catalog.named_files()
        self.journal.expect(paths >= named, f"files are missing: {sorted(named - paths)}")
        orphans = paths - named
        self.journal.expect(not orphans, f"files without an owner: {sorted(orphans)}")
