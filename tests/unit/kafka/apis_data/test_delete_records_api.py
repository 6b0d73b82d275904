"""DeleteRecords: moving the log start, policies, time-outs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import Rig, batch

from towpath.errors import LogUnavailable
from towpath.kafka.apis import delete_records as delete_records_api
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from towpath.kafka.errors import ErrorCode
from towpath.records.batch import BatchInfo

VERSIONS = [0, 1, 2]
LONG_MS = 600_000


def request(
    *parts: tuple[int, int], topic: str = "t", timeout_ms: int = LONG_MS
) -> DeleteRecordsRequest:
    asked = [DeleteRecordsPartition(partition_index=index, offset=to) for index, to in parts]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=asked)], timeout_ms=timeout_ms
    )


def parts_of(response: Any) -> list[DeleteRecordsPartitionResult]:
    return [part for topic in response.topics for part in topic.partitions]


async def filled(rig: Rig, **settings: Any) -> Rig:
    topic = rig.add_topic("t", 2, **settings)
    for index in range(2):
        rig.log.append(topic.stream(index), BatchInfo(batch([b"x"] * 5), 5, 0, 0))
    return rig


@pytest.fixture
async def rig() -> Rig:
    return await filled(Rig())


def test_registered() -> None:
    served = APIS[21]
    assert (served.min_version, served.max_version, served.name) == (0, 2, "DeleteRecords")
    assert served.handle is delete_records_api.handle_delete_records


@pytest.mark.parametrize("version", VERSIONS)
async def test_moves_the_log_start_never_back(rig: Rig, version: int) -> None:
    for offset, low in ((3, 3), (1, 3), (0, 3), (-1, 5), (5, 5)):
        [part] = parts_of(await rig.ask(request((1, offset)), version))
        assert (part.partition_index, part.error_code, part.low_watermark) == (1, 0, low)
    assert rig.log.streams[rig.topics.known["t"].stream(0)].start == 0


@pytest.mark.parametrize("offset", [6, -2, 2**62])
async def test_out_of_range_changes_nothing(rig: Rig, offset: int) -> None:
    parts = parts_of(await rig.ask(request((0, offset), (1, 2)), 2))
    assert [(p.error_code, p.low_watermark) for p in parts] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (0, 2),
    ]
    assert rig.log.streams[rig.topics.known["t"].stream(0)].start == 0
    assert rig.errors_counted("DeleteRecords", "OFFSET_OUT_OF_RANGE") == 1


async def test_compacted_topics_refuse() -> None:
    rig = await filled(Rig(), compact=True, delete=False)
    [part] = parts_of(await rig.ask(request((0, 1)), 2))
    assert (part.error_code, part.low_watermark) == (ErrorCode.POLICY_VIOLATION, -1)


async def test_compact_and_delete_allows() -> None:
    rig = await filled(Rig(), compact=True, delete=True)
    [part] = parts_of(await rig.ask(request((0, 1)), 2))
    assert (part.error_code, part.low_watermark) == (0, 1)


@pytest.mark.parametrize(("topic", "index"), [("t", 2), ("nowhere", 0)])
async def test_unknown_partition(rig: Rig, topic: str, index: int) -> None:
    [part] = parts_of(await rig.ask(request((index, 0), topic=topic), 2))
    assert (part.error_code, part.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_time_out(rig: Rig) -> None:
    rig.log.delete_gate = asyncio.Event()
    parts = parts_of(await rig.ask(request((0, 1), (1, 9), (7, 0), timeout_ms=1), 2))
    assert [p.error_code for p in parts] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_failure_of_the_log(rig: Rig) -> None:
    rig.log.failures[rig.topics.known["t"].stream(0)] = LogUnavailable("x")
    parts = parts_of(await rig.ask(request((0, 1), (1, 1)), 2))
    assert [(p.error_code, p.low_watermark) for p in parts] == [
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (0, 1),
    ]


async def test_no_topics(rig: Rig) -> None:
    assert (await rig.ask(DeleteRecordsRequest(timeout_ms=1), 2)).topics == []
