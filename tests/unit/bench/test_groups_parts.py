"""Values of the groups' benchmark, its raw requests, and what makes a measurement fail."""

from __future__ import annotations

import pytest
from bench.errors import MeasurementFailed
from bench.groups.changes import measured
from bench.groups.members import PARTITIONS, Held, Place, check_shares
from bench.groups.raw_classic import ClassicMember, assignment, subscription
from bench.groups.raw_member import COMMIT_VERSION, OFFSET_MARK
from bench.groups.repeating import Count, Repeater
from bench.groups.rows import CLASSIC, CONSUMER
from bench.groups.wire import CLIENT_ID, Connection, answer_of, frame_of

from towpath.groups.classic.subscription import subscribed_topics
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from towpath.kafka.codec.messages.offset_commit import OffsetCommitRequest

HEADER_BYTES = 4 + 10 + len(CLIENT_ID) + 1
"""Size, key, version, correlation id, length of the client id, the client id, tags."""


class Sent(Connection):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []

    def write(self, frame: bytes) -> None:
        self.frames.append(frame)


def test_the_median_of_repetitions_counts() -> None:
    assert measured([3.0, 1.0, 2.0]).value == 2.0
    assert measured([3.0, 1.0, 2.0]).raw == {"repetitions": [3.0, 1.0, 2.0]}


def test_shares_are_equal_and_everything_is_had_once() -> None:
    half = PARTITIONS // 2
    first, second = tuple(range(half)), tuple(range(half, PARTITIONS))
    check_shares([Held(first, 1), Held(second, 2)])
    for wrong in (first, (*second, 0), second[1:]):
        with pytest.raises(MeasurementFailed, match="the members have"):
            check_shares([Held(first, 1), Held(wrong, 2)])


def test_times_are_the_members_in_the_classic_protocol_only() -> None:
    assert Place(1, "g", CLASSIC).settings()["session.timeout.ms"] == 6_000
    assert Place(1, "g", CONSUMER).settings() == {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "group.protocol": "consumer",
    }


def test_frames_are_requests_of_the_codec() -> None:
    member = ClassicMember(Connection(), "g", "m")
    member.epoch = 5
    frame = member.commit_frame("t", 3)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    request = decode(OffsetCommitRequest, COMMIT_VERSION, frame[HEADER_BYTES:])
    assert (request.group_id, request.member_id) == ("g", "m")
    assert request.generation_id_or_member_epoch == 5
    assert request.topics[0].partitions[0].committed_offset == OFFSET_MARK
    answer = b"\0\0\0\0" + b"\0\0\0\7" + b"\0" + encode(HeartbeatResponse(error_code=27), 4)
    assert answer_of(HeartbeatRequest(), 4, answer).error_code == 27


def test_consumers_tell_what_kafka_can_read() -> None:
    assert subscribed_topics(subscription("topic")) == ["topic"]
    assert assignment("t", 3) == b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\3\xff\xff\xff\xff"


def test_requests_are_repeated_with_growing_offsets() -> None:
    connection, count = Sent(), Count()
    frame = ClassicMember(connection, "g", "m").commit_frame("t", 3)
    repeater = Repeater(ClassicMember(connection, "g", "m"), frame, b"\0\0\0\1x", count)
    repeater.send()
    connection.data_received(b"\0\0\0")
    connection.data_received(b"\1x")
    count.is_open = False
    connection.data_received(b"\0\0\0\1x")
    offsets = [
        decode(OffsetCommitRequest, COMMIT_VERSION, sent[HEADER_BYTES:])
        .topics[0]
        .partitions[0]
        .committed_offset
        for sent in connection.frames
    ]
    assert offsets == [1, 2]
    assert len(count.latencies_ns) == 2
    assert count.failure is None


def test_another_answer_fails_the_measurement() -> None:
    connection, count = Sent(), Count()
    member = ClassicMember(connection, "g", "m")
    Repeater(member, frame_of(HeartbeatRequest(), 4), b"\0\0\0\1x", count)
    connection.data_received(b"\0\0\0\1y")
    assert "an answer was" in str(count.failure)
    assert not connection.frames
