"""OffsetForLeaderEpoch (key 23), versions 2-4.

Every partition of the object class has had one leader epoch, 0, whose end is the log end. Other
epochs are unknown: the answer is epoch -1, offset -1, without an error.
"""

from __future__ import annotations

from towpath.errors import StreamGone, TowpathError
from towpath.kafka.apis.concurrently import for_streams
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import LEADER_EPOCH, PartitionFinder, epoch_refusal
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.log.interface import Log

Asked = list[tuple[int, EpochEndOffset]]
"""Streams whose log end is asked, and the answer to put it into."""


@api(
    key=23,
    versions=(2, 4),
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
)
async def handle_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Where each asked leader epoch ended."""
    asked: Asked = []
    topics = await _check(request, context, asked)
    if asked:
        await _fill_ends(context.services.log, asked)
    count_errors(
        context, "OffsetForLeaderEpoch", (p.error_code for t in topics for p in t.partitions)
    )
    return OffsetForLeaderEpochResponse(topics=topics)


async def _check(
    request: OffsetForLeaderEpochRequest, context: RequestContext, asked: Asked
) -> list[OffsetForLeaderTopicResult]:
    finder = PartitionFinder(context)
    topics = []
    for named in request.topics:
        topic = await finder.find(named.topic, (p.partition for p in named.partitions))
        answers = []
        for partition in named.partitions:
            error = finder.refusal(topic, partition.partition)
            error = error or epoch_refusal(partition.current_leader_epoch)
            answer = EpochEndOffset(partition=partition.partition, error_code=error)
            answers.append(answer)
            if isinstance(topic, ErrorCode) or error or partition.leader_epoch != LEADER_EPOCH:
                continue
            asked.append((topic.stream(partition.partition), answer))
        topics.append(OffsetForLeaderTopicResult(topic=named.topic, partitions=answers))
    return topics


async def _fill_ends(log: Log, asked: Asked) -> None:
    try:
        found = await for_streams([stream_id for stream_id, _ in asked], log.bounds)
    except TowpathError as failure:
        for _, answer in asked:
            answer.error_code = error_code_of(failure)
        return
    for (_, answer), bounds in zip(asked, found, strict=True):
        if isinstance(bounds, StreamGone):
            answer.error_code = error_code_of(bounds)
        else:
            answer.leader_epoch = LEADER_EPOCH
            answer.end_offset = bounds.end
