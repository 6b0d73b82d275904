"""OffsetDelete."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, subscription, together
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.offsets import FETCH_LAST, commit, delete, fetch
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene
from tests.integration.groups_golden.topics import create_topic, delete_topic

from towpath.kafka.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

OFFSETS = {("alpha", 0): 1, ("alpha", 1): 2, ("beta", 0): 3}


@sequence()
def delete_offsets_of_a_simple_group(s: Scene) -> None:
    """Committed and uncommitted partitions, unknown ones; the last offset takes the group along."""
    peer = s.peer("admin")
    commit(peer, s.group, OFFSETS)
    delete(peer, s.group, [("alpha", 0), ("alpha", 2)])
    fetch(peer, s.group)
    delete(peer, s.group, [("alpha", 17), ("nosuchtopic", 0)])
    delete(peer, s.group, [])
    delete(peer, "nobody", [("alpha", 0)])
    delete(peer, "", [("alpha", 0)])
    delete(peer, s.group, [("alpha", 1), ("beta", 0)])
    fetch(peer, s.group)
    delete(peer, s.group, [("alpha", 1)])


@sequence()
def delete_offsets_of_consumers(s: Scene) -> None:
    """Topics somebody subscribes to keep their offsets; both protocols."""
    a, b = Member(s, "a", group=f"{s.group}-1"), Consumer(s, "b", group=f"{s.group}-2")
    commit(a.peer, a.group, OFFSETS)
    commit(b.peer, b.group, OFFSETS)
    enter(a, {"range": subscription("alpha")})
    a.sync({})
    b.join(["alpha"])
    for peer, group in ((a.peer, a.group), (b.peer, b.group)):
        delete(peer, group, [("alpha", 0), ("beta", 0)])
        fetch(peer, group)
    a.leave()
    b.leave()
    for peer, group in ((a.peer, a.group), (b.peer, b.group)):
        delete(peer, group, [("alpha", 0), ("beta", 0)])
        fetch(peer, group)


@sequence()
def delete_offsets_while_rebalancing(s: Scene) -> None:
    """In every state of a group of consumers."""
    a, b = Member(s, "a"), Member(s, "b")
    commit(a.peer, s.group, OFFSETS)
    enter(a, {"range": subscription("alpha")})
    delete(a.peer, s.group, [("alpha", 0), ("beta", 0)])
    a.sync({})
    b.join({"range": subscription("beta")})
    b.park_join({"range": subscription("beta")})
    delete(a.peer, s.group, [("alpha", 0), ("beta", 0)])
    fetch(a.peer, s.group)


@sequence()
def delete_offsets_of_other_protocols(s: Scene) -> None:
    """A group with members of another protocol type is not to be touched, nor is one whose
    subscriptions cannot be read."""
    a, b = Member(s, "a", group=f"{s.group}-1"), Member(s, "b", group=f"{s.group}-2")
    commit(a.peer, a.group, OFFSETS)
    commit(a.peer, b.group, OFFSETS)
    enter(a, {"x": b"x"}, protocol_type="connect")
    together(b)
    delete(a.peer, a.group, [("alpha", 0)])
    delete(a.peer, b.group, [("alpha", 0)])
    a.leave()
    delete(a.peer, a.group, [("alpha", 0)])
    fetch(a.peer, a.group)


@sequence()
def offsets_of_a_deleted_topic(s: Scene) -> None:
    """A deleted topic takes its offsets along."""
    peer = s.peer("admin")
    create_topic(s, s.group, 1)
    commit(peer, s.group, {(s.group, 0): 5, ("alpha", 0): 6})
    delete_topic(s, s.group)
    peer.ask_until(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=s.group, topics=None)]),
        lambda answer: len(answer.groups[0].topics) == 1,
        "the offsets gone",
        version=FETCH_LAST,
    )
    fetch(peer, s.group, [(s.group, 0)])
