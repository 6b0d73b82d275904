"""The records of one topic as an idempotent producer knows them, compared with log and table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import (
    Sent,
    as_sent,
    assigned_consumer,
    producer,
    take,
    varied_records,
)
from tests.integration.harness.raw_batches import decode_batches
from tests.integration.harness.wire import Connection

PARTITIONS = 3
DELIVERY_TIMEOUT_S = 90.0
REQUEST_TIMEOUT_MS = 2000
"""A broker that stands still is given up after this."""
SCANS_MAX = 5
"""A scan whose files were replaced and deleted meanwhile begins again, so many times."""

Place = tuple[int, int]
"""Partition and offset."""


class History:
    """One topic: what was sent to it, and where it must be."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        self._bootstrap = bootstrap
        self._data_dir = data_dir
        self.topic = create_topic(bootstrap, partitions=PARTITIONS)
        self._at: dict[Place, Sent] = {}
        self._failures: list[Any] = []
        self._numbers = itertools.count()
        self._client = producer(
            bootstrap,
            enable_idempotence=True,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            socket_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=50,
            reconnect_backoff_max_ms=500,
        )

    @property
    def ends(self) -> dict[int, int]:
        """The end offset of every partition that has records."""
        ends: dict[int, int] = {}
        for partition, offset in self._at:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    @property
    def size(self) -> int:
        """How many records were acknowledged."""
        return len(self._at)

    def send(self, count: int) -> None:
        """Produce so many records to every partition, and wait until they are acknowledged."""
        tag = f"batch-{next(self._numbers)}"
        for partition in range(PARTITIONS):
            for record in varied_records(count, partition=partition, tag=tag):
                self._client.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers or None,
                    partition=partition,
                    timestamp=record.timestamp_ms or 0,
                    on_delivery=lambda error, message, sent=record: self._delivered(
                        error, message, sent
                    ),
                )
            self._client.poll(0)
        left = self._client.flush(DELIVERY_TIMEOUT_S)
        assert not self._failures, self._failures[:3]
        assert left == 0, f"{left} records were not delivered"

    def _delivered(self, error: Any, message: Any, record: Sent) -> None:
        if error is not None:
            self._failures.append(error)
            return
        place = (record.partition, message.offset())
        assert place not in self._at, f"{place} was given out twice"
        self._at[place] = record

    def check(self) -> None:
        """The log and the table hold exactly these records, each once."""
        self.check_log()
        self.check_table()

    def check_log(self) -> None:
        """A consumer gets the records as they were sent."""
        positions = {(self.topic, partition): 0 for partition in range(PARTITIONS)}
        with assigned_consumer(self._bootstrap, positions) as client:
            messages = take(client, self.size)
        found = [((m.partition(), m.offset()), as_sent(m)) for m in messages]
        self._compare(found, "the log")

    def check_broker(self, port: int) -> None:
        """The broker of this port, whatever it knew before, serves the same values."""
        for partition, end in self.ends.items():
            with Connection("127.0.0.1", port) as connection:
                values: list[bytes] = []
                while len(values) < end:
                    fetched = connection.fetch(self.topic, partition, len(values))
                    assert fetched.error == 0, f"error {fetched.error} at {len(values)}"
                    records = list(decode_batches(fetched.records))
                    values += [value for offset, value in records if offset >= len(values)]
                assert connection.list_offset(self.topic, partition, -1)[2] == end
            sent = [self._at[partition, offset].value or b"" for offset in range(end)]
            assert values == sent, f"partition {partition} on port {port}"

    def check_table(self) -> None:
        """The Iceberg table has every record once."""
        self._compare([_row(row) for row in self._scan()], "the table")

    def _scan(self) -> list[dict[str, Any]]:
        catalog = SqlCatalog("towpath", uri=f"sqlite:///{self._data_dir}/catalog.sqlite")
        try:
            for attempt in itertools.count(1):
                table = catalog.load_table(("towpath", self.topic))
                try:
                    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
                except FileNotFoundError:
                    if attempt == SCANS_MAX:
                        raise
                else:
                    return rows
        finally:
            catalog.engine.dispose()
        raise AssertionError

    def _compare(self, found: list[tuple[Place, Sent]], where: str) -> None:
        by_place: Mapping[Place, Sent] = dict(found)
        twice = len(found) - len(by_place)
        assert not twice, f"{where} has {twice} records twice"
        missing = sorted(self._at.keys() - by_place.keys())
        assert not missing, f"{where} lacks {len(missing)} records: {missing[:5]}"
        more = sorted(by_place.keys() - self._at.keys())
        assert not more, f"{where} has {len(more)} records more: {more[:5]}"
        other = [place for place, record in self._at.items() if by_place[place] != record]
        assert not other, f"{where} has other records at {sorted(other)[:5]}"


def _row(row: dict[str, Any]) -> tuple[Place, Sent]:
    """A row of the table as the record it was."""
    return (row["partition"], row["offset"]), Sent(
        value=row["value"],
        key=row["key"],
        headers=[(header["key"], header["value"]) for header in row["headers"]],
        timestamp_ms=round(row["timestamp"].timestamp() * 1000),
        partition=row["partition"],
    )
