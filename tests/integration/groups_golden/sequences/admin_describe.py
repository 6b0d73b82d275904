"""DescribeGroups of groups in every state, in every version."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, settle, subscription, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Peer, Scene

from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest

DESCRIBE_LAST = 6


def describe(peer: Peer, *groups: str, operations: bool = False) -> None:
    """Ask in every version."""
    for version in range(DESCRIBE_LAST + 1):
        request = DescribeGroupsRequest(
            groups=list(groups), include_authorized_operations=operations and version >= 3
        )
        peer.ask(request, version)


@sequence()
def describe_every_state(s: Scene) -> None:
    """Dead, empty with a pending member, completing, stable, preparing, empty."""
    looker = s.peer("looker")
    a, b = Member(s, "a"), Member(s, "b", instance="two")
    describe(looker, s.group)
    a.join()
    s.until_state("Empty")
    describe(looker, s.group)
    a.join()
    s.until_state("CompletingRebalance")
    describe(looker, s.group)
    settle(a)
    describe(looker, s.group)
    waiting = b.park_join()
    s.until_state("PreparingRebalance")
    describe(looker, s.group)
    a.join()
    b.joined(waiting)
    settle(a, b)
    describe(looker, s.group)
    a.leave()
    b.leave()
    describe(looker, s.group)


@sequence()
def describe_several_groups(s: Scene) -> None:
    """Several groups at once, one twice, one unknown, one without a name, and none."""
    looker = s.peer("looker")
    one, two = f"{s.group}-1", f"{s.group}-2"
    a, b = Member(s, "a", group=one), Member(s, "b", group=two)
    together(a)
    enter(b, {"x": b"x"}, protocol_type="connect")
    s.until_state("CompletingRebalance", two)
    describe(looker, two, one, "nobody", one)
    describe(looker, "")
    describe(looker)


@sequence()
def describe_authorized_operations(s: Scene) -> None:
    """Operations are told when asked for."""
    looker = s.peer("looker")
    a = Member(s, "a")
    together(a)
    describe(looker, s.group, "nobody", operations=True)


@sequence()
def describe_chosen_metadata(s: Scene) -> None:
    """A stable group shows the metadata of the chosen protocol and the assignments."""
    looker = s.peer("looker")
    a = Member(s, "a")
    enter(a, {"range": subscription("alpha"), "sticky": subscription("beta")})
    settle(a)
    describe(looker, s.group)
