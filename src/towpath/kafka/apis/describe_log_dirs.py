"""DescribeLogDirs (key 35), versions 1-4.

There is one log directory, the object store. A partition's size is that of its readable records;
what the store has room for is not known (-1). Partitions that do not exist are left out, as Kafka
does. If the log cannot tell, the directory carries the error and no topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.errors import StreamGone, TowpathError
from towpath.kafka.apis.concurrently import for_streams
from towpath.kafka.apis.error_counts import count_errors
from towpath.kafka.apis.log_dirs_schema import (
    LogDirPartition,
    LogDirResult,
    LogDirsResponse,
    LogDirTopic,
)
from towpath.kafka.apis.partitions import PartitionFinder
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsTopic,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError
from towpath.topics.interface import Topic

LOG_DIRS_SETTING = "log.dirs"
DEFAULT_LOG_DIR = "object-store"
PARTITIONS_PER_CALL = 200
"""How many partitions the log is asked about at once, so that other requests get their turn."""


@api(
    key=35,
    versions=(1, 4),
    request=DescribeLogDirsRequest,
    response=LogDirsResponse,
)
async def handle_describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext
) -> LogDirsResponse:
    """The sizes of all partitions, or of the asked ones."""
    services = context.services
    place = services.broker_configs.get(LOG_DIRS_SETTING, DEFAULT_LOG_DIR)
    try:
        if request.topics is None:
            await services.topics.refresh()
            wanted = {topic: range(topic.partitions) for topic in services.topics.all()}
            topics = await _describe(wanted, context)
        else:
            topics = await _describe(await _asked(request.topics, context), context)
    except (TowpathError, MetadataError):
        error = ErrorCode.KAFKA_STORAGE_ERROR
        count_errors(context, "DescribeLogDirs", (error,))
        return LogDirsResponse(results=[LogDirResult(log_dir=place, error_code=error)])
    return LogDirsResponse(results=[LogDirResult(log_dir=place, topics=topics)])


async def _asked(
    named_topics: Sequence[DescribableLogDirTopic], context: RequestContext
) -> dict[Topic, Sequence[int]]:
    """The existing ones of the asked partitions, each once."""
    finder = PartitionFinder(context)
    wanted: dict[Topic, set[int]] = {}
    for named in named_topics:
        topic = await finder.find(named.topic, named.partitions)
        if not isinstance(topic, ErrorCode):
            known = {index for index in named.partitions if 0 <= index < topic.partitions}
            wanted.setdefault(topic, set()).update(known)
    return {topic: sorted(partitions) for topic, partitions in wanted.items()}


async def _describe(
    wanted: Mapping[Topic, Sequence[int]], context: RequestContext
) -> list[DescribeLogDirsTopic]:
    pairs = [(topic, index) for topic, indexes in wanted.items() for index in indexes]
    described: dict[str, list[DescribeLogDirsPartition]] = {}
    for start in range(0, len(pairs), PARTITIONS_PER_CALL):
        page = pairs[start : start + PARTITIONS_PER_CALL]
        streams = [topic.stream(index) for topic, index in page]
        found = await for_streams(streams, context.services.log.usage)
        for (topic, index), usage in zip(page, found, strict=True):
            if isinstance(usage, StreamGone):
                continue
            described.setdefault(topic.name, []).append(
                LogDirPartition(
                    partition_index=index,
                    partition_size=usage.size_bytes,
                    object_count=usage.object_count,
                    last_write_ms=usage.last_write_ms,
                )
            )
    return [LogDirTopic(name=name, partitions=parts) for name, parts in described.items()]
