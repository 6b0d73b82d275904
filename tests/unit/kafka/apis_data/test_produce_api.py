"""Produce: acknowledgement, errors per partition, order, time-outs, back-pressure."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.kafka.apis_data.data_rig import (
    NOW_MS,
    OTHER_BROKER_ID,
    Rig,
    batch,
    with_crc,
)

from towpath.errors import (
    LogClosed,
    LogUnavailable,
    OutOfOrderSequence,
    StreamGone,
)
from towpath.kafka.apis import produce as produce_api
from towpath.kafka.apis.registry import APIS, CloseConnection
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import KafkaSettings
from towpath.metadata.store import StoreUnavailable
from towpath.records.batch import HEADER_SIZE_BYTES

VERSIONS = [3, 5, 7, 8, 9, 10, 12]
LONG_MS = 600_000


def request(
    parts: Sequence[tuple[int, bytes | None]] = ((0, batch()),),
    *,
    topic: str = "t",
    acks: int = -1,
    timeout_ms: int = LONG_MS,
    **fields: Any,
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
        **fields,
    )


def only(response: Any) -> PartitionProduceResponse:
    [topic] = response.responses
    [partition] = topic.partition_responses
    assert isinstance(partition, PartitionProduceResponse)
    return partition


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.add_topic("t", 4)
    return made


def test_registered_for_all_versions_and_advertised_from_zero() -> None:
    served = APIS[0]
    assert (served.min_version, served.max_version, served.advertised_min_version) == (3, 13, 0)
    assert served.name == "Produce"
    assert served.handle is produce_api.handle_produce


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
async def test_acknowledges_with_offsets(rig: Rig, version: int, acks: int) -> None:
    first = await rig.ask(request([(1, batch([b"a", b"b"]))], acks=acks), version)
    second = await rig.ask(request([(1, batch())], acks=acks), version)
    assert only(first).base_offset == 0
    assert only(second).base_offset == 2
    assert only(second).error_code == ErrorCode.NONE
    assert only(second).index == 1
    assert only(second).log_append_time_ms == -1
    assert only(second).log_start_offset == (0 if version >= 5 else -1)
    assert first.responses[0].name == "t"


async def test_v13_names_topics_by_id(rig: Rig) -> None:
    topic = rig.topics.known["t"]
    asked = request()
    asked.topic_data[0].topic_id = topic.topic_id
    response = await rig.ask(asked, 13)
    assert only(response).error_code == ErrorCode.NONE
    assert response.responses[0].topic_id == topic.topic_id


async def test_unknown_topic_id_after_one_refresh(rig: Rig) -> None:
    asked = request()
    asked.topic_data *= 2
    response = await rig.ask(asked, 13)
    codes = [t.partition_responses[0].error_code for t in response.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
    assert rig.topics.refreshes == 1


@pytest.mark.parametrize("partition", [4, -1, 2**31 - 1])
async def test_unknown_partition(rig: Rig, partition: int) -> None:
    answer = only(await rig.ask(request([(partition, batch())]), 9))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
    assert rig.errors_counted("Produce", "UNKNOWN_TOPIC_OR_PARTITION") == 1


async def test_a_topic_created_elsewhere_is_found_by_a_refresh(rig: Rig) -> None:
    rig.add_topic("new", seen=False)
    answer = only(await rig.ask(request(topic="new"), 9))
    assert answer.error_code == ErrorCode.NONE
    assert rig.topics.refreshes == 1


async def test_a_known_topic_needs_no_refresh(rig: Rig) -> None:
    await rig.ask(request(), 9)
    assert rig.topics.refreshes == 0


async def test_a_catalog_that_cannot_refresh_gives_a_retriable_error(rig: Rig) -> None:
    rig.topics.failure = StoreUnavailable("down")
    answer = only(await rig.ask(request(topic="new"), 9))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_invalid_acks(rig: Rig, acks: int) -> None:
    response = await rig.ask(request([(0, batch()), (1, batch())], acks=acks), 9)
    codes = [p.error_code for p in response.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert not rig.log.streams


async def test_transactional_request_is_refused(rig: Rig) -> None:
    answer = only(await rig.ask(request(transactional_id="x"), 9))
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert not rig.log.streams


async def test_transactional_batch_is_refused(rig: Rig) -> None:
    records = batch(attributes=0x10, producer=(5, 0, 0))
    answer = only(await rig.ask(request([(0, records)]), 9))
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert not rig.log.streams


async def test_a_bad_partition_does_not_stop_the_others(rig: Rig) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    parts = [(0, batch()), (1, bytes(damaged)), (9, batch()), (2, batch()), (3, None)]
    response = await rig.ask(request(parts), 12)
    answers = response.responses[0].partition_responses
    assert [(p.index, p.error_code) for p in answers] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, ErrorCode.NONE),
        (3, ErrorCode.INVALID_RECORD),
    ]
    assert answers[1].error_message is not None
    assert answers[1].base_offset == -1


@pytest.mark.parametrize("version", [7, 8])
async def test_the_record_at_fault_is_named_from_v8_on(rig: Rig, version: int) -> None:
    records = bytearray(batch([b"a", b"b", b"c"]))
    second_delta_at = HEADER_SIZE_BYTES + (len(records) - HEADER_SIZE_BYTES) // 3 + 3
    assert records[second_delta_at] == 2  # The offset delta 1 as a zigzag varint.
    records[second_delta_at] = 8
    answer = only(await rig.ask(request([(0, with_crc(bytes(records)))]), version))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    named = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
    if version < 8:
        assert (named, answer.error_message) == ([], None)
    else:
        assert named == [(1, answer.error_message)]
        assert answer.error_message


async def test_keys_are_required_on_compacted_topics() -> None:
    rig = Rig()
    rig.add_topic("t", compact=True)
    assert only(await rig.ask(request(), 9)).error_code == ErrorCode.INVALID_RECORD
    keyed = request([(0, batch(key=b"k"))])
    assert only(await rig.ask(keyed, 9)).error_code == ErrorCode.NONE


async def test_topic_limits_apply() -> None:
    rig = Rig()
    rig.add_topic("t", max_message_bytes=100)
    answer = only(await rig.ask(request([(0, batch([b"x" * 100]))]), 9))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_zstd_needs_v7(rig: Rig) -> None:
    records = batch(attributes=4)
    answer = only(await rig.ask(request([(0, records)]), 6))
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_log_append_time_is_answered() -> None:
    rig = Rig()
    topic = rig.add_topic("t", log_append_time=True)
    answer = only(await rig.ask(request([(0, batch(timestamp_ms=5))]), 9))
    assert answer.log_append_time_ms == NOW_MS
    [stored] = rig.log.streams[topic.stream(0)].stored
    assert stored.batch.max_timestamp_ms == NOW_MS


async def test_duplicate_partitions_are_appended_in_order(rig: Rig) -> None:
    response = await rig.ask(request([(0, batch([b"1"])), (0, batch([b"2", b"3"]))]), 9)
    answers = response.responses[0].partition_responses
    assert [(p.error_code, p.base_offset) for p in answers] == [(0, 0), (0, 1)]


async def test_large_batches_are_validated_off_the_loop(rig: Rig) -> None:
    parts = [(index, batch([b"x" * 200_000])) for index in range(3)]
    parts.append((3, parts[0][1][:-1] + b"y"))
    response = await rig.ask(request(parts), 9)
    codes = [p.error_code for p in response.responses[0].partition_responses]
    assert codes == [0, 0, 0, ErrorCode.CORRUPT_MESSAGE]


async def test_an_empty_request_has_an_empty_answer(rig: Rig) -> None:
    response = await rig.ask(ProduceRequest(acks=-1, timeout_ms=1), 9)
    assert response.responses == []


async def test_release_comes_after_the_last_append_and_before_the_commit(rig: Rig) -> None:
    rig.log.hold = True
    asking = asyncio.create_task(rig.ask(request([(0, batch()), (1, batch())]), 9))
    await rig.released.wait()
    assert len(rig.log.pending) == 2
    assert not asking.done()
    rig.log.commit()
    response = await asking
    assert [p.base_offset for p in response.responses[0].partition_responses] == [0, 0]


async def test_nothing_is_acknowledged_before_the_commit(rig: Rig) -> None:
    rig.log.hold = True
    asking = asyncio.create_task(rig.ask(request(acks=1), 9))
    await rig.released.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    rig.log.commit()
    assert only(await asking).error_code == ErrorCode.NONE


async def test_time_out_answers_and_the_append_goes_on(rig: Rig) -> None:
    rig.log.hold = True
    answer = only(await rig.ask(request(timeout_ms=1), 9))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert answer.base_offset == -1
    rig.log.commit()
    assert rig.log.streams[rig.topics.known["t"].stream(0)].end == 1


async def test_a_failure_after_the_time_out_is_not_reported_as_lost(rig: Rig) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    rig.log.hold = True
    await rig.ask(request(timeout_ms=0), 9)
    rig.log.commit(LogUnavailable("gone"))
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_a_closed_connection_does_not_cancel_the_append(rig: Rig) -> None:
    rig.log.hold = True
    asking = asyncio.create_task(rig.ask(request(), 9))
    await rig.released.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    rig.log.commit()
    assert rig.log.streams[rig.topics.known["t"].stream(0)].end == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (LogUnavailable("x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LogClosed("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (StreamGone("x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (OutOfOrderSequence("x"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
async def test_append_failures(rig: Rig, failure: Exception, code: ErrorCode) -> None:
    rig.log.hold = True
    asking = asyncio.create_task(rig.ask(request(), 12))
    await rig.released.wait()
    rig.log.commit(failure)
    answer = only(await asking)
    assert answer.error_code == code
    assert answer.current_leader.leader_id == -1
    assert rig.errors_counted("Produce", code.name) == 1


@pytest.mark.parametrize("size_bytes", [10, 100_000])
async def test_what_is_not_committed_in_time_is_answered_so(rig: Rig, size_bytes: int) -> None:
    rig.log.hold = True
    sent = request([(0, batch([b"v" * size_bytes]))], timeout_ms=1)
    assert only(await rig.ask(sent, 9)).error_code == ErrorCode.REQUEST_TIMED_OUT
    rig.log.commit()  # It goes on in the background, and nobody minds.
    assert rig.log.streams[rig.topics.known["t"].stream(0)].end == 1


async def test_an_append_waits_for_room(rig: Rig) -> None:
    rig.log.room = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(rig.ask(request(), 9))
    for _ in range(5):
        await asyncio.sleep(0)
    assert rig.log.admitted == [len(batch())]
    assert not rig.released.is_set()
    assert not rig.log.streams
    rig.log.room.set_result(None)
    assert only(await asking).error_code == ErrorCode.NONE


async def test_no_room_within_the_time_out_appends_nothing(rig: Rig) -> None:
    rig.log.room = asyncio.get_running_loop().create_future()
    answer = only(await rig.ask(request(timeout_ms=1), 9))
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not rig.log.streams
    assert rig.released.is_set()


async def test_a_closing_log_refuses_those_who_wait_for_room(rig: Rig) -> None:
    rig.log.room = asyncio.get_running_loop().create_future()
    rig.log.room.set_exception(LogClosed("closing"))
    answer = only(await rig.ask(request(), 9))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acks_0_has_no_answer(rig: Rig) -> None:
    assert await rig.ask(request(acks=0), 9) is None
    assert rig.log.streams[rig.topics.known["t"].stream(0)].end == 1


async def test_acks_0_closes_the_connection_on_an_error(rig: Rig) -> None:
    with pytest.raises(CloseConnection):
        await rig.ask(request(topic="nowhere", acks=0), 9)
    rig.log.append_failure = LogUnavailable("x")
    with pytest.raises(CloseConnection):
        await rig.ask(request(acks=0), 9)


@pytest.mark.parametrize("version", [9, 10])
async def test_another_leader_is_named_when_owners_are_enforced(version: int) -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    response = await rig.ask(request([(0, batch()), (1, batch())]), version)
    mine, other = response.responses[0].partition_responses
    assert mine.error_code == ErrorCode.NONE
    assert mine.current_leader.leader_id == -1
    assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (other.current_leader.leader_id, other.current_leader.leader_epoch) == (2, 0)
        [node] = response.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (
            OTHER_BROKER_ID, "there", 9093, "r2",
        )  # fmt: skip


async def test_owners_are_those_of_the_clients_zone() -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    asked = request([(0, batch()), (1, batch())])
    here = (await rig.ask(asked, 10, "zone_id=z1")).responses[0].partition_responses
    assert [part.error_code for part in here] == [0, 0]
    there = await rig.ask(asked, 10, "zone_id=z2,app=x")
    refused = there.responses[0].partition_responses
    assert [part.error_code for part in refused] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert [part.current_leader.leader_id for part in refused] == [OTHER_BROKER_ID] * 2
    assert [node.node_id for node in there.node_endpoints] == [OTHER_BROKER_ID]


async def test_metrics_count_acknowledged_bytes_only(rig: Rig) -> None:
    await rig.ask(request([(0, batch()), (9, batch())]), 9)
    rig.services.produce_meter.flush()
    value = rig.metrics.registry.get_sample_value
    assert value("towpath_produced_bytes_total") == len(batch())
    assert value("towpath_produce_latency_seconds_count") == 1


# Batches that did not reach the log

PRODUCER = (77, 3, 0)


async def test_the_log_is_told_of_a_batch_for_which_it_had_no_room(rig: Rig) -> None:
    rig.log.room = asyncio.get_running_loop().create_future()
    await rig.ask(request([(0, batch(producer=PRODUCER))], timeout_ms=1), 9)
    assert rig.log.refused == [(rig.topics.known["t"].stream(0), *PRODUCER)]
    rig.log.room = asyncio.get_running_loop().create_future()
    await rig.ask(request([(0, batch())], timeout_ms=1), 9)
    assert len(rig.log.refused) == 1  # Plain batches may come in any order.


@pytest.mark.parametrize("version", [9, 13])
async def test_a_topic_that_was_not_found_is_told_later(rig: Rig, version: int) -> None:
    topic = rig.topics.known["t"]
    sent = request([(1, batch(producer=PRODUCER)), (0, batch())])
    sent.topic_data[0].topic_id = topic.topic_id
    rig.topics.failure = StoreUnavailable("down")
    del rig.topics.known["t"]
    refused = await rig.ask(sent, version)
    assert {part.error_code for part in refused.responses[0].partition_responses} == {
        ErrorCode.KAFKA_STORAGE_ERROR
    }
    assert rig.log.refused == []
    rig.topics.failure = None
    rig.topics.known["t"] = topic
    second = request([(1, batch(producer=(77, 3, 1)))])
    second.topic_data[0].topic_id = topic.topic_id
    await rig.ask(second, version)
    assert rig.log.refused == [(topic.stream(1), *PRODUCER)]
    await rig.ask(second, version)
    assert len(rig.log.refused) == 1


async def test_what_is_refused_for_good_is_not_waited_for(rig: Rig) -> None:
    spoilt = bytearray(batch(producer=PRODUCER))
    spoilt[-1] ^= 1
    answer = only(await rig.ask(request([(0, bytes(spoilt))]), 9))
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    await rig.ask(request([(0, batch(producer=(77, 3, 1)))]), 9)
    assert rig.log.refused == []


@pytest.mark.parametrize("size_bytes", [10, 100_000])
async def test_answered_requests_leave_nothing_to_the_cycle_collector(
    rig: Rig, size_bytes: int
) -> None:
    """Batches of a megabyte that wait for the collector once made up most of the memory."""
    gc.collect()
    gc.disable()
    try:
        await rig.ask(request([(0, batch([b"v" * size_bytes])), (1, batch())]), 9)
        left = [found for found in gc.get_objects() if isinstance(found, produce_api.Produce)]
    finally:
        gc.enable()
    assert left == []
