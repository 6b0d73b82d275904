"""DeleteGroups, and FindCoordinator."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, together
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.offsets import commit, fetch
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

from towpath.kafka.codec.messages.delete_groups import DeleteGroupsRequest
from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.find_coordinator import FindCoordinatorRequest

DELETE_LAST = 2
FIND_LAST = 6


@sequence()
def delete_groups(s: Scene) -> None:
    """A stable, an empty, an unknown group, one without a name, and one twice; every version."""
    admin = s.peer("admin")
    for version in range(DELETE_LAST + 1):
        stable = Member(s, "a", group=f"{s.group}-{version}-stable")
        empty = Member(s, "b", group=f"{s.group}-{version}-empty")
        together(stable)
        together(empty)
        empty.leave()
        names = [stable.group, empty.group, "nobody", "", empty.group]
        admin.ask(DeleteGroupsRequest(groups_names=names), version)
        admin.ask(DeleteGroupsRequest(groups_names=[empty.group]), version)
        admin.ask(DescribeGroupsRequest(groups=[empty.group]))
        admin.ask(DeleteGroupsRequest(groups_names=[]), version)
        stable.heartbeat()


@sequence()
def delete_group_with_offsets(s: Scene) -> None:
    """A deleted group has no offsets; a new one of the same name starts over."""
    admin = s.peer("admin")
    commit(admin, s.group, {("alpha", 0): 5})
    fetch(admin, s.group)
    admin.ask(DeleteGroupsRequest(groups_names=[s.group]))
    fetch(admin, s.group)
    a = Member(s, "a")
    together(a)


@sequence()
def delete_consumer_group(s: Scene) -> None:
    """Groups of the consumer protocol, with a member and without."""
    admin = s.peer("admin")
    a = Consumer(s, "a")
    a.join(["alpha"])
    admin.ask(DeleteGroupsRequest(groups_names=[s.group]))
    a.leave()
    admin.ask(DeleteGroupsRequest(groups_names=[s.group]))
    a.heartbeat()


@sequence()
def delete_group_with_a_pending_member(s: Scene) -> None:
    """A group for which only a member id was given out is empty."""
    admin = s.peer("admin")
    a = Member(s, "a")
    a.join()
    admin.ask(DeleteGroupsRequest(groups_names=[s.group]))
    a.join()


@sequence()
def find_coordinator(s: Scene) -> None:
    """Single keys, several keys, empty keys and key types, in every version."""
    peer = s.peer("peer")
    for version in range(4):
        peer.ask(FindCoordinatorRequest(key=s.group), version)
        peer.ask(FindCoordinatorRequest(key=""), version)
    peer.ask(FindCoordinatorRequest(key=s.group, key_type=3), 1)
    for version in range(4, FIND_LAST + 1):
        peer.ask(FindCoordinatorRequest(coordinator_keys=[s.group, "b", s.group]), version)
        peer.ask(FindCoordinatorRequest(coordinator_keys=[]), version)
        peer.ask(FindCoordinatorRequest(coordinator_keys=["", "a"]), version)
    peer.ask(FindCoordinatorRequest(coordinator_keys=["a"], key_type=3), 4)
