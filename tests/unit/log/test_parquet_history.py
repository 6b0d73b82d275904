"""Random batches, a random part of them compacted: every read and time lookup stays the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.log.helpers_parquet import (
    ALL,
    DAY_MS,
    PLAIN,
    Logical,
    Shape,
    by_day,
    compact,
    consume,
    delete_unnamed,
    make_deaf,
    new_batch,
    read,
)
from tests.unit.log_helpers import STREAM, World

from towpath.log.interface import TimestampedOffset
from towpath.log.object.log import ObjectLog
from towpath.records.build import NewRecord
from towpath.records.compression import GZIP, LZ4, SNAPPY, ZSTD

TIMES_MS = st.sampled_from([-1, 0, 1, 1_000, DAY_MS - 1, DAY_MS, 20_000 * DAY_MS + 5])
HEADERS = st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3
).map(tuple)
RECORDS = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=20) | st.binary(min_size=100, max_size=100),
    key=st.none() | st.binary(max_size=5),
    timestamp_ms=TIMES_MS,
    headers=HEADERS,
)
SHAPES = st.builds(
    Shape,
    row_group_rows=st.integers(1, 12),
    file_rows=st.integers(1, 20) | st.just(1 << 30),
    split=st.sampled_from([by_day, PLAIN.split]),
)


@dataclass(frozen=True)
class Sent:
    """A batch to be appended."""

    records: list[NewRecord]
    codec: int
    append_time_ms: int | None


SENT = st.builds(
    Sent,
    records=st.lists(RECORDS, min_size=1, max_size=6),
    codec=st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD]),
    append_time_ms=st.none() | TIMES_MS.filter(lambda at: at >= 0),
)


@dataclass(frozen=True)
class History:
    """Batches, where entries end, what is compacted, and where the log starts in the end."""

    sent: list[Sent]
    together: list[bool]
    """Whether a batch shares its entry with the one before it."""
    compactions: list[tuple[int, int, Shape]]
    """First entry, how many, and into what: applied one after the other, as far as possible."""
    log_start: int
    cache_bytes: int


HISTORIES = st.builds(
    History,
    sent=st.lists(SENT, min_size=1, max_size=8),
    together=st.lists(st.booleans(), min_size=8, max_size=8),
    compactions=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 8), SHAPES), min_size=1, max_size=3
    ),
    log_start=st.integers(0, 10),
    cache_bytes=st.sampled_from([0, 1_000, 1 << 20]),
)


@dataclass
class Answers:
    """All that a log says."""

    from_offsets: list[list[Logical]]
    small_fetches: list[Logical]
    times: list[TimestampedOffset | None]
    greatest: TimestampedOffset | None


async def ask(log: ObjectLog) -> Answers:
    (bounds,) = await log.bounds([STREAM])
    asked_ms = [-2, -1, 0, 1, 2, 1_000, DAY_MS - 1, DAY_MS, DAY_MS + 1, 20_001 * DAY_MS]
    return Answers(
        [await consume(log, offset, ALL) for offset in range(bounds.start, bounds.end)],
        await consume(log, bounds.start, 1),
        [await log.offset_for_time(STREAM, at) for at in asked_ms],
        await log.offset_of_max_timestamp(STREAM),
    )


async def replay(history: History) -> None:
    world = World(range_cache_bytes=0, parquet_cache_bytes=history.cache_bytes)
    log = await world.log()
    for sent, together in zip(history.sent, history.together, strict=False):
        codec = sent.codec if sent.append_time_ms is None else 0
        new = new_batch(sent.records, codec=codec, append_time_ms=sent.append_time_ms)
        answer = log.append(STREAM, new)
        if not together:
            await answer
    await answer
    (bounds,) = await log.bounds([STREAM])
    await log.delete_before(STREAM, min(history.log_start, bounds.end))
    before = await ask(log)
    deaf = await world.log(world.second_store())
    assert await ask(deaf) == before
    make_deaf(deaf)
    for first, count, shape in history.compactions:
        await compact_some(world, first, count, shape)
        assert await ask(log) == before
        assert await ask(deaf) == before
    await delete_unnamed(world)
    assert await ask(log) == before
    assert await ask(deaf) == before
    assert await ask(await world.log(world.second_store())) == before
    if bounds.end > history.log_start:
        assert await read(log, bounds.end - 1) == before.from_offsets[-1]


async def compact_some(world: World, first: int, count: int, shape: Shape) -> None:
    try:
        await compact(world, count, shape, first=first)
    except IndexError:
        await compact(world, count, shape)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORIES)
def test_compaction_changes_no_answer(history: History) -> None:
    asyncio.run(replay(history))
