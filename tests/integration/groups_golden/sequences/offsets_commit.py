"""OffsetCommit: every version, every kind of member and generation."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, subscription, together
from tests.integration.groups_golden.consumer import LEAVE_STATIC, Consumer
from tests.integration.groups_golden.offsets import COMMIT_FIRST, COMMIT_LAST, commit, fetch
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

VERSIONS = range(COMMIT_FIRST, COMMIT_LAST + 1)
ONE = {("alpha", 0): 1}


@sequence()
def commit_simple_consumer(s: Scene) -> None:
    """Without members, generation -1 and no member id: every version, then read back. A generation
    or a member id makes no simple consumer."""
    peer = s.peer("simple")
    for version in VERSIONS:
        group = f"{s.group}-{version}"
        commit(peer, group, {("alpha", 0): 10, ("alpha", 2): 12, ("beta", 1): 7}, version=version)
        fetch(peer, group)
    commit(peer, s.group, ONE, epoch=0)
    commit(peer, s.group, ONE, epoch=5)
    commit(peer, s.group, ONE, member_id="stranger")
    commit(peer, s.group, ONE, member_id="stranger", epoch=1)
    commit(peer, s.group, ONE, member_id="stranger", epoch=1, version=7)
    commit(peer, s.group, ONE, epoch=-2)
    commit(peer, s.group, ONE, instance="one")
    fetch(peer, s.group)


@sequence()
def commit_bad_partitions(s: Scene) -> None:
    """Unknown topics and partitions are refused one by one; the others are committed."""
    peer = s.peer("simple")
    for version in VERSIONS:
        offsets = {("alpha", 0): 1, ("alpha", 3): 2, ("nosuchtopic", 0): 3, ("beta", -1): 4}
        commit(peer, s.group, offsets, version=version)
    commit(peer, s.group, {("nosuchtopic", 0): 1})
    commit(peer, s.group, {("", 0): 1})
    commit(peer, s.group, {})
    fetch(peer, s.group)


@sequence()
def commit_values(s: Scene) -> None:
    """Odd offsets, metadata and leader epochs, overwritten and read back."""
    peer = s.peer("simple")
    commit(peer, s.group, {("alpha", 0): 0, ("alpha", 1): -1, ("alpha", 2): -5})
    fetch(peer, s.group, [("alpha", 0), ("alpha", 1), ("alpha", 2)])
    commit(peer, s.group, {("alpha", 0): 2**63 - 1}, metadata="note", leader_epoch=3)
    fetch(peer, s.group)
    commit(peer, s.group, {("alpha", 0): 3}, metadata=None)
    fetch(peer, s.group)
    commit(peer, s.group, {("alpha", 0): 4}, metadata="n" * 32)
    commit(peer, s.group, {("alpha", 0): 5}, metadata="n" * 33)
    commit(peer, s.group, {("alpha", 0): 5}, metadata="ü" * 17)
    commit(peer, s.group, {("alpha", 0): 6, ("alpha", 1): 6}, metadata="n" * 33, version=2)
    fetch(peer, s.group)
    commit(peer, s.group, {("alpha", 0): 2})
    fetch(peer, s.group)


@sequence()
def commit_empty_group_id(s: Scene) -> None:
    """The empty group id may commit as a simple consumer in old times only."""
    peer = s.peer("simple")
    for version in VERSIONS:
        commit(peer, "", ONE, version=version)
    fetch(peer, "", [("alpha", 0)])


@sequence()
def commit_with_retention(s: Scene) -> None:
    """A retention time of one's own, in the versions that have one."""
    peer = s.peer("simple")
    for version in (2, 3, 4):
        commit(peer, f"{s.group}-{version}", ONE, retention_ms=3_600_000, version=version)
        fetch(peer, f"{s.group}-{version}")


@sequence()
def commit_of_classic_members(s: Scene) -> None:
    """A stable group: the member's own generation, older and newer ones, strangers, nobody."""
    a = Member(s, "a")
    together(a)
    for version in VERSIONS:
        kinds = [
            (a.member_id, a.generation),
            (a.member_id, a.generation - 1),
            (a.member_id, a.generation + 1),
            (a.member_id, -1),
            ("stranger", a.generation),
            ("", a.generation),
            ("", -1),
            ("stranger", -1),
        ]
        for member_id, generation in kinds:
            commit(a.peer, s.group, ONE, member_id=member_id, epoch=generation, version=version)
    fetch(a.peer, s.group)


