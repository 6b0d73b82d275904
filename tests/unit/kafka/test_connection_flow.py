"""Flow control of connections, and who owns received memory."""

from __future__ import annotations

import gc

import pytest
from tests.unit.kafka.helpers_connection import Harness, frame, gated, instant

from towpath.kafka.arena import ARENA_BYTES, BufferPool, ReceiveArena, has_no_views
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest
from towpath.kafka.flow_control import REQUEST_OVERHEAD_BYTES, InflightBytes


def produce(correlation_id: int, records: bytes, acks: int = 0) -> bytes:
    data = [TopicProduceData(partition_data=[PartitionProduceData(records=records)])]
    return frame(ProduceRequest(acks=acks, topic_data=data), 9, correlation_id)


def large_gated(correlation_id: int, size: int) -> bytes:
    names = "x" * 30_000
    request = SyncGroupRequest(protocol_name=names, member_id="y" * (size - 30_000))
    return frame(request, 5, correlation_id)


async def test_reading_pauses_at_the_connections_limit_and_goes_on_below_it() -> None:
    harness = Harness(connection_inflight_max_bytes=2 * REQUEST_OVERHEAD_BYTES)
    harness.feed(gated(1) + gated(2), step=10)
    assert not harness.unread
    assert harness.is_paused()
    await harness.open_gate(1)
    assert not harness.is_paused()
    assert harness.answered == [1]


async def test_reading_pauses_while_the_client_does_not_read() -> None:
    harness = Harness()
    harness.connection.pause_writing()
    assert harness.is_paused()
    harness.outlet.paused = False
    harness.feed(instant(1))
    assert harness.handlers.started == []
    harness.outlet.paused = True
    harness.connection.resume_writing()
    assert harness.answered == [1]
    assert not harness.is_paused()


async def test_the_processes_limit_pauses_other_connections_until_there_is_room() -> None:
    first = Harness(process_inflight_max_bytes=1000)
    second = Harness(shared=first.shared)
    first.feed(gated(1))
    assert first.shared.inflight.full
    assert first.is_paused()
    second.feed(instant(2))
    assert second.answered == [2]
    assert second.is_paused()
    await first.open_gate(1)
    assert not first.is_paused()
    assert not second.is_paused()
    assert first.shared.inflight.bytes == 0


async def test_a_frame_that_has_begun_waits_for_memory_without_taking_any() -> None:
    first = Harness(process_inflight_max_bytes=1000)
    second = Harness(shared=first.shared)
    first.feed(gated(1))
    taken = first.shared.inflight.bytes
    data = large_gated(2, 50_000)
    second.feed(data[:100])
    assert second.is_held()
    assert second.is_paused()
    assert first.shared.inflight.bytes == taken
    await first.open_gate(1)
    assert not second.is_held()
    second.feed(data[100:])
    await first.open_gate(2)
    assert second.answered == [2]
    assert first.shared.inflight.bytes == 0


async def test_a_frame_in_progress_may_finish_although_the_process_is_full() -> None:
    first = Harness(process_inflight_max_bytes=60_000)
    second = Harness(shared=first.shared)
    data = large_gated(1, 55_000)
    first.feed(data[:1000])
    second.feed(gated(2) + gated(3) + gated(4) + gated(5))
    assert first.shared.inflight.full
    assert second.is_paused()
    assert not first.is_paused()
    first.feed(data[1000:])
    assert first.handlers.started == [2, 1]


async def test_a_client_lost_in_the_middle_of_a_frame_gives_its_bytes_back() -> None:
    harness = Harness()
    harness.feed(large_gated(1, 50_000)[:1000])
    assert harness.shared.inflight.bytes > 50_000
    harness.connection.lost()
    assert harness.shared.inflight.bytes == 0


async def test_a_client_lost_in_the_middle_of_a_frame_gives_its_buffer_back_at_once() -> None:
    harness = Harness()
    harness.feed(produce(1, bytes(200_000))[:5000])
    buffer = harness.connection.frames.get_buffer().obj
    assert isinstance(buffer, bytearray)
    assert len(buffer) >= 200_000
    assert not has_no_views(buffer)
    gc.disable()
    try:
        harness.connection.lost()
        assert has_no_views(buffer), "it does not wait for the cycle collector"
    finally:
        gc.enable()
    assert not harness.connection.frames.mid_frame


async def test_kept_records_survive_later_reads() -> None:
    """Views of the arena are never overwritten while somebody holds them."""
    harness = Harness()
    sizes = [100, 20_000, 70_000, 300_000, 16_384, 16_383]
    for round_number in range(40):
        size = sizes[round_number % len(sizes)]
        harness.feed(produce(round_number, bytes([round_number]) * size), step=90_000)
    for round_number, request in enumerate(harness.handlers.seen):
        records = request.topic_data[0].partition_data[0].records
        size = sizes[round_number % len(sizes)]
        assert bytes(records) == bytes([round_number]) * size


async def test_buffers_are_used_again_once_nobody_holds_them() -> None:
    harness = Harness()
    for round_number in range(50):
        harness.feed(produce(round_number, bytes(500_000)), step=100_000)
        harness.handlers.seen.clear()
    assert harness.shared.pool.kept_bytes <= 2 * ARENA_BYTES + 2 * 524_288


def test_the_pool_is_bounded_and_never_lends_a_held_buffer() -> None:
    pool = BufferPool(max_bytes=1 << 20)
    held = [pool.take(200_000) for _ in range(20)]
    assert len({id(view.obj) for view in held}) == 20
    assert pool.kept_bytes <= 1 << 20
    assert len(pool.take(4 << 20)) == 4 << 20
    assert pool.kept_bytes <= 1 << 20
    assert len(pool.take(10)) == 10


def test_the_arena_is_left_only_when_it_is_held() -> None:
    arena = ReceiveArena(BufferPool())
    first = arena.free().obj
    arena.take(ARENA_BYTES - 100).release()
    assert arena.free().obj is first
    kept = arena.take(ARENA_BYTES - 100)
    assert arena.free().obj is not first
    assert kept.obj is first
    assert isinstance(first, bytearray)
    assert not has_no_views(first)


def test_waiters_are_woken_in_order_while_there_is_room() -> None:
    inflight = InflightBytes(10)
    woken: list[str] = []

    def first() -> None:
        woken.append("first")
        inflight.add(10)

    def second() -> None:
        woken.append("second")

    inflight.add(25)
    inflight.wait(first)
    inflight.wait(second)
    inflight.wait(first)
    inflight.remove(10)
    assert woken == []
    inflight.remove(10)
    assert woken == ["first"]
    inflight.stop_waiting(first)
    inflight.remove(10)
    assert woken == ["first", "second"]


@pytest.mark.parametrize("acks", [0, 1])
async def test_produce_without_acks_has_no_answer(acks: int) -> None:
    harness = Harness()
    harness.feed(produce(1, b"x", acks) + instant(2))
    assert harness.answered == ([2] if acks == 0 else [1, 2])
