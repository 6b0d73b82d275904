"""The connection core: order, release, refusals, failures; without sockets."""

from __future__ import annotations

import asyncio
import struct

import pytest
from structlog.testing import capture_logs
from tests.unit.kafka.helpers_connection import (
    Harness,
    answers,
    body_of,
    frame,
    gated,
    instant,
)

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from towpath.kafka.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from towpath.kafka.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.fetch import FetchRequest
from towpath.kafka.codec.messages.heartbeat import HeartbeatResponse
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from towpath.kafka.codec.primitives import varint
from towpath.kafka.connection import STARTS_PER_TURN
from towpath.kafka.meter import Meter
from towpath.observe.metrics import Metrics


def api_versions(version: int, correlation_id: int, name: str = "client", tail: str = "1") -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=tail)
    return frame(request, version, correlation_id)


MANY = b"".join(
    [*(instant(n) for n in range(5)), *(api_versions(v, 10 + v) for v in range(5)), instant(20, 0)]
)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64, None])
async def test_bytes_in_any_pieces_give_the_same_answers(step: int | None) -> None:
    whole, pieces = Harness(), Harness()
    whole.feed(MANY)
    pieces.feed(MANY, step)
    assert pieces.outlet.sent == whole.outlet.sent
    assert pieces.answered == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20]
    assert body_of(pieces, 3, HeartbeatResponse, 4).throttle_time_ms == 3
    assert pieces.connection.idle
    assert pieces.shared.inflight.bytes == 0


async def test_answers_of_one_read_are_written_together() -> None:
    harness = Harness()
    harness.feed(MANY)
    assert harness.outlet.writes == 1


async def test_one_connection_does_not_keep_the_others_waiting() -> None:
    harness = Harness()
    harness.feed(b"".join(instant(n) for n in range(2 * STARTS_PER_TURN + 1)))
    assert len(harness.handlers.started) == STARTS_PER_TURN
    await harness.turns()
    assert harness.answered == list(range(2 * STARTS_PER_TURN + 1))


async def test_a_request_waits_for_the_one_before() -> None:
    harness = Harness()
    harness.feed(gated(1) + instant(2) + gated(3))
    assert harness.handlers.started == [1]
    assert harness.answered == []
    await harness.open_gate(1)
    assert harness.handlers.started == [1, 2, 3]
    assert harness.answered == [1, 2]
    await harness.open_gate(3)
    assert harness.answered == [1, 2, 3]


async def test_a_released_request_lets_the_next_start_but_answers_stay_in_order() -> None:
    harness = Harness()
    harness.feed(gated(1, "release") + gated(2, "release") + instant(3))
    assert harness.handlers.started == [1, 2, 3]
    await harness.open_gate(2)
    assert harness.answered == []
    await harness.open_gate(1)
    assert harness.answered == [1, 2, 3]
    assert harness.connection.idle


async def test_release_after_a_wait_starts_the_next_request() -> None:
    harness = Harness()
    harness.feed(gated(1) + gated(2))
    held: asyncio.Future[None] = harness.handlers.gates[1]
    call = next(iter(harness.connection._running))
    call.release()
    call.release()
    await harness.turns()
    assert harness.handlers.started == [1, 2]
    held.set_result(None)
    await harness.turns()
    assert harness.answered == [1]


async def test_a_request_without_an_answer_leaves_no_gap() -> None:
    harness = Harness()
    harness.feed(gated(1, "silent") + instant(2))
    await harness.open_gate(1)
    assert harness.answered == [2]


async def test_unknown_tagged_fields_in_the_header_are_skipped() -> None:
    harness = Harness()
    tagged = varint(1) + varint(77) + varint(3) + b"abc"
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    harness.feed(frame(request, 3, 5, tagged_header=tagged))
    assert harness.answered == [5]


async def test_unknown_api_versions_version_gets_the_answer_of_version_0() -> None:
    harness = Harness()
    body = struct.pack(">hhih", 18, 99, 7, -1) + b"whatever"
    harness.feed(struct.pack(">i", len(body)) + body + instant(8))
    response = body_of(harness, 0, ApiVersionsResponse, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]
    assert harness.answered == [7, 8]


@pytest.mark.parametrize("software", [("", "1"), ("x", ""), ("-x", "1"), ("x y", "1"), ("x", "1.")])
async def test_api_versions_checks_the_clients_software(software: tuple[str, str]) -> None:
    harness = Harness()
    harness.feed(api_versions(3, 1, *software) + api_versions(2, 2, *software))
    refused = body_of(harness, 0, ApiVersionsResponse, 3)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.api_keys == []
    assert body_of(harness, 1, ApiVersionsResponse, 2).error_code == 0


async def test_produce_before_version_3_is_refused_partition_by_partition() -> None:
    harness = Harness()
    partitions = [PartitionProduceData(index=4, records=b"old"), PartitionProduceData(index=5)]
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
    )
    for version in (0, 1, 2):
        harness.feed(frame(request, version, version))
        response = body_of(harness, version, ProduceResponse, version)
        topic = response.responses[0]
        assert topic.name == "t"
        assert [(p.index, p.error_code) for p in topic.partition_responses] == [(4, 35), (5, 35)]
    assert harness.handlers.seen == []
    request.acks = 0
    harness.feed(frame(request, 2, 9))
    assert harness.is_closed()


async def test_deferred_apis_answer_unsupported_version_where_they_can() -> None:
    harness = Harness()
    with capture_logs() as lines:
        harness.feed(frame(AddOffsetsToTxnRequest(), 3, 1) + instant(2))
    response = body_of(harness, 0, AddOffsetsToTxnResponse, 3)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert harness.answered == [1, 2]
    assert [line["event"] for line in lines] == ["request refused"]
    harness.feed(frame(AddPartitionsToTxnRequest(), 2, 3))
    assert harness.is_closed()


