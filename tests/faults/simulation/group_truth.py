"""What the store really holds of groups, followed write by write, and how it came about.

Every state that a group ever had is kept with its time, so that an answer can be judged by the
states that were in force between the request and the answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.simulation.cluster import Broker
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.state import SharedState

from towpath.groups.kinds import KINDS
from towpath.groups.packing import unpack
from towpath.groups.state import GroupState
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.keys.groups import DEAD, GroupRoot
from towpath.metadata.keys.offsets import CommittedOffset

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A root on its way to the store."""

    broker: Broker
    root: GroupRoot
    applied_s: float
    """When the steps were applied that led to it."""
    known_s: float
    """Whatever was written before this time, the broker had been told of."""


@dataclass(frozen=True, slots=True)
class Then:
    """A state of a group, from a time on; None while it does not exist."""

    since_s: float
    state: GroupState | None
    node: Node | None = None
    """Who wrote it, if a broker did."""


@dataclass(slots=True)
class TrueGroup:
    """One group: its present root, and what it was."""

    group_id: str
    history: list[Then] = field(default_factory=list)
    blobs: frozenset[str] = frozenset()
    """Which blobs the root names."""
    offsets: dict[Place, list[tuple[float, CommittedOffset | None]]] = field(default_factory=dict)
    """Every value of each committed offset, with the time from which on it was there."""

    @property
    def state(self) -> GroupState | None:
        """The group as it is now."""
        return self.history[-1].state if self.history else None

    def since(self, time_s: float) -> list[GroupState | None]:
        """The states that were in force at that time or later."""
        found: list[GroupState | None] = []
        for then in reversed(self.history):
            found.append(then.state)
            if then.since_s < time_s:
                return found
        found.append(None)
        return found

    def offset_since(self, place: Place, time_s: float) -> list[CommittedOffset | None]:
        """The values of an offset that were in force at that time or later."""
        found: list[CommittedOffset | None] = []
        for at_s, value in reversed(self.offsets.get(place, [])):
            found.append(value)
            if at_s < time_s:
                return found
        found.append(None)
        return found


