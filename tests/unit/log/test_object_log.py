"""The object log end to end on stores in memory: order, visibility, failures, duplicates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.log_helpers import STREAM, World, batch, fail_commits, offsets_and_values

from towpath.errors import (
    LogClosed,
    LogDamaged,
    LogUnavailable,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StaleProducerEpoch,
    StreamGone,
)
from towpath.log.interface import Bounds
from towpath.log.object.log import ObjectLog, domain_of
from towpath.log.object.wal_format import decode_wal
from towpath.metadata.keys import streams, wal
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable, prefix_end
from towpath.objects.store import ObjectStoreError

OTHER = STREAM + 1
ALL = 1 << 30


async def values(log: ObjectLog, stream_id: int = STREAM, offset: int = 0) -> list[bytes]:
    """Every value from an offset on; asserts that the offsets are dense."""
    found = offsets_and_values((await log.read(stream_id, offset, ALL, min_one=True)).buffers)
    assert [at for at, _ in found] == list(range(found[0][0], found[0][0] + len(found)))
    return [value for _, value in found]


async def test_an_appended_batch_is_read_back_with_its_offsets() -> None:
    log = await World().log()
    first = await log.append(STREAM, batch(b"a", b"b"))
    second = await log.append(STREAM, batch(b"c"))
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert await values(log) == [b"a", b"b", b"c"]
    assert await log.bounds([STREAM, OTHER]) == [Bounds(0, 3), Bounds(0, 0)]


async def test_appends_of_one_turn_share_one_object_and_keep_their_order() -> None:
    world = World()
    log = await world.log()
    answers = [log.append(STREAM, batch(b"%d" % number)) for number in range(50)]
    other = log.append(OTHER, batch(b"x"))
    offsets = [(await answer).base_offset for answer in answers]
    assert offsets == list(range(50))
    assert (await other).base_offset == 0
    assert world.objects.puts == 1


async def test_nothing_is_acknowledged_before_put_and_commit() -> None:
    world = World()
    world.objects.gate = asyncio.Event()
    log = await world.log()
    answer = log.append(STREAM, batch(b"a"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not answer.done()
    assert await log.bounds([STREAM]) == [Bounds(0, 0)]
    world.objects.gate.set()
    await answer
    assert world.steps == ["before-put", "after-put", "after-commit"]


async def test_uploads_overlap_and_commits_keep_the_order() -> None:
    world = World(flush_max_bytes=1, max_inflight_flushes=3)
    world.objects.gate = asyncio.Event()
    log = await world.log()
    answers = [log.append(STREAM, batch(b"%d" % number)) for number in range(5)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.objects.puts == 3
    world.objects.gate.set()
    assert [(await answer).base_offset for answer in answers] == [0, 1, 2, 3, 4]
    assert await values(log) == [b"0", b"1", b"2", b"3", b"4"]


async def test_two_brokers_append_to_one_stream_without_gap_or_overlap() -> None:
    world = World()
    logs = [await world.log(), await world.log(world.second_store())]
    answers = []
    for number in range(40):
        answers.append(logs[number % 2].append(STREAM, batch(b"%d" % number, b"+")))
        if number % 3 == 0:
            await answers[-1]
    bases = sorted([(await answer).base_offset for answer in answers])
    assert bases == list(range(0, 80, 2))
    assert await values(logs[0]) == await values(logs[1])


async def test_a_read_through_another_broker_sees_what_was_acknowledged() -> None:
    world = World()
    writer, reader = await world.log(), await world.log(world.second_store())
    for number in range(20):
        await writer.append(STREAM, batch(b"%d" % number))
        assert await values(reader, offset=number) == [b"%d" % number]


async def test_a_waiter_is_woken_by_another_brokers_commit() -> None:
    world = World()
    writer, reader = await world.log(), await world.log(world.second_store())
    wake = asyncio.Event()
    watch = reader.wait_for_growth([(STREAM, 0)], wake)
    await writer.append(OTHER, batch(b"not this one"))
    assert not wake.is_set()
    await writer.append(STREAM, batch(b"a"))
    await asyncio.wait_for(wake.wait(), 5)
    watch.cancel()
    late = asyncio.Event()
    reader.wait_for_growth([(STREAM, 0)], late).cancel()
    assert late.is_set()


async def test_a_tailing_reader_of_own_flushes_reads_no_object() -> None:
    world = World()
    log = await world.log()
    for number in range(10):
        await log.append(STREAM, batch(b"%d" % number))
        await values(log, offset=number)
    assert world.objects.reads == 0


async def test_emptying_the_caches_changes_no_answer() -> None:
    world = World(range_cache_bytes=0, index_cache_bytes=0)
    log = await world.log()
    for number in range(10):
        await log.append(STREAM, batch(b"%d" % number, b"-"))
    whole = await values(log)
    assert len(whole) == 20
    assert world.objects.reads > 0
    assert await values(log) == whole


async def test_a_read_starts_in_the_middle_of_a_batch_with_the_whole_batch() -> None:
    log = await World().log()
    await log.append(STREAM, batch(b"a", b"b", b"c"))
    found = offsets_and_values((await log.read(STREAM, 1, ALL, min_one=True)).buffers)
    assert found == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_reads_respect_their_bytes_but_give_one_batch_at_least() -> None:
    log = await World().log()
    size = len(batch(b"x" * 100).data)
    for _ in range(5):
        await log.append(STREAM, batch(b"x" * 100))
    assert (await log.read(STREAM, 0, 2 * size, min_one=True)).size_bytes == 2 * size
    assert (await log.read(STREAM, 0, 2 * size + 1, min_one=True)).size_bytes == 2 * size
    assert (await log.read(STREAM, 0, 1, min_one=True)).size_bytes == size
    assert (await log.read(STREAM, 0, 1, min_one=False)).size_bytes == 0


async def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = await World().log()
    await log.append(STREAM, batch(b"a"))
    assert (await log.read(STREAM, 1, ALL, min_one=True)).size_bytes == 0
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            await log.read(STREAM, offset, ALL, min_one=True)


async def test_a_failed_put_is_retriable_and_leaves_nothing_visible() -> None:
    world = World()
    log = await world.log()
    world.objects.put_errors.append(ObjectStoreError("disk full"))
    with pytest.raises(LogUnavailable, match="disk full"):
        await log.append(STREAM, batch(b"lost"))
    assert await log.bounds([STREAM]) == [Bounds(0, 0)]
    assert (await log.append(STREAM, batch(b"kept"))).base_offset == 0
    assert await values(log) == [b"kept"]


async def test_a_refused_commit_is_retriable_and_its_object_is_deleted() -> None:
    world = World()
    log = await world.log()
    fail_commits(world.first_store, [(StoreUnavailable("locked"), False)])
    with pytest.raises(LogUnavailable):
        await log.append(STREAM, batch(b"lost"))
    assert [info async for info in world.objects.list("")] == []
    assert (await log.append(STREAM, batch(b"kept"))).base_offset == 0


async def test_a_lost_answer_of_an_applied_commit_is_settled_as_success() -> None:
    world = World()
    log = await world.log()
    await log.append(STREAM, batch(b"a"))
    fail_commits(world.first_store, [(OutcomeUnknown("lost"), True)])
    assert (await log.append(STREAM, batch(b"b"))).base_offset == 1
    assert await values(log) == [b"a", b"b"]


async def test_a_lost_answer_of_a_commit_that_never_happened_is_retriable() -> None:
    world = World()
    log = await world.log()
    fail_commits(world.first_store, [(OutcomeUnknown("lost"), False)])
    with pytest.raises(LogUnavailable):
        await log.append(STREAM, batch(b"lost"))
    assert (await log.append(STREAM, batch(b"b"))).base_offset == 0
    # The ambiguous object stays for the orphan collector: its commit might still have arrived.
    assert len([info async for info in world.objects.list("")]) == 2


async def test_a_condemned_block_cannot_be_committed() -> None:
    world = World()
    log = await world.log()
    await log.start()
    (marker,) = await world.first_store.scan(wal.STAGING_PREFIX, prefix_end(wal.STAGING_PREFIX))
    await world.first_store.put(marker.key, marker.value)
    with pytest.raises(LogUnavailable, match="condemned"):
        await log.append(STREAM, batch(b"late"))
    assert await log.bounds([STREAM]) == [Bounds(0, 0)]
    # The next flush reserves a block of its own.
    assert (await log.append(STREAM, batch(b"again"))).base_offset == 0


async def test_a_clean_close_flushes_and_leaves_no_marker() -> None:
    world = World()
    log = await world.log()
    answer = log.append(STREAM, batch(b"a"))
    await log.close()
    assert (await answer).base_offset == 0
    assert not await world.first_store.scan(wal.STAGING_PREFIX, prefix_end(wal.STAGING_PREFIX))
    with pytest.raises(LogClosed):
        log.admit(1)
    with pytest.raises(LogClosed):
        await log.append(STREAM, batch(b"b"))


async def test_appends_to_a_deleted_stream_are_refused_and_others_go_on() -> None:
    world = World()
    log = await world.log(live=lambda stream_id: stream_id != OTHER)
    gone, kept = log.append(OTHER, batch(b"x")), log.append(STREAM, batch(b"a"))
    assert (await kept).base_offset == 0
    with pytest.raises(StreamGone):
        await gone
    assert await log.bounds([OTHER]) == [Bounds(0, 0)]


async def test_a_missing_object_is_an_error_that_names_it() -> None:
    world = World(range_cache_bytes=0)
    log = await world.log()
    await log.append(STREAM, batch(b"a"))
    (info,) = [info async for info in world.objects.list("")]
    await world.objects.delete(info.path)
    with pytest.raises(LogDamaged, match=info.path):
        await log.read(STREAM, 0, ALL, min_one=True)


async def test_a_damaged_object_is_an_error_that_names_it() -> None:
    world = World(range_cache_bytes=0)
    log = await world.log()
    await log.append(STREAM, batch(b"a" * 100))
    (info,) = [info async for info in world.objects.list("")]
    data = bytearray(await world.objects.read(info.path, 0, info.size_bytes))
    data[-80] ^= 1
    data[120] ^= 1
    await world.objects.delete(info.path)
    await world.objects.put(info.path, [bytes(data)])
    with pytest.raises(LogDamaged, match=info.path):
        await log.read(STREAM, 0, ALL, min_one=True)


async def test_a_failed_read_is_retriable() -> None:
    world = World(range_cache_bytes=0)
    log = await world.log()
    await log.append(STREAM, batch(b"a"))
    world.objects.read_errors.append(ObjectStoreError("slow down"))
    with pytest.raises(LogUnavailable, match="slow down"):
        await log.read(STREAM, 0, ALL, min_one=True)
    assert await values(log) == [b"a"]


async def test_a_vanished_index_entry_is_damage_and_not_a_gap() -> None:
    world = World(index_cache_bytes=0)
    log = await world.log()
    for value in (b"a", b"b", b"c"):
        await log.append(STREAM, batch(value))
    entries = await world.first_store.scan(streams.index_prefix(STREAM), streams.index_end(STREAM))
    await world.first_store.delete(entries[1].key)
    with pytest.raises(LogDamaged):
        await log.read(STREAM, 1, ALL, min_one=True)


async def test_records_below_the_log_start_are_gone() -> None:
    world = World()
    log = await world.log()
    await log.append(STREAM, batch(b"a", b"b", b"c"))
    assert await log.delete_before(STREAM, 2) == 2
    assert await log.delete_before(STREAM, 1) == 2
    assert await log.bounds([STREAM]) == [Bounds(2, 3)]
    with pytest.raises(OffsetOutOfRange):
        await log.read(STREAM, 1, ALL, min_one=True)
    assert await log.delete_before(STREAM, -1) == 3
    for offset in (4, -2):
        with pytest.raises(OffsetOutOfRange):
            await log.delete_before(STREAM, offset)


async def test_another_broker_sees_the_new_log_start_at_once() -> None:
    world = World()
    one, two = await world.log(), await world.log(world.second_store())
    await one.append(STREAM, batch(b"a", b"b"))
    assert await two.bounds([STREAM]) == [Bounds(0, 2)]
    await one.delete_before(STREAM, 1)
    assert await two.bounds([STREAM]) == [Bounds(1, 2)]


async def test_a_late_answer_does_not_take_the_log_start_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another broker moved it on, and the watch told so, before the answer came."""
    world = World()
    one, two = await world.log(), await world.log(world.second_store())
    await one.append(STREAM, batch(b"a", b"b", b"c"))
    put = world.first_store.put

    async def answer_late(key: str, value: bytes, **more: Any) -> int:
        version = await put(key, value, **more)
        await two.delete_before(STREAM, 2)
        await world.first_store.barrier()
        return version

    with monkeypatch.context() as patch:
        patch.setattr(world.first_store, "put", answer_late)
        await one.delete_before(STREAM, 1)
    assert await one.bounds([STREAM]) == [Bounds(2, 3)]


