"""DeleteGroups (key 42), versions 0-2.

A group without members is deleted together with its committed offsets; its configs stay. One with
members is NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.deletion import delete_group
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from towpath.kafka.errors import ErrorCode


@api(key=42, versions=(0, 2), request=DeleteGroupsRequest, response=DeleteGroupsResponse)
async def handle_delete_groups(
    request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    """Delete each group once, however often it is named."""
    group_ids = list(dict.fromkeys(request.groups_names))
    errors = [await _delete(group_id, context) for group_id in group_ids]
    count_errors(context, "DeleteGroups", errors)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in zip(group_ids, errors, strict=True)
        ]
    )


async def _delete(group_id: str, context: RequestContext) -> ErrorCode:
    error = check_group_id(group_id, may_be_empty=True)
    if error is not ErrorCode.NONE:
        return error
    try:
        return await context.services.groups.apply(group_id, delete_group)
    except GroupUnavailable:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
