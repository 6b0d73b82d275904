"""Judges what members are told, and what becomes of the offsets that they commit.

An answer must fit some state that the group had between the request and the answer: members may
talk to any broker, and all must tell the same story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.faults.simulation.group_lives import Lives
from tests.faults.simulation.group_truth import GroupTruth, Place, TrueGroup
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.observer import Observer

from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.offsets import CommittedOffset

NO_OFFSET = -1
UNAVAILABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""Errors that tell nothing about the group."""
UNKNOWN_OUTCOME = UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    sent_s: float
    node: Node

    @property
    def who(self) -> tuple[str, str]:
        """The member."""
        return self.group_id, self.member_id


@dataclass(slots=True)
class Attempt:
    """A commit of offsets that was sent once."""

    asked: Asked
    version: int
    offsets: Mapping[Place, int]
    outcome: int | None = None
    """The answer; None as long as there is none, UNKNOWN_OUTCOME's if nobody knows."""
    written: set[Place] = field(default_factory=set)


class GroupObserver:
    """All that the members of a run know together."""

    def __init__(
        self, journal: Journal, loop: SimLoop, truth: GroupTruth, lives: Lives, topics: Observer
    ) -> None:
        self.journal = journal
        self.topics = topics
        self.lives = lives
        self._loop = loop
        self._truth = truth
        self._attempts: dict[str, Attempt] = {}
        """By the metadata that each commit has for itself."""
        self.owned: dict[str, dict[str, frozenset[Place]]] = {}
        """By group of the consumer protocol and member id, what the member uses."""
        self.counts: Counter[str] = Counter()
        truth.on_offset = self._offset_changes

    # Requests and plain answers

    def asked(
        self, group_id: str, member_id: str, instance_id: str | None, epoch: int, node: Node
    ) -> Asked:
        """A request is being sent."""
        return Asked(group_id, member_id, instance_id, epoch, self._loop.time(), node)

    def states(self, asked: Asked) -> list[GroupState | None]:
        """What the group was since the request was sent."""
        return self._truth.group(asked.group_id).since(asked.sent_s)

    def answered(self, what: str, asked: Asked, code: int, *expected: ErrorCode) -> ErrorCode:
        """A request was answered with this error, which must be one of those expected."""
        error = ErrorCode(code)
        self.counts[f"{what} {error.name}"] += 1
        if error not in expected and error not in UNAVAILABLE and error is not ErrorCode.NONE:
            self.journal.fail(f"{what} of {asked.who} was answered {error.name}")
        if error is ErrorCode.UNKNOWN_MEMBER_ID and asked.member_id:
            self.expect_state(what, asked, lambda state: not _has(state, asked), error.name)
        return error

    def expect_state(
        self, what: str, asked: Asked, fits: Callable[[GroupState | None], bool], told: object
    ) -> None:
        """Fail unless the group had a state that fits the answer."""
        states = self.states(asked)
        if not any(fits(state) for state in states):
            self.journal.fail(
                f"{what} of {asked.who} at {asked.epoch} was answered {told} by "
                f"{asked.node.name}, though the group was {states}"
            )

    def alive(self, asked: Asked) -> None:
        """The answer means that the member counts as alive."""
        self.lives.heard(asked.who, asked.sent_s, asked.node)

    # Offsets

    def attempt(self, name: str, asked: Asked, version: int, offsets: Mapping[Place, int]) -> None:
        """A commit is being sent, under a name that no other has."""
        self._attempts[name] = Attempt(asked, version, offsets)

    def attempted(self, name: str, code: int) -> None:
        """A commit was answered, or will never be (REQUEST_TIMED_OUT)."""
        attempt = self._attempts[name]
        attempt.outcome = code
        if code == ErrorCode.NONE:
            missing = sorted(self._alive(attempt.offsets) - attempt.written)
            if missing:
                self.journal.fail(f"commit {name} is acknowledged, but {missing} are not written")
        elif code not in UNKNOWN_OUTCOME and attempt.written:
            self.journal.fail(f"commit {name} is refused with {code}, but written")

    def fetched(self, asked: Asked, place: Place, offset: int) -> None:
        """A member was told its group's committed offset."""
        if place[0] in self.topics.doomed:
            return
        group = self._truth.group(asked.group_id)
        allowed = {
            NO_OFFSET if value is None else value.offset
            for value in group.offset_since(place, asked.sent_s)
        }
        if None in group.since(asked.sent_s):
            allowed.add(NO_OFFSET)
        if offset not in allowed:
            self.journal.fail(
                f"{asked.who} was told offset {offset} of {place} by {asked.node.name}, "
                f"not {allowed}"
            )

    def _alive(self, offsets: Mapping[Place, int]) -> set[Place]:
        return {place for place in offsets if place[0] not in self.topics.doomed}

    def _offset_changes(self, group: TrueGroup, place: Place, new: CommittedOffset) -> None:
        attempt = self._attempts.get(new.metadata)
        where = f"offset {new.offset} of {place} of group {group.group_id} ({new.metadata})"
        if attempt is None or attempt.offsets.get(place) != new.offset:
            self.journal.fail(f"{where} is written, which nobody sent")
            return
        attempt.written.add(place)
        self.counts["offsets written"] += 1
        asked = attempt.asked
        if attempt.outcome is not None and attempt.outcome not in UNKNOWN_OUTCOME:
            self.journal.fail(f"{where} is written after it was answered {attempt.outcome}")
        if group.state is None:
            self.journal.fail(f"{where} is written, but there is no such group")
            return
        refusal = group.state.check_commit(
            asked.member_id, asked.instance_id, asked.epoch, attempt.version
        )
        if refusal:
            self.journal.fail(f"{where} of epoch {asked.epoch} is written in spite of {refusal!r}")
        old = group.offsets.get(place, [(0.0, None)])[-1][1]
        if old is not None and new.offset < old.offset:
            # A write whose outcome nobody knew may come late, after the same member's next one.
            late = attempt.outcome is not None and self._is_of_same_member(asked, old)
            self.counts["late commits"] += late
            if not late:
                self.journal.fail(f"{where} is written, after {old.offset} ({old.metadata})")

    def _is_of_same_member(self, asked: Asked, old: CommittedOffset) -> bool:
        other = self._attempts[old.metadata].asked
        return (asked.who, asked.epoch) == (other.who, other.epoch)

    # Partitions

    def owns(self, group_id: str, member_id: str, places: frozenset[Place]) -> None:
        """A member of the consumer protocol uses these partitions from now on, and no others."""
        used = self.owned.setdefault(group_id, {})
        gained = places - used.get(member_id, frozenset())
        used[member_id] = places
        if not places:
            del used[member_id]
        state = self._truth.group(group_id).state
        if not isinstance(state, ConsumerGroup) or member_id not in state.members:
            return  # Whoever was removed may not know it yet; it can commit nothing.
        for other, theirs in used.items():
            both = sorted(gained & theirs)
            if other != member_id and other in state.members and both:
                self.journal.fail(f"{both} of group {group_id} are used by {other} and {member_id}")


def _has(state: GroupState | None, asked: Asked) -> bool:
    return state is not None and state.has_member(asked.member_id)
