"""One request's offsets on their way into the store, and whether its group accepts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.store import KeyIs, Put

GROUP_ID_NOT_FOUND_SINCE_VERSION = 9
"""Older versions of OffsetCommit call the generation of a group illegal that does not exist."""


@dataclass(slots=True, eq=False)
class OffsetCommit:
    """Who commits what. `settle` is called once, on the event loop, with the outcome for all of it.

    A commit has no epoch (less than 0) if it comes from outside the group: from a consumer that
    assigns partitions to itself, or from a tool. The group must then be without members.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    """The generation or the member epoch, as the kind of the group has it."""
    api_version: int
    puts: Sequence[Put]
    settle: Callable[[ErrorCode], None]
    alive: KeyIs | None = None
    """The broker's registration when the request came."""
    attempts: int = 0

    @property
    def makes_group(self) -> bool:
        """Whether the group comes into being by this commit if there is none."""
        return self.epoch < 0

    def check(self, group: GroupState | None) -> ErrorCode:
        """Why the group does not accept it, or NONE."""
        if group is not None:
            return group.check_commit(
                self.member_id, self.instance_id, self.epoch, self.api_version
            )
        if self.makes_group:
            return ErrorCode.NONE
        if self.api_version >= GROUP_ID_NOT_FOUND_SINCE_VERSION:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
