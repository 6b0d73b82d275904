"""DescribeConfigs (key 32), v1-4.

- Topics: every setting with its value, source, synonyms, type (v3+) and documentation (v3+).
- Brokers: this broker's own settings, all read-only; the empty name means the cluster-wide dynamic
  defaults, of which there are none. Another broker's id is INVALID_REQUEST: clients ask it itself.
- Groups: the settings of the consumer protocol, also of groups that do not exist.
- Broker loggers and client metrics have no settings here: the answer is an empty list.
- `configuration_keys` filters; null and empty mean all.

Left out: types of broker settings that are not topic settings too; values that look like secrets
are hidden.
"""

from __future__ import annotations

from collections.abc import Mapping

from towpath.kafka.apis.admin_support import (
    EXPECTED_FAILURES,
    Refused,
    failure_of,
    freshen,
    missing_topic,
)
from towpath.kafka.apis.config_resources import ResourceType, invalid_request, parse_id
from towpath.kafka.apis.group_configs import group_rows
from towpath.kafka.apis.registry import RequestContext, api
from towpath.kafka.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import Services
from towpath.topics.configs import SETTINGS, Setting
from towpath.topics.effective import ConfigEntry, ConfigSource, describe
from towpath.topics.names import validate

_BY_BROKER_NAME: Mapping[str, Setting] = {
    setting.broker_name: setting for setting in SETTINGS.values() if setting.broker_name is not None
}
_SECRET_WORDS = ("password", "secret", "credential", "jaas", "token", "access.key", "access_key")
_UNKNOWN_TYPE = 0


@api(key=32, versions=(1, 4), request=DescribeConfigsRequest, response=DescribeConfigsResponse)
async def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    """Describe each resource, or say why not."""
    fresh = await freshen(context.services)
    return DescribeConfigsResponse(
        results=[
            await _result(resource, request, context.services, fresh)
            for resource in request.resources
        ]
    )


async def _result(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    services: Services,
    fresh: bool,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        rows = await _rows(resource, services, fresh)
    except EXPECTED_FAILURES as error:
        result.error_code, result.error_message = failure_of(error)
        return result
    wanted = set(resource.configuration_keys or ())
    result.configs = [row for row in rows if not wanted or row.name in wanted]
    for row in result.configs:
        if not request.include_synonyms:
            row.synonyms = []
        if not request.include_documentation:
            row.documentation = None
    return result


async def _rows(
    resource: DescribeConfigsResource, services: Services, fresh: bool
) -> list[DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_rows(name, services, fresh)
        case ResourceType.BROKER:
            return _broker_rows(name, services)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise invalid_request("Broker id must not be empty")
            _check_broker_id(name, services.cluster.broker_id, or_empty="")
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise invalid_request("Client metrics subscription name must not be empty")
        case ResourceType.GROUP:
            return await group_rows(name, services)
        case unknown:
            raise invalid_request(f"Unexpected resource type {unknown} for resource {name}")
    return []


def _topic_rows(name: str, services: Services, fresh: bool) -> list[DescribeConfigsResourceResult]:
    validate(name)
    topic = services.topics.get(name)
    if topic is None:
        raise Refused(missing_topic(fresh), f"The topic '{name}' does not exist.")
    return [_topic_row(entry) for entry in describe(topic.overrides, services.broker_configs)]


def _topic_row(entry: ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        config_source=entry.source,
        synonyms=[
            DescribeConfigsSynonym(name=row.name, value=row.value, source=row.source)
            for row in entry.synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation,
    )


def _broker_rows(name: str, services: Services) -> list[DescribeConfigsResourceResult]:
    if not name:
        return []
    _check_broker_id(name, services.cluster.broker_id, or_empty=" or empty string,")
    return [_broker_row(key, value) for key, value in sorted(services.broker_configs.items())]


def _check_broker_id(name: str, own_id: int, *, or_empty: str) -> None:
    asked = parse_id(name)
    if asked is None:
        raise invalid_request(f"Broker id must be an integer, but it is: {name}")
    if asked != own_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {own_id}{or_empty} but received {name}",
        )


def _broker_row(name: str, value: str) -> DescribeConfigsResourceResult:
    setting = _BY_BROKER_NAME.get(name)
    secret = any(word in name.lower() for word in _SECRET_WORDS)
    shown = None if secret else value
    is_default = setting is not None and setting.default == value
    source = ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG
    return DescribeConfigsResourceResult(
        name=name,
        value=shown,
        read_only=True,
        config_source=source,
        is_sensitive=secret,
        synonyms=[DescribeConfigsSynonym(name=name, value=shown, source=source)],
        config_type=_UNKNOWN_TYPE if setting is None else setting.type,
        documentation=None if setting is None else setting.documentation,
    )
