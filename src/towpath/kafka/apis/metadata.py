"""Metadata (key 3), v0-13: brokers, topics, and which broker to ask for each partition.

- Topics: null (v1+) or empty (v0) asks for all; by name; by id (v12+, an unknown id is answered
  with UNKNOWN_TOPIC_ID). Names and ids may be mixed; of an entry with both, the id counts.
- Missing topics are created if the request (v4+; always before) and `auto.create.topics.enable`
  allow it. Kafka creates them in the background and answers an error the first time; here the
  answer holds the created topic.
- The leader is the broker that the rendezvous hash names; any broker serves any partition. The
  leader epoch is 0. Beside the leader, one replica in each other rack is shown, so that consumers
  may fetch from their own (see `fetch`).
- A client with a zone in its `client.id` is shown the brokers there, one of which is its controller
  and one each partition's leader, as long as one lives (`cluster/zones.py`).
- Authorized operations are the full masks that Kafka answers without an authorizer.

Left out: REBOOTSTRAP_REQUIRED (v13), which a broker never has a reason to send.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID
from weakref import WeakKeyDictionary

from towpath.cluster.view import View
from towpath.errors import InvalidTopicName, TowpathError
from towpath.kafka.apis.admin_support import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    freshen,
    missing_topic,
    run_bounded,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.kept_array import KeptArray
from towpath.kafka.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import Services
from towpath.metadata.store import MetadataError
from towpath.topics.interface import NewTopic, Topic
from towpath.topics.names import is_internal, is_valid

_IDS_SINCE = 12
_LEADER_EPOCH = 0

Partitions = KeptArray[MetadataResponsePartition]
PARTITIONS_REMEMBERED_MAX = 100_000
"""Of one view of the brokers; beyond it the partitions of all topics are made again."""


class _Remembered:
    """What clients with one view of the brokers are told of topics."""

    def __init__(self) -> None:
        self.topics: dict[tuple[int, int], Partitions] = {}
        """By number of the topic and of its partitions, of which it may get more."""
        self._partitions = 0

    def add(self, key: tuple[int, int], partitions: Partitions) -> None:
        """Remember a topic's partitions, and forget everything before if it is too much."""
        if self._partitions + len(partitions) > PARTITIONS_REMEMBERED_MAX:
            self.topics.clear()
            self._partitions = 0
        self.topics[key] = partitions
        self._partitions += len(partitions)


_remembered: WeakKeyDictionary[View, _Remembered] = WeakKeyDictionary()


@api(key=3, versions=(0, 13), request=MetadataRequest, response=MetadataResponse)
async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Answer the cluster's shape, creating missing topics where allowed."""
    if _is_malformed(request, context.api_version):
        return _invalid_request(request)
    services = context.services
    fresh = await freshen(services)
    view = context.view()
    topics = await _topics(request, context, view, fresh)
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in view.brokers
        ],
        cluster_id=services.cluster.cluster_id,
        controller_id=view.controller(),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _is_malformed(request: MetadataRequest, version: int) -> bool:
    """Kafka refuses ids and null names in v10 and v11, though their encoding has room for them."""
    return version < _IDS_SINCE and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()
    )


def _invalid_request(request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name or "",
                topic_id=topic.topic_id,
            )
            for topic in request.topics or ()
        ]
    )


async def _topics(
    request: MetadataRequest, context: RequestContext, view: View, fresh: bool
) -> list[MetadataResponseTopic]:
    services = context.services
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [_found(topic, view) for topic in services.topics.all()]
    may_create = (
        fresh and request.allow_auto_topic_creation and services.settings.auto_create_topics_enable
    )

    async def answer(asked: tuple[UUID, str | None]) -> MetadataResponseTopic:
        topic_id, name = asked
        if topic_id != ZERO_UUID:
            return _by_id(topic_id, services, view, fresh)
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
        topic = services.topics.get(name)
        if topic is not None:
            return _found(topic, view)
        if not may_create or not is_valid(name):
            return _missing(name, fresh)
        created = await _create(name, services)
        return _failed(name, created) if isinstance(created, ErrorCode) else _found(created, view)

    return await run_bounded(answer, _asked_once(request.topics))


def _asked_once(topics: list[MetadataRequestTopic]) -> list[tuple[UUID, str | None]]:
    """Each topic asked for, once, in the order of the request."""
    keyed = (
        (topic.topic_id, None if topic.topic_id != ZERO_UUID else topic.name) for topic in topics
    )
    return list(dict.fromkeys(keyed))


def _by_id(topic_id: UUID, services: Services, view: View, fresh: bool) -> MetadataResponseTopic:
    topic = services.topics.get_by_id(topic_id)
    if topic is not None:
        return _found(topic, view)
    code = ErrorCode.UNKNOWN_TOPIC_ID if fresh else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)


async def _create(name: str, services: Services) -> Topic | ErrorCode:
    try:
        return await services.topics.create(NewTopic(name))
    except InvalidTopicName:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    except (TowpathError, MetadataError):
        # Another client may have created it at the same moment; else the client may try again.
        return services.topics.get(name) or ErrorCode.LEADER_NOT_AVAILABLE


def _missing(name: str, fresh: bool) -> MetadataResponseTopic:
    code = missing_topic(fresh) if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return _failed(name, code)


def _failed(name: str, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _found(topic: Topic, view: View) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=_partitions(topic, view),
    )


def _partitions(topic: Topic, view: View) -> Partitions:
    """The topic's partitions with their leaders, as this view of the brokers has them for good."""
    remembered = _remembered.get(view)
    if remembered is None:
        remembered = _remembered[view] = _Remembered()
    key = (topic.number, topic.partitions)
    known = remembered.topics.get(key)
    if known is None:
        known = KeptArray(_led_partitions(topic, view))
        remembered.add(key, known)
    return known


def _led_partitions(topic: Topic, view: View) -> Iterator[MetadataResponsePartition]:
    first_stream = topic.stream(0)
    for number in range(topic.partitions):
        replicas = view.replicas(first_stream + number)
        yield MetadataResponsePartition(
            partition_index=number,
            leader_id=replicas[0],
            leader_epoch=_LEADER_EPOCH,
            replica_nodes=replicas,
            isr_nodes=replicas,
        )
