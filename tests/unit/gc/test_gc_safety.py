"""Collectors never take what the index needs, and leave nothing behind (invariant I6).

Random histories of commits, lost uploads, deletes and collector rounds, in which rounds race with
each other and with commits, and crash before any of their store operations.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.gc.helpers_gc import KEEP_ALL, SETTINGS, World

from towpath.metadata.keys import streams, topics, wal
from towpath.metadata.keys.wal import parse_last_uuid
from towpath.metadata.proto.index_pb2 import WAL

TOPICS = (1, 2, 3)
STREAMS = tuple(topics.stream_id(number, partition) for number in TOPICS for partition in (0, 1))
JOBS = ("retention", "deleted", "wal", "orphans")
RETENTION_MS = 3_000

stream_sets = st.lists(st.sampled_from(STREAMS), min_size=1, max_size=4, unique=True)
crashes = st.none() | st.integers(0, 40)
rounds = st.tuples(st.just("round"), st.sampled_from(JOBS), crashes)
commits = st.tuples(st.just("commit"), stream_sets, st.integers(0, 5_000))
steps = st.one_of(
    commits,
    commits,
    rounds,
    rounds,
    st.tuples(st.just("lost"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("late"), stream_sets, st.integers(0, 15_000)),
    st.tuples(st.just("trim"), st.sampled_from(STREAMS), st.integers(0, 100)),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 12_000), st.just(0)),
    st.tuples(st.just("retire"), st.just(0), st.just(0)),
    st.tuples(st.just("race"), st.lists(rounds, min_size=2, max_size=3), stream_sets),
)


class History:
    """Plays steps and checks the invariant after each."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.retention[1] = replace(KEEP_ALL, retention_ms=RETENTION_MS)
        self.world.retention[2] = replace(KEEP_ALL, retention_bytes=250)
        self.acknowledged: Counter[int] = Counter()
        self.deleted_at_ms: dict[int, int] = {}

    async def play(self, story: list[tuple[str, object, object]]) -> None:
        for number in TOPICS:
            await self.world.create_topic(number)
        for step in story:
            await self.step(*step)
            await self.check_named_objects_exist()
        await self.finish()

    async def step(self, kind: str, a: object, b: object) -> None:
        world = self.world
        match kind, a, b:
            case "commit", list(), int():
                await self.commit(a, world.clock.ms - b)
            case "round", str(), _:
                await world.run(a, b if isinstance(b, int) else None)
            case "lost", int(), _:
                for _ in range(a):
                    await world.put_object()
            case "late", list(), int():
                await self.late_commit(a, b)
            case "trim", int(), int():
                (tail,) = await world.store.tails([a])
                await world.delete_before(a, tail.offset_end * b // 100)
            case "delete", int(), bool():
                await world.delete_topic(a, crash_before_delete=b)
                if not b:
                    self.deleted_at_ms.setdefault(a, world.clock.ms)
            case "wait", int(), _:
                world.clock.ms += a
            case "retire", _, _:
                # The block is dropped without its marker: its broker died.
                world.block = None
            case "race", list(), list():
                await asyncio.gather(
                    *(self.step(*racer) for racer in a), self.commit(b, world.clock.ms)
                )
            case _:
                raise AssertionError(kind)

    async def commit(self, stream_ids: list[int], timestamp_ms: int) -> None:
        known = await self.believed_to_live(stream_ids)
        if known and await self.world.append(known, timestamp_ms=timestamp_ms) is not None:
            self.acknowledged.update(known)

    async def late_commit(self, stream_ids: list[int], pause_ms: int) -> None:
        """A broker that slept between PUT and commit, while the collectors went on."""
        wal_id, path, block = await self.world.put_object()
        self.world.clock.ms += pause_ms
        for job in ("orphans", "wal"):
            await self.world.run(job)
        known = await self.believed_to_live(stream_ids)
        if known and await self.world.commit(wal_id, path, block, known) is not None:
            self.acknowledged.update(known)

    async def believed_to_live(self, stream_ids: list[int]) -> list[int]:
        """The streams a broker appends to: its cache may be behind, but not for ever."""
        live = await self.live_streams()
        since_ms = self.world.clock.ms - SETTINGS.wal_orphan_ttl_ms // 2
        return [
            stream
            for stream in stream_ids
            if stream in live or self.deleted_at_ms[topics.split_stream_id(stream)[0]] > since_ms
        ]

    # Checks

    async def live_streams(self) -> list[int]:
        names = await self.world.keys(topics.TOPICS_PREFIX)
        live = {int(topics.topic_name(key)[1:]) for key in names if topics.is_topic(key)}
        return [stream for stream in STREAMS if topics.split_stream_id(stream)[0] in live]

    async def check_named_objects_exist(self) -> None:
        paths = await self.world.object_paths()
        for stream_id in await self.live_streams():
            log_start = await self.world.log_start(stream_id)
            expected = log_start
            for end, entry in await self.world.entries(stream_id):
                if end > log_start:
                    assert entry.file_type == WAL
                    assert entry.wal.path in paths, f"{stream_id} lost {entry.wal.path}"
                    assert end - entry.record_count <= expected, f"a hole in {stream_id}"
                    expected = end
            (tail,) = await self.world.store.tails([stream_id])
            assert expected == tail.offset_end
            assert tail.offset_end == 10 * self.acknowledged[stream_id]

    async def finish(self) -> None:
        """Let all graces pass, then see that only what the index names is left."""
        self.world.block = None
        for _ in range(6):
            for job in JOBS:
                assert await self.world.run(job) is not None
            self.world.clock.ms += SETTINGS.wal_orphan_ttl_ms
            await self.check_named_objects_exist()
        live = await self.live_streams()
        named: set[str] = set()
        for stream_id in STREAMS:
            if stream_id not in live:
                assert await self.world.keys(streams.stream_prefix(stream_id)) == []
                continue
            found = await self.world.entries(stream_id)
            log_start = await self.world.log_start(stream_id)
            assert all(end > log_start for end, _ in found[:-1])
            named |= {entry.wal.path for _, entry in found if entry.file_type == WAL}
        await self.check_no_garbage(named)

    async def check_no_garbage(self, named: set[str]) -> None:
        world = self.world
        assert await world.object_paths() == named
        records = await world.keys(wal.OBJECTS_PREFIX)
        kept = {parse_last_uuid(key) for key in records}
        assert {path.rsplit("/", 1)[1] for path in named} == {f"{wal_id}.wo" for wal_id in kept}
        # Derefs remain only where another stream still needs the object.
        derefs = await world.keys(wal.DEREFS_PREFIX)
        assert {uuid.UUID(hex=key.split("/")[-2]) for key in derefs} <= kept
        for prefix in (wal.GC_PREFIX, wal.STAGING_PREFIX, topics.DELETED_PREFIX):
            assert await world.keys(prefix) == []


@given(story=st.lists(steps, max_size=40), seed=st.integers(0, 2**32))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_collectors_keep_what_is_named_and_leave_nothing_else(
    story: list[tuple[str, object, object]], seed: int
) -> None:
    asyncio.run(History(seed).play(story))


def test_a_round_may_crash_before_each_of_its_operations() -> None:
    """One full life of data, each job's round cut at every operation in turn."""

    async def play(job: str, crash_after: int) -> bool:
        history = History(crash_after)
        world = history.world
        for number in TOPICS:
            await world.create_topic(number)
        for _ in range(3):
            await history.commit(list(STREAMS), world.clock.ms)
        await world.put_object()
        await world.delete_before(STREAMS[4], 20)
        await world.delete_before(STREAMS[5], 20)
        await world.delete_topic(2)
        await world.put_object()
        crashed = False
        for _ in range(8):
            world.clock.ms += SETTINGS.wal_orphan_ttl_ms // 3
            for name in JOBS:
                limit = crash_after if name == job else None
                crashed |= await world.run(name, limit) is None
                await history.check_named_objects_exist()
        await history.finish()
        return crashed

    for job in JOBS:
        crash_after = 0
        while asyncio.run(play(job, crash_after)):
            crash_after += 1
        assert crash_after > 5, f"{job} did nothing"
