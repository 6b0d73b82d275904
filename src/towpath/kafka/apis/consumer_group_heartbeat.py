"""ConsumerGroupHeartbeat (key 68), versions 0-1: members of the consumer protocol (KIP-848).

- Join with epoch 0, go on with the epoch of the last answer, leave with -1, or as a static member
  for a while with -2. From v1 on clients make their own member ids and may subscribe by a regular
  expression, which is matched by the next heartbeat of any member.
- An answer tells the assignment only when it has changed, when the member joins, or when it tells
  everything itself.
- A group of the classic protocol that has members is GROUP_ID_NOT_FOUND; one without becomes a
  consumer group. There is no online conversion.
- UNSUPPORTED_VERSION where `group.coordinator.rebalance.protocols` does not offer the protocol.
- A heartbeat that changes nothing is answered from memory; nothing is written for it.
"""

from __future__ import annotations

import uuid

from towpath.errors import GroupUnavailable
from towpath.groups.consumer.heartbeat import HeartbeatAnswer, heartbeat, idle_answer
from towpath.groups.consumer.partitions import Partitions, in_order
from towpath.groups.consumer.refusal import Refused
from towpath.groups.consumer.request import Heartbeat, check_request
from towpath.groups.settings import CONSUMER
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.group_support import check_group_id, client_host, client_name
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError


@api(
    key=68,
    versions=(0, 1),
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
)
async def handle_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Take in what the member tells, and tell it what it may use."""
    try:
        return _response(await _beat(request, context))
    except Refused as refusal:
        code, message = refusal.code, refusal.message
    except (GroupUnavailable, MetadataError):
        code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
    count_errors(context, "ConsumerGroupHeartbeat", (code,))
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message or None)


async def _beat(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatAnswer:
    services, asked = context.services, _asked(request, context)
    groups, topics = services.groups, services.topics
    came = groups.asked()
    if CONSUMER not in groups.settings.rebalance_protocols:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "")
    check_request(asked, groups.settings.consumer_assignors)
    error = check_group_id(asked.group_id)
    if error is not ErrorCode.NONE:
        raise Refused(error, "")
    view = await groups.view(asked.group_id)
    answer = idle_answer(view.state, asked, view.settings, topics)
    if answer is None:
        # Brokers that knew different topics would take turns in making assignments.
        await topics.refresh()
        answer = await groups.apply(asked.group_id, heartbeat(asked), came)
    if not asked.is_leaving:
        groups.seen(asked.group_id, answer.member_id)
    return answer


def _asked(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Heartbeat:
    names = request.subscribed_topic_names
    return Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        api_version=context.api_version,
        client_id=client_name(context),
        client_host=client_host(context),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        reported=_reported(request),
    )


def _reported(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """What the member says it has. A topic without partitions stays in it: to name one is a mistake
    of a member that joins."""
    if request.topic_partitions is None:
        return None
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic in request.topic_partitions:
        found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(topic.partitions)
    return found


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assigned is None else _assignment(answer.assigned),
    )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in in_order(assigned)
        ]
    )
