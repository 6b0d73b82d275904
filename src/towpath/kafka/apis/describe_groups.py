"""DescribeGroups (key 15), versions 0-6: classic groups.

- A group that does not exist, or is of the consumer protocol (ConsumerGroupDescribe describes
  those), is Dead; from v6 on it is GROUP_ID_NOT_FOUND as well.
- Protocol and members' metadata are told of a stable group only, assignments always.
- Authorized operations (v3+) are all of them: there is no authorizer.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import GROUP_OPERATIONS, check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from towpath.kafka.errors import ErrorCode

NOT_FOUND_SINCE_VERSION = 6
DEAD = "Dead"


@api(key=15, versions=(0, 6), request=DescribeGroupsRequest, response=DescribeGroupsResponse)
async def handle_describe_groups(
    request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    """Describe each group that is asked for, in order."""
    described = [await _describe(group_id, context) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    count_errors(context, "DescribeGroups", [group.error_code for group in described])
    return DescribeGroupsResponse(groups=described)


async def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    error = check_group_id(group_id, may_be_empty=True)
    if error is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error_code=error)
    try:
        view = await context.services.groups.view(group_id)
    except GroupUnavailable:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return DescribedGroup(group_id=group_id, error_code=unavailable)
    if isinstance(view.state, ClassicGroup):
        return _described(group_id, view.state)
    found = DescribedGroup(group_id=group_id, group_state=DEAD)
    if context.api_version >= NOT_FOUND_SINCE_VERSION:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        missing = view.state is None
        why = "not found" if missing else "is not a classic group"
        found.error_message = f"Group {group_id} {why}."
    return found


def _described(group_id: str, group: ClassicGroup) -> DescribedGroup:
    is_stable = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
