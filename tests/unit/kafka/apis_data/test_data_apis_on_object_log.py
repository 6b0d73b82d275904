"""The data path's handlers on the real log, over stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import NOW_MS, Rig, batch
from tests.unit.kafka.apis_data.fake_log import offsets_of
from tests.unit.log_helpers import World, offsets_and_values

from towpath.kafka.apis import (
    delete_records,
    describe_log_dirs,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from towpath.kafka.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from towpath.kafka.codec.messages.describe_log_dirs import DescribeLogDirsRequest
from towpath.kafka.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from towpath.kafka.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from towpath.kafka.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.errors import ErrorCode

# Importing the modules registers their handlers.
MODULES = (delete_records, describe_log_dirs, fetch, list_offsets, offset_for_leader_epoch, produce)
PARTITIONS = 4
LONG_MS = 60_000


@pytest.fixture
async def rigs() -> AsyncIterator[tuple[Rig, Rig]]:
    """Two brokers on the same stores."""
    world = World()
    logs = [await world.log(), await world.log(world.second_store())]
    rigs = [Rig(log=log) for log in logs]
    for rig in rigs:
        rig.add_topic("t", PARTITIONS)
    yield rigs[0], rigs[1]
    for log in logs:
        await log.close()


async def produce_to(rig: Rig, *parts: tuple[int, bytes]) -> list[Any]:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    topic = TopicProduceData(name="t", partition_data=data)
    response = await rig.ask(ProduceRequest(acks=-1, timeout_ms=LONG_MS, topic_data=[topic]), 9)
    return list(response.responses[0].partition_responses)


async def fetch_from(rig: Rig, *parts: tuple[int, int], **fields: Any) -> list[Any]:
    asked = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in parts
    ]
    fields = {"min_bytes": 1, "session_epoch": 0, "max_bytes": 1 << 24} | fields
    response = await rig.ask(
        FetchRequest(topics=[FetchTopic(topic="t", partitions=asked)], **fields), 12
    )
    return list(response.responses[0].partitions)


async def offsets_for(rig: Rig, *parts: tuple[int, int]) -> list[tuple[int, int, int]]:
    asked = [ListOffsetsPartition(partition_index=i, timestamp=at) for i, at in parts]
    response = await rig.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=asked)]), 9
    )
    return [(p.error_code, p.offset, p.timestamp) for p in response.topics[0].partitions]


async def test_what_one_broker_acknowledged_the_other_serves(rigs: tuple[Rig, Rig]) -> None:
    here, there = rigs
    answers = await produce_to(here, (0, batch([b"a", b"b"])), (1, batch([b"c"])))
    assert [(a.error_code, a.base_offset) for a in answers] == [(0, 0), (0, 0)]
    [answer] = await produce_to(there, (0, batch([b"d"])))
    assert (answer.error_code, answer.base_offset) == (0, 2)
    for rig in rigs:
        first, second, empty = await fetch_from(rig, (0, 0), (1, 0), (2, 0))
        assert offsets_and_values([first.records]) == [(0, b"a"), (1, b"b"), (2, b"d")]
        assert offsets_and_values([second.records]) == [(0, b"c")]
        assert (first.high_watermark, first.log_start_offset) == (3, 0)
        assert (empty.records, empty.high_watermark, empty.error_code) == (b"", 0, 0)


async def test_a_long_poll_is_woken_by_a_produce(rigs: tuple[Rig, Rig]) -> None:
    here, _ = rigs
    polling = asyncio.create_task(
        fetch_from(here, (0, 0), (1, 0), min_bytes=1, max_wait_ms=LONG_MS)
    )
    for _ in range(20):
        await asyncio.sleep(0)
    await produce_to(here, (1, batch([b"x"])))
    _, grown = await polling
    assert offsets_of(bytes(grown.records)) == [(0, len(batch([b"x"])))]


async def test_idempotent_retries_get_their_first_offset(rigs: tuple[Rig, Rig]) -> None:
    here, there = rigs
    [first] = await produce_to(here, (0, batch([b"a"], producer=(9, 0, 0))))
    [again] = await produce_to(there, (0, batch([b"a"], producer=(9, 0, 0))))
    [gap] = await produce_to(there, (0, batch([b"c"], producer=(9, 0, 5))))
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_out_of_range(rigs: tuple[Rig, Rig]) -> None:
    here, _ = rigs
    await produce_to(here, (0, batch()))
    for parts in ([(0, 2)], [(0, 2), (1, 0)]):
        assert (await fetch_from(here, *parts))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_offsets_and_deletion(rigs: tuple[Rig, Rig]) -> None:
    here, there = rigs
    for at in (100, 300, 200):
        await produce_to(here, (0, batch(timestamp_ms=NOW_MS + at)))
    asked = [(index, timestamp) for index in (0, 1) for timestamp in (-1,)]
    assert await offsets_for(there, *asked) == [(0, 3, -1), (0, 0, -1)]
    assert await offsets_for(there, (0, -3)) == [(0, 1, NOW_MS + 300)]
    assert await offsets_for(there, (0, NOW_MS + 150)) == [(0, 1, NOW_MS + 300)]
    assert await offsets_for(there, (0, NOW_MS + 301)) == [(0, -1, -1)]
    deletion = DeleteRecordsPartition(partition_index=0, offset=2)
    deleted = await here.ask(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[deletion])], timeout_ms=LONG_MS
        ),
        2,
    )
    [part] = deleted.topics[0].partitions
    assert (part.error_code, part.low_watermark) == (0, 2)
    for rig in rigs:
        assert await offsets_for(rig, (0, -2)) == [(0, 2, -1)]
        [low] = await fetch_from(rig, (0, 1))
        assert low.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_epochs_and_sizes(rigs: tuple[Rig, Rig]) -> None:
    here, there = rigs
    await produce_to(here, (3, batch([b"a", b"b"])))
    epoch = OffsetForLeaderPartition(partition=3, leader_epoch=0)
    response = await there.ask(
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[epoch])]), 4
    )
    assert response.topics[0].partitions[0].end_offset == 2
    response = await there.ask(DescribeLogDirsRequest(topics=None), 4)
    parts = response.results[0].topics[0].partitions
    assert [p.partition_size for p in parts[:3]] == [0, 0, 0]
    assert parts[3].partition_size >= len(batch([b"a", b"b"]))
    assert [p.object_count for p in parts] == [0, 0, 0, 1]
