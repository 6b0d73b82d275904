"""What every kind of group can tell and do; `classic/` and `consumer/` implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from towpath.groups.settings import GroupSettings
from towpath.groups.step import Timer
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields

PutBlob = Callable[[bytes], str]
"""Takes content that may be large and returns the name under which the root refers to it."""
GetBlob = Callable[[str], bytes]
"""The content of a name."""


class GroupState(ABC):
    """One group at one moment. Instances are immutable: a change makes a new one.

    Nothing about the passing of time is part of it: see `timers`.
    """

    KIND: ClassVar[str]
    """`classic` or `consumer`, also the group's type as ListGroups shows it."""

    @abstractmethod
    def pack(self, blob: PutBlob) -> dict[str, Any]:
        """The group as JSON-able fields of the root; what may be large goes through `blob`.

        The same content may be given any number of times, in an order that is always the same.
        """

    @classmethod
    @abstractmethod
    def unpack(cls, fields: Fields, blob: GetBlob) -> Self:
        """The inverse of `pack`."""

    @property
    @abstractmethod
    def member_ids(self) -> Sequence[str]:
        """The members, in the order in which they came."""

    def has_member(self, member_id: str) -> bool:
        """Whether there is such a member."""
        return member_id in self.member_ids

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members: it may then be deleted or become of another kind."""
        return not self.member_ids

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The generation, or the group epoch. It never goes down while the group exists, not even
        when the group changes its kind: committed offsets are told apart by it."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's name of the state: Empty, Stable, ..."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """`consumer`, or what the members of a classic group call theirs; empty if unknown."""

    @abstractmethod
    def session_timeout_ms(self, member_id: str, settings: GroupSettings) -> int:
        """How long the member may be silent; for a member of the group only."""

    @abstractmethod
    def timers(self, settings: GroupSettings) -> Sequence[Timer]:
        """All that will be due by time in this state, session time-outs included."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int
    ) -> ErrorCode:
        """Whether a commit of offsets is acceptable; `epoch` is the generation or member epoch."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a fetch of offsets (OffsetFetch v9 and later) is acceptable."""

    @abstractmethod
    def check_delete(self) -> ErrorCode:
        """Whether the group may be deleted."""

    def retention_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset counts that was committed at this time, both by
        the wall clock; None if offsets of the group do not expire now."""
        return commit_timestamp_ms

    @abstractmethod
    def subscribes_to(self, topic: str) -> bool:
        """Whether members use the topic: its offsets are then neither expired nor deleted."""
