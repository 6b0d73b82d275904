"""Groups as the Kafka handlers see them; `groups/coordinator.py` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from towpath.groups.configs import GroupConfigs
from towpath.groups.registration import Asked
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Step

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as the metadata store has it."""

    state: GroupState | None
    """None: there is no such group."""
    version: int | None
    """The root's version, for conditions of a commit; None if there is no root."""
    settings: GroupSettings
    """With the group's own settings applied."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a listing."""

    group_id: str
    kind: str
    state_name: str
    protocol_type: str


class Groups(ABC):
    """Every group of the cluster. All methods raise GroupUnavailable when the metadata store fails
    or too many brokers change a group at once; the caller may try again."""

    settings: GroupSettings
    """The broker's, without any group's own ones."""
    configs: GroupConfigs
    """Each group's own."""

    @abstractmethod
    async def view(self, group_id: str) -> GroupView:
        """The group after every change that was committed before the call. Cheap: no write, and
        mostly no read but the store's barrier."""

    def remembered(self, group_id: str) -> GroupView | None:
        """The group as this broker has it in memory, which may be old; None if it has not. For
        whoever makes what follows from it conditional on its version."""
        return None

    def asked(self) -> Asked:
        """For `apply`: a request has come now."""
        return Asked(None)

    @abstractmethod
    async def apply(self, group_id: str, step: Step[R], asked: Asked | None = None) -> R:
        """Run the step on the newest state and store what it makes of the group; returns its answer
        once that is certain. Steps of one group run in the order of the calls, and those that wait
        together are stored by one compare-and-set. A caller that stops waiting (is cancelled) does
        not take its step back. GroupUnavailable if this broker was taken for dead since the request
        was `asked` for (by default now): the client is long since elsewhere."""

    @abstractmethod
    async def until(
        self,
        group_id: str,
        look: Callable[[GroupState | None], R | None],
        member_id: str | None = None,
    ) -> R:
        """Wait for a state, be it made here or elsewhere, for which `look` answers something other
        than None; the present one is looked at first. States may be skipped. While it waits the
        member, if one is given, counts as alive."""

    @abstractmethod
    def seen(self, group_id: str, member_id: str) -> None:
        """The member is alive. Nothing is written for it."""

    @abstractmethod
    async def list_groups(self) -> Sequence[ListedGroup]:
        """Every group, by id."""

    @abstractmethod
    async def holder(self, group_id: str) -> int | None:
        """The broker id of the group's lease holder, None if nobody has it."""