@sequence()
def commit_in_every_state(s: Scene) -> None:
    """Commits while a rebalance is prepared are good, while it completes they are not."""
    a, b = Member(s, "a"), Member(s, "b")

    def try_all(member: Member) -> None:
        for member_id, generation in (
            (member.member_id, member.generation),
            (member.member_id, member.generation - 1),
            ("stranger", member.generation),
            ("", -1),
        ):
            commit(member.peer, s.group, ONE, member_id=member_id, epoch=generation)

    a.join()
    try_all(a)
    a.join()
    try_all(a)
    a.sync({})
    try_all(a)
    b.join()
    try_all(b)
    waiting = b.park_join()
    try_all(a)
    a.join()
    b.joined(waiting)
    try_all(a)
    a.leave()
    try_all(a)
    b.leave()
    try_all(b)


@sequence()
def commit_of_static_members(s: Scene) -> None:
    """Instance ids, fenced ones, and instance ids nobody has."""
    a = Member(s, "a", instance="one")
    a.join()
    a.sync({})

    def by(member_id: str, instance: str | None, generation: int = 1) -> None:
        commit(a.peer, s.group, ONE, member_id=member_id, instance=instance, epoch=generation)

    by(a.member_id, "one")
    by(a.member_id, None)
    by(a.member_id, "two")
    by("stranger", "one")
    by("", "one")
    by(a.member_id, "one", 0)
    again = Member(s, "a2", instance="one")
    again.join()
    by(a.member_id, "one")
    by(again.member_id, "one")
    by("", "one", -1)
    commit(a.peer, s.group, ONE, member_id=a.member_id, epoch=1, version=6)


@sequence()
def commit_of_consumers(s: Scene) -> None:
    """Members of the consumer protocol commit with their epoch: older ones are stale, newer ones
    too. Versions before v9 have other errors."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(topics=["alpha", "beta"])
    a.acknowledge()
    for version in VERSIONS:
        for member_id, epoch in (
            ("a", a.epoch),
            ("a", a.epoch - 1),
            ("a", a.epoch + 1),
            ("a", -1),
            ("a", 0),
            ("stranger", a.epoch),
            ("", a.epoch),
            ("", -1),
            ("stranger", -1),
        ):
            commit(a.peer, s.group, ONE, member_id=member_id, epoch=epoch, version=version)
    fetch(a.peer, s.group)
    a.leave()
    commit(a.peer, s.group, ONE, member_id="a", epoch=a.epoch)
    commit(a.peer, s.group, ONE)


@sequence()
def commit_of_static_consumers(s: Scene) -> None:
    """A static member of the consumer protocol that is away, and the one that takes its place."""
    a = Consumer(s, "a", instance="one")
    a.join(["alpha"])
    commit(a.peer, s.group, ONE, member_id="a", epoch=1, instance="one")
    commit(a.peer, s.group, ONE, member_id="a", epoch=1, instance="two")
    commit(a.peer, s.group, ONE, member_id="stranger", epoch=1, instance="one")
    a.leave(LEAVE_STATIC)
    commit(a.peer, s.group, ONE, member_id="a", epoch=1, instance="one")
    again = Consumer(s, "a2", instance="one")
    again.join(["alpha"])
    commit(a.peer, s.group, ONE, member_id="a", epoch=1, instance="one")
    commit(a.peer, s.group, ONE, member_id="a2", epoch=1, instance="one")


@sequence()
def commit_keeps_a_rebalance_waiting(s: Scene) -> None:
    """A commit during a rebalance is accepted and is no JoinGroup."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a, {"range": subscription("alpha")})
    a.sync({})
    b.join({"range": subscription("alpha")})
    waiting = b.park_join({"range": subscription("alpha")})
    commit(a.peer, s.group, ONE, member_id=a.member_id, epoch=a.generation)
    b.peer.still_waits(waiting)
    a.join({"range": subscription("alpha")})
    b.joined(waiting)
