"""Settings of groups in the four APIs of configs."""

from __future__ import annotations

import pytest
from tests.unit.helpers_topics import Fault
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig

from towpath.kafka.apis.config_resources import ResourceType
from towpath.kafka.codec.messages import alter_configs as legacy
from towpath.kafka.codec.messages import incremental_alter_configs as incremental
from towpath.kafka.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from towpath.kafka.codec.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import MetadataError

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE, APPEND = 0, 1, 2
GROUP = ResourceType.GROUP
Change = tuple[str, int, str | None]


async def alter(rig: AdminRig, *changes: Change, only: bool = False) -> tuple[int, str | None]:
    configs = [
        incremental.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = incremental.AlterConfigsResource(
        resource_type=GROUP, resource_name="g", configs=configs
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)
    response = await rig.call(request, incremental.IncrementalAlterConfigsResponse, 1)
    return response.responses[0].error_code, response.responses[0].error_message


async def replace(rig: AdminRig, **values: str) -> int:
    configs = [
        legacy.AlterableConfig(name=name.replace("_", "."), value=value)
        for name, value in values.items()
    ]
    resource = legacy.AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=configs)
    request = legacy.AlterConfigsRequest(resources=[resource])
    return (await rig.call(request, legacy.AlterConfigsResponse, 2)).responses[0].error_code


async def described(rig: AdminRig, group: str = "g") -> dict[str, tuple[str | None, int]]:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    result = (await rig.call(request, DescribeConfigsResponse, 4)).results[0]
    assert result.error_code == 0
    for row in result.configs:
        assert [(one.value, one.source) for one in row.synonyms] == [(row.value, row.config_source)]
        assert row.documentation
        assert not row.read_only
    return {row.name: (row.value, row.config_source) for row in result.configs}


async def listed(rig: AdminRig) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    response = await rig.call(request, ListConfigResourcesResponse, 1)
    return [row.resource_name for row in response.config_resources]


async def test_settings_of_a_group_come_and_go() -> None:
    async with admin_rig() as rig:
        assert await described(rig) == {SESSION: ("45000", 5), INTERVAL: ("5000", 5)}
        assert await listed(rig) == []
        assert await alter(rig, (SESSION, SET, "50000"), (INTERVAL, SET, "6000")) == (0, None)
        assert await described(rig) == {SESSION: ("50000", 8), INTERVAL: ("6000", 8)}
        assert await listed(rig) == ["g"]
        assert await alter(rig, (SESSION, DELETE, None)) == (0, None)
        assert await described(rig) == {SESSION: ("45000", 5), INTERVAL: ("6000", 8)}
        assert await alter(rig, (INTERVAL, DELETE, None)) == (0, None)
        assert await alter(rig, (INTERVAL, DELETE, None)) == (0, None)
        assert await listed(rig) == []
        assert not [key for _, key in rig.store.calls if key.endswith("/state")]


async def test_all_settings_are_replaced_at_once() -> None:
    async with admin_rig() as rig:
        await alter(rig, (SESSION, SET, "50000"))
        assert await replace(rig, consumer_heartbeat_interval_ms="7000") == 0
        assert await described(rig) == {SESSION: ("45000", 5), INTERVAL: ("7000", 8)}
        assert await replace(rig) == 0
        assert await listed(rig) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(SESSION, SET, "44999")], f"{SESSION} must be greater than or equal to "
         "group.consumer.min.session.timeout.ms"),
        ([(SESSION, SET, "60001")], f"{SESSION} must be less than or equal to "
         "group.consumer.max.session.timeout.ms"),
        ([(INTERVAL, SET, "4999")], f"{INTERVAL} must be greater than or equal to "
         "group.consumer.min.heartbeat.interval.ms"),
        ([(INTERVAL, SET, "15001")], f"{INTERVAL} must be less than or equal to "
         "group.consumer.max.heartbeat.interval.ms"),
        ([(SESSION, SET, "x")],
         f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "45000.5")],
         f"Invalid value 45000.5 for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "")],
         f"Invalid value  for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "99999999999")],
         f"Invalid value 99999999999 for configuration {SESSION}: Not a number of type INT"),
        ([(SESSION, SET, "0")],
         f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        ([("no.such", SET, "1")], "Unknown group config name: no.such"),
        ([(SESSION, APPEND, "1")],
         f"Can't APPEND to key {SESSION} because its type is not LIST."),
    ],
)  # fmt: skip
async def test_what_is_refused(changes: list[Change], message: str) -> None:
    async with admin_rig() as rig:
        assert await alter(rig, *changes) == (ErrorCode.INVALID_CONFIG, message)
        assert await listed(rig) == []


async def test_checked_but_not_changed() -> None:
    async with admin_rig() as rig:
        assert await alter(rig, (SESSION, SET, "50000"), only=True) == (0, None)
        assert (await alter(rig, (SESSION, SET, "1"), only=True))[0] == ErrorCode.INVALID_CONFIG
        assert await listed(rig) == []


async def test_a_lost_race_is_run_again() -> None:
    async with admin_rig() as rig:
        await alter(rig, (SESSION, SET, "50000"))

        async def meanwhile() -> None:
            await alter(rig, (INTERVAL, SET, "6000"))

        rig.store.faults.append(Fault("put", "/config", action=meanwhile))
        assert await alter(rig, (SESSION, SET, "51000")) == (0, None)
        assert await described(rig) == {SESSION: ("51000", 8), INTERVAL: ("6000", 8)}


async def test_a_store_that_fails() -> None:
    async with admin_rig() as rig:
        rig.store.faults.append(Fault("get", "/config", error=MetadataError("away")))
        assert (await alter(rig, (SESSION, SET, "50000")))[0] == ErrorCode.REQUEST_TIMED_OUT
