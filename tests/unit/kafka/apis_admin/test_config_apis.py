"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

import pytest
from tests.unit.helpers_topics import Fault
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig

from towpath.kafka.apis import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from towpath.kafka.apis.config_resources import ResourceType
from towpath.kafka.codec.messages import alter_configs as legacy
from towpath.kafka.codec.messages import incremental_alter_configs as incremental
from towpath.kafka.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from towpath.kafka.codec.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import StoreUnavailable
from towpath.topics.configs import SETTINGS
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic

REGISTERED = (alter_configs, describe_configs, incremental_alter_configs, list_config_resources)
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


async def describe(
    rig: AdminRig,
    kind: int,
    name: str,
    only: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=only)
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = (await rig.call(request, DescribeConfigsResponse, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def alter(
    rig: AdminRig,
    *changes: Change,
    name: str = "a",
    kind: int = ResourceType.TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=op, value=value)
                    for key, op, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    answer = await rig.call(request, incremental.IncrementalAlterConfigsResponse, version)
    (row,) = answer.responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row.error_code, row.error_message


async def replace(
    rig: AdminRig,
    configs: list[tuple[str, str | None]],
    *,
    name: str = "a",
    kind: int = ResourceType.TOPIC,
    version: int = 2,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs],
            )
        ],
        validate_only=validate_only,
    )
    (row,) = (await rig.call(request, legacy.AlterConfigsResponse, version)).responses
    return row.error_code, row.error_message


def overrides(rig: AdminRig, name: str = "a") -> dict[str, str]:
    topic = rig.catalog.get(name)
    assert topic is not None
    return dict(topic.overrides)


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic_is_described_in_every_version(version: int) -> None:
    async with admin_rig(defaults=TopicDefaults(retention_bytes=77)) as rig:
        await rig.catalog.create(NewTopic("a", overrides={"retention.ms": "5"}))
        result = await describe(
            rig,
            ResourceType.TOPIC,
            "a",
            version=version,
            synonyms=True,
            documentation=version >= 3,
        )
        assert result.error_code == 0
        rows = {row.name: row for row in result.configs}
        assert list(rows) == list(SETTINGS)
        own, static, default = (
            rows[key] for key in ("retention.ms", "retention.bytes", "segment.ms")
        )
        assert (own.value, own.config_source) == ("5", 1)
        assert (static.value, static.config_source) == ("77", 4)
        assert (default.value, default.config_source) == ("604800000", 5)
        assert not any(row.read_only or row.is_sensitive for row in rows.values())
        assert [(s.name, s.value, s.source) for s in own.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "604800000", 5),
        ]
        if version >= 3:
            assert own.config_type == 5
            assert own.documentation == SETTINGS["retention.ms"].documentation


async def test_synonyms_and_documentation_only_when_asked() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        result = await describe(rig, ResourceType.TOPIC, "a")
        assert all(row.synonyms == [] and row.documentation is None for row in result.configs)


async def test_keys_filter_and_an_empty_list_means_all() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        some = await describe(rig, ResourceType.TOPIC, "a", ["segment.ms", "nope"])
        assert [row.name for row in some.configs] == ["segment.ms"]
        assert len((await describe(rig, ResourceType.TOPIC, "a", [])).configs) == len(SETTINGS)


