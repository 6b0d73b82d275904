"""A group that is not a classic one, for steps that only ask for its kind, size and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from towpath.groups.settings import GroupSettings
from towpath.groups.state import GetBlob, GroupState, PutBlob
from towpath.groups.step import Timer
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields


class OtherKind(GroupState):
    """With one member, or with none."""

    KIND: ClassVar[str] = "other"

    def __init__(self, *, is_empty: bool) -> None:
        self._is_empty = is_empty

    def pack(self, blob: PutBlob) -> dict[str, Any]:
        return {"isEmpty": self._is_empty}

    @classmethod
    def unpack(cls, fields: Fields, blob: GetBlob) -> OtherKind:
        return cls(is_empty=fields["isEmpty"])

    @property
    def member_ids(self) -> Sequence[str]:
        return () if self._is_empty else ("other",)

    @property
    def epoch(self) -> int:
        return 7

    @property
    def state_name(self) -> str:
        return "Empty" if self._is_empty else "Stable"

    @property
    def protocol_type(self) -> str:
        return "other"

    def session_timeout_ms(self, member_id: str, settings: GroupSettings) -> int:
        return 10_000

    def timers(self, settings: GroupSettings) -> Sequence[Timer]:
        return ()

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int
    ) -> ErrorCode:
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self._is_empty else ErrorCode.NON_EMPTY_GROUP

    def subscribes_to(self, topic: str) -> bool:
        return False
