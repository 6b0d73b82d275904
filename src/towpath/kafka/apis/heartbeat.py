"""Heartbeat (key 12), versions 0-4.

It is answered from memory after the metadata store's barrier; nothing is written. With
REBALANCE_IN_PROGRESS, too, the member counts as alive.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.classic.heartbeat import check_heartbeat
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from towpath.kafka.errors import ErrorCode

ALIVE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


@api(key=12, versions=(0, 4), request=HeartbeatRequest, response=HeartbeatResponse)
async def handle_heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Note that the member is alive and tell it whether it has to join again."""
    error = check_group_id(request.group_id)
    if error is ErrorCode.NONE:
        try:
            error = await _beat(request, context)
        except GroupUnavailable:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    count_errors(context, "Heartbeat", (error,))
    return HeartbeatResponse(error_code=error)


async def _beat(request: HeartbeatRequest, context: RequestContext) -> ErrorCode:
    groups, group_id, member_id = context.services.groups, request.group_id, request.member_id
    view = await groups.view(group_id)
    error = check_heartbeat(view.state, member_id, request.group_instance_id, request.generation_id)
    if error in ALIVE:
        groups.seen(group_id, member_id)
    return error
