"""Settings of consumer groups: Kafka's names, limits and how they depend on each other."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.broker import group_settings
from towpath.config.errors import ConfigError
from towpath.config.load import Given, load_settings
from towpath.config.settings import Settings
from towpath.groups.settings import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    GroupSettings,
)


def loaded(**given: Any) -> Settings:
    flags = [Given(name, value, "test") for name, value in given.items()]
    return load_settings(flags=flags, environ={}).settings


def test_the_defaults_are_the_same_in_both_places() -> None:
    assert group_settings(Settings()) == GroupSettings()


def test_kafka_s_names_set_and_show_them() -> None:
    given: dict[str, Any] = {
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "3s",
        "group.consumer.assignors": "range, uniform",
        "group.coordinator.rebalance.protocols": "classic",
        "offsets.retention.minutes": "120",
        "offset.metadata.max.bytes": 10,
    }
    settings = loaded(**given)
    groups = group_settings(settings)
    assert groups.min_session_timeout_ms == 100
    assert groups.initial_rebalance_delay_ms == 3_000
    assert groups.consumer_assignors == ("range", "uniform")
    assert groups.rebalance_protocols == ("classic",)
    assert groups.offsets_retention_ms == 7_200_000
    assert groups.offset_metadata_max_bytes == 10
    shown = settings.kafka_names()
    assert shown["group.consumer.assignors"] == "range,uniform"
    assert shown["offsets.retention.minutes"] == "120"
    assert shown["group.max.size"] == str(2**31 - 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_min_session_timeout_ms": 1_800_001}, "group_min_session_timeout_ms must not be"),
        ({"group_consumer_session_timeout_ms": 44_999}, "group_consumer_min_session_timeout_ms"),
        ({"group_consumer_session_timeout_ms": 60_001}, "group_consumer_session_timeout_ms must"),
        ({"group_consumer_heartbeat_interval_ms": 20_000}, "group_consumer_heartbeat_interval_ms"),
        ({"group_consumer_assignors": "range,range"}, "group_consumer_assignors names something"),
        ({"group_consumer_assignors": "sticky"}, "group_consumer_assignors"),
        ({"group_consumer_assignors": ""}, "group_consumer_assignors"),
        ({"group_coordinator_rebalance_protocols": "consumer"}, "group_coordinator_rebalance"),
        ({"group_max_size": 0}, "group_max_size"),
        ({"offsets_retention_ms": 0}, "offsets_retention_ms"),
    ],
)
def test_values_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(**given)
    assert str(caught.value).startswith(message)


def test_a_heartbeat_interval_is_shorter_than_the_session() -> None:
    with pytest.raises(ConfigError, match="must be less than"):
        loaded(
            group_consumer_heartbeat_interval_ms=50_000,
            group_consumer_max_heartbeat_interval_ms=50_000,
            group_consumer_session_timeout_ms=45_000,
        )


def test_a_group_s_own_values_stay_within_the_broker_s_bounds() -> None:
    settings = GroupSettings()
    own = {CONSUMER_SESSION_TIMEOUT_MS: "50000", CONSUMER_HEARTBEAT_INTERVAL_MS: "6000"}
    found = settings.with_overrides(own)
    assert found.consumer_session_timeout_ms == 50_000
    assert found.consumer_heartbeat_interval_ms == 6_000
    low = {CONSUMER_SESSION_TIMEOUT_MS: "1", CONSUMER_HEARTBEAT_INTERVAL_MS: "99999"}
    found = settings.with_overrides(low)
    assert found.consumer_session_timeout_ms == 45_000
    assert found.consumer_heartbeat_interval_ms == 15_000
