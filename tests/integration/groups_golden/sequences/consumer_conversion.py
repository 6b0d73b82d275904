"""Groups of one protocol and requests of the other."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, subscription, together
from tests.integration.groups_golden.consumer import Consumer, describe_consumers
from tests.integration.groups_golden.offsets import commit, fetch
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.leave_group import MemberIdentity

OFFERS = {"range": subscription("alpha")}


@sequence()
def consumer_requests_to_a_classic_group(s: Scene) -> None:
    """A classic group with members refuses the consumer protocol and its description."""
    a, b = Member(s, "a"), Consumer(s, "b")
    together(a, protocols=OFFERS)
    b.join(["alpha"])
    b.heartbeat(epoch=1)
    b.leave()
    b.heartbeat(member_id=a.member_id, epoch=1)
    describe_consumers(b.peer, s.group)
    describe_consumers(b.peer, s.group, version=0)
    a.heartbeat()


@sequence()
def classic_requests_to_a_consumer_group(s: Scene) -> None:
    """A consumer group with members knows nothing of classic ones."""
    a, b = Consumer(s, "a"), Member(s, "b")
    a.join(["alpha"])
    b.join(protocol_type="connect")
    b.join(protocol_type="connect", version=3)
    b.join({})
    b.heartbeat(member_id="a", generation=1)
    b.heartbeat(member_id="stranger", generation=1)
    b.sync(member_id="a", generation=1)
    b.sync(member_id="stranger", generation=1)
    b.leave(member_id="stranger")
    b.leave(member_id="stranger", version=2)
    for version in (0, 5, 6):
        b.peer.ask(DescribeGroupsRequest(groups=[s.group]), version)
    a.heartbeat()


@sequence()
def classic_leave_from_a_consumer_group(s: Scene) -> None:
    """LeaveGroup removes members of the consumer protocol too, as administrators do: by member id,
    by instance id, by both, and with strangers among them."""
    a, b = Consumer(s, "a"), Consumer(s, "b", instance="two")
    c, d = Consumer(s, "c", instance="three"), Consumer(s, "d")
    admin = Member(s, "admin")
    for member in (a, b, c, d):
        member.join(["gamma"])
    admin.leave_many(
        MemberIdentity(member_id="a"),
        MemberIdentity(member_id="a"),
        MemberIdentity(group_instance_id="two"),
        MemberIdentity(member_id="b", group_instance_id="three"),
        MemberIdentity(member_id="d", group_instance_id="two"),
        MemberIdentity(group_instance_id="nobody"),
        MemberIdentity(member_id="stranger"),
    )
    for member in (a, b, c, d):
        member.heartbeat()
    describe_consumers(admin.peer, s.group)
    admin.leave_many(MemberIdentity(member_id="c", group_instance_id="three"), version=3)
    admin.leave(member_id="d", version=2)
    admin.leave(member_id="d", version=0)
    d.heartbeat()
    describe_consumers(admin.peer, s.group)


@sequence()
def classic_consumer_joins_a_consumer_group(s: Scene) -> None:
    """A classic consumer whose subscription can be read."""
    a, b = Consumer(s, "a"), Member(s, "b")
    a.join(["alpha"])
    b.join(OFFERS)
    a.heartbeat()


@sequence()
def empty_classic_group_becomes_consumer_group(s: Scene) -> None:
    """An empty classic group is converted by the first member of the consumer protocol, and keeps
    its offsets."""
    a, b = Member(s, "a"), Consumer(s, "b")
    together(a, protocols=OFFERS)
    commit(a.peer, s.group, {("alpha", 0): 5}, member_id=a.member_id, epoch=a.generation)
    a.leave()
    describe_consumers(b.peer, s.group)
    b.join(["alpha"])
    describe_consumers(b.peer, s.group)
    fetch(b.peer, s.group)
    a.heartbeat()
    b.peer.ask(DescribeGroupsRequest(groups=[s.group]))


@sequence()
def empty_consumer_group_becomes_classic_group(s: Scene) -> None:
    """An empty consumer group is converted by the first classic member, and keeps its offsets."""
    a, b = Consumer(s, "a"), Member(s, "b")
    a.join(["alpha"])
    commit(a.peer, s.group, {("alpha", 0): 5}, member_id="a", epoch=1)
    a.leave()
    b.peer.ask(DescribeGroupsRequest(groups=[s.group]))
    enter(b, OFFERS)
    b.sync({b.member_id: b"all"})
    b.peer.ask(DescribeGroupsRequest(groups=[s.group]))
    describe_consumers(a.peer, s.group)
    fetch(b.peer, s.group)
    a.heartbeat()


@sequence()
def simple_group_becomes_consumer_group(s: Scene) -> None:
    """A group that has only offsets takes members of either protocol."""
    a, b = Consumer(s, "a"), Member(s, "b", group=f"{s.group}-2")
    commit(a.peer, s.group, {("alpha", 0): 5})
    commit(a.peer, b.group, {("alpha", 0): 5})
    a.join(["alpha"])
    enter(b, OFFERS)
    fetch(a.peer, s.group)
    fetch(a.peer, b.group)


@sequence()
def pending_classic_group_becomes_consumer_group(s: Scene) -> None:
    """A group for which only a member id was given out."""
    a, b = Member(s, "a"), Consumer(s, "b")
    a.join(OFFERS)
    b.join(["alpha"])
    a.join(OFFERS)
