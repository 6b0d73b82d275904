"""CreatePartitions (key 37), v0-3.

- The count is the new total and must be larger than the present one (INVALID_PARTITIONS). Existing
  partitions keep their streams.
- Manual assignments must name live brokers, one list per new partition; they are then ignored.
- A topic given twice is refused with INVALID_REQUEST; `validate_only` only checks.

Left out: `timeout_ms` is ignored; there are no quotas.
"""

from __future__ import annotations

from towpath.kafka.apis.admin_support import (
    EXPECTED_FAILURES,
    duplicates,
    failure_of,
    run_bounded,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from towpath.kafka.errors import ErrorCode


@api(key=37, versions=(0, 3), request=CreatePartitionsRequest, response=CreatePartitionsResponse)
async def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Grow each topic, or say why not."""
    topics = context.services.topics
    repeated = duplicates(topic.name for topic in request.topics)

    async def grow(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        assignments = (
            None
            if topic.assignments is None
            else [tuple(row.broker_ids) for row in topic.assignments]
        )
        try:
            await topics.add_partitions(
                topic.name, topic.count, assignments, validate_only=request.validate_only
            )
        except EXPECTED_FAILURES as error:
            code, message = failure_of(error)
            return CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
        return CreatePartitionsTopicResult(name=topic.name)

    refused = [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name in sorted(repeated)
    ]
    wanted = [topic for topic in request.topics if topic.name not in repeated]
    return CreatePartitionsResponse(results=refused + await run_bounded(grow, wanted))
