"""ListGroups with filters."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.groups_golden.classic import Member, enter, together
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.offsets import commit
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Peer, Scene

from towpath.kafka.codec.messages.list_groups import ListGroupsRequest

LIST_LAST = 5


def list_groups(
    peer: Peer, states: Sequence[str] = (), types: Sequence[str] = (), version: int = LIST_LAST
) -> None:
    """Ask for the groups of this sequence."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    peer.ask(request, version)


@sequence()
def list_states_and_types(s: Scene) -> None:
    """Groups in every state and of both types, listed in every version and by every filter."""
    looker = s.peer("looker")
    stable, empty = Member(s, "a", group=f"{s.group}-stable"), Member(s, "a")
    empty.group = f"{s.group}-empty"
    completing = Member(s, "a", group=f"{s.group}-completing")
    preparing = Member(s, "a", group=f"{s.group}-preparing")
    joining = Member(s, "b", group=f"{s.group}-preparing")
    pending = Member(s, "a", group=f"{s.group}-pending")
    together(stable)
    together(empty)
    empty.leave()
    enter(completing, {"x": b"x"}, protocol_type="connect")
    together(preparing)
    joining.join()
    joining.park_join()
    pending.join()
    commit(looker, f"{s.group}-simple", {("alpha", 0): 5})
    consumer = Consumer(s, "c", group=f"{s.group}-consumer")
    consumer.join(["alpha"])
    gone = Consumer(s, "d", group=f"{s.group}-consumer-empty")
    gone.join(["alpha"])
    gone.leave()
    for member, state in (
        (completing, "CompletingRebalance"),
        (preparing, "PreparingRebalance"),
        (pending, "Empty"),
    ):
        s.until_state(state, member.group)
    for version in range(LIST_LAST + 1):
        list_groups(looker, version=version)
    for state in (
        *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"),
        *("Assigning", "Reconciling", "stable", "EMPTY", "NoSuchState", ""),
    ):
        list_groups(looker, [state])
    list_groups(looker, ["Stable", "Empty"])
    list_groups(looker, ["Stable", "NoSuchState"])
    list_groups(looker, ["Stable"], version=4)
    for kind in ("classic", "consumer", "Classic", "CONSUMER", "share", "nosuchtype", ""):
        list_groups(looker, types=[kind])
    list_groups(looker, types=["classic", "consumer"])
    list_groups(looker, types=["classic", "nosuchtype"])
    list_groups(looker, ["Empty"], ["consumer"])
