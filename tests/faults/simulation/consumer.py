"""A consumer that assigns itself partitions and follows them with long polls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from crc32c import crc32c
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.ledger import Content, content_of
from tests.faults.simulation.observer import Mark, Observer
from tests.faults.simulation.wire import Broken, Wire

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from towpath.kafka.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from towpath.objects.store import Buffer
from towpath.records.batch import ATTRIBUTES_AT, parse_header
from towpath.records.walk import iterate

BY_ID_SINCE_VERSION = 13
EARLIEST, LATEST = -2, -1
PAUSE_S = 0.05
PARTITIONS_MAX = 3
"""Partitions that one fetch asks for."""


def fetch_request(
    observer: Observer,
    positions: dict[tuple[str, int], int],
    *,
    max_wait_ms: int,
    max_bytes: int = 1 << 20,
) -> FetchRequest:
    """A fetch of these partitions from these offsets."""
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=observer.ledger.topics[topic].topic_id,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
            for (topic, partition), offset in positions.items()
        ],
    )


def decode_records(data: Buffer | Sequence[Buffer] | None) -> list[tuple[int, Content]]:
    """Offset and content of every record, of batches whose checksums are right."""
    parts = [data] if isinstance(data, bytes | bytearray | memoryview) else data or []
    whole = b"".join(parts)
    found: list[tuple[int, Content]] = []
    at = 0
    while at < len(whole):
        header = parse_header(whole, at)
        batch = whole[at : at + header.size_bytes]
        if crc32c(batch[ATTRIBUTES_AT:]) != header.crc:
            raise ValueError(f"the batch at offset {header.base_offset} is damaged")
        found.extend(
            (header.base_offset + one.offset_delta, content_of(one)) for one in iterate(batch)
        )
        at += header.size_bytes
    return found


class Consumer:
    """Reads until it is told to stop; every answer is judged by the observer."""

    def __init__(
        self, wire: Wire, observer: Observer, chance: Chance, *, rewinds: float = 0.0
    ) -> None:
        self._wire = wire
        self._observer = observer
        self._chance = chance
        self._rewinds = rewinds
        """How often it goes back in a partition, to what may have been compacted meanwhile."""
        self._rewinding = chance.child("rewinding")
        self._version = chance.pick(5, 11, 12, 16)
        self._max_wait_ms = chance.pick(300, 1_000)
        self.positions: dict[tuple[str, int], int] = {}
        """Where it reads on in each partition."""
        self.stopping = False

    async def run(self) -> None:
        """Fetch until told to stop."""
        while not self.stopping:
            try:
                await self._round()
            except Broken:
                continue
        self._wire.close()

    async def _round(self) -> None:
        usable = self._observer.usable()
        for topic in usable:
            for partition in range(self._observer.created[topic]):
                self.positions.setdefault((topic, partition), 0)
        partitions = [place for place in self.positions if place[0] in usable]
        if not partitions:
            await asyncio.sleep(PAUSE_S)
            return
        chosen = self._chance.sample(
            partitions, self._chance.randint(1, min(PARTITIONS_MAX, len(partitions)))
        )
        if self._chance.happens(0.05):
            self._wire.close()  # Read on through another broker.
        if self._chance.happens(0.15):
            await self.look_up(*chosen[0], self._chance.pick(EARLIEST, LATEST))
        for place in chosen:
            if self._rewinding.happens(self._rewinds):
                self.positions[place] = self._rewinding.randint(0, self.positions[place])
                await self._look_up_time(*place)
        await self.fetch({place: self.positions[place] for place in chosen})

    async def fetch(
        self, positions: dict[tuple[str, int], int], max_wait_ms: int | None = None
    ) -> int:
        """One fetch; returns how many records it brought."""
        wait_ms = self._max_wait_ms if max_wait_ms is None else max_wait_ms
        small = len(positions) == 1 and self._chance.happens(0.3)
        request = fetch_request(
            self._observer, positions, max_wait_ms=wait_ms, max_bytes=60 if small else 1 << 20
        )
        await self._wire.connect()
        marks = {place: self._observer.mark(*place) for place in positions}
        answer = await self._wire.ask(request, self._version, wait_s=wait_ms / 1000)
        read = 0
        for place, topic in zip(positions, answer.responses, strict=True):
            (part,) = topic.partitions
            read += await self._take(place, marks[place], positions[place], part)
        return read

    async def _take(
        self, place: tuple[str, int], mark: Mark, offset: int, part: PartitionData
    ) -> int:
        who = self._wire.name
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._observer.out_of_range(mark, offset, who)
            start = await self.look_up(*place, EARLIEST)
            if start is not None:
                self.positions[place] = start
            return 0
        if part.error_code != ErrorCode.NONE:
            self._observer.error(place[0], part.error_code, "fetch")
            await asyncio.sleep(PAUSE_S)
            return 0
        self._observer.saw_end(mark, part.high_watermark, who)
        self._observer.saw_start(mark, part.log_start_offset, who)
        records = [item for item in decode_records(part.records) if item[0] >= offset]
        self._observer.read(mark, records, offset, who)
        if records:
            self.positions[place] = records[-1][0] + 1
        return len(records)

    async def _look_up_time(self, topic: str, partition: int) -> None:
        """Ask for the first offset with the timestamp of some record."""
        records = self._observer.ledger.stream(self._observer.stream(topic, partition)).records
        if records:
            record = self._rewinding.pick(*records)
            await self.look_up(topic, partition, record.content.timestamp_ms)

    async def look_up(self, topic: str, partition: int, which: int) -> int | None:
        """The log's start or end, or the first offset at or after a time, by ListOffsets; None if
        it could not be told."""
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=partition, timestamp=which)],
                )
            ],
        )
        await self._wire.connect()
        mark = self._observer.mark(topic, partition)
        answer = (await self._wire.ask(request, 5)).topics[0].partitions[0]
        if answer.error_code != ErrorCode.NONE:
            self._observer.error(topic, answer.error_code, "list offsets")
            return None
        if which == LATEST:
            self._observer.saw_end(mark, answer.offset, self._wire.name)
        elif which == EARLIEST:
            self._observer.saw_start(mark, answer.offset, self._wire.name)
        else:
            found = (answer.offset, answer.timestamp)
            self._observer.saw_time(mark, which, found, self._wire.name)
        return int(answer.offset)
