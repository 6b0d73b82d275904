"""A heartbeat as a group's logic sees it, and what is wrong with it whatever the group is like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from towpath.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from towpath.groups.consumer.partitions import Partitions
from towpath.groups.consumer.refusal import Refused, invalid
from towpath.kafka.codec.error_codes import ErrorCode

MEMBER_ID_BY_CLIENT_SINCE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a member tells. None, or -1 as a time, means that it is as it was told last."""

    group_id: str
    member_id: str
    member_epoch: int
    api_version: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    reported: Partitions | None = None
    """The partitions that the member says it has."""

    @property
    def is_joining(self) -> bool:
        """Whether it comes new, or again from the start."""
        return self.member_epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        """Whether it goes, for good or for a while."""
        return self.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether it tells everything, as members do when they are not sure what was understood."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topic_names is not None or self.topic_regex is not None)
            and self.reported is not None
        )


def check_request(asked: Heartbeat, assignors: Sequence[str]) -> None:
    """Refuse what makes no sense, in the order in which Kafka looks."""
    if (
        asked.api_version >= MEMBER_ID_BY_CLIENT_SINCE_VERSION
        or asked.member_epoch > JOINING_EPOCH
        or asked.member_epoch == LEAVING_EPOCH
    ):
        _check_not_empty(asked.member_id, "MemberId")
    _check_not_empty(asked.group_id, "GroupId")
    _check_not_empty(asked.instance_id, "InstanceId")
    _check_not_empty(asked.rack_id, "RackId")
    if asked.is_joining:
        _check_first(asked)
    elif asked.member_epoch == STATIC_LEAVING_EPOCH:
        if asked.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif asked.member_epoch < STATIC_LEAVING_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    if asked.server_assignor is not None and asked.server_assignor not in assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {asked.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_first(asked: Heartbeat) -> None:
    if asked.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if asked.reported is None or asked.reported:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if asked.topic_names is None and asked.topic_regex is None:
        raise invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )


def _check_not_empty(value: str | None, what: str) -> None:
    if value is not None and not value.strip():
        raise invalid(f"{what} can't be empty.")
