"""Groups for tests of FindCoordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from towpath.errors import GroupUnavailable
from towpath.groups.interface import Groups, GroupView, ListedGroup
from towpath.groups.registration import Asked
from towpath.groups.state import GroupState
from towpath.groups.step import Step

R = TypeVar("R")


class LeasesOnly(Groups):
    """Groups of which only the lease holders are known."""

    def __init__(self) -> None:
        self.holders: dict[str, int] = {}
        self.away = False

    async def holder(self, group_id: str) -> int | None:
        if self.away:
            raise GroupUnavailable("the store is away")
        return self.holders.get(group_id)

    async def view(self, group_id: str) -> GroupView:
        raise NotImplementedError

    async def apply(self, group_id: str, step: Step[R], asked: Asked | None = None) -> R:
        raise NotImplementedError

    async def until(
        self,
        group_id: str,
        look: Callable[[GroupState | None], R | None],
        member_id: str | None = None,
    ) -> R:
        raise NotImplementedError

    def seen(self, group_id: str, member_id: str) -> None:
        raise NotImplementedError

    async def list_groups(self) -> Sequence[ListedGroup]:
        raise NotImplementedError
