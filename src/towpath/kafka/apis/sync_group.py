"""SyncGroup (key 14), versions 0-5.

The leader brings the assignment of every member and is answered at once; the others wait for it,
while the connection's next requests are served. From v5 on protocol type and name are mandatory
and checked. A client that disconnects ends the wait and nothing else.
"""

from __future__ import annotations

from functools import partial

from towpath.errors import GroupUnavailable
from towpath.groups.classic.answers import SyncAnswer, Waiting, synced
from towpath.groups.classic.sync import SyncRequest
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from towpath.kafka.errors import ErrorCode

PROTOCOL_SINCE_VERSION = 5


@api(
    key=14,
    versions=(0, 5),
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    cancel_on_disconnect=True,
)
async def handle_sync_group(
    request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse:
    """Give or wait for the assignments, and answer the member's own."""
    refusal = _refusal(request, context.api_version)
    if refusal is not ErrorCode.NONE:
        answer = SyncAnswer(refusal)
    else:
        try:
            answer = await _sync(request, context)
        except GroupUnavailable:
            answer = SyncAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    count_errors(context, "SyncGroup", (answer.error,))
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def _refusal(request: SyncGroupRequest, version: int) -> ErrorCode:
    """What is wrong whatever the group is like."""
    names = (request.protocol_type, request.protocol_name)
    if version >= PROTOCOL_SINCE_VERSION and None in names:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return check_group_id(request.group_id)


async def _sync(request: SyncGroupRequest, context: RequestContext) -> SyncAnswer:
    groups, group_id = context.services.groups, request.group_id
    step = SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        # The request's bytes belong to the connection and are reused.
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
    answer = await groups.apply(group_id, step)
    if isinstance(answer, Waiting):
        context.release()
        look = partial(
            synced,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
        )
        return await groups.until(group_id, look, request.member_id)
    if answer.error is ErrorCode.NONE:
        groups.seen(group_id, request.member_id)
    return answer
