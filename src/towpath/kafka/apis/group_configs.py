"""How the settings of groups look in DescribeConfigs."""

from __future__ import annotations

from towpath.groups.settings import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    GroupSettings,
)
from towpath.kafka.apis.config_resources import invalid_request
from towpath.kafka.apis.group_support import check_group_id
from towpath.kafka.codec.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import Services
from towpath.topics.effective import ConfigSource
from towpath.topics.values import ConfigType

DYNAMIC_GROUP_CONFIG = 8
"""The source of what a group has set; Kafka's number."""

DOCUMENTATION = {
    CONSUMER_SESSION_TIMEOUT_MS: (
        "How long a member of a consumer-protocol group may be silent before it is removed."
    ),
    CONSUMER_HEARTBEAT_INTERVAL_MS: (
        "How often the members of a consumer-protocol group are told to send heartbeats."
    ),
}


async def group_rows(group_id: str, services: Services) -> list[DescribeConfigsResourceResult]:
    """Every setting of a group, whether or not there is such a group."""
    if not group_id:
        raise invalid_request("Group name must not be empty")
    if check_group_id(group_id) is not ErrorCode.NONE:
        return []
    own = await services.groups.configs.read(group_id)
    defaults = _defaults(services.groups.settings)
    return [_row(name, own.get(name), defaults[name]) for name in DOCUMENTATION]


def _defaults(settings: GroupSettings) -> dict[str, str]:
    return {
        CONSUMER_SESSION_TIMEOUT_MS: str(settings.consumer_session_timeout_ms),
        CONSUMER_HEARTBEAT_INTERVAL_MS: str(settings.consumer_heartbeat_interval_ms),
    }


def _row(name: str, own: str | None, default: str) -> DescribeConfigsResourceResult:
    value = default if own is None else own
    source = ConfigSource.DEFAULT_CONFIG if own is None else DYNAMIC_GROUP_CONFIG
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=source,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)],
        config_type=ConfigType.INT,
        documentation=DOCUMENTATION[name],
    )
