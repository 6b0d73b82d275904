"""ListConfigResources (key 74), v0-1: the resources whose settings can be described.

- v0 lists client metrics subscriptions only, of which there are none.
- v1 lists the asked types, or all when none is asked: brokers and their loggers by id, topics by
  name, and groups that have set something. Client metrics have no settings of their own.
- A type that Kafka does not know fails the request with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import structlog

from towpath.kafka.apis.admin_support import freshen
from towpath.kafka.apis.config_resources import ResourceType
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError

_log = structlog.get_logger(__name__)


@api(
    key=74,
    versions=(0, 1),
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
)
async def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """List the resources, in Kafka's order of types."""
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    asked = set(request.resource_types) or set(ResourceType)
    if asked - set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    await freshen(context.services)
    broker_ids = [str(broker.broker_id) for broker in context.services.cluster.brokers()]
    topic_names = [topic.name for topic in context.services.topics.all()]
    groups = await _groups(context) if ResourceType.GROUP in asked else []
    listed = (
        (ResourceType.GROUP, groups),
        (ResourceType.BROKER_LOGGER, broker_ids),
        (ResourceType.BROKER, broker_ids),
        (ResourceType.TOPIC, topic_names),
    )
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in listed
            if kind in asked
            for name in names
        ]
    )


async def _groups(context: RequestContext) -> list[str]:
    """The groups that have set something, as far as the store can tell."""
    try:
        return await context.services.groups.configs.group_ids()
    except MetadataError as error:
        _log.warning("listing no groups; the metadata store failed", error=str(error))
        return []
