"""Groups that come into being by a commit from outside: without members, of no protocol type."""

from __future__ import annotations

from towpath.groups.classic.state import ClassicGroup
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome


def simple_group(wall_ms: int) -> ClassicGroup:
    """Such a group, made at this time."""
    return ClassicGroup(since_ms=wall_ms)


def create_simple(group: GroupState | None, env: Env) -> Outcome[None]:
    """Make the group, if there is none, so that it is listed and can be deleted."""
    return Outcome(simple_group(env.wall_ms) if group is None else group, None)
