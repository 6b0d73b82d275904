"""What must hold of groups when the faults have stopped: they come to rest, cost nothing while they
rest, and leave nothing behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.faults.simulation.group_observer import GroupObserver
from tests.faults.simulation.group_seats import Seats, SimGroup
from tests.faults.simulation.group_truth import GroupTruth, Place, decode_places, describe
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.state import SharedState

from towpath.groups.classic.state import ClassicGroup
from towpath.groups.consumer.partitions import each
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.seen import DIGESTS_PER_SESSION
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys

LOOK_S = 0.25
"""The pause between two looks."""
SLACK_S = 6.0
"""What requests, retries and looks take together."""
QUIET_SESSIONS = 2
"""How long a group at rest is looked at, in session time-outs."""


@dataclass(slots=True)
class GroupChecks:
    """The checks after the faults."""

    scenario: Scenario
    state: SharedState
    seats: Seats
    truth: GroupTruth
    observer: GroupObserver

    async def settle(self) -> None:
        """Wait until every group is stable, or empty if nobody is left in it."""
        for _ in range(int(self._settling_s() / LOOK_S)):
            self.seats.check()
            if not self._unsettled():
                return
            await asyncio.sleep(LOOK_S)
        self.observer.journal.fail(f"groups do not come to rest: {self._unsettled()}")

    def _settling_s(self) -> float:
        """A dead broker's lease ends, members expire, and the others join or come to their target.
        Whoever was fenced waits for its own session to end first."""
        groups = self.scenario.groups
        assert groups is not None
        rounds_ms = 2 * groups.session_ms + 3 * groups.rebalance_ms + groups.initial_delay_ms
        return (self.scenario.session_ttl_ms + rounds_ms) / 1000 + SLACK_S

    def _unsettled(self) -> list[str]:
        return [
            f"{group.group_id} is {told}, with members {[m.member_id for m in group.members()]}"
            for group in self.seats.groups
            if (told := self._trouble(group)) is not None
        ]

    def _trouble(self, group: SimGroup) -> str | None:
        """Why the group is not at rest."""
        state = self.truth.group(group.group_id).state
        members = group.members()
        if state is None:
            return "gone" if members else None
        told = describe(state)
        if not members:
            return None if state.is_empty else told
        if state.state_name != "Stable":
            return told
        if isinstance(state, ClassicGroup):
            late = [member.member_id for member in state.members.values() if member.owes_sync]
            if late or state.pending:
                return f"{told}, waiting for {[*late, *state.pending]}"
        if isinstance(state, ConsumerGroup) and state.unresolved:
            return f"{told}, with regular expressions that are not resolved"
        if sorted(state.member_ids) != sorted(member.member_id for member in members):
            return told
        wanted = self._wanted()
        for member in members:
            if not self._given(state, member.member_id) - member.owned <= self._doomed():
                return f"{told}, but {member.member_id} uses {sorted(member.owned)}"
        owned = [place for member in members for place in member.owned if place in wanted]
        return None if sorted(owned) == sorted(wanted) else f"{told}, using {sorted(owned)}"

    def _given(self, state: object, member_id: str) -> frozenset[Place]:
        if isinstance(state, ClassicGroup):
            return decode_places(state.members[member_id].assignment)
        assert isinstance(state, ConsumerGroup)
        topics = self.observer.topics.ledger.topics
        names = {topic.topic_id: name for name, topic in topics.items()}
        return frozenset((names[t], n) for t, n in each(state.members[member_id].assigned))

    def _wanted(self) -> set[Place]:
        topics = self.observer.topics
        return {(topic, n) for topic in topics.usable() for n in range(topics.created[topic])}

    def _doomed(self) -> set[Place]:
        topics = self.observer.topics
        return {(topic, n) for topic in topics.doomed for n in range(topics.created[topic])}

    # At rest

    async def rest(self) -> None:
        """Groups at rest write nothing but a digest now and then."""
        groups = self.scenario.groups
        assert groups is not None
        before = self.truth.writes.copy()
        quiet_s = QUIET_SESSIONS * groups.session_ms / 1000
        await asyncio.sleep(quiet_s)
        digests_max = self.scenario.brokers * (QUIET_SESSIONS * DIGESTS_PER_SESSION + 1)
        in_use = {group.group_id for group in self.seats.groups if group.members()}
        for (group_id, kind), count in (self.truth.writes - before).items():
            most = digests_max if kind == keys.SEEN else 0
            if kind != keys.OFFSETS and group_id in in_use and count > most:
                self.observer.journal.fail(
                    f"group {group_id}, at rest, writes {kind} {count} times in {quiet_s} s"
                )
        trouble = self._unsettled()
        self.observer.journal.expect(not trouble, f"groups do not stay at rest: {trouble}")

    def check_nothing_left(self) -> None:
        """After all members have left: what the roots name, and offsets, and nothing else."""
        for group in self.seats.groups:
            true = self.truth.group(group.group_id)
            prefix = keys.prefix(group.group_id)
            left = [
                key[len(prefix) :]
                for key in self.state.keys_under(prefix)
                if not self._belongs(key, true.blobs)
            ]
            self.observer.journal.expect(not left, f"group {group.group_id} leaves behind: {left}")
            if true.state is not None and not true.state.is_empty:
                self.observer.journal.fail(f"{group.group_id} is {describe(true.state)} at last")

    def _belongs(self, key: str, blobs: frozenset[str]) -> bool:
        parts = keys.parse(key)
        if parts.kind == keys.BLOBS:
            return parts.rest in blobs
        if parts.kind == keys.OFFSETS:
            if offset_keys.is_mark(key):
                return self.truth.group(parts.group_id).state is not None
            _, topic, _ = keys.parse_offset(key)
            return topic in self.observer.topics.usable()
        return parts.kind == keys.STATE