async def test_this_broker_is_described_and_its_secrets_are_not() -> None:
    async with admin_rig(defaults=TopicDefaults(retention_ms=9)) as rig:
        result = await describe(rig, ResourceType.BROKER, "1", synonyms=True, documentation=True)
        rows = {row.name: row for row in result.configs}
        assert all(row.read_only for row in rows.values())
        assert (rows["log.retention.ms"].value, rows["log.retention.ms"].config_source) == ("9", 4)
        assert rows["message.max.bytes"].config_source == 5
        assert rows["auto.create.topics.enable"].value == "true"
        secret = rows["ssl.keystore.password"]
        assert (secret.value, secret.is_sensitive) == (None, True)
        assert [synonym.value for synonym in secret.synonyms] == [None]
        assert (await describe(rig, ResourceType.BROKER, "")).configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (ResourceType.TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (ResourceType.TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST,
         "Unexpected broker id, expected 1 or empty string, but received 2"),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST,
         "Broker id must be an integer, but it is: x"),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST, "must not be empty"),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST, "expected 1 but received 2"),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (ResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "must not be empty"),
        (3, "x", ErrorCode.INVALID_REQUEST, "Unexpected resource type 3"),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.NONE, ""),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.NONE, ""),
    ],
)  # fmt: skip
async def test_what_has_no_settings(kind: int, name: str, code: ErrorCode, message: str) -> None:
    async with admin_rig() as rig:
        result = await describe(rig, kind, name)
        assert result.error_code == code
        assert message in (result.error_message or "")
        assert result.configs == []


async def test_an_unreachable_store_calls_no_topic_missing() -> None:
    async with admin_rig() as rig:
        rig.store.faults.append(Fault("barrier", "", error=StoreUnavailable("down")))
        result = await describe(rig, ResourceType.TOPIC, "a")
        assert result.error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("version", [0, 1])
async def test_incremental_set_and_delete(version: int) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", overrides={"segment.ms": "1", "flush.ms": "2"}))
        answer = await alter(
            rig,
            ("retention.ms", SET, "9"),
            ("segment.ms", DELETE, None),
            ("unknown.name", DELETE, None),
            version=version,
        )
        assert answer == (0, None)
        assert overrides(rig) == {"flush.ms": "2", "retention.ms": "9"}


async def test_incremental_append_and_subtract() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        assert await alter(rig, ("cleanup.policy", APPEND, "compact")) == (0, None)
        assert overrides(rig) == {"cleanup.policy": "delete,compact"}
        assert await alter(rig, ("cleanup.policy", APPEND, "compact")) == (0, None)
        assert overrides(rig) == {"cleanup.policy": "delete,compact"}
        assert await alter(rig, ("cleanup.policy", SUBTRACT, "delete,x")) == (0, None)
        assert overrides(rig) == {"cleanup.policy": "compact"}


