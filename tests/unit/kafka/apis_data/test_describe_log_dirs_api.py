"""DescribeLogDirs: sizes, paging, and the two tagged fields of ours."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import Rig, batch

from towpath.errors import LogUnavailable
from towpath.kafka.apis import describe_log_dirs as describe_log_dirs_api
from towpath.kafka.apis.log_dirs_schema import (
    LogDirPartition,
    LogDirResult,
    LogDirsResponse,
    LogDirTopic,
)
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import StoreUnavailable
from towpath.records.batch import BatchInfo

VERSIONS = [1, 2, 3, 4]
EVERYTHING = DescribeLogDirsRequest(topics=None)


def only(response: LogDirsResponse) -> LogDirResult:
    [result] = response.results
    assert isinstance(result, LogDirResult)
    return result


def sizes(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.name: {part.partition_index: part.partition_size for part in topic.partitions}
        for topic in only(response).topics
    }


@pytest.fixture
async def rig() -> Rig:
    made = Rig()
    topic = made.add_topic("a", 2)
    made.add_topic("b", 1)
    made.log.append(topic.stream(1), BatchInfo(batch(), 1, 0, 0))
    made.log.append(topic.stream(1), BatchInfo(batch(), 1, 0, 0))
    return made


def test_registered() -> None:
    served = APIS[35]
    assert (served.min_version, served.max_version, served.name) == (1, 4, "DescribeLogDirs")
    assert served.handle is describe_log_dirs_api.handle_describe_log_dirs


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics(rig: Rig, version: int) -> None:
    response = await rig.ask(EVERYTHING, version)
    assert sizes(response) == {"a": {0: 0, 1: 2 * len(batch())}, "b": {0: 0}}
    result = only(response)
    assert (result.log_dir, result.error_code, response.error_code) == ("object-store", 0, 0)
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)
    part = result.topics[0].partitions[1]
    assert isinstance(part, LogDirPartition)
    assert (part.offset_lag, part.is_future_key) == (0, False)
    assert (part.object_count, part.last_write_ms) == ((2, 1702) if version >= 2 else (None, None))


async def test_the_directory_has_the_brokers_name_for_it(rig: Rig) -> None:
    rig.services.broker_configs["log.dirs"] = "/data/objects"
    assert only(await rig.ask(EVERYTHING, 4)).log_dir == "/data/objects"


async def test_asked_topics_each_once_and_unknown_ones_left_out(rig: Rig) -> None:
    asked = DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic="a", partitions=[1, 1, 5, -1]),
            DescribableLogDirTopic(topic="nowhere", partitions=[0]),
            DescribableLogDirTopic(topic="a", partitions=[1, 0]),
        ]
    )
    assert sizes(await rig.ask(asked, 4)) == {"a": {0: 0, 1: 2 * len(batch())}}
    nothing = await rig.ask(DescribeLogDirsRequest(topics=[]), 4)
    assert sizes(nothing) == {}


async def test_kafkas_clients_read_it_and_the_tags_are_as_documented() -> None:
    part = LogDirPartition(partition_index=3, object_count=7, last_write_ms=-1)
    tags = b"\x02" + b"\x90\x4e\x08" + struct.pack(">q", 7) + b"\x91\x4e\x08" + b"\xff" * 8
    response = LogDirsResponse(results=[LogDirResult(log_dir="d")])
    response.results[0].topics.append(LogDirTopic(name="t", partitions=[part]))
    wire = encode(response, 4)
    assert tags in wire
    kafkas = decode(DescribeLogDirsResponse, 4, wire)
    assert kafkas.results[0].topics[0].partitions[0].partition_index == 3
    assert tags not in encode(response, 1)


async def test_many_partitions_are_asked_in_pages() -> None:
    rig = Rig()
    rig.add_topic("t", 450)
    assert len(sizes(await rig.ask(EVERYTHING, 2))["t"]) == 450
    assert [len(call) for call in rig.log.usage_calls] == [200, 200, 50]


async def test_a_topic_deleted_meanwhile_is_left_out(rig: Rig) -> None:
    rig.log.lose(rig.topics.known["b"].stream(0))
    assert set(sizes(await rig.ask(EVERYTHING, 4))) == {"a"}


async def test_failures_are_the_directorys(rig: Rig) -> None:
    rig.log.failures[rig.topics.known["b"].stream(0)] = LogUnavailable("x")
    result = only(await rig.ask(EVERYTHING, 4))
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    rig.log.failures.clear()
    rig.topics.failure = StoreUnavailable("x")
    result = only(await rig.ask(EVERYTHING, 4))
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.errors_counted("DescribeLogDirs", "KAFKA_STORAGE_ERROR") == 2