@pytest.mark.parametrize(
    ("key", "version"), [(4, 0), (5, 1), (6, 2), (7, 0), (27, 1), (65, 0), (78, 1), (999, 0),
                         (-1, 0), (12, 99), (12, -1)],
)  # fmt: skip
async def test_unserved_requests_close_the_connection_after_the_answers_before(
    key: int, version: int
) -> None:
    harness = Harness()
    body = struct.pack(">hhih", key, version, 7, -1) + bytes(20)
    with capture_logs() as lines:
        harness.feed(gated(1) + struct.pack(">i", len(body)) + body + instant(8))
    assert not harness.is_closed()
    await harness.open_gate(1)
    assert harness.answered == [1]
    assert harness.is_closed()
    assert [line["event"] for line in lines] == ["request refused"]
    assert lines[0]["correlation_id"] == 7
    assert harness.shared.inflight.bytes == 0


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">i", 1001),
        struct.pack(">i", 8) + struct.pack(">hhi", 12, 0, 5),
        struct.pack(">i", 10) + struct.pack(">hhih", 12, 0, 5, 300),
        struct.pack(">i", 12) + struct.pack(">hhih", 12, 0, 5, 2) + b"\xff\xff",
        struct.pack(">i", 10) + struct.pack(">hhih", 12, 0, 5, 0),
        struct.pack(">i", 15) + struct.pack(">hhih", 12, 4, 5, 0) + b"\xff\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["negative", "zero", "shorter than a header", "too large", "no client id",
         "client id too long", "client id not UTF-8", "empty body", "endless varint", "HTTP"],
)  # fmt: skip
@pytest.mark.parametrize("step", [1, None])
async def test_malformed_frames_close_the_connection_with_one_line(
    data: bytes, step: int | None
) -> None:
    harness = Harness(socket_request_max_bytes=1000)
    with capture_logs() as lines:
        harness.feed(instant(1) + data + instant(2), step)
    assert harness.answered == [1]
    assert harness.is_closed()
    assert [line["event"] for line in lines] == ["malformed frame"]
    assert {"connection_id", "peer", "client_id", "correlation_id", "reason"} <= lines[0].keys()
    assert harness.metric("towpath_malformed_frames_total") == 1
    assert harness.shared.inflight.bytes == 0


@pytest.mark.parametrize("when", ["now", "later"])
async def test_a_failing_handler_is_answered_where_the_answer_has_an_error_code(when: str) -> None:
    harness = Harness()
    with capture_logs() as lines:
        harness.feed(frame(LeaveGroupRequest(group_id=when), 4, 1) + instant(2))
        await harness.turns()
    response = body_of(harness, 0, LeaveGroupResponse, 4)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.answered == [1, 2]
    assert "a handler failed" in [line["event"] for line in lines]


async def test_a_failing_handler_without_an_error_code_closes_the_connection() -> None:
    harness = Harness()
    with capture_logs():
        harness.feed(instant(1) + frame(DescribeGroupsRequest(), 0, 2) + instant(3))
    assert harness.answered == [1]
    assert harness.is_closed()


async def test_a_handler_may_close_the_connection() -> None:
    harness = Harness()
    with capture_logs() as lines:
        harness.feed(frame(LeaveGroupRequest(group_id="close"), 4, 1))
    assert answers(harness.outlet.sent) == []
    assert harness.is_closed()
    assert lines[0]["reason"] == "asked to"


async def test_a_lost_client_ends_waits_but_not_work() -> None:
    harness = Harness()
    harness.feed(frame(FetchRequest(), 4, 1) + instant(2) + frame(FetchRequest(), 4, 3))
    harness.connection.lost()
    await harness.turns()
    assert harness.handlers.cancelled == [1]
    assert harness.handlers.started == [1, 2]
    assert harness.outlet.sent == b""
    worker = Harness()
    worker.feed(gated(1) + instant(2))
    worker.connection.lost()
    await worker.open_gate(1)
    assert worker.handlers.started == [1, 2]
    assert worker.shared.inflight.bytes == harness.shared.inflight.bytes == 0
    assert worker.shared.tasks == harness.shared.tasks == set()


async def test_draining_finishes_what_runs_and_drops_what_has_not_started() -> None:
    harness = Harness()
    harness.feed(gated(1) + instant(2))
    harness.connection.drain()
    assert not harness.is_closed()
    assert harness.is_paused()
    await harness.open_gate(1)
    assert harness.answered == [1]
    assert harness.is_closed()
    assert harness.handlers.started == [1]
    idle = Harness()
    idle.connection.drain()
    idle.connection.drain()
    assert idle.is_closed()


async def test_requests_are_counted_by_api() -> None:
    harness = Harness()
    harness.feed(instant(1) + instant(2))
    harness.feed(instant(3, version=0))
    assert harness.metric("towpath_requests_total", api="Heartbeat") == 3
    assert harness.metric("towpath_request_latency_seconds_count", api="Heartbeat") == 3
    harness.feed(instant(4))
    assert harness.metric("towpath_requests_total", api="Heartbeat") == 4


@pytest.mark.parametrize("seconds", [0.0, 0.0001, 0.00011, 0.3, 10.0, 99.0])
async def test_latencies_are_summed_as_prometheus_would(seconds: float) -> None:
    ours, theirs = Metrics(), Metrics()
    meter = Meter(ours.requests.labels("X"), ours.request_seconds.labels("X"))
    for _ in range(3):
        meter.observe(seconds)
        theirs.request_seconds.labels("X").observe(seconds)
    meter.flush()
    meter.flush()
    samples = [next(iter(m.request_seconds.collect())).samples[:-1] for m in (ours, theirs)]
    assert samples[0] == samples[1]
