"""Random histories of two brokers, with failing stores, against a small model.

The model knows what was acknowledged where. After every history: acknowledged records are readable
at their offsets, offsets are dense, both brokers read the same, nothing appears that nobody sent,
and an idempotent producer that retries until it is acknowledged is in the log exactly once, in
order.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from tests.unit.log_helpers import STREAM, World, batch, fail_commits, offsets_and_values

from towpath.errors import LogUnavailable, OutOfOrderSequence
from towpath.log.interface import Bounds
from towpath.log.object.log import ObjectLog
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable
from towpath.objects.store import ObjectStoreError

STREAMS = (STREAM, STREAM + 1, STREAM + 7)
STEPS = 120
ALL = 1 << 30
MAX_TRIES = 50


@dataclass
class Model:
    """What the clients know."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    idempotent: dict[int, list[bytes]] = field(default_factory=dict)
    log_starts: dict[int, int] = field(default_factory=dict)


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(
            seed,
            flush_max_bytes=self.random.choice([1, 300, 1 << 20]),
            range_cache_bytes=self.random.choice([0, 1_000, 1 << 20]),
            index_cache_bytes=self.random.choice([0, 5_000, 1 << 20]),
            max_inflight_flushes=self.random.choice([1, 3]),
        )
        self.model = Model()
        self.counter = 0
        self.sequences = dict.fromkeys(STREAMS, 0)

    async def run(self) -> None:
        self.logs = [
            await self.world.log(),
            await self.world.log(self.world.second_store()),
        ]
        self.commit_errors: list[tuple[Exception, bool]] = []
        fail_commits(self.world.first_store, self.commit_errors)
        for _ in range(STEPS):
            step = self.random.choices(
                [self.produce_some, self.produce_idempotent, self.delete_records, self.read],
                [6, 4, 1, 3],
            )[0]
            self.inject()
            await step()
        self.commit_errors.clear()
        self.world.objects.put_errors.clear()
        self.world.objects.read_errors.clear()
        await self.check()

    def inject(self) -> None:
        chance = self.random.random()
        if chance < 0.1:
            self.world.objects.put_errors.append(ObjectStoreError("put failed"))
        elif chance < 0.15:
            self.commit_errors.append((StoreUnavailable("refused"), False))
        elif chance < 0.25:
            self.commit_errors.append((OutcomeUnknown("lost"), self.random.random() < 0.5))

    def broker(self) -> ObjectLog:
        return self.random.choice(self.logs)

    def fresh_values(self) -> list[bytes]:
        values = []
        for _ in range(self.random.randint(1, 3)):
            self.counter += 1
            values.append(b"%d" % self.counter)
        self.model.sent.update(values)
        return values

    async def produce_some(self) -> None:
        appends = []
        for _ in range(self.random.randint(1, 5)):
            stream_id, values = self.random.choice(STREAMS), self.fresh_values()
            appends.append((stream_id, values, self.broker().append(stream_id, batch(*values))))
        for stream_id, values, answer in appends:
            try:
                appended = await answer
            except LogUnavailable:
                continue
            self.note(stream_id, appended.base_offset, values)

    async def produce_idempotent(self) -> None:
        """Two batches in flight, each retried until it is acknowledged, as a client does."""
        stream_id = self.random.choice(STREAMS)
        pair = []
        for _ in range(2):
            values = self.fresh_values()
            sequence = self.sequences[stream_id]
            self.sequences[stream_id] += len(values)
            self.model.idempotent.setdefault(stream_id, []).extend(values)
            pair.append((values, batch(*values, producer=(stream_id, 0, sequence))))
        # A client sends a partition's batches to one broker; only retries may go elsewhere.
        leader = self.broker()
        waiting = [(values, new, leader.append(stream_id, new)) for values, new in pair]
        for values, new, answer in waiting:
            for _ in range(MAX_TRIES):
                try:
                    appended = await answer
                    break
                except (LogUnavailable, OutOfOrderSequence):
                    answer = self.broker().append(stream_id, new)
            else:
                raise AssertionError("an idempotent batch was never accepted")
            self.note(stream_id, appended.base_offset, values)

    def note(self, stream_id: int, base_offset: int, values: list[bytes]) -> None:
        for delta, value in enumerate(values):
            known = self.model.acknowledged.setdefault((stream_id, base_offset + delta), value)
            assert known == value

    async def delete_records(self) -> None:
        stream_id = self.random.choice(STREAMS)
        (bounds,) = await self.broker().bounds([stream_id])
        start = await self.broker().delete_before(
            stream_id, self.random.randint(bounds.start, bounds.end)
        )
        assert start >= self.model.log_starts.get(stream_id, 0)
        self.model.log_starts[stream_id] = start

    async def read(self) -> None:
        stream_id = self.random.choice(STREAMS)
        log = self.broker()
        (bounds,) = await log.bounds([stream_id])
        offset = self.random.randint(bounds.start, bounds.end)
        result = await log.read(stream_id, offset, self.random.choice([1, 500, ALL]), min_one=True)
        found = offsets_and_values(result.buffers)
        if offset < bounds.end:
            assert found[0][0] <= offset <= found[-1][0]
        for at, value in found:
            assert self.model.acknowledged.get((stream_id, at), value) == value

    async def check(self) -> None:
        for stream_id in STREAMS:
            both = [await self.everything(log, stream_id) for log in self.logs]
            assert both[0] == both[1]
            (bounds, found) = both[0]
            assert bounds.start == self.model.log_starts.get(stream_id, 0)
            self.check_stream(stream_id, bounds, dict(found))

    def check_stream(self, stream_id: int, bounds: Bounds, found: dict[int, bytes]) -> None:
        assert set(range(bounds.start, bounds.end)) <= set(found)
        assert set(found.values()) <= self.model.sent
        for (of_stream, offset), value in self.model.acknowledged.items():
            if of_stream == stream_id:
                assert offset < bounds.end
                if offset >= bounds.start:
                    assert found[offset] == value
        mine = self.model.idempotent.get(stream_id, [])
        readable = [found[offset] for offset in sorted(found) if found[offset] in set(mine)]
        assert readable == mine[len(mine) - len(readable) :]

    async def everything(
        self, log: ObjectLog, stream_id: int
    ) -> tuple[Bounds, list[tuple[int, bytes]]]:
        (bounds,) = await log.bounds([stream_id])
        if bounds.start == bounds.end:
            return bounds, []
        result = await log.read(stream_id, bounds.start, ALL, min_one=True)
        found = offsets_and_values(result.buffers)
        return bounds, [item for item in found if item[0] >= bounds.start]


@pytest.mark.parametrize("seed", range(40))
async def test_random_histories_keep_every_promise(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.log.object.committer.SETTLE_DELAY_SECONDS", 0.0)
    await asyncio.wait_for(History(seed).run(), 60)