async def test_a_duplicate_gets_the_offset_of_the_first_time() -> None:
    world = World()
    log = await world.log()
    first = await log.append(STREAM, batch(b"a", b"b", producer=(9, 0, 0)))
    await log.append(STREAM, batch(b"c", producer=(9, 0, 2)))
    again = await log.append(STREAM, batch(b"a", b"b", producer=(9, 0, 0)))
    assert first.base_offset == again.base_offset == 0
    assert await values(log) == [b"a", b"b", b"c"]


async def test_duplicates_in_one_flush_are_stored_once() -> None:
    world = World()
    log = await world.log()
    await log.append(STREAM, batch(b"zero"))
    twins = [log.append(STREAM, batch(b"a", producer=(9, 0, 0))) for _ in range(3)]
    after = log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    assert [(await twin).base_offset for twin in twins] == [1, 1, 1]
    assert (await after).base_offset == 2
    assert await values(log) == [b"zero", b"a", b"b"]


async def test_a_duplicate_through_another_broker_is_recognised() -> None:
    world = World()
    one, two = await world.log(), await world.log(world.second_store())
    await one.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    assert (await two.append(STREAM, batch(b"a", producer=(9, 0, 0)))).base_offset == 0
    assert (await two.append(STREAM, batch(b"b", producer=(9, 0, 1)))).base_offset == 1
    assert (await one.append(STREAM, batch(b"b", producer=(9, 0, 1)))).base_offset == 1
    assert await values(one) == [b"a", b"b"]


