"""CreateTopics (key 19), v2-7.

- Every topic is answered on its own; a name given twice is refused with INVALID_REQUEST.
- The replication factor is checked and then ignored: one replica is reported. Manual assignments
  are checked as in Kafka and only their number of partitions counts.
- From v5 the answer has the partitions, replication factor and effective settings, from v7 the id.
- With `validate_only` nothing is created, and the id is the zero id.

Left out: `timeout_ms` is ignored, because the answer always comes after the topic exists; there are
no quotas and no creation policies.
"""

from __future__ import annotations

from towpath.kafka.apis.admin_support import (
    EXPECTED_FAILURES,
    Refused,
    duplicates,
    failure_of,
    run_bounded,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import Services
from towpath.topics.effective import describe
from towpath.topics.interface import NewTopic, Topic
from towpath.topics.names import CLUSTER_METADATA

_REPLICATION_FACTOR = 1


@api(key=19, versions=(2, 7), request=CreateTopicsRequest, response=CreateTopicsResponse)
async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create each topic, or say why not."""
    repeated = duplicates(topic.name for topic in request.topics)
    services = context.services

    async def create(topic: CreatableTopic) -> CreatableTopicResult:
        try:
            created = await services.topics.create(
                _new_topic(topic), validate_only=request.validate_only
            )
        except EXPECTED_FAILURES as error:
            code, message = failure_of(error)
            return CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
        return _result(created, services)

    wanted = [topic for topic in request.topics if topic.name not in repeated]
    results = await run_bounded(create, wanted)
    results += [
        CreatableTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name in sorted(repeated)
    ]
    return CreateTopicsResponse(topics=results)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    if topic.name == CLUSTER_METADATA:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
        )
    if topic.assignments:
        _check_assignments(topic)
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={row.partition_index: tuple(row.broker_ids) for row in topic.assignments},
        overrides={config.name: config.value for config in topic.configs},
    )


def _check_assignments(topic: CreatableTopic) -> None:
    """What Kafka refuses before it looks at the assignments themselves."""
    start = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{start} replication factor was not set to -1.")
    if topic.num_partitions != -1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{start} numPartitions was not set to -1.")
    repeated = duplicates(row.partition_index for row in topic.assignments)
    if repeated:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {min(repeated)}",
        )


def _result(topic: Topic, services: Services) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=_REPLICATION_FACTOR,
        configs=[
            CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
            for entry in describe(topic.overrides, services.broker_configs)
        ],
    )
