"""LeaveGroup (key 13), versions 0-5.

From v3 on one request may name several members, each by its id or, for administrators, by its
instance id alone; each is answered by itself. `reason` (v5) is not kept. Members of the consumer
protocol do not leave by this request, but administrators can remove them.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.classic.leave import Leaver, LeaveRequest
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from towpath.kafka.errors import ErrorCode

BATCHED_SINCE_VERSION = 3


@api(key=13, versions=(0, 5), request=LeaveGroupRequest, response=LeaveGroupResponse)
async def handle_leave_group(
    request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    """Remove the members; the others have to join again."""
    leavers = _leavers(request, context.api_version)
    errors: tuple[ErrorCode, ...] = ()
    refusal = check_group_id(request.group_id)
    if refusal is ErrorCode.NONE:
        try:
            errors = await context.services.groups.apply(request.group_id, LeaveRequest(leavers))
        except GroupUnavailable:
            refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    count_errors(context, "LeaveGroup", (refusal, *errors))
    if context.api_version < BATCHED_SINCE_VERSION:
        return LeaveGroupResponse(error_code=refusal or errors[0])
    return LeaveGroupResponse(
        error_code=refusal,
        members=[
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.instance_id,
                error_code=error,
            )
            for leaver, error in zip(leavers, errors, strict=False)
        ],
    )


def _leavers(request: LeaveGroupRequest, version: int) -> tuple[Leaver, ...]:
    if version < BATCHED_SINCE_VERSION:
        return (Leaver(request.member_id, None),)
    return tuple(Leaver(member.member_id, member.group_instance_id) for member in request.members)
