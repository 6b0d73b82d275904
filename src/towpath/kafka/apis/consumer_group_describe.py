"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the consumer protocol.

- A classic group, or none, is GROUP_ID_NOT_FOUND; DescribeGroups describes the former. The empty id
  is INVALID_GROUP_ID and comes first in the answer, as in Kafka.
- Topics that were deleted are left out of assignments: they have no name any more.
- Authorized operations are all of them: there is no authorizer.
- v1 adds the member's type, which is always that of the consumer protocol.
"""

from __future__ import annotations

from towpath.errors import GroupUnavailable
from towpath.groups.consumer.member import Member
from towpath.groups.consumer.partitions import Partitions, in_order
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.settings import CONSUMER
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import GROUP_OPERATIONS, check_group_id
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages import consumer_group_describe as messages
from towpath.kafka.codec.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from towpath.kafka.errors import ErrorCode
from towpath.topics.interface import Topics

CONSUMER_MEMBER_TYPE = 1


@api(
    key=69,
    versions=(0, 1),
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
)
async def handle_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Describe each group that is asked for, in order."""
    valid = [group_id for group_id in request.group_ids if group_id]
    described = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
        if not group_id
    ]
    described += [await _describe(group_id, context) for group_id in valid]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    count_errors(context, "ConsumerGroupDescribe", [group.error_code for group in described])
    return ConsumerGroupDescribeResponse(groups=described)


async def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    groups, topics = context.services.groups, context.services.topics
    if CONSUMER not in groups.settings.rebalance_protocols:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    error = check_group_id(group_id)
    if error is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error_code=error)
    try:
        state = (await groups.view(group_id)).state
    except GroupUnavailable:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return DescribedGroup(group_id=group_id, error_code=unavailable)
    if isinstance(state, ConsumerGroup):
        return _described(group_id, state, groups.settings.consumer_assignors, topics)
    why = "not found" if state is None else "is not a consumer group"
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {why}.",
    )


def _described(
    group_id: str, group: ConsumerGroup, assignors: tuple[str, ...], topics: Topics
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(assignors),
        members=[
            _member(member, group.target(member.member_id), topics)
            for member in group.members.values()
        ],
    )


def _member(member: Member, target: Partitions, topics: Topics) -> messages.Member:
    return messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER_TYPE,
    )


def _assignment(partitions: Partitions, topics: Topics) -> messages.Assignment:
    found = ((topics.get_by_id(topic_id), numbers) for topic_id, numbers in in_order(partitions))
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=numbers
            )
            for topic, numbers in found
            if topic is not None
        ]
    )
