"""OffsetFetch (key 9), versions 1-10; several groups from v8, topics by id from v10.

- No topics (null; v2+) asks for all offsets of the group. A partition without an offset, and every
  partition of a group that does not exist, has the offset -1 and no error.
- From v9 a member of a group of the consumer protocol is checked: UNKNOWN_MEMBER_ID or
  STALE_MEMBER_EPOCH for the group.
- Offsets of deleted topics are not told; ids that are unknown (v10) are UNKNOWN_TOPIC_ID.
- `require_stable` changes nothing: offsets are read from the store itself, and there are no
  transactions whose offsets could be pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from towpath.errors import GroupUnavailable, TowpathError
from towpath.groups.offsets.reader import TopicOffsets
from towpath.kafka.apis.concurrently import for_each
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode, error_code_of
from towpath.metadata.keys.groups import fits
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.store import MetadataError

TOP_LEVEL_ERROR_SINCE_VERSION = 2
SEVERAL_GROUPS_SINCE_VERSION = 8
TOPIC_ID_SINCE_VERSION = 10
NO_OFFSET = -1


@api(key=9, versions=(1, 10), request=OffsetFetchRequest, response=OffsetFetchResponse)
async def handle_offset_fetch(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    """The committed offsets of each group."""
    asked = request.groups
    if context.api_version < SEVERAL_GROUPS_SINCE_VERSION:
        asked = [_only_group(request)]
    answers: dict[int, OffsetFetchResponseGroup] = {}

    async def answer(at: int) -> None:
        answers[at] = await _group(asked[at], context)

    await for_each(range(len(asked)), answer)
    groups = [answers[at] for at in range(len(asked))]
    count_errors(context, "OffsetFetch", _codes(groups))
    if context.api_version < SEVERAL_GROUPS_SINCE_VERSION:
        return _of_one_group(request, groups[0], context.api_version)
    return OffsetFetchResponse(groups=groups)


async def _group(
    asked: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=asked.group_id)
    if not fits(asked.group_id):
        answer.error_code = ErrorCode.INVALID_GROUP_ID
        return answer
    try:
        named = None if asked.topics is None else await _named(asked.topics, context)
        refusal, found = await context.services.offsets.fetch(
            asked.group_id, asked.member_id, asked.member_epoch, _wanted(named)
        )
    except (TowpathError, UnknownValueVersion) as error:
        answer.error_code = error_code_of(error)
        return answer
    answer.error_code = refusal
    if refusal:
        return answer
    if named is None:
        answer.topics = [_all(name, offsets, context) for name, offsets in found.items()]
    else:
        answer.topics = [_some(name, topic, found) for name, topic in named]
    return answer


async def _named(
    topics: list[OffsetFetchRequestTopics], context: RequestContext
) -> list[tuple[str | None, OffsetFetchRequestTopics]]:
    """The topics asked for with their names; None for an id that is not known."""
    if context.api_version < TOPIC_ID_SINCE_VERSION:
        return [(topic.name, topic) for topic in topics]
    catalog = context.services.topics
    if any(catalog.get_by_id(topic.topic_id) is None for topic in topics):
        try:
            await catalog.refresh()
        except MetadataError as error:
            raise GroupUnavailable(f"topics cannot be looked up: {error}") from error
    found = (catalog.get_by_id(topic.topic_id) for topic in topics)
    return [
        (None if known is None else known.name, topic)
        for known, topic in zip(found, topics, strict=True)
    ]


def _wanted(
    named: list[tuple[str | None, OffsetFetchRequestTopics]] | None,
) -> dict[str, list[int]] | None:
    if named is None:
        return None
    wanted: dict[str, list[int]] = {}
    for name, topic in named:
        if name is not None:
            wanted.setdefault(name, []).extend(topic.partition_indexes)
    return wanted


def _all(name: str, offsets: TopicOffsets, context: RequestContext) -> OffsetFetchResponseTopics:
    topic = context.services.topics.get(name)
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        partitions=[_partition(number, offset) for number, offset in offsets.items()],
    )


def _some(
    name: str | None, asked: OffsetFetchRequestTopics, found: Mapping[str, TopicOffsets]
) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
    offsets = {} if name is None else found.get(name, {})
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[_partition(n, offsets.get(n), error) for n in asked.partition_indexes],
    )


def _partition(
    number: int, offset: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=NO_OFFSET, error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _codes(groups: list[OffsetFetchResponseGroup]) -> Iterator[int]:
    for group in groups:
        yield group.error_code
        for topic in group.topics:
            yield from (partition.error_code for partition in topic.partitions)


# Versions that ask for one group


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _of_one_group(
    request: OffsetFetchRequest, group: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    """The answer before v8; before v2 an error can only be told partition by partition."""
    topics = group.topics
    if group.error_code and version < TOP_LEVEL_ERROR_SINCE_VERSION:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    _partition(number, None, ErrorCode(group.error_code))
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
