"""Which members are alive, as far as brokers can know it, and whether those removed were not.

A member may be removed because it asked for it, because another one took its static place, because
it did not join (or sync, or give up partitions) in time, or because it was silent for its session
time-out. All but the first two take time, and that time is measured here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.faults.simulation.group_truth import GroupTruth, Leaving, Then, TrueGroup
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import Node, SimLoop

from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.consumer.member import MemberState
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.state import GroupState

ROUNDING_S = 0.002
"""Brokers count in milliseconds."""

Who = tuple[str, str]
"""A group and a member id."""


@dataclass(slots=True)
class Life:
    """What is known of one member id."""

    heard: list[tuple[float, float, Node]] = field(default_factory=list)
    """Requests that were answered as a member's: sent, answered, by whom."""
    digests: list[tuple[float, float, str]] = field(default_factory=list)
    """Seen then, told then, by whom; those of a broker whose digest has vanished are left out."""
    leaves: bool = False
    """Whether its removal was asked for."""
    since_s: dict[object, float] = field(default_factory=dict)
    """When it began to wait for something, or was waited for."""
    taken_up: tuple[Node | None, float] | None = None
    """Who took up its last join or sync, and when."""
    removed: tuple[Node, float] | None = None
    """Who removed it for its silence, and when."""


class Lives:
    """Judges removals; `truth` tells of them."""

    def __init__(self, journal: Journal, loop: SimLoop, truth: GroupTruth, session_ms: int) -> None:
        self._journal = journal
        self._loop = loop
        self._truth = truth
        self._session_s = session_ms / 1000
        self._lives: dict[Who, Life] = {}
        self.calm_s: float | None = None
        """From this time on nothing fails: whoever talks to any broker is alive for all."""
        self.counts: Counter[str] = Counter()
        truth.on_digest = self._digest
        truth.on_digest_gone = self._digest_gone

    def life(self, group_id: str, member_id: str) -> Life:
        """What is known of a member."""
        return self._lives.setdefault((group_id, member_id), Life())

    # Signs of life

    def heard(self, who: Who, sent_s: float, node: Node) -> None:
        """A request of the member was answered: it counts as alive."""
        self.life(*who).heard.append((sent_s, self._loop.time(), node))

    def waited_in_vain(self, who: Who, sent_s: float, node: Node) -> None:
        """A join or sync was answered that there is no such member."""
        life = self.life(*who)
        if life.taken_up is None or life.removed is None:
            return
        (taker, taken_s), (remover, removed_s) = life.taken_up, life.removed
        if taker is node and sent_s <= taken_s <= removed_s:
            known = remover is node or (self.calm_s is not None and taken_s > self.calm_s)
            if known and removed_s - taken_s > self._session_s:
                self._journal.fail(f"{who} was removed while it waited at {node.name}")

    def _digest(self, group_id: str, by: str, ages_ms: dict[str, int], left_s: float) -> None:
        self.counts["digests"] += 1
        for member_id, age_ms in ages_ms.items():
            life = self.life(group_id, member_id)
            life.digests.append((left_s - age_ms / 1000, self._loop.time(), by))

    def _digest_gone(self, group_id: str, by: str) -> None:
        """For the others the broker is dead; what it told last may never have been read."""
        for (group, _), life in self._lives.items():
            if group == group_id:
                life.digests = [digest for digest in life.digests if digest[2] != by]

    # Changes

    def changed(self, group: TrueGroup, then: Then, leaving: Leaving | None) -> None:
        """A group becomes another one."""
        old, new = group.state, then.state
        if new is not None:
            self._note_waits(group, old, then)
        if old is None:
            return
        kept = frozenset(() if new is None else new.member_ids)
        for member_id in old.member_ids:
            if member_id not in kept:
                self._removed(group, member_id, old, then, leaving)

    def _note_waits(self, group: TrueGroup, old: GroupState | None, then: Then) -> None:
        """Remember since when members have been waited for."""
        new = then.state
        if isinstance(new, ClassicGroup):
            before = old.members if isinstance(old, ClassicGroup) else {}
            for member in new.members.values():
                life = self.life(group.group_id, member.member_id)
                life.since_s.setdefault(_wait(new), then.since_s)
                was = before.get(member.member_id)
                asked = member.awaits_join and not (was is not None and was.awaits_join)
                if asked or (was is not None and was.owes_sync and not member.owes_sync):
                    life.taken_up = (then.node, then.since_s)
        elif isinstance(new, ConsumerGroup):
            for one in new.members.values():
                if one.state is MemberState.UNREVOKED_PARTITIONS:
                    life = self.life(group.group_id, one.member_id)
                    life.since_s.setdefault(one.epoch, then.since_s)

    def _removed(
        self,
        group: TrueGroup,
        member_id: str,
        old: GroupState,
        then: Then,
        leaving: Leaving | None,
    ) -> None:
        life = self.life(group.group_id, member_id)
        if life.leaves or _is_replaced(member_id, old, then.state):
            return
        where = f"member {member_id} of group {group.group_id}"
        if leaving is None:
            self._journal.fail(f"{where} is removed by nobody")
            return
        holder = self._truth.holder(group.group_id)
        if holder != leaving.broker.broker_id:
            self._journal.fail(
                f"{where} is removed by {leaving.broker.name}, but {holder} has the lease"
            )
        waited_s = self._deadline_s(life, member_id, old)
        if waited_s is not None and leaving.applied_s >= waited_s - ROUNDING_S:
            self.counts["members removed for being late"] += 1
            return
        self.counts["members removed for their silence"] += 1
        life.removed = (leaving.broker.node, leaving.applied_s)
        alive_s = self._last_sign_s(life, leaving)
        if alive_s is not None and leaving.applied_s < alive_s + self._session_s - ROUNDING_S:
            ago_s = leaving.applied_s - alive_s
            self._journal.fail(f"{where} is removed, which was alive {ago_s:.3f} s before")

    def _deadline_s(self, life: Life, member_id: str, old: GroupState) -> float | None:
        """When it may be removed because it has not done what it was waited for; None if it is not
        waited for."""
        if isinstance(old, ClassicGroup):
            member = old.members[member_id]
            late = not member.awaits_join if old.phase is Phase.PREPARING else member.owes_sync
            return life.since_s[_wait(old)] + old.wait_ms / 1000 if late else None
        assert isinstance(old, ConsumerGroup)
        one = old.members[member_id]
        if one.state is not MemberState.UNREVOKED_PARTITIONS:
            return None
        return life.since_s[one.epoch] + one.rebalance_timeout_ms / 1000

    def _last_sign_s(self, life: Life, leaving: Leaving) -> float | None:
        """The last sign of life that the broker must have known when it removed the member."""
        at_s = leaving.applied_s
        signs = [
            sent_s
            for sent_s, answered_s, node in life.heard
            if answered_s <= at_s and (node is leaving.broker.node or self._is_calm(sent_s))
        ]
        signs += [seen_s for seen_s, told_s, _ in life.digests if told_s <= leaving.known_s]
        return max(signs, default=None)

    def _is_calm(self, time_s: float) -> bool:
        return self.calm_s is not None and time_s >= self.calm_s


def _wait(group: ClassicGroup) -> tuple[int, int, Phase]:
    """Tells apart what a classic group waits for."""
    completed = Phase.COMPLETING if group.phase is Phase.STABLE else group.phase
    return group.generation, group.wait_number, completed


def _is_replaced(member_id: str, old: GroupState, new: GroupState | None) -> bool:
    """Whether a static member is there under another id."""
    if isinstance(old, ClassicGroup) and isinstance(new, ClassicGroup):
        instance_id = old.members[member_id].instance_id
        return instance_id is not None and instance_id in new.static_ids
    if isinstance(old, ConsumerGroup) and isinstance(new, ConsumerGroup):
        instance_id = old.members[member_id].instance_id
        return instance_id is not None and new.static_member(instance_id) is not None
    return False
