"""The table of topic settings: what is accepted, what is refused, and what it results in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import InvalidConfig
from towpath.topics import configs
from towpath.topics.effective import ConfigSource, TopicDefaults, describe, settings_of
from towpath.topics.values import ConfigType, parse, to_text


def test_every_default_is_valid_and_canonical() -> None:
    for name, setting in configs.SETTINGS.items():
        assert setting.name == name
        assert setting.documentation
        assert to_text(setting.parse(setting.default)) == setting.default


def test_the_table_is_sorted_and_tells_what_has_no_effect() -> None:
    assert list(configs.SETTINGS) == sorted(configs.SETTINGS)
    assert configs.SETTINGS["segment.bytes"].documentation.endswith(configs.NO_EFFECT)
    assert configs.NO_EFFECT not in configs.SETTINGS["retention.ms"].documentation


@pytest.mark.parametrize("name", ["retention", "message.format.version", "Retention.ms", ""])
def test_an_unknown_name_is_refused_as_kafka_does(name: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        configs.validate({name: "1"})
    assert str(caught.value) == f"Unknown topic config name: {name}"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: "
         "Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: "
         "Value must be at least -1"),
        ("retention.ms", str(1 << 63), "Not a number of type LONG"),
        ("max.message.bytes", str(1 << 31), "Not a number of type INT"),
        ("max.message.bytes", "1e6", "Not a number of type INT"),
        ("max.message.bytes", "1_000", "Not a number of type INT"),
        ("max.message.bytes", "٣", "Not a number of type INT"),
        ("max.message.bytes", "9" * 5000, "Not a number of type INT"),
        ("cleanup.policy", "purge", "Invalid value purge for configuration cleanup.policy: "
         "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,", "String must be one of"),
        ("message.timestamp.type", "createtime", "String must be one of"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("compression.type", "brotli", "String must be one of"),
        ("compression.gzip.level", "0", "Value must be at least 1"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
        ("leader.replication.throttled.replicas", "1", "must be the literal '*'"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_kafkas_message(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        configs.validate({name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("retention.ms", " +5 ", "5"),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("preallocate", "TRUE", "true"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("compression.type", "zstd", "zstd"),
        ("compression.gzip.level", "-1", "-1"),
        ("follower.replication.throttled.replicas", "*", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
        ("remote.storage.enable", "false", "false"),
    ],
)
def test_values_are_stored_in_canonical_form(name: str, value: str, stored: str) -> None:
    assert configs.validate({name: value}) == {name: stored}


def test_null_values_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="Null value not supported for topic configs: a,b"):
        configs.validate({"a": None, "b": None})


def test_compaction_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms \(9\) > max"):
        configs.validate({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"})
    configs.validate({"min.compaction.lag.ms": "8", "max.compaction.lag.ms": "8"})


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_longs_round_trip(number: int) -> None:
    assert to_text(parse("x", str(number), ConfigType.LONG)) == str(number)


def test_settings_come_from_overrides_over_the_brokers_defaults() -> None:
    defaults = TopicDefaults(retention_ms=10, max_message_bytes=99, cleanup_policy="compact")
    found = settings_of({"retention.ms": "-1", "cleanup.policy": "compact,delete"}, defaults)
    assert (found.retention_ms, found.max_message_bytes) == (-1, 99)
    assert found.compact
    assert found.delete
    assert not found.log_append_time
    plain = settings_of({"message.timestamp.type": "LogAppendTime"}, defaults)
    assert plain.retention_ms == 10
    assert plain.log_append_time
    assert plain.compact
    assert not plain.delete


def test_an_empty_cleanup_policy_removes_nothing() -> None:
    found = settings_of({"cleanup.policy": ""}, TopicDefaults())
    assert not found.compact
    assert not found.delete


def test_a_stored_override_of_another_release_counts_as_not_set() -> None:
    found = settings_of({"retention.ms": "a week", "future.setting": "1"}, TopicDefaults())
    assert found.retention_ms == 604_800_000


def test_any_negative_size_means_no_limit() -> None:
    assert settings_of({"retention.bytes": "-7"}, TopicDefaults()).retention_bytes == -1


@pytest.mark.parametrize(
    "wrong",
    [
        {"retention_ms": -2},
        {"cleanup_policy": "x"},
        {"num_partitions": 0},
        {"num_partitions": 100_001},
    ],
)
def test_defaults_that_no_topic_could_have_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig):
        TopicDefaults(**wrong)  # type: ignore[arg-type]


def test_describe_names_every_source_of_a_value() -> None:
    broker = TopicDefaults(retention_ms=10).broker_configs()
    rows = {row.name: row for row in describe({"retention.ms": "5"}, broker)}
    assert len(rows) == len(configs.SETTINGS)
    retention = rows["retention.ms"]
    assert (retention.value, retention.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "10", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.ms", "604800000", ConfigSource.DEFAULT_CONFIG),
    ]
    assert rows["cleanup.policy"].source == ConfigSource.DEFAULT_CONFIG
    assert rows["cleanup.policy"].type is ConfigType.LIST
    assert rows["remote.storage.enable"].synonyms == ()
    unset = {row.name: row for row in describe({}, broker)}["retention.ms"]
    assert (unset.value, unset.source) == ("10", ConfigSource.STATIC_BROKER_CONFIG)
