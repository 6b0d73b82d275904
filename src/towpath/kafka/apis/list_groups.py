"""ListGroups (key 16), versions 0-5.

Every broker lists all groups of the cluster. The filters (states from v4, types from v5) do not
mind upper and lower case; a state or type that does not exist matches nothing.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.interface import ListedGroup as Listed
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from towpath.kafka.errors import ErrorCode


@api(key=16, versions=(0, 5), request=ListGroupsRequest, response=ListGroupsResponse)
async def handle_list_groups(
    request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    """List the groups that pass both filters."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    try:
        listed = await context.services.groups.list_groups()
    except GroupUnavailable:
        count_errors(context, "ListGroups", (ErrorCode.COORDINATOR_NOT_AVAILABLE,))
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return ListGroupsResponse(
        groups=[_answer(group) for group in listed if _passes(group, states, types)]
    )


def _passes(group: Listed, states: set[str], types: set[str]) -> bool:
    if states and group.state_name.lower() not in states:
        return False
    return not types or group.kind in types


def _answer(group: Listed) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state_name,
        group_type=group.kind,
    )
