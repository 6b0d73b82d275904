"""ListOffsets: special timestamps by version, searches, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import Rig, batch

from towpath.errors import LogUnavailable
from towpath.kafka.apis import list_offsets as list_offsets_api
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import KafkaSettings
from towpath.records.batch import BatchInfo

VERSIONS = list(range(1, 11))


def request(
    parts: Sequence[tuple[int, int]], *, topic: str = "t", epoch: int = -1
) -> ListOffsetsRequest:
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index, timestamp in parts
    ]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)]
    )


def parts_of(response: Any) -> list[ListOffsetsPartitionResponse]:
    return [part for topic in response.topics for part in topic.partitions]


def found(part: ListOffsetsPartitionResponse) -> tuple[int, int, int, int]:
    return part.error_code, part.offset, part.timestamp, part.leader_epoch


@pytest.fixture
async def rig() -> Rig:
    """Partition 0 holds offsets 2, 3, 4 with timestamps 200, 500, 300; partition 1 nothing."""
    made = Rig()
    stream = made.add_topic("t", 2).stream(0)
    for timestamp in (50, 100, 200, 500, 300):
        made.log.append(stream, BatchInfo(batch(), 1, timestamp, timestamp))
    await made.log.delete_before(stream, 2)
    made.log.streams[stream].stored = made.log.streams[stream].stored[2:]
    return made


def test_registered() -> None:
    served = APIS[2]
    assert (served.min_version, served.max_version, served.name) == (1, 10, "ListOffsets")
    assert served.handle is list_offsets_api.handle_list_offsets


@pytest.mark.parametrize("version", VERSIONS)
async def test_latest_and_earliest(rig: Rig, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    [latest] = parts_of(await rig.ask(request([(0, -1)]), version))
    [earliest] = parts_of(await rig.ask(request([(0, -2)]), version))
    assert found(latest) == (0, 5, -1, epoch)
    assert found(earliest) == (0, 2, -1, epoch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (-3, 7, (0, 3, 500, 0)),
        (-4, 8, (0, 2, -1, 0)),
        (-5, 9, (0, -1, -1, -1)),
        (-6, 99, ()),
        (-(2**63), 99, ()),
    ],
)
async def test_special_timestamps(
    rig: Rig, version: int, timestamp: int, since: int, expected: tuple[int, ...]
) -> None:
    [part] = parts_of(await rig.ask(request([(0, timestamp)]), version))
    if version < since:
        assert found(part) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
    else:
        assert found(part) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(0, (0, 2, 200, 0)), (201, (0, 3, 500, 0)), (500, (0, 3, 500, 0)), (501, (0, -1, -1, -1))],
)
async def test_search(rig: Rig, timestamp: int, expected: tuple[int, ...]) -> None:
    [part] = parts_of(await rig.ask(request([(0, timestamp)]), 9))
    assert found(part) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, (0, 0, -1, 0)), (-2, (0, 0, -1, 0)), (-3, (0, -1, -1, -1)), (0, (0, -1, -1, -1))],
)
async def test_empty_partition(rig: Rig, timestamp: int, expected: tuple[int, ...]) -> None:
    [part] = parts_of(await rig.ask(request([(1, timestamp)]), 10))
    assert found(part) == expected


async def test_many_partitions_are_asked_in_one_call() -> None:
    rig = Rig()
    rig.add_topic("t", 300)
    response = await rig.ask(request([(index, -1 - index % 2) for index in range(300)]), 9)
    assert [part.partition_index for part in parts_of(response)] == list(range(300))
    assert len(rig.log.bounds_calls) == 1


async def test_duplicates_are_refused_and_the_others_served(rig: Rig) -> None:
    asked = request([(0, -1), (1, -1)])
    asked.topics += request([(0, -2)]).topics
    parts = parts_of(await rig.ask(asked, 9))
    codes = [(part.partition_index, part.error_code) for part in parts]
    assert codes == [(0, ErrorCode.INVALID_REQUEST), (1, 0), (0, ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize(("topic", "index"), [("t", 2), ("t", -1), ("nowhere", 0)])
async def test_unknown_partition(rig: Rig, topic: str, index: int) -> None:
    [part] = parts_of(await rig.ask(request([(index, -1)], topic=topic), 9))
    assert found(part) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert rig.topics.refreshes == (0 if index == -1 else 1)
    assert rig.errors_counted("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION") == 1


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, 0),
        (0, 0),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_current_leader_epoch(rig: Rig, epoch: int, code: int) -> None:
    [part] = parts_of(await rig.ask(request([(0, -1)], epoch=epoch), 4))
    assert part.error_code == code


async def test_failures_of_the_log(rig: Rig) -> None:
    stream = rig.topics.known["t"].stream(0)
    rig.log.failures[stream] = LogUnavailable("x")
    parts = parts_of(await rig.ask(request([(0, -1), (1, 5)]), 9))
    assert [part.error_code for part in parts] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    [searched] = parts_of(await rig.ask(request([(0, 5)]), 9))
    assert searched.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    rig.log.lose(stream)
    parts = parts_of(await rig.ask(request([(0, -1), (1, -1)]), 9))
    assert [part.error_code for part in parts] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


async def test_another_leader_when_owners_are_enforced() -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    parts = parts_of(await rig.ask(request([(0, -1), (1, -1)]), 9))
    assert [part.error_code for part in parts] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    parts = parts_of(await rig.ask(request([(0, -1), (1, -1)]), 9, "zone_id=z2"))
    assert [part.error_code for part in parts] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    parts = parts_of(await rig.ask(request([(0, -1), (1, -1)]), 9, "zone_id=z1"))
    assert [part.error_code for part in parts] == [0, 0]
