"""How far groups are behind, in records and in time, for `/metrics`.

It is measured when somebody asks for metrics and at no other time, so it costs a broker nothing
that nobody watches. Of all brokers one tells about a group: the holder of its lease, or its
candidate if nobody has it because the group has no members.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from towpath.cluster.interface import Cluster
from towpath.cluster.rendezvous import key_hash
from towpath.errors import TowpathError
from towpath.groups.interface import Groups
from towpath.groups.listing import group_ids
from towpath.groups.offsets.reader import OffsetReader
from towpath.log.interface import Log
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import DEAD, GroupRoot
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.runtime import Clock
from towpath.topics.interface import Topics

PARTITIONS_MAX = 10_000
"""Partitions of groups that one broker tells about; those of the groups that come last by name are
left out."""
GROUP_ID_MAX_CHARS = 255
"""Groups with longer names are left out: every line of a metric carries the name."""
FRESH_MS = 1_000
"""What was measured less than this ago is told again."""
WAIT_MS = 2_000
"""How long an answer waits for a measurement; what comes later is in the next answer. Shorter than
brokers wait for each other."""
TIME_WITHIN_MS = 1_000
"""How far off the age of a record may be. Most batches cover less, so that the index tells."""
LOOKUPS_AT_ONCE = 8
BOUNDS_AT_ONCE = 200
"""Between so many others run."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition that a group has a committed offset of."""

    group_id: str
    topic: str
    partition: int
    records: int
    """Offsets from the committed one to the end of the log."""
    first_unread_ms: int | None
    """The timestamp of the first record that the group has not read, if there is one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one broker has to tell about groups."""

    lags: Sequence[PartitionLag] = ()
    states: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many groups there are by type and state."""


@dataclass(frozen=True, slots=True)
class _Position:
    """A committed offset with the bounds of its partition."""

    topic: str
    partition: int
    stream_id: int
    unread: int
    """The first offset to read: the committed one, or where the log begins if that is later."""
    records: int


class GroupLag:
    """Measures the groups that this broker answers for."""

    def __init__(
        self,
        store: MetadataStore,
        groups: Groups,
        topics: Topics,
        log: Log,
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self.last = Measured()
        """As last measured."""
        self._store = store
        self._groups = groups
        self._topics = topics
        self._log = log
        self._cluster = cluster
        self._clock = clock
        self._offsets = OffsetReader(store, topics)
        self._times_ms: dict[tuple[int, int], int] = {}
        """By stream and offset, the timestamps that the last measurement found."""
        self._task: asyncio.Task[None] | None = None
        self._measured_ms: int | None = None
        self._has_complained = False

    async def refresh(self) -> None:
        """Measure, unless it was done a moment ago, and wait for it, but not long."""
        if self._task is None:
            now_ms = self._clock.monotonic_ms()
            if self._measured_ms is not None and now_ms - self._measured_ms < FRESH_MS:
                return
            self._task = asyncio.create_task(self._run(), name="group-lag")
        await asyncio.wait({self._task}, timeout=WAIT_MS / 1000)

    async def close(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            self.last = await self.measure()
        except (MetadataError, TowpathError) as error:
            _log.warning("the lag of groups cannot be measured", error=str(error))
        finally:
            self._measured_ms = self._clock.monotonic_ms()
            self._task = None

    async def measure(self) -> Measured:
        """Look at every group once."""
        states: Counter[tuple[str, str]] = Counter()
        lags: list[PartitionLag] = []
        times_ms: dict[tuple[int, int], int] = {}
        left_out = 0
        async for group_id in group_ids(self._store):
            await asyncio.sleep(0)  # Reads of an embedded store do not let others run.
            root = await self._own_root(group_id)
            if root is None:
                continue
            states[root.kind, root.state_name] += 1
            positions = await self._positions(group_id)
            room = PARTITIONS_MAX - len(lags) if len(group_id) <= GROUP_ID_MAX_CHARS else 0
            left_out += max(0, len(positions) - room)
            for position, at_ms in await self._dated(positions[:room], times_ms):
                lags.append(
                    PartitionLag(
                        group_id, position.topic, position.partition, position.records, at_ms
                    )
                )
        self._times_ms = times_ms
        self._complain(left_out)
        return Measured(lags, dict(sorted(states.items())))

    async def _own_root(self, group_id: str) -> GroupRoot | None:
        """The group's root, if this broker is the one to tell about it."""
        holder = await self._groups.holder(group_id)
        if holder is None:
            holder = self._cluster.leader(key_hash(group_id))
        if holder != self._cluster.broker_id:
            return None
        row = await self._store.get(keys.state(group_id))
        try:
            root = None if row is None else GroupRoot.decode(row.value)
        except UnknownValueVersion:
            return None  # Whoever serves the group says so.
        return None if root is None or root.kind == DEAD else root

    async def _positions(self, group_id: str) -> list[_Position]:
        """The group's committed offsets, as far as their partitions exist."""
        try:
            committed = await self._offsets.all(group_id)
        except UnknownValueVersion as error:
            _log.error("offsets of a group cannot be read", group=group_id, error=str(error))
            return []
        found = [
            (name, number, topic.stream(number), one.offset)
            for name, offsets in committed.items()
            if (topic := self._topics.get(name)) is not None
            for number, one in offsets.items()
            if number < topic.partitions
        ]
        positions: list[_Position] = []
        for start in range(0, len(found), BOUNDS_AT_ONCE):
            some = found[start : start + BOUNDS_AT_ONCE]
            await asyncio.sleep(0)
            bounds = await self._log.bounds([stream_id for _, _, stream_id, _ in some])
            positions += [
                _Position(name, number, stream_id, max(offset, at.start), max(0, at.end - offset))
                for (name, number, stream_id, offset), at in zip(some, bounds, strict=True)
            ]
        return positions

    async def _dated(
        self, positions: Sequence[_Position], times_ms: dict[tuple[int, int], int]
    ) -> list[tuple[_Position, int | None]]:
        """The positions with the timestamps of their first unread records, which are noted."""
        dated: list[tuple[_Position, int | None]] = []
        for start in range(0, len(positions), LOOKUPS_AT_ONCE):
            some = positions[start : start + LOOKUPS_AT_ONCE]
            await asyncio.sleep(0)
            found_ms = await asyncio.gather(*(self._first_unread_ms(each) for each in some))
            for position, at_ms in zip(some, found_ms, strict=True):
                dated.append((position, at_ms))
                if at_ms is not None:
                    times_ms[position.stream_id, position.unread] = at_ms
        return dated

    async def _first_unread_ms(self, position: _Position) -> int | None:
        if position.records == 0:
            return None
        known_ms = self._times_ms.get((position.stream_id, position.unread))
        if known_ms is not None:
            return known_ms
        try:
            return await self._log.timestamp_at(
                position.stream_id, position.unread, within_ms=TIME_WITHIN_MS
            )
        except TowpathError:
            return None  # Who reads the partition is told why.

    def _complain(self, left_out: int) -> None:
        """Say once that metrics are not complete."""
        if left_out and not self._has_complained:
            _log.warning(
                "groups have too many partitions for metrics of each",
                left_out=left_out,
                partitions_max=PARTITIONS_MAX,
            )
        self._has_complained = bool(left_out)
