"""The life of one group: three members join, one leaves, one dies."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.groups.members import MemberSession, Place, settled_ns, wait_for_shares
from bench.groups.rows import CLOSE, DEATH, THIRD

SETTLE_S = 0.5
"""The least pause before something happens to a group that has its assignment."""


def live(
    place: Place, members: Sequence[MemberSession], phase_s: float, delay_s: float
) -> dict[str, float]:
    """Seconds until everybody had the final assignment, by what happened. Kills the second member.

    Members learn from their next heartbeat, so the moment between two heartbeats at which something
    happens counts as much as the broker does: `phase_s` moves it, the same for each system.
    """
    pause_s = SETTLE_S + phase_s
    time.sleep(delay_s)
    one, two, three = members
    one.join(place)
    wait_for_shares([one])
    two.join(place)
    wait_for_shares([one, two])
    time.sleep(pause_s)
    found = {}

    def settle(what: str, began_ns: int, left: Sequence[MemberSession]) -> None:
        wait_for_shares(left)
        time.sleep(pause_s)
        found[what] = (settled_ns(left) - began_ns) / 1e9

    settle(THIRD, three.join(place), [one, two, three])
    settle(CLOSE, three.leave(), [one, two])
    settle(DEATH, two.die(), [one])
    one.leave()
    return found


def first(place: Place, member: MemberSession) -> float:
    """Seconds until the first member of a group has everything; it leaves then."""
    began_ns = member.join(place)
    wait_for_shares([member])
    seconds = (settled_ns([member]) - began_ns) / 1e9
    member.leave()
    return seconds
