"""Negotiation of the assignor."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, settle, subscription
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def protocols_first_of_one_member(s: Scene) -> None:
    """A single member gets the first protocol it offers."""
    a = Member(s, "a")
    enter(a, {"sticky": b"s", "range": b"r"})
    a.sync({a.member_id: b"all"}, protocol_name="sticky")


@sequence()
def protocols_common_one_wins(s: Scene) -> None:
    """Only what all members offer is chosen, and members see each other's metadata of it."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a, {"sticky": b"a s", "range": b"a r"})
    a.sync({}, protocol_name="sticky")
    b.join({"roundrobin": b"b rr", "range": b"b r"})
    waiting = b.park_join({"roundrobin": b"b rr", "range": b"b r"})
    a.join({"sticky": b"a s", "range": b"a r"})
    b.joined(waiting)
    settle(a, b)


@sequence()
def protocols_vote(s: Scene) -> None:
    """Every member votes for the first common protocol of its list."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    first = {"x": b"x", "y": b"y"}
    second = {"y": b"y", "x": b"x"}
    enter(a, first)
    a.sync({}, protocol_name="x")
    b.join(second)
    c.join(second)
    b_waits = b.park_join(second)
    c_waits = c.park_join(second)
    a.join(first)
    b.joined(b_waits)
    c.joined(c_waits)
    settle(a, b, c, protocol_name="y")


@sequence()
def protocols_none_in_common(s: Scene) -> None:
    """A member whose protocols are not those of the group is refused, whether new or known; one
    that offers a subset that others share is not."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a, {"x": b"x", "y": b"y"})
    a.sync({}, protocol_name="x")
    b.join({"z": b"z"})
    b.join({"z": b"z", "y": b"y"})
    waiting = b.park_join({"z": b"z", "y": b"y"})
    a.join({"x": b"x", "y": b"y"})
    b.joined(waiting)
    settle(a, b, protocol_name="y")
    a.join({"x": b"x"})
    a.heartbeat()


@sequence()
def protocols_type_change(s: Scene) -> None:
    """A group without members takes another protocol type, and other protocols."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a, {"x": b"x"}, protocol_type="connect")
    a.sync({a.member_id: b"all"}, protocol_type="connect", protocol_name="x")
    a.leave()
    enter(b, {"y": b"y"}, protocol_type="other")
    b.sync({b.member_id: b"all"}, protocol_type="other", protocol_name="y")


@sequence()
def protocols_of_real_consumers(s: Scene) -> None:
    """Two consumers with real subscriptions of two assignors."""
    a, b = Member(s, "a"), Member(s, "b")
    offers = {"range": subscription("alpha"), "cooperative-sticky": subscription("alpha", "beta")}
    enter(a, offers)
    settle(a)
    b.join(offers)
    waiting = b.park_join(offers)
    a.join(offers)
    b.joined(waiting)
    settle(a, b)