async def test_gaps_and_old_epochs_are_refused_and_change_nothing() -> None:
    log = await World().log()
    await log.append(STREAM, batch(b"a", producer=(9, 1, 0)))
    with pytest.raises(OutOfOrderSequence):
        await log.append(STREAM, batch(b"c", producer=(9, 1, 2)))
    with pytest.raises(StaleProducerEpoch):
        await log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    assert await values(log) == [b"a"]


async def test_a_refused_batch_does_not_stop_others_of_its_flush() -> None:
    log = await World().log()
    await log.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    bad = log.append(STREAM, batch(b"gap", producer=(9, 0, 5)))
    good = log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    plain = log.append(STREAM, batch(b"plain"))
    with pytest.raises(OutOfOrderSequence):
        await bad
    assert (await good).base_offset == 1
    assert (await plain).base_offset == 2
    assert await values(log) == [b"a", b"b", b"plain"]


async def test_after_a_lost_first_batch_the_second_must_wait_for_it() -> None:
    world = World(flush_max_bytes=1)
    log = await world.log()
    world.objects.put_errors.append(ObjectStoreError("lost"))
    first = log.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    second = log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    with pytest.raises(LogUnavailable):
        await first
    with pytest.raises(OutOfOrderSequence):
        await second
    await log.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    await log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    assert await values(log) == [b"a", b"b"]


