"""DescribeTopicPartitions (key 75), v0: topics and partitions in pages.

- Topics come sorted by name; an empty list asks for all. A page holds as many partitions as the
  request and `max.request.partition.size.limit` allow, and the cursor says where the next begins.
- A cursor with a negative partition, or whose topic is not in a given list, is INVALID_REQUEST.
- Unknown topics are reported if they were named. Eligible leader replicas are always empty.
- Leaders and replicas are those of Metadata, for clients with a zone too.
"""

from __future__ import annotations

from towpath.cluster.view import View
from towpath.kafka.apis.admin_support import TOPIC_OPERATIONS, freshen, missing_topic
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import Services
from towpath.topics.interface import Topic
from towpath.topics.names import is_internal, is_valid

_LEADER_EPOCH = 0


@api(
    key=75,
    versions=(0, 0),
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
)
async def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Answer one page."""
    if _is_malformed(request):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=topic.name
                )
                for topic in request.topics
            ]
        )
    fresh = await freshen(context.services)
    limit = context.services.settings.max_request_partition_size_limit
    return _page(request, context, fresh, max(1, min(limit, request.response_partition_limit)))


def _is_malformed(request: DescribeTopicPartitionsRequest) -> bool:
    cursor = request.cursor
    if cursor is None:
        return False
    named = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or bool(named and cursor.topic_name not in named)


def _page(
    request: DescribeTopicPartitionsRequest, context: RequestContext, fresh: bool, limit: int
) -> DescribeTopicPartitionsResponse:
    services, view = context.services, context.view()
    response = DescribeTopicPartitionsResponse()
    cursor = request.cursor
    remaining = limit
    for name in _names(request, services):
        if remaining == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name)
            break
        topic = services.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name, fresh))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(topic.partitions, start + remaining)
        response.topics.append(_found(topic, range(start, end), view))
        if end < topic.partitions:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=end
            )
            break
        remaining -= max(0, end - start)
    return response


def _names(request: DescribeTopicPartitionsRequest, services: Services) -> list[str]:
    """The topics from the cursor on, in the order of names."""
    if request.topics:
        names = {topic.name for topic in request.topics}
    else:
        names = {topic.name for topic in services.topics.all()}
    first = request.cursor.topic_name if request.cursor is not None else ""
    return sorted(name for name in names if name >= first)


def _unknown(name: str, fresh: bool) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=missing_topic(fresh) if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _found(topic: Topic, partitions: range, view: View) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(topic, number, view) for number in partitions],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(topic: Topic, number: int, view: View) -> DescribeTopicPartitionsResponsePartition:
    replicas = view.replicas(topic.stream(number))
    return DescribeTopicPartitionsResponsePartition(
        partition_index=number,
        leader_id=replicas[0],
        leader_epoch=_LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=replicas,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
