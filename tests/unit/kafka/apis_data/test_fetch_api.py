"""Fetch: limits, long polls, sessions, epochs, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kafka.apis_data.data_rig import Rig, batch
from tests.unit.kafka.apis_data.fake_log import FakeLog, offsets_of

from towpath.errors import LogDamaged, LogUnavailable
from towpath.kafka.apis import fetch as fetch_api
from towpath.kafka.apis.registry import APIS
from towpath.kafka.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import KafkaSettings
from towpath.records.batch import BatchInfo

VERSIONS = list(range(4, 19))
LONG_MS = 600_000
MIB = 1 << 20


def request(
    parts: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    topic: str = "t",
    partition_max_bytes: int = MIB,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    asked = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in parts
    ]
    fields = {"min_bytes": 1, "max_bytes": 50 * MIB, "session_epoch": 0} | fields
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=asked)], **fields)


def with_id(asked: FetchRequest, rig: Rig, version: int) -> FetchRequest:
    if version >= 13:
        for topic in asked.topics:
            topic.topic_id = rig.topics.known[topic.topic].topic_id
    return asked


def parts_of(response: Any) -> list[PartitionData]:
    return [part for topic in response.responses for part in topic.partitions]


def only(response: Any) -> PartitionData:
    [part] = parts_of(response)
    return part


def put(log: FakeLog, stream_id: int, *sizes: int) -> None:
    """Append one batch of one record of about each size."""
    for size in sizes:
        data = batch([b"x" * size])
        log.append(stream_id, BatchInfo(data, 1, 0, 0))


def bases(part: PartitionData) -> list[int]:
    assert isinstance(part.records, bytes | bytearray | memoryview)
    return [base for base, _ in offsets_of(bytes(part.records))]


@pytest.fixture
async def rig() -> Rig:
    made = Rig()
    topic = made.add_topic("t", 4)
    put(made.log, topic.stream(0), 10, 20, 30)
    put(made.log, topic.stream(2), 10)
    return made


def test_registered() -> None:
    served = APIS[1]
    assert (served.min_version, served.max_version, served.name) == (4, 18, "Fetch")
    assert served.handle is fetch_api.handle_fetch
    assert served.cancel_on_disconnect


@pytest.mark.parametrize("version", VERSIONS)
async def test_reads_from_the_offset_on(rig: Rig, version: int) -> None:
    response = await rig.ask(with_id(request([(0, 1)]), rig, version), version)
    part = only(response)
    assert bases(part) == [1, 2]
    assert (part.high_watermark, part.last_stable_offset) == (3, 3)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.preferred_read_replica == -1
    assert part.aborted_transactions is None
    assert (response.session_id, response.error_code) == (0, 0)
    assert response.responses[0].topic == ("t" if version < 13 else "")


async def test_read_committed_sees_the_same_and_an_empty_list(rig: Rig) -> None:
    part = only(await rig.ask(request(isolation_level=1), 12))
    assert bases(part) == [0, 1, 2]
    assert part.last_stable_offset == 3
    assert part.aborted_transactions == []


async def test_unknown_topic_id(rig: Rig) -> None:
    part = only(await rig.ask(request(max_wait_ms=LONG_MS), 13))
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (part.high_watermark, part.records) == (-1, b"")
    assert rig.topics.refreshes == 1


@pytest.mark.parametrize(("topic", "index"), [("t", 4), ("t", -1), ("nowhere", 0)])
async def test_unknown_partition_answers_at_once_with_the_others(
    rig: Rig, topic: str, index: int
) -> None:
    asked = request([(index, 0)], topic=topic, max_wait_ms=LONG_MS, min_bytes=10 * MIB)
    asked.topics += request([(0, 0)]).topics
    unknown, known = parts_of(await rig.ask(asked, 12))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bases(known) == [0, 1, 2]
    assert rig.errors_counted("Fetch", "UNKNOWN_TOPIC_OR_PARTITION") == 1


@pytest.mark.parametrize("offset", [4, -1, 2**62])
@pytest.mark.parametrize("others", [0, 1])
async def test_out_of_range(rig: Rig, offset: int, others: int) -> None:
    asked = request([(0, offset)] + [(1, 0)] * others, max_wait_ms=LONG_MS)
    part = parts_of(await rig.ask(asked, 12))[0]
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)
    assert part.records == b""


async def test_below_the_log_start(rig: Rig) -> None:
    rig.log.streams[rig.topics.known["t"].stream(0)].start = 2
    part = only(await rig.ask(request([(0, 1)]), 12))
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Limits


async def test_partition_limit(rig: Rig) -> None:
    one = len(batch([b"x" * 10]))
    two = one + len(batch([b"x" * 20]))
    limits = {one: [0], two - 1: [0], two: [0, 1], 1: [0], 0: [0], -5: [0]}
    for limit, expected in limits.items():
        part = only(await rig.ask(request(partition_max_bytes=limit), 12))
        assert bases(part) == expected, limit


async def test_whole_limit_keeps_the_order_and_gives_the_first_one_batch(rig: Rig) -> None:
    asked = request([(1, 0), (2, 0), (0, 0)], max_bytes=1)
    empty, first, rest = parts_of(await rig.ask(asked, 12))
    assert (bases(empty), bases(first), bases(rest)) == ([], [0], [])
    assert (empty.high_watermark, rest.high_watermark) == (0, 3)
    assert [e.error_code for e in (empty, first, rest)] == [0, 0, 0]


async def test_the_broker_limits_the_answer(rig: Rig) -> None:
    limited = Rig(KafkaSettings(fetch_max_bytes=1))
    topic = limited.add_topic("t", 2)
    put(limited.log, topic.stream(0), 10, 10)
    put(limited.log, topic.stream(1), 10)
    first, second = parts_of(await limited.ask(request([(0, 0), (1, 0)]), 12))
    assert (bases(first), bases(second)) == ([0], [])


async def test_idle_partitions_cost_one_bounds_call_and_no_read() -> None:
    rig = Rig()
    topic = rig.add_topic("t", 500)
    put(rig.log, topic.stream(7), 10)
    response = await rig.ask(request([(index, 0) for index in range(500)]), 12)
    assert len(rig.log.bounds_calls) == 1
    assert [stream for stream, *_ in rig.log.reads] == [topic.stream(7)]
    found = [part.partition_index for part in parts_of(response) if part.records]
    assert found == [7]


async def test_reads_are_concurrent_within_a_bound() -> None:
    rig = Rig()
    topic = rig.add_topic("t", 40)
    for index in range(40):
        put(rig.log, topic.stream(index), 10)
    response = await rig.ask(request([(index, 0) for index in range(40)]), 12)
    assert all(bases(part) == [0] for part in parts_of(response))
    assert 1 < rig.log.reads_under_way_max <= 16


@settings(max_examples=60, deadline=None)
@given(
    streams=st.lists(st.lists(st.integers(0, 200), max_size=4), min_size=1, max_size=30),
    partition_max=st.integers(0, 600),
    max_bytes=st.integers(0, 2000),
)
async def test_limits_hold_and_progress_is_made(
    streams: list[list[int]], partition_max: int, max_bytes: int
) -> None:
    rig = Rig()
    topic = rig.add_topic("t", len(streams))
    for index, sizes in enumerate(streams):
        put(rig.log, topic.stream(index), *sizes)
    asked = request(
        [(index, 0) for index in range(len(streams))],
        partition_max_bytes=partition_max,
        max_bytes=max_bytes,
    )
    parts = parts_of(await rig.ask(asked, 12))
    sizes = [len(part.records or b"") for part in parts]
    filled = [at for at, size in enumerate(sizes) if size]
    if any(streams):
        first = next(at for at, has in enumerate(streams) if has)
        assert filled[0] == first
        assert all(size <= partition_max for size in sizes[first + 1 :])
        first_batch = len(batch([b"x" * streams[first][0]]))
        assert sizes[first] <= max(first_batch, min(partition_max, max_bytes))
        assert sum(sizes) <= max(max_bytes, sizes[first])
    for part, appended in zip(parts, streams, strict=True):
        assert part.high_watermark == len(appended)
        assert bases(part) == list(range(len(bases(part))))


# Long polls


async def test_no_wait_answers_empty_at_once(rig: Rig) -> None:
    part = only(await rig.ask(request([(0, 3)], max_wait_ms=0), 12))
    assert (part.records, part.high_watermark, part.error_code) == (b"", 3, 0)
    assert not rig.log.watches


async def test_min_bytes_0_does_not_wait(rig: Rig) -> None:
    await rig.ask(request([(0, 3)], max_wait_ms=LONG_MS, min_bytes=0), 12)
    assert not rig.log.watches


async def test_no_partitions_do_not_wait(rig: Rig) -> None:
    response = await rig.ask(FetchRequest(max_wait_ms=LONG_MS, min_bytes=1), 12)
    assert response.responses == []


@pytest.mark.parametrize("idle", [0, 1])
async def test_growth_ends_the_wait(rig: Rig, idle: int) -> None:
    asked = request([(0, 3)] + [(1, 0)] * idle, max_wait_ms=LONG_MS)
    asking = asyncio.create_task(rig.ask(asked, 12))
    await rig.log.watched.wait()
    put(rig.log, rig.topics.known["t"].stream(0), 10)
    part = parts_of(await asking)[0]
    assert bases(part) == [3]
    assert part.high_watermark == 4
    assert all(watch.cancelled for watch in rig.log.watches)


async def test_min_bytes_is_gathered(rig: Rig) -> None:
    one = len(batch([b"x" * 10]))
    asked = request([(1, 0)], max_wait_ms=LONG_MS, min_bytes=3 * one)
    asking = asyncio.create_task(rig.ask(asked, 12))
    for _ in range(3):
        await rig.log.watched.wait()
        assert not asking.done()
        rig.log.watched.clear()
        put(rig.log, rig.topics.known["t"].stream(1), 10)
    assert bases(only(await asking)) == [0, 1, 2]


async def test_the_time_out_returns_what_there_is(rig: Rig) -> None:
    asked = request([(0, 1), (1, 0)], max_wait_ms=1, min_bytes=MIB)
    some, none = parts_of(await rig.ask(asked, 12))
    assert (bases(some), bases(none)) == ([1, 2], [])
    assert all(watch.cancelled for watch in rig.log.watches)


async def test_a_wait_in_vain_answers_empty(rig: Rig) -> None:
    part = only(await rig.ask(request([(0, 3)], max_wait_ms=500), 12))
    assert (part.records, part.high_watermark, part.error_code) == (b"", 3, 0)
    [watch] = rig.log.watches
    assert watch.cancelled
    assert watch.positions == [(rig.topics.known["t"].stream(0), 3)]


async def test_growth_just_before_the_watch_is_not_missed(rig: Rig) -> None:
    stream = rig.topics.known["t"].stream(1)
    watch_for_growth = rig.log.wait_for_growth

    def grow_first(positions: Any, wake: asyncio.Event) -> Any:
        put(rig.log, stream, 10)
        return watch_for_growth(positions, wake)

    rig.log.wait_for_growth = grow_first  # type: ignore[method-assign]
    assert bases(only(await rig.ask(request([(1, 0)], max_wait_ms=LONG_MS), 12))) == [0]


async def test_cancellation_gives_back_the_watch(rig: Rig) -> None:
    asking = asyncio.create_task(rig.ask(request([(0, 3)], max_wait_ms=LONG_MS), 12))
    await rig.log.watched.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    [watch] = rig.log.watches
    assert watch.cancelled


async def test_a_topic_deleted_during_the_wait(rig: Rig) -> None:
    asked = request([(0, 3), (1, 0)], max_wait_ms=LONG_MS)
    asking = asyncio.create_task(rig.ask(asked, 12))
    await rig.log.watched.wait()
    rig.log.lose(rig.topics.known["t"].stream(1))
    rig.log.watches[0].wake.set()
    here, gone = parts_of(await asking)
    assert here.error_code == 0
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Sessions, followers, epochs


@pytest.mark.parametrize(("session_id", "epoch"), [(0, 0), (0, -1), (77, 0), (77, -1)])
async def test_full_fetches_are_served(rig: Rig, session_id: int, epoch: int) -> None:
    response = await rig.ask(request(session_id=session_id, session_epoch=epoch), 12)
    assert (response.session_id, response.error_code) == (0, 0)
    assert bases(only(response)) == [0, 1, 2]


@pytest.mark.parametrize("session_id", [0, 77])
async def test_incremental_fetches_are_refused(rig: Rig, session_id: int) -> None:
    response = await rig.ask(request(session_id=session_id, session_epoch=1), 12)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.session_id, response.responses) == (0, [])
    assert rig.log.reads == []


@pytest.mark.parametrize("version", [4, 14, 15, 18])
async def test_followers_are_refused(rig: Rig, version: int) -> None:
    asked = with_id(request(), rig, version)
    asked.replica_id = 3
    asked.replica_state = ReplicaState(replica_id=3)
    part = only(await rig.ask(asked, version))
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.log.reads == []


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_current_leader_epoch(rig: Rig, epoch: int, code: int) -> None:
    part = only(await rig.ask(request(current_leader_epoch=epoch), 12))
    assert part.error_code == code


async def test_last_fetched_epoch(rig: Rig) -> None:
    fine = only(await rig.ask(request(last_fetched_epoch=0), 12))
    assert bases(fine) == [0, 1, 2]
    unknown = only(await rig.ask(request(last_fetched_epoch=1), 12))
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for parts in ([(0, 9)], [(0, 9), (1, 0)]):
        asked = request(parts, last_fetched_epoch=0, max_wait_ms=LONG_MS)
        beyond = parts_of(await rig.ask(asked, 12))[0]
        assert beyond.error_code == 0
        assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (0, 3)
        assert beyond.high_watermark == 3


@pytest.mark.parametrize("version", [15, 16])
async def test_another_leader_is_named_when_owners_are_enforced(version: int) -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    response = await rig.ask(with_id(request([(1, 0), (0, 0)]), rig, version), version)
    other, mine = parts_of(response)
    assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert mine.error_code == 0
    assert (other.current_leader.leader_id, other.current_leader.leader_epoch) == (2, 0)
    assert [node.host for node in response.node_endpoints] == (["there"] if version >= 16 else [])


# Failures of the log


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("failure", [LogDamaged("x"), LogUnavailable("x")])
async def test_storage_errors(rig: Rig, failure: Any, version: int) -> None:
    rig.log.failures[rig.topics.known["t"].stream(0)] = failure
    part = only(await rig.ask(request(max_wait_ms=LONG_MS), version))
    # Clients before v6 do not know the code.
    expected = ErrorCode.KAFKA_STORAGE_ERROR if version > 5 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.error_code == expected
    assert rig.errors_counted("Fetch", "KAFKA_STORAGE_ERROR") == 1


async def test_unavailable_bounds_fail_every_partition(rig: Rig) -> None:
    rig.log.failures[rig.topics.known["t"].stream(0)] = LogUnavailable("x")
    parts = parts_of(await rig.ask(request([(0, 0), (2, 0)], max_wait_ms=LONG_MS), 12))
    assert [part.error_code for part in parts] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_a_stream_that_is_gone_does_not_hide_the_others(rig: Rig) -> None:
    rig.log.lose(rig.topics.known["t"].stream(1))
    gone, here = parts_of(await rig.ask(request([(1, 0), (0, 0)], max_wait_ms=LONG_MS), 12))
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bases(here) == [0, 1, 2]


async def test_metrics(rig: Rig) -> None:
    await rig.ask(request([(2, 0)]), 12)
    value = rig.metrics.registry.get_sample_value
    assert value("towpath_fetched_bytes_total") == len(batch([b"x" * 10]))
    assert value("towpath_fetch_latency_seconds_count") == 1


# Zones and racks


async def test_owners_are_those_of_the_clients_zone() -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    here = parts_of(await rig.ask(request([(0, 0), (1, 0)]), 12, "zone_id=z1"))
    assert [part.error_code for part in here] == [0, 0]
    there = parts_of(await rig.ask(request([(0, 0), (1, 0)]), 12, "zone_id=z2"))
    assert [part.error_code for part in there] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert [part.current_leader.leader_id for part in there] == [2, 2]


@pytest.mark.parametrize("version", [11, 12, 18])
@pytest.mark.parametrize("parts", [[(0, 0)], [(0, 0), (1, 0)]])
async def test_a_consumer_is_sent_to_its_rack(
    rig: Rig, version: int, parts: list[tuple[int, int]]
) -> None:
    asked = with_id(request(parts, rack_id="r2", max_wait_ms=LONG_MS), rig, version)
    for part in parts_of(await rig.ask(asked, version)):
        assert (part.error_code, part.preferred_read_replica) == (0, 2)
        assert not part.records
    first = parts_of(await rig.ask(asked, version))[0]
    assert first.high_watermark == 3
    assert rig.log.reads == []


@pytest.mark.parametrize("rack", ["", "nowhere"])
async def test_a_consumer_of_no_known_rack_is_served(rig: Rig, rack: str) -> None:
    part = only(await rig.ask(request(rack_id=rack), 12))
    assert part.preferred_read_replica == -1
    assert bases(part) == [0, 1, 2]


async def test_a_consumer_is_not_sent_out_of_its_zone(rig: Rig) -> None:
    part = only(await rig.ask(request(rack_id="r2"), 12, "zone_id=z1"))
    assert part.preferred_read_replica == -1
    assert bases(part) == [0, 1, 2]


async def test_a_broker_of_the_rack_serves_though_another_leads() -> None:
    rig = Rig(KafkaSettings(routing_enforce_owner=True))
    rig.add_topic("t", 2)
    rig.cluster.put_here_in_rack("r1")
    asked = [(0, 0), (1, 0)]
    served = parts_of(await rig.ask(request(asked, rack_id="r1"), 12))
    assert [(part.error_code, part.preferred_read_replica) for part in served] == [(0, -1)] * 2
    plain = parts_of(await rig.ask(request(asked), 12))
    assert [part.error_code for part in plain] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_an_offset_out_of_range_is_told_before_another_rack(rig: Rig) -> None:
    part = only(await rig.ask(request([(0, 99)], rack_id="r2"), 12))
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