async def test_a_batch_refused_before_the_log_holds_up_those_behind_it() -> None:
    log = await World().log()
    log.note_refused(STREAM, 9, 0, 0)
    with pytest.raises(OutOfOrderSequence):
        await log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    await log.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    await log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    log.note_refused(STREAM, 9, 0, 2)
    await log.append(STREAM, batch(b"c", producer=(9, 0, 2)))
    assert await values(log) == [b"a", b"b", b"c"]


async def test_two_brokers_racing_for_one_producers_stream_stay_exact() -> None:
    world = World()
    one, two = await world.log(), await world.log(world.second_store())
    for number in range(20):
        mine = one.append(STREAM, batch(b"%d" % number, producer=(9, 0, number)))
        others = two.append(STREAM, batch(b"-"))
        await asyncio.gather(mine, others)
    found = await values(two)
    assert [value for value in found if value != b"-"] == [b"%d" % n for n in range(20)]
    assert len(found) == 40


async def test_the_producer_state_survives_the_removal_of_its_entries() -> None:
    world = World()
    log = await world.log()
    await log.append(STREAM, batch(b"a", producer=(9, 0, 0)))
    await log.append(STREAM, batch(b"b", producer=(9, 0, 1)))
    await log.save_producers(STREAM, 1)
    (first, _) = await world.first_store.scan(
        streams.index_prefix(STREAM), streams.index_end(STREAM)
    )
    await world.first_store.delete(first.key)
    fresh = await world.log(world.second_store())
    assert (await fresh.append(STREAM, batch(b"a", producer=(9, 0, 0)))).base_offset == 0


