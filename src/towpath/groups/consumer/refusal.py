"""Why a heartbeat is refused: Kafka's error code and Kafka's words."""

from __future__ import annotations

from towpath.kafka.codec.error_codes import ErrorCode


class Refused(Exception):
    """The request changes nothing and is answered with this error."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unknown_member(member_id: str, group_id: str) -> Refused:
    """No member has this id."""
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def not_found(message: str) -> Refused:
    """There is no such group of this kind."""
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def invalid(message: str) -> Refused:
    """The request makes no sense whatever the group is like."""
    return Refused(ErrorCode.INVALID_REQUEST, message)