class GroupTruth:
    """Follows the keys of groups. Whoever wants to judge changes sets the hooks."""

    def __init__(self, journal: Journal, loop: SimLoop, state: SharedState) -> None:
        self._journal = journal
        self._loop = loop
        self._state = state
        self._groups: dict[str, TrueGroup] = {}
        self._leaving: dict[bytes, Leaving] = {}
        self._blobs_left: dict[tuple[Node, str], dict[str, float]] = {}
        """When each blob last left a broker, of those since its last root."""
        self.writes: Counter[tuple[str, str]] = Counter()
        """Keys put so far, by group and kind."""
        self.on_state: Callable[[TrueGroup, Then, Leaving | None], None] = lambda *_: None
        """Called before a group's state becomes another one."""
        self.on_offset: Callable[[TrueGroup, Place, CommittedOffset], None] = lambda *_: None
        """Called before an offset is replaced."""
        self.on_digest: Callable[[str, str, dict[str, int], float], None] = lambda *_: None
        """Called with a group, whose digest it is, the ages of members, and when they were that
        old."""
        self.on_digest_gone: Callable[[str, str], None] = lambda *_: None
        """Called when a digest vanishes, perhaps before anybody has read it."""

    def group(self, group_id: str) -> TrueGroup:
        """A group, whether it exists or not."""
        return self._groups.setdefault(group_id, TrueGroup(group_id))

    def holder(self, group_id: str) -> int | None:
        """Who has the lease of a group now."""
        row = self._state.get(keys.lease(group_id))
        return None if row is None else keys.GroupLease.decode(row.value).broker_id

    # What brokers send

    def leaving(self, broker: Broker, puts: Sequence[tuple[str, bytes]]) -> None:
        """A broker is about to send these puts."""
        for key, value in puts:
            if not key.startswith(keys.GROUPS_PREFIX):
                continue
            parts = keys.parse(key)
            if parts.kind == keys.BLOBS:
                left = self._blobs_left.setdefault((broker.node, parts.group_id), {})
                left[parts.rest] = self._loop.time()
            elif parts.kind == keys.STATE:
                left = self._blobs_left.pop((broker.node, parts.group_id), {})
                root = GroupRoot.decode(value)
                times = [left[name] for name in root.blobs if name in left]
                applied_s = min([*times, self._loop.time()])
                self._leaving[value] = Leaving(broker, root, applied_s, broker.store.barrier_s)

    # What the metadata store reports

    def wrote(self, puts: Sequence[tuple[str, bytes]], deletes: Sequence[str]) -> None:
        """A revision was written."""
        for key, value in puts:
            if key.startswith(keys.GROUPS_PREFIX):
                self._put(key, value)
        for key in deletes:
            if key.startswith(keys.GROUPS_PREFIX):
                self._deleted(key)

    def _put(self, key: str, value: bytes) -> None:
        parts = keys.parse(key)
        group = self.group(parts.group_id)
        self.writes[parts.group_id, parts.kind] += 1
        if parts.kind == keys.STATE:
            self._root_put(group, value)
        elif parts.kind == keys.OFFSETS and not offset_keys.is_mark(key):
            _, topic, partition = keys.parse_offset(key)
            offset = CommittedOffset.decode(value)
            what = f"{topic}/{partition} {offset.offset} {offset.metadata}"
            self._journal.note(f"group {group.group_id} commit {what}")
            self.on_offset(group, (topic, partition), offset)
            self._offset_is(group, (topic, partition), offset)
        elif parts.kind == keys.SEEN:
            ages_ms = dict(keys.SeenDigest.decode(value).ages_ms)
            self._journal.note(f"group {group.group_id} digest {parts.rest} {ages_ms}")
            self.on_digest(group.group_id, parts.rest, ages_ms, self._state.sent_s)
        elif parts.kind == keys.LEASE:
            holder = keys.GroupLease.decode(value).broker_id
            self._journal.note(f"group {group.group_id} lease {holder}")

    def _deleted(self, key: str) -> None:
        parts = keys.parse(key)
        group = self.group(parts.group_id)
        if parts.kind == keys.STATE:
            group.blobs = frozenset()
            self._becomes(group, None, None)
        elif parts.kind == keys.BLOBS:
            if parts.rest in group.blobs:
                self._journal.fail(f"a blob of group {group.group_id} is deleted which it names")
        elif parts.kind == keys.OFFSETS and not offset_keys.is_mark(key):
            _, topic, partition = keys.parse_offset(key)
            self._offset_is(group, (topic, partition), None)
        elif parts.kind == keys.LEASE:
            self._journal.note(f"group {group.group_id} lease ends")
        elif parts.kind == keys.SEEN:
            self._journal.note(f"group {group.group_id} digest {parts.rest} is gone")
            self.on_digest_gone(group.group_id, parts.rest)

    def _offset_is(self, group: TrueGroup, place: Place, value: CommittedOffset | None) -> None:
        group.offsets.setdefault(place, []).append((self._loop.time(), value))

    def _root_put(self, group: TrueGroup, value: bytes) -> None:
        leaving = self._leaving.get(value)
        root = GroupRoot.decode(value) if leaving is None else leaving.root
        group.blobs = frozenset(root.blobs)
        if root.kind == DEAD:
            self._becomes(group, None, leaving)
            return
        found = {name: self._state.get(keys.blob(group.group_id, name)) for name in root.blobs}
        missing = [name for name, row in found.items() if row is None]
        if missing:
            self._journal.fail(f"group {group.group_id} names {missing}, which do not exist")
            return
        contents = {name: row.value for name, row in found.items() if row is not None}
        self._becomes(group, unpack(root, contents, KINDS), leaving)

    def _becomes(self, group: TrueGroup, state: GroupState | None, leaving: Leaving | None) -> None:
        writer = "" if leaving is None else f" by {leaving.broker.name}"
        told = "gone" if state is None else describe(state)
        self._journal.note(f"group {group.group_id} is {told}{writer}")
        then = Then(self._loop.time(), state, None if leaving is None else leaving.broker.node)
        self.on_state(group, then, leaving)
        group.history.append(then)


def encode_places(places: Sequence[Place]) -> bytes:
    """A classic member's assignment; what it looks like is the members' own business."""
    return json.dumps(places).encode()


def decode_places(assignment: bytes) -> frozenset[Place]:
    """The inverse; nothing for a member that the leader left out."""
    return frozenset((topic, number) for topic, number in json.loads(assignment or b"[]"))


def describe(state: GroupState) -> str:
    """A group in one line."""
    members = " ".join(member_id[-12:] for member_id in state.member_ids)
    return f"{state.KIND} {state.state_name} {state.epoch} [{members}]"
