"""AlterConfigs (key 33), v0-2: replaces all overrides of a topic or group by the given ones.

- A resource or a setting given twice, and a null value, is INVALID_REQUEST.
- Only topics and groups can be altered; brokers are configured by their file and a restart.

Deprecated in Kafka in favour of IncrementalAlterConfigs, and still served by it.
"""

from __future__ import annotations

from towpath.kafka.apis.admin_support import EXPECTED_FAILURES, failure_of
from towpath.kafka.apis.config_resources import (
    ResourceType,
    check_alterable,
    check_configs,
    check_once,
    repeated_resources,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@api(key=33, versions=(0, 2), request=AlterConfigsRequest, response=AlterConfigsResponse)
async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Alter each resource, or say why not."""
    return AlterConfigsResponse(
        responses=[await _alter(resource, request, context) for resource in request.resources]
    )


async def _alter(
    resource: AlterConfigsResource, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResourceResponse:
    response = AlterConfigsResourceResponse(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    services = context.services
    try:
        check_once(resource, repeated_resources(request.resources))
        check_configs(resource.configs, may_be_null=())
        check_alterable(resource, services.cluster.broker_id, loggers_known=False)
        values = {config.name: config.value for config in resource.configs}
        is_group = resource.resource_type == ResourceType.GROUP
        change = services.groups.configs.change if is_group else services.topics.alter
        await change(
            resource.resource_name, values, replace=True, validate_only=request.validate_only
        )
    except EXPECTED_FAILURES as error:
        response.error_code, response.error_message = failure_of(error)
    return response
