"""IncrementalAlterConfigs (key 44), v0-1: sets, removes, extends or shortens single overrides.

- SET and DELETE work on every setting, APPEND and SUBTRACT on lists; the latter start from the
  topic's override, or from Kafka's default where there is none.
- A resource or a setting given twice, a null value except for DELETE, and an unknown operation are
  INVALID_REQUEST.
- Only topics and groups can be altered; brokers are configured by their file and a restart.
"""

from __future__ import annotations

from enum import IntEnum

from towpath.errors import ConcurrentChange, InvalidConfig, TopicNotFound
from towpath.groups.interface import Groups
from towpath.kafka.apis.admin_support import EXPECTED_FAILURES, failure_of
from towpath.kafka.apis.config_resources import (
    ResourceType,
    check_alterable,
    check_configs,
    check_once,
    invalid_request,
    repeated_resources,
)
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from towpath.topics.configs import SETTINGS
from towpath.topics.interface import Topic, Topics
from towpath.topics.values import ConfigType

ATTEMPTS = 5
"""Lost races on a list that is extended or shortened before the client is told to try again."""


class Operation(IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_ON_LISTS = (Operation.APPEND, Operation.SUBTRACT)


@api(
    key=44,
    versions=(0, 1),
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Alter each resource, or say why not."""
    return IncrementalAlterConfigsResponse(
        responses=[await _alter(resource, request, context) for resource in request.resources]
    )


async def _alter(
    resource: AlterConfigsResource,
    request: IncrementalAlterConfigsRequest,
    context: RequestContext,
) -> AlterConfigsResourceResponse:
    response = AlterConfigsResourceResponse(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    services = context.services
    deletes = [row for row in resource.configs if row.config_operation == Operation.DELETE]
    try:
        check_once(resource, repeated_resources(request.resources))
        check_configs(resource.configs, may_be_null=deletes)
        check_alterable(resource, services.cluster.broker_id, loggers_known=True)
        _check_operations(resource.configs)
        if resource.resource_type == ResourceType.GROUP:
            await _alter_group(services.groups, resource, validate_only=request.validate_only)
        else:
            await _alter_topic(services.topics, resource, validate_only=request.validate_only)
    except EXPECTED_FAILURES as error:
        response.error_code, response.error_message = failure_of(error)
    return response


def _check_operations(configs: list[AlterableConfig]) -> None:
    for config in configs:
        if config.config_operation not in tuple(Operation):
            raise invalid_request(f"Unknown operations type {config.config_operation}")
        setting = SETTINGS.get(config.name)
        is_list = setting is not None and setting.type is ConfigType.LIST
        if config.config_operation in _ON_LISTS and not is_list:
            operation = Operation(config.config_operation).name
            raise InvalidConfig(
                f"Can't {operation} to key {config.name} because its type is not LIST."
            )


async def _alter_group(
    groups: Groups, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    """Apply the operations; groups have no lists."""
    news = {
        config.name: config.value if config.config_operation == Operation.SET else None
        for config in resource.configs
    }
    await groups.configs.change(resource.resource_name, news, validate_only=validate_only)


async def _alter_topic(
    topics: Topics, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    """Apply the operations to one version of the topic."""
    for _ in range(ATTEMPTS):
        await topics.refresh()
        topic = topics.get(resource.resource_name)
        if topic is None:
            raise TopicNotFound(f"The topic '{resource.resource_name}' does not exist.")
        on_lists = any(row.config_operation in _ON_LISTS for row in resource.configs)
        try:
            await topics.alter(
                topic.name,
                {row.name: _new_value(row, topic) for row in resource.configs},
                replace=False,
                validate_only=validate_only,
                expect_version=topic.version if on_lists else None,
            )
        except ConcurrentChange:
            continue
        return
    raise ConcurrentChange(f"topic '{resource.resource_name}' is being changed; try again")


def _new_value(config: AlterableConfig, topic: Topic) -> str | None:
    """The setting's value after the operation; None removes the override."""
    if config.config_operation == Operation.DELETE:
        return None
    assert config.value is not None
    if config.config_operation == Operation.SET:
        return config.value
    present = topic.overrides.get(config.name, SETTINGS[config.name].default)
    items = [item for item in present.split(",") if item]
    for item in config.value.split(","):
        if config.config_operation == Operation.SUBTRACT:
            items = [kept for kept in items if kept != item]
        elif item not in items:
            items.append(item)
    return ",".join(items)
