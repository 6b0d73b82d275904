"""JoinGroup as a step of a classic group."""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.groups.classic.answers import JoinAnswer, Waiting, join_answer, joined
from towpath.groups.classic.member import Member, Protocol
from towpath.groups.classic.rebalance import prepare, rebalance_or_go_on, without
from towpath.groups.classic.state import ClassicGroup, InitialDelay, Phase
from towpath.groups.classic.votes import elect
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.kafka.codec.error_codes import ErrorCode

JoinOutcome = Outcome[JoinAnswer | Waiting]

MEMBER_ID_REQUIRED_SINCE = 4
"""The version from which on a new member is first given an id and has to come again with it."""
SKIP_ASSIGNMENT_SINCE = 9
"""The version from which on a returning static leader is told that it need not assign."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What a member asks with."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    api_version: int

    def __call__(self, state: GroupState | None, env: Env) -> JoinOutcome:
        """The step."""
        group = _classic(state, env)
        if group is None:
            return Outcome(state, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not self.member_id:
            outcome = self._join_new(group, env)
        elif not isinstance(state, ClassicGroup):
            outcome = Outcome(group, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, self.member_id))
        else:
            outcome = self._join_known(group, env)
        # A refusal creates no group and changes none.
        return Outcome(state, outcome.answer) if outcome.group is group else outcome

    # New members

    def _join_new(self, group: ClassicGroup, env: Env) -> JoinOutcome:
        if not self._is_accepted(group, env):
            return Outcome(group, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        if not self._fits(group):
            return Outcome(group, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if self.instance_id is not None:
            new_id = env.new_member_id(self.instance_id)
            old_id = group.static_ids.get(self.instance_id)
            if old_id is None:
                return self._add(group, new_id, env)
            return self._replace_static(group, old_id, new_id, env)
        new_id = env.new_member_id(self.client_id)
        if self.api_version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(group, new_id, env)
        pending = {**group.pending, new_id: self.session_timeout_ms}
        answer = JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_id)
        return Outcome(replace(group, pending=pending), answer)

    def _add(self, group: ClassicGroup, member_id: str, env: Env) -> JoinOutcome:
        member = Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            awaits_join=True,
            is_new=True,
        )
        group = replace(
            without(group, [member_id]).with_member(member),
            group_protocol_type=group.group_protocol_type if group.members else self.protocol_type,
            leader_id=group.leader_id or member_id,
            initial=_with_new_member(group.initial),
        )
        return _wait(rebalance_or_go_on(group, env), member_id)

    # Members that are known

    def _join_known(self, group: ClassicGroup, env: Env) -> JoinOutcome:
        member_id = self.member_id
        if not self._is_accepted(group, env):
            left = without(group, [member_id])
            return Outcome(left, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        if not self._fits(group):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return Outcome(group, JoinAnswer(error, member_id))
        if member_id in group.pending:
            if self.instance_id is not None:
                # Kafka fails over a static member with an id that was given to a dynamic one.
                return Outcome(group, JoinAnswer(ErrorCode.UNKNOWN_SERVER_ERROR))
            return self._add(group, member_id, env)
        error = group.check_member(member_id, self.instance_id)
        if error is not ErrorCode.NONE:
            return Outcome(group, JoinAnswer(error, member_id))
        if self._changes_nothing(group):
            return Outcome(group, join_answer(group, member_id))
        return _wait(rebalance_or_go_on(self._updated(group, member_id), env), member_id)

    def _changes_nothing(self, group: ClassicGroup) -> bool:
        """Whether the member has just not heard of the generation that it is already part of. A
        leader of a stable group that joins again wants a rebalance."""
        if group.members[self.member_id].protocols != self.protocols:
            return False
        if group.phase is Phase.STABLE:
            return not group.is_leader(self.member_id)
        return group.phase is Phase.COMPLETING

    def _updated(self, group: ClassicGroup, member_id: str) -> ClassicGroup:
        """The group with the member as it describes itself now, having joined."""
        return group.with_member(
            replace(
                group.members[member_id],
                protocols=self.protocols,
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                awaits_join=True,
            )
        )

    # Static members that come back

    def _replace_static(
        self, group: ClassicGroup, old_id: str, new_id: str, env: Env
    ) -> JoinOutcome:
        """A static member has restarted: it gets a new id, and its old one is fenced."""
        old_leader = group.leader_id
        group = self._updated(_renamed(group, old_id, new_id), new_id)
        if group.phase is Phase.COMPLETING:
            # The leader assigns to the old id.
            return _wait(prepare(group, env), new_id)
        if group.phase is Phase.STABLE and group.protocol_name == elect(group.members.values()):
            settled = group.with_member(replace(group.members[new_id], awaits_join=False))
            return Outcome(settled, self._answer_static(settled, new_id, old_leader))
        return _wait(rebalance_or_go_on(group, env), new_id)

    def _answer_static(
        self, group: ClassicGroup, member_id: str, old_leader: str | None
    ) -> JoinAnswer:
        """No rebalance: a returning leader must not assign. Versions that cannot be told so are
        given the old leader's id, which is not theirs."""
        if self.api_version >= SKIP_ASSIGNMENT_SINCE:
            answer = join_answer(group, member_id)
            return replace(answer, skip_assignment=group.is_leader(member_id))
        return replace(join_answer(group, member_id, may_lead=False), leader=old_leader or "")

    # Checks

    def _fits(self, group: ClassicGroup) -> bool:
        return group.supports(self.protocol_type, [protocol.name for protocol in self.protocols])

    def _is_accepted(self, group: ClassicGroup, env: Env) -> bool:
        """Whether the group is not full. While members join, those who have joined count, so that
        the last ones are turned away when the limit was lowered."""
        size_max = env.settings.max_size
        member = group.members.get(self.member_id)
        if group.phase is Phase.EMPTY:
            return True
        if group.phase is Phase.PREPARING:
            already = member is not None and member.awaits_join
            return already or group.awaiting_count < size_max
        return member is not None or len(group.members) < size_max


def _classic(state: GroupState | None, env: Env) -> ClassicGroup | None:
    """The group to join; None if it is of another kind and not empty.

    An empty group of another kind becomes a classic one. Its epoch goes on, because the offsets
    that it has stored stay.
    """
    if state is None:
        return ClassicGroup(since_ms=env.wall_ms)
    if isinstance(state, ClassicGroup):
        return state
    if state.is_empty:
        return ClassicGroup(generation=state.epoch, since_ms=env.wall_ms)
    return None


def _wait(group: ClassicGroup, member_id: str) -> JoinOutcome:
    """The group, and the answer of the member: it may be the last one that was missing."""
    answer = joined(group, member_id, None)
    return Outcome(group, Waiting(member_id) if answer is None else answer)


def _with_new_member(initial: InitialDelay | None) -> InitialDelay | None:
    return None if initial is None else replace(initial, has_new_member=True)


def _renamed(group: ClassicGroup, old_id: str, new_id: str) -> ClassicGroup:
    """The group with a member under a new id, at its old place."""
    members = {
        (new_id if member_id == old_id else member_id): (
            replace(member, member_id=new_id, awaits_join=False) if member_id == old_id else member
        )
        for member_id, member in group.members.items()
    }
    leader_id = new_id if group.leader_id == old_id else group.leader_id
    return replace(group, members=members, leader_id=leader_id)
