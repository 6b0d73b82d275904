"""OffsetForLeaderEpoch: one epoch, whose end is the log end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import Rig, batch

from towpath.errors import LogUnavailable
from towpath.kafka.apis import offset_for_leader_epoch as offset_for_leader_epoch_api
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from towpath.kafka.errors import ErrorCode
from towpath.records.batch import BatchInfo

VERSIONS = [2, 3, 4]


def request(
    *parts: tuple[int, int], topic: str = "t", current: int = -1
) -> OffsetForLeaderEpochRequest:
    asked = [
        OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
        for index, epoch in parts
    ]
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=asked)]
    )


def parts_of(response: Any) -> list[EpochEndOffset]:
    return [part for topic in response.topics for part in topic.partitions]


@pytest.fixture
async def rig() -> Rig:
    made = Rig()
    stream = made.add_topic("t", 2).stream(0)
    made.log.append(stream, BatchInfo(batch([b"a", b"b"]), 2, 0, 0))
    return made


def test_registered() -> None:
    served = APIS[23]
    assert (served.min_version, served.max_version) == (2, 4)
    assert served.name == "OffsetForLeaderEpoch"
    assert served.handle is offset_for_leader_epoch_api.handle_offset_for_leader_epoch


@pytest.mark.parametrize("version", VERSIONS)
async def test_epoch_0_ends_at_the_log_end_and_others_are_undefined(rig: Rig, version: int) -> None:
    parts = parts_of(await rig.ask(request((0, 0), (1, 0), (0, 1), (0, -1)), version))
    assert [(p.error_code, p.leader_epoch, p.end_offset) for p in parts] == [
        (0, 0, 2),
        (0, 0, 0),
        (0, -1, -1),
        (0, -1, -1),
    ]


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, 0),
        (0, 0),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_current_leader_epoch(rig: Rig, current: int, code: int) -> None:
    [part] = parts_of(await rig.ask(request((0, 0), current=current), 4))
    assert part.error_code == code
    assert part.end_offset == (-1 if code else 2)


async def test_unknown_partitions(rig: Rig) -> None:
    asked = request((5, 0))
    asked.topics += request((0, 0), topic="nowhere").topics
    response = await rig.ask(asked, 3)
    assert [t.topic for t in response.topics] == ["t", "nowhere"]
    assert [p.error_code for p in parts_of(response)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert rig.topics.refreshes == 1
    assert rig.errors_counted("OffsetForLeaderEpoch", "UNKNOWN_TOPIC_OR_PARTITION") == 2


async def test_failures_of_the_log(rig: Rig) -> None:
    stream = rig.topics.known["t"].stream(0)
    rig.log.lose(stream)
    parts = parts_of(await rig.ask(request((0, 0), (1, 0)), 4))
    assert [p.error_code for p in parts] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    rig.log.failures[stream] = LogUnavailable("x")
    [part] = parts_of(await rig.ask(request((0, 0)), 4))
    assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
