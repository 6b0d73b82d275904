"""The answer to a Fetch request, made of what the last round found."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.kafka.apis.fetch_round import FetchPart
from towpath.kafka.apis.leaders import node_endpoints
from towpath.kafka.apis.partitions import LEADER_EPOCH
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.codec.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from towpath.kafka.errors import ErrorCode

NO_OFFSET = -1
READ_COMMITTED = 1
STORAGE_ERROR_SINCE_VERSION = 6
"""Older clients do not know KAFKA_STORAGE_ERROR and would not retry it."""


def answer(
    request: FetchRequest, topics: Sequence[Sequence[FetchPart]], context: RequestContext
) -> FetchResponse:
    """The response to `request`, whose topics' parts are in `topics` in the same order.

    Records are passed on as the log's own buffers.
    """
    response = FetchResponse()
    leaders: set[int] = set()
    for named, parts in zip(request.topics, topics, strict=True):
        answers = [_partition(part, request, context, leaders) for part in parts]
        response.responses.append(
            FetchableTopicResponse(topic=named.topic, topic_id=named.topic_id, partitions=answers)
        )
    if leaders:
        response.node_endpoints = node_endpoints(context.view(), leaders, NodeEndpoint)
    return response


def _partition(
    part: FetchPart, request: FetchRequest, context: RequestContext, leaders: set[int]
) -> PartitionData:
    if part.error or part.bounds is None:
        return _refusal(part, context, leaders)
    data = PartitionData(
        partition_index=part.index,
        high_watermark=part.bounds.end,
        last_stable_offset=part.bounds.end,
        log_start_offset=part.bounds.start,
        # Kafka's forms of "no aborted transactions" for the two isolation levels.
        aborted_transactions=[] if request.isolation_level == READ_COMMITTED else None,
        records=part.buffers or b"",
    )
    if part.nearer is not None:
        data.preferred_read_replica = part.nearer
    if part.diverging:
        data.diverging_epoch = EpochEndOffset(epoch=LEADER_EPOCH, end_offset=part.bounds.end)
    return data


def _refusal(part: FetchPart, context: RequestContext, leaders: set[int]) -> PartitionData:
    error = part.error
    if error is ErrorCode.KAFKA_STORAGE_ERROR and context.api_version < STORAGE_ERROR_SINCE_VERSION:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = PartitionData(
        partition_index=part.index,
        error_code=error,
        high_watermark=NO_OFFSET,
        aborted_transactions=None,
        records=b"",
    )
    if part.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and not part.readable:
        leader = context.view().leader(part.stream_id)
        leaders.add(leader)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=LEADER_EPOCH)
    return data
