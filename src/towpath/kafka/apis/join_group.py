"""JoinGroup (key 11), versions 0-9.

- The request waits until the rebalance that it joins has all its members, or has waited long enough
  for the others; meanwhile the connection's next requests are served. A client that disconnects
  ends the wait and nothing else: its member stays until its session is over.
- From v4 on a new dynamic member is first told its id (MEMBER_ID_REQUIRED) and comes again with it.
- v0 has no rebalance time-out of its own; the session time-out serves.
- A group of the consumer protocol that has members is INCONSISTENT_GROUP_PROTOCOL; one without
  becomes a classic group.
- `reason` (v8+) is not kept.
"""

from __future__ import annotations

from functools import partial

from towpath.errors import GroupUnavailable
from towpath.groups.classic.answers import JoinAnswer, Waiting, joined
from towpath.groups.classic.join import JoinRequest
from towpath.groups.classic.member import Protocol
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id, client_host, client_name
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from towpath.kafka.errors import ErrorCode

NO_REBALANCE_TIMEOUT_VERSION = 0
PROTOCOL_NAME_NULLABLE_SINCE = 7


@api(
    key=11,
    versions=(0, 9),
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    cancel_on_disconnect=True,
)
async def handle_join_group(
    request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    """Join, wait for the others, and answer the new generation."""
    refusal = _refusal(request, context)
    if refusal is not ErrorCode.NONE:
        answer = JoinAnswer(refusal, request.member_id)
    else:
        try:
            answer = await _join(request, context)
        except GroupUnavailable:
            answer = JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    count_errors(context, "JoinGroup", (answer.error,))
    return _response(answer, context.api_version)


def _refusal(request: JoinGroupRequest, context: RequestContext) -> ErrorCode:
    """What is wrong whatever the group is like."""
    error = check_group_id(request.group_id)
    if error is not ErrorCode.NONE:
        return error
    settings = context.services.groups.settings
    least_ms, most_ms = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


async def _join(request: JoinGroupRequest, context: RequestContext) -> JoinAnswer:
    groups, group_id = context.services.groups, request.group_id
    answer = await groups.apply(group_id, _step(request, context))
    if isinstance(answer, Waiting):
        context.release()
        look = partial(joined, member_id=answer.member_id, instance_id=request.group_instance_id)
        return await groups.until(group_id, look, answer.member_id)
    groups.seen(group_id, answer.member_id)
    return answer


def _step(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    has_timeout = context.api_version > NO_REBALANCE_TIMEOUT_VERSION
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=client_name(context),
        client_host=client_host(context),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        # The request's bytes belong to the connection and are reused.
        protocols=tuple(Protocol(p.name, bytes(p.metadata)) for p in request.protocols),
        api_version=context.api_version,
    )


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    name = answer.protocol_name
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=name if version >= PROTOCOL_NAME_NULLABLE_SINCE else name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
