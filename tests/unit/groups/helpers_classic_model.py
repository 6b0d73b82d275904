"""A small model of Kafka's classic group: one thing happens at a time, at times that are told.

It knows no brokers, stores or leases. What it answers, any broker must answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.kafka.codec.error_codes import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 25_000


@dataclass
class ModelMember:
    """A member, and when it was last heard of."""

    member_id: str
    instance_id: str | None
    metadata: bytes
    seen_ms: int
    has_joined: bool = False
    has_synced: bool = True
    assignment: bytes = b""


@dataclass(frozen=True)
class Told:
    """An answer: an error, or what a generation is about."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    leads: bool = False
    assignment: bytes | None = None


@dataclass
class ClassicModel:
    """The group, and who waits for an answer. Methods return the answer, or None: it waits."""

    now_ms: int = 0
    phase: str = "Empty"
    generation: int = 0
    leader: str | None = None
    members: dict[str, ModelMember] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    """Ids that were given out, and until when they count."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Members whose join or sync waits."""
    deadline_ms: int | None = None
    """Until when the group waits for members to join or sync."""
    told: dict[str, Told] = field(default_factory=dict)
    """Answers to requests that waited."""

    # Requests

    def join_new(self, member_id: str, instance_id: str | None, metadata: bytes) -> Told | None:
        """A join without an id, which gets this one."""
        if instance_id is None:
            self.pending[member_id] = self.now_ms + SESSION_MS
            return Told(ErrorCode.MEMBER_ID_REQUIRED)
        old = self._static(instance_id)
        if old is None:
            return self._add(ModelMember(member_id, instance_id, metadata, self.now_ms))
        return self._replace(old, member_id, metadata)

    def join(self, member_id: str, instance_id: str | None, metadata: bytes) -> Told | None:
        """A join with an id."""
        if member_id in self.pending:
            del self.pending[member_id]
            return self._add(ModelMember(member_id, instance_id, metadata, self.now_ms))
        error = self._check(member_id, instance_id)
        if error:
            return Told(error)
        member = self.members[member_id]
        member.seen_ms = self.now_ms
        same = member.metadata == metadata
        if same and (
            self.phase == "CompletingRebalance"
            or (self.phase == "Stable" and member_id != self.leader)
        ):
            return self._generation(member_id)
        member.metadata, member.has_joined = metadata, True
        return self._join_or_wait(member_id)

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: dict[str, bytes],
    ) -> Told | None:
        """A sync; the leader brings assignments."""
        error = ErrorCode.UNKNOWN_MEMBER_ID if self.phase == "Empty" else ErrorCode.NONE
        error = error or self._check(member_id, instance_id)
        if not error and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if not error and self.phase == "PreparingRebalance":
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            return Told(error)
        member = self.members[member_id]
        member.seen_ms, member.has_synced = self.now_ms, True
        if self.phase == "CompletingRebalance":
            if member_id != self.leader:
                self.waiting[member_id] = "sync"
                return None
            self._assign(assignments)
        self._all_have_synced()
        return Told(assignment=member.assignment)

    def beat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """A heartbeat."""
        error = self._check(member_id, instance_id)
        if error:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.members[member_id].seen_ms = self.now_ms
        preparing = self.phase == "PreparingRebalance"
        return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """A member goes."""
        if member_id not in self.pending:
            error = self._check(member_id, instance_id)
            if error:
                return error
        self._remove(member_id)
        if self.phase == "PreparingRebalance":
            self._end_if_all_joined()
        elif self.phase != "Empty":
            self._prepare()
        return ErrorCode.NONE

    def commit(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """A commit of offsets."""
        if generation < 0 and self.phase == "Empty":
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._check(member_id, instance_id)
        if error:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.members[member_id].seen_ms = self.now_ms
        completing = self.phase == "CompletingRebalance"
        return ErrorCode.REBALANCE_IN_PROGRESS if completing else ErrorCode.NONE

    def hang_up(self, member_id: str) -> None:
        """The member's request waits no longer."""
        if self.waiting.pop(member_id, None) is not None:
            self.members[member_id].seen_ms = self.now_ms

    # Time

    def due_ms(self) -> list[int]:
        """When something happens by time alone."""
        times = [*self.pending.values()]
        times += [
            member.seen_ms + SESSION_MS
            for member in self.members.values()
            if member.member_id not in self.waiting
        ]
        return times if self.deadline_ms is None else [*times, self.deadline_ms]

    def next_ms(self) -> int | None:
        """The first of these times."""
        return min(self.due_ms(), default=None)

    def restart(self) -> None:
        """Another broker runs the timers from now on: everybody gets the full time again."""
        for member in self.members.values():
            member.seen_ms = max(member.seen_ms, self.now_ms)
        for member_id in self.pending:
            self.pending[member_id] = self.now_ms + SESSION_MS
        if self.deadline_ms is not None:
            self.deadline_ms = self.now_ms + REBALANCE_MS

    def pass_time(self, until_ms: int) -> None:
        """Let time pass, and happen what does."""
        while (due_ms := self.next_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._expire_one()
        self.now_ms = until_ms

    def _expire_one(self) -> None:
        """What is due at the same time happens in this order."""
        for member in list(self.members.values()):
            silent = member.seen_ms + SESSION_MS <= self.now_ms
            if silent and member.member_id not in self.waiting:
                self._remove(member.member_id)
                if self.phase == "PreparingRebalance":
                    self._end_if_all_joined()
                else:
                    self._prepare()
                return
        for member_id, until_ms in list(self.pending.items()):
            if until_ms <= self.now_ms:
                del self.pending[member_id]
                self._end_if_all_joined()
                return
        self._deadline_passed()

    def _deadline_passed(self) -> None:
        if self.phase == "PreparingRebalance":
            for member in list(self.members.values()):
                if not member.has_joined and member.instance_id is None:
                    self._remove(member.member_id)
            self._end_joining()
            return
        for member in list(self.members.values()):
            if not member.has_synced:
                self._remove(member.member_id)
        self._prepare()

    # The group

    def _static(self, instance_id: str) -> ModelMember | None:
        found = (m for m in self.members.values() if m.instance_id == instance_id)
        return next(found, None)

    def _check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            static = self._static(instance_id)
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if static.member_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _add(self, member: ModelMember) -> Told | None:
        member.has_joined = True
        self.members[member.member_id] = member
        self.leader = self.leader or member.member_id
        return self._join_or_wait(member.member_id)

    def _replace(self, old: ModelMember, member_id: str, metadata: bytes) -> Told | None:
        """A static member comes back under a new id; its old one is fenced."""
        waited = self.waiting.pop(old.member_id, None)
        if waited is not None:
            self.told[old.member_id] = Told(ErrorCode.FENCED_INSTANCE_ID)
        new = ModelMember(member_id, old.instance_id, metadata, self.now_ms)
        new.assignment, new.has_synced = old.assignment, old.has_synced
        self.members = {
            (member_id if m == old.member_id else m): (new if m == old.member_id else member)
            for m, member in self.members.items()
        }
        if self.leader == old.member_id:
            self.leader = member_id
        if self.phase == "Stable":
            return self._generation(member_id)
        new.has_joined = True
        if self.phase == "CompletingRebalance":
            self._prepare()
            return self._answer_or_wait(member_id)
        return self._join_or_wait(member_id)

    def _join_or_wait(self, member_id: str) -> Told | None:
        if self.phase == "PreparingRebalance":
            self._end_if_all_joined()
        else:
            self._prepare()
        return self._answer_or_wait(member_id)

    def _answer_or_wait(self, member_id: str) -> Told | None:
        if self.members[member_id].has_joined:
            self.waiting[member_id] = "join"
            return None
        return self._generation(member_id)

    def _generation(self, member_id: str) -> Told:
        return Told(generation=self.generation, leads=member_id == self.leader)

    def _prepare(self) -> None:
        was_empty = self.phase == "Empty"
        for member in self.members.values():
            if self.phase == "CompletingRebalance":
                member.assignment = b""
            member.has_synced = True
        self.phase, self.deadline_ms = "PreparingRebalance", self.now_ms + REBALANCE_MS
        for member_id, kind in list(self.waiting.items()):
            if kind == "sync":
                self._tell(member_id, Told(ErrorCode.REBALANCE_IN_PROGRESS))
        if was_empty or not self.members:
            # Nobody is left whose time could be waited for, only ids that were given out.
            self._end_joining()
        else:
            self._end_if_all_joined()

    def _end_if_all_joined(self) -> None:
        all_joined = all(member.has_joined for member in self.members.values())
        if self.phase == "PreparingRebalance" and all_joined and not self.pending:
            self._end_joining()

    def _end_joining(self) -> None:
        joined = [member for member in self.members.values() if member.has_joined]
        if not self.members:
            self.phase, self.leader, self.deadline_ms = "Empty", None, None
            self.generation += 1
            return
        if not joined:
            self.deadline_ms = self.now_ms + REBALANCE_MS
            return
        if self.leader not in [member.member_id for member in joined]:
            self.leader = joined[0].member_id
        self.phase, self.deadline_ms = "CompletingRebalance", self.now_ms + REBALANCE_MS
        self.generation += 1
        for member in self.members.values():
            member.has_joined, member.has_synced = False, False
        for member_id in [m for m, kind in self.waiting.items() if kind == "join"]:
            self._tell(member_id, self._generation(member_id))

    def _assign(self, assignments: dict[str, bytes]) -> None:
        self.phase = "Stable"
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        for member_id in [m for m, kind in self.waiting.items() if kind == "sync"]:
            self._tell(member_id, Told(assignment=self.members[member_id].assignment))

    def _all_have_synced(self) -> None:
        if self.phase == "Stable" and all(m.has_synced for m in self.members.values()):
            self.deadline_ms = None

    def _tell(self, member_id: str, told: Told) -> None:
        del self.waiting[member_id]
        self.told[member_id] = told
        self.members[member_id].seen_ms = self.now_ms

    def _remove(self, member_id: str) -> None:
        self.pending.pop(member_id, None)
        if self.members.pop(member_id, None) is None:
            return
        if self.waiting.pop(member_id, None) is not None:
            self.told[member_id] = Told(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