async def test_offsets_by_time() -> None:
    log = await World().log()
    assert await log.offset_for_time(STREAM, 0) is None
    assert await log.offset_of_max_timestamp(STREAM) is None
    for at_ms in (1_000, 3_000, 2_000):
        await log.append(STREAM, batch(b"x", b"y", timestamp_ms=at_ms))
    found = await log.offset_for_time(STREAM, 1_500)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 3_000)
    found = await log.offset_for_time(STREAM, 500)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, 1_000)
    assert await log.offset_for_time(STREAM, 3_001) is None
    best = await log.offset_of_max_timestamp(STREAM)
    assert best is not None
    assert (best.offset, best.timestamp_ms) == (2, 3_000)
    await log.delete_before(STREAM, 3)
    found = await log.offset_for_time(STREAM, 500)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (3, 3_000)


async def test_usage_counts_bytes_and_objects() -> None:
    world = World()
    log = await world.log()
    (empty,) = await log.usage([STREAM])
    assert (empty.size_bytes, empty.object_count, empty.last_write_ms) == (0, 0, -1)
    await log.append(STREAM, batch(b"a"))
    await log.append(STREAM, batch(b"b"))
    (usage,) = await log.usage([STREAM])
    assert usage.object_count == 2
    assert usage.size_bytes == 2 * (len(batch(b"a").data) + 4)
    assert usage.last_write_ms > 0


async def test_objects_decode_and_hold_one_domain_only() -> None:
    world = World()
    world.first_store.domain_count = 4
    log = await world.log()
    streams_used = [STREAM + number for number in range(20)]
    await asyncio.gather(*(log.append(stream_id, batch(b"x")) for stream_id in streams_used))
    seen = set()
    async for info in world.objects.list(""):
        decoded = decode_wal(await world.objects.read(info.path, 0, info.size_bytes))
        ids = [chunk.index.stream_id for chunk in decoded.chunks]
        assert {domain_of(stream_id, 4) for stream_id in ids} == {decoded.header.domain}
        assert ids == sorted(ids)
        seen.update(ids)
    assert seen == set(streams_used)
