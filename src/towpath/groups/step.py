"""Steps: the pure functions that change groups.

A step looks at a group and answers with the group as it shall be. It does no I/O and keeps nothing,
because it may be called again, on a newer state, after a conflict with another broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from towpath.groups.settings import GroupSettings
from towpath.topics.interface import Topics

if TYPE_CHECKING:
    from towpath.groups.state import GroupState

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Env:
    """What a step may look at besides the group."""

    now_ms: int
    """This broker's monotonic time; never stored."""
    wall_ms: int
    """Milliseconds since the Unix epoch."""
    settings: GroupSettings
    """With the group's own settings applied."""
    topics: Topics
    """The cached view."""
    new_member_id: Callable[[str], str]
    """A new, unique member id that starts with the given text."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R_co]):
    """What a step makes of a group, and its answer.

    `group` is the very object that was given if nothing changes; None where there is no group, or
    where it is to be deleted with its offsets.
    """

    group: GroupState | None
    answer: R_co


Step = Callable[["GroupState | None", Env], Outcome[R]]


@dataclass(frozen=True, slots=True)
class Timer:
    """Something that becomes due by time alone, at the broker that holds the group's lease.

    It runs from when that broker first saw a state with a timer of this name (or took the lease),
    as long as every newer state still has it; a wait that starts anew needs a new name, for example
    with the generation in it. A timer with a `member_id` starts again whenever that member is seen,
    and does not run while a request of that member waits for the group. The step must look for
    itself whether it still applies.
    """

    name: str
    after_ms: int
    step: Step[None]
    member_id: str | None = None
