"""ListOffsets (key 2), versions 1-10.

Timestamps: -1 the log end, -2 the log start, -3 the greatest timestamp (from v7), -4 the earliest
local offset, which is the log start (from v8), -5 the latest tiered offset, of which there is none
(from v9); other negative ones are UNSUPPORTED_VERSION. Both isolation levels see the log end. An
answer that was not found is offset -1, timestamp -1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from towpath.errors import StreamGone, TowpathError
from towpath.kafka.apis.concurrently import for_each, for_streams
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import LEADER_EPOCH, PartitionFinder, epoch_refusal
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.log.interface import Log

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
SPECIAL_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}
"""The first version in which each negative timestamp has a meaning."""


@dataclass(slots=True)
class _Asked:
    """A partition whose offset the log has to tell, and the answer to fill in."""

    stream_id: int
    timestamp_ms: int
    answer: ListOffsetsPartitionResponse


@api(
    key=2,
    versions=(1, 10),
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
async def handle_list_offsets(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    """The offsets for the asked timestamps."""
    asked: list[_Asked] = []
    topics = await _check(request, context, asked)
    await _ask(context.services.log, asked)
    count_errors(context, "ListOffsets", (p.error_code for t in topics for p in t.partitions))
    return ListOffsetsResponse(topics=topics)


async def _check(
    request: ListOffsetsRequest, context: RequestContext, asked: list[_Asked]
) -> list[ListOffsetsTopicResponse]:
    """The answers so far: errors, and in `asked` those that the log has to fill in."""
    finder = PartitionFinder(context)
    times_named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    topics = []
    for named in request.topics:
        topic = await finder.find(named.name, (p.partition_index for p in named.partitions))
        answers = []
        for partition in named.partitions:
            error = _refusal(partition, context.api_version)
            if times_named[named.name, partition.partition_index] > 1:
                error = ErrorCode.INVALID_REQUEST
            error = error or finder.refusal(topic, partition.partition_index)
            error = error or epoch_refusal(partition.current_leader_epoch)
            answer = ListOffsetsPartitionResponse(
                partition_index=partition.partition_index, error_code=error
            )
            answers.append(answer)
            if not error and not isinstance(topic, ErrorCode):
                stream_id = topic.stream(partition.partition_index)
                asked.append(_Asked(stream_id, partition.timestamp, answer))
        topics.append(ListOffsetsTopicResponse(name=named.name, partitions=answers))
    return topics


def _refusal(partition: ListOffsetsPartition, version: int) -> ErrorCode:
    if partition.timestamp >= 0:
        return ErrorCode.NONE
    since = SPECIAL_SINCE_VERSION.get(partition.timestamp)
    if since is None or version < since:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


async def _ask(log: Log, asked: Sequence[_Asked]) -> None:
    ends = [one for one in asked if one.timestamp_ms in (LATEST, EARLIEST, EARLIEST_LOCAL)]
    searches = [one for one in asked if one.timestamp_ms >= 0 or one.timestamp_ms == MAX_TIMESTAMP]
    if ends:
        await _fill_ends(log, ends)
    if searches:
        await for_each(searches, lambda one: _fill_search(log, one))


async def _fill_ends(log: Log, asked: Sequence[_Asked]) -> None:
    try:
        found = await for_streams([one.stream_id for one in asked], log.bounds)
    except TowpathError as failure:
        for one in asked:
            one.answer.error_code = error_code_of(failure)
        return
    for one, bounds in zip(asked, found, strict=True):
        if isinstance(bounds, StreamGone):
            one.answer.error_code = error_code_of(bounds)
            continue
        one.answer.offset = bounds.end if one.timestamp_ms == LATEST else bounds.start
        one.answer.leader_epoch = LEADER_EPOCH


async def _fill_search(log: Log, one: _Asked) -> None:
    try:
        if one.timestamp_ms == MAX_TIMESTAMP:
            found = await log.offset_of_max_timestamp(one.stream_id)
        else:
            found = await log.offset_for_time(one.stream_id, one.timestamp_ms)
    except TowpathError as failure:
        one.answer.error_code = error_code_of(failure)
        return
    if found is not None:
        one.answer.offset = found.offset
        one.answer.timestamp = found.timestamp_ms
        one.answer.leader_epoch = LEADER_EPOCH
