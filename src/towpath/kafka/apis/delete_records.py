"""DeleteRecords (key 21), versions 0-2.

Moves the log start of each partition forward; -1 stands for the log end. Offsets above the log end
or below -1 are OFFSET_OUT_OF_RANGE, topics that are compacted but not deleted POLICY_VIOLATION. A
deletion that does not end within the request's time-out is answered REQUEST_TIMED_OUT; asking
again is harmless.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from towpath.errors import TowpathError
from towpath.kafka.apis.concurrently import for_each
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.log.interface import Log
from towpath.topics.interface import Topic

NO_LOW_WATERMARK = -1
LOG_END = -1


@dataclass(slots=True)
class _Deletion:
    """One partition's new log start, and the answer to fill in."""

    stream_id: int
    offset: int
    answer: DeleteRecordsPartitionResult


@api(
    key=21,
    versions=(0, 2),
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
)
async def handle_delete_records(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    """Move the log starts; the answer holds where they are now."""
    deletions: list[_Deletion] = []
    topics = await _check(request, context, deletions)
    log = context.services.log
    if deletions:
        try:
            async with asyncio.timeout(max(0, request.timeout_ms) / 1000):
                await for_each(deletions, lambda deletion: _delete(log, deletion))
        except TimeoutError:
            pass  # Those that have not ended keep the answer they started with.
    count_errors(context, "DeleteRecords", (p.error_code for t in topics for p in t.partitions))
    return DeleteRecordsResponse(topics=topics)


async def _check(
    request: DeleteRecordsRequest, context: RequestContext, deletions: list[_Deletion]
) -> list[DeleteRecordsTopicResult]:
    finder = PartitionFinder(context)
    topics = []
    for named in request.topics:
        topic = await finder.find(named.name, (p.partition_index for p in named.partitions))
        answers = []
        for partition in named.partitions:
            error = finder.refusal(topic, partition.partition_index)
            answer = DeleteRecordsPartitionResult(
                partition_index=partition.partition_index,
                low_watermark=NO_LOW_WATERMARK,
                error_code=error,
            )
            answers.append(answer)
            if error or isinstance(topic, ErrorCode):
                continue
            answer.error_code = _refusal(topic, partition.offset) or ErrorCode.REQUEST_TIMED_OUT
            if answer.error_code == ErrorCode.REQUEST_TIMED_OUT:
                stream_id = topic.stream(partition.partition_index)
                deletions.append(_Deletion(stream_id, partition.offset, answer))
        topics.append(DeleteRecordsTopicResult(name=named.name, partitions=answers))
    return topics


def _refusal(topic: Topic, offset: int) -> ErrorCode:
    if not topic.settings.delete:
        return ErrorCode.POLICY_VIOLATION
    if offset < LOG_END:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


async def _delete(log: Log, deletion: _Deletion) -> None:
    answer = deletion.answer
    try:
        answer.low_watermark = await log.delete_before(deletion.stream_id, deletion.offset)
    except TowpathError as failure:
        answer.error_code = error_code_of(failure)
    else:
        answer.error_code = ErrorCode.NONE
