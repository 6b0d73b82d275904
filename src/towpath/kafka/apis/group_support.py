"""What the APIs of groups share."""

from __future__ import annotations

from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys.groups import fits

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Kafka's bit mask of every operation on a group: what anybody may do without an authorizer."""


def check_group_id(group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
    """Whether there can be a group of this id. Kafka accepts the empty id where only offsets and
    descriptions are concerned."""
    if (group_id or may_be_empty) and fits(group_id):
        return ErrorCode.NONE
    return ErrorCode.INVALID_GROUP_ID


def client_host(context: RequestContext) -> str:
    """The client's address as descriptions show it, with Java's slash in front."""
    host, _, _ = context.peer.rpartition(":")
    return f"/{host.strip('[]')}"


def client_name(context: RequestContext) -> str:
    """The client's id as member ids and descriptions show it."""
    return "null" if context.client_id is None else context.client_id
