"""OffsetDelete (key 47), version 0: removes offsets that nobody uses.

Topics that members are subscribed to are GROUP_SUBSCRIBED_TO_TOPIC; a classic group whose members
do not say what they are subscribed to (other protocol types than `consumer`) must be empty,
NON_EMPTY_GROUP. Partitions without an offset count as deleted.
"""

from __future__ import annotations

from towpath.errors import TowpathError
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.metadata.keys.groups import fits
from towpath.topics.interface import Topic


@api(key=47, versions=(0, 0), request=OffsetDeleteRequest, response=OffsetDeleteResponse)
async def handle_offset_delete(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    """Remove the offsets of the partitions that exist and are not in use."""
    response = await _delete(request, context)
    count_errors(context, "OffsetDelete", (response.error_code,))
    return response


async def _delete(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    if not request.group_id or not fits(request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    finder = PartitionFinder(context)
    answers: dict[str, OffsetDeleteResponseTopic] = {}
    wanted: dict[str, list[int]] = {}
    for asked in request.topics:
        numbers = [partition.partition_index for partition in asked.partitions]
        topic = await finder.find(asked.name, numbers)
        if topic is ErrorCode.KAFKA_STORAGE_ERROR:
            return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        known = _refuse_unknown(asked, topic, answers)
        if known:
            wanted.setdefault(asked.name, []).extend(known)
    try:
        error, used = await context.services.offsets.remove(request.group_id, wanted)
    except TowpathError as failure:
        error, used = error_code_of(failure), frozenset()
    if error:
        return OffsetDeleteResponse(error_code=error)
    for name, known in wanted.items():
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name in used else ErrorCode.NONE
        for number in known:
            _add(answers, name, number, code)
    return OffsetDeleteResponse(topics=list(answers.values()))


def _refuse_unknown(
    asked: OffsetDeleteRequestTopic,
    topic: Topic | ErrorCode,
    answers: dict[str, OffsetDeleteResponseTopic],
) -> list[int]:
    """Answer the partitions that do not exist, and return the others."""
    known = []
    for partition in asked.partitions:
        number = partition.partition_index
        if isinstance(topic, ErrorCode):
            _add(answers, asked.name, number, topic)
        elif not 0 <= number < topic.partitions:
            _add(answers, asked.name, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            known.append(number)
    return known


def _add(
    answers: dict[str, OffsetDeleteResponseTopic], name: str, number: int, code: ErrorCode
) -> None:
    topic = answers.setdefault(name, OffsetDeleteResponseTopic(name=name))
    topic.partitions.append(OffsetDeleteResponsePartition(partition_index=number, error_code=code))