async def test_an_append_that_loses_a_race_is_made_to_the_new_value() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        name = "leader.replication.throttled.replicas"

        async def meddle() -> None:
            row = rig.store.state.get(keys.topic("a"))
            assert row is not None
            record = keys.TopicRecord.decode(row.value)
            record.config[name] = "0:1"
            rig.store.state.write([(row.key, record.encode())], ())

        rig.store.faults.append(Fault("put", keys.topic("a"), action=meddle))
        assert await alter(rig, (name, APPEND, "1:1")) == (0, None)
        assert overrides(rig) == {name: "0:1,1:1"}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST,
         "Null value not supported for : retention.ms"),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST, "Null value"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
         ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG,
         "Can't APPEND to key retention.ms because its type is not LIST."),
        ([("nope", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "Can't SUBTRACT to key nope"),
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 4"),
        ([("segment.ms", SET, "7"), ("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown"),
    ],
)  # fmt: skip
async def test_a_wrong_incremental_change_alters_nothing(
    changes: list[Change], code: ErrorCode, message: str
) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", overrides={"flush.ms": "1"}))
        found, text = await alter(rig, *changes)
        assert found == code
        assert message in (text or "")
        assert overrides(rig) == {"flush.ms": "1"}


@pytest.mark.parametrize("way", ["incremental", "legacy"])
@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (ResourceType.TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (ResourceType.TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "invalid"),
        (ResourceType.BROKER, "", ErrorCode.INVALID_REQUEST, "cannot be changed at run time"),
        (ResourceType.BROKER, "1", ErrorCode.INVALID_REQUEST, "cannot be changed at run time"),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST,
         "Unexpected broker id, expected 1, but received 2"),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST, "Node id must be an integer"),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST, ""),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST, "Default group resources"),
        (ResourceType.GROUP, "g" * 3001, ErrorCode.INVALID_GROUP_ID, "too long"),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_CONFIG, "Unknown group config name"),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST, "Client metrics"),
        (1, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 1"),
    ],
)  # fmt: skip
async def test_only_existing_topics_can_be_altered(
    way: str, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    async with admin_rig() as rig:
        if way == "incremental":
            found, text = await alter(rig, ("segment.ms", SET, "1"), kind=kind, name=name)
        else:
            found, text = await replace(rig, [("segment.ms", "1")], kind=kind, name=name)
        assert found == code
        assert message in (text or "")


@pytest.mark.parametrize("version", range(3))
async def test_the_legacy_way_replaces_every_override(version: int) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", overrides={"segment.ms": "1", "flush.ms": "2"}))
        assert await replace(rig, [("segment.ms", "3")], version=version) == (0, None)
        assert overrides(rig) == {"segment.ms": "3"}
        assert await replace(rig, [], version=version) == (0, None)
        assert overrides(rig) == {}


@pytest.mark.parametrize(
    ("configs", "code", "message"),
    [
        ([("nope", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        ([("segment.ms", None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : seg"),
        ([("segment.ms", "1"), ("segment.ms", "2")], ErrorCode.INVALID_REQUEST, "duplicate"),
    ],
)
async def test_a_wrong_legacy_change_alters_nothing(
    configs: list[tuple[str, str | None]], code: ErrorCode, message: str
) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", overrides={"flush.ms": "1"}))
        found, text = await replace(rig, configs)
        assert found == code
        assert message in (text or "")
        assert overrides(rig) == {"flush.ms": "1"}


async def test_validate_only_alters_nothing() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        good, bad = ("segment.ms", SET, "1"), ("segment.ms", SET, "x")
        assert (await alter(rig, good, validate_only=True))[0] == 0
        assert (await alter(rig, bad, validate_only=True))[0] == ErrorCode.INVALID_CONFIG
        assert (await replace(rig, [("segment.ms", "1")], validate_only=True))[0] == 0
        assert overrides(rig) == {}


async def test_a_resource_given_twice_is_refused_both_times() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        one = incremental.AlterConfigsResource(
            resource_type=2,
            resource_name="a",
            configs=[incremental.AlterableConfig(name="segment.ms", value="1")],
        )
        request = incremental.IncrementalAlterConfigsRequest(resources=[one, one])
        answer = await rig.call(request, incremental.IncrementalAlterConfigsResponse, 1)
        assert [row.error_code for row in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        old = legacy.AlterConfigsResource(resource_type=2, resource_name="a")
        legacy_request = legacy.AlterConfigsRequest(resources=[old, old])
        rows = (await rig.call(legacy_request, legacy.AlterConfigsResponse, 2)).responses
        assert {row.error_message for row in rows} == {"Each resource must appear at most once."}
        assert overrides(rig) == {}


@pytest.mark.parametrize(
    ("version", "types", "expected"),
    [
        (0, [], []),
        (1, [], [(8, "1"), (4, "1"), (2, "a"), (2, "b")]),
        (1, [2], [(2, "a"), (2, "b")]),
        (1, [2, 4, 2], [(4, "1"), (2, "a"), (2, "b")]),
        (1, [16, 32], []),
    ],
)
async def test_resources_are_listed_by_type(
    version: int, types: list[int], expected: list[tuple[int, str]]
) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("b"))
        await rig.catalog.create(NewTopic("a"))
        request = ListConfigResourcesRequest(resource_types=types)
        response = await rig.call(request, ListConfigResourcesResponse, version)
        assert response.error_code == 0
        rows = [(row.resource_type, row.resource_name) for row in response.config_resources]
        assert rows == expected


async def test_an_unknown_type_fails_the_whole_listing() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        request = ListConfigResourcesRequest(resource_types=[2, 64])
        response = await rig.call(request, ListConfigResourcesResponse, 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.config_resources == []
