"""A topic's effective settings: its own overrides, over the broker's defaults, over Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from towpath.errors import InvalidConfig
from towpath.topics.configs import LONG_MAX, SETTINGS, Setting
from towpath.topics.interface import TopicSettings
from towpath.topics.values import ConfigType, Value, invalid

MAX_TOPIC_PARTITIONS = 100_000
"""The most partitions a topic may have (stream ids would allow 2^20)."""


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets that does not say otherwise; the broker's own settings."""

    num_partitions: int = 1
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5

    def __post_init__(self) -> None:
        """Raise InvalidConfig for a default that no topic could have."""
        if not 1 <= self.num_partitions <= MAX_TOPIC_PARTITIONS:
            raise invalid("num.partitions", self.num_partitions, "Value is out of range")
        for name, text in self.by_setting().items():
            SETTINGS[name].parse(text)

    def by_setting(self) -> dict[str, str]:
        """The defaults as topic settings."""
        return {
            "retention.ms": str(self.retention_ms),
            "retention.bytes": str(self.retention_bytes),
            "max.message.bytes": str(self.max_message_bytes),
            "cleanup.policy": self.cleanup_policy,
            "message.timestamp.type": self.message_timestamp_type,
            "message.timestamp.before.max.ms": str(self.message_timestamp_before_max_ms),
            "message.timestamp.after.max.ms": str(self.message_timestamp_after_max_ms),
            "delete.retention.ms": str(self.delete_retention_ms),
            "min.compaction.lag.ms": str(self.min_compaction_lag_ms),
            "max.compaction.lag.ms": str(self.max_compaction_lag_ms),
            "min.cleanable.dirty.ratio": str(self.min_cleanable_dirty_ratio),
        }

    def broker_configs(self) -> dict[str, str]:
        """The defaults under the names that Kafka's broker settings have."""
        named = {str(SETTINGS[name].broker_name): text for name, text in self.by_setting().items()}
        return {"num.partitions": str(self.num_partitions), **named}


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places a value may come from."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One described setting. `synonyms` lists its sources, the effective one first."""

    name: str
    value: str
    source: ConfigSource
    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def settings_of(overrides: Mapping[str, str], defaults: TopicDefaults) -> TopicSettings:
    """The settings that the broker acts on.

    A stored override that this release cannot read counts as not set, so that a topic configured by
    another release stays usable.
    """
    texts = defaults.by_setting()
    values = {name: _value(SETTINGS[name], overrides, text) for name, text in texts.items()}
    policies = values["cleanup.policy"]
    assert isinstance(policies, tuple)
    return TopicSettings(
        max_message_bytes=_integer(values["max.message.bytes"]),
        retention_ms=_integer(values["retention.ms"]),
        retention_bytes=max(-1, _integer(values["retention.bytes"])),
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        compact="compact" in policies,
        delete="delete" in policies,
        timestamp_before_max_ms=_integer(values["message.timestamp.before.max.ms"]),
        timestamp_after_max_ms=_integer(values["message.timestamp.after.max.ms"]),
        delete_retention_ms=_integer(values["delete.retention.ms"]),
        min_compaction_lag_ms=_integer(values["min.compaction.lag.ms"]),
        max_compaction_lag_ms=_integer(values["max.compaction.lag.ms"]),
        min_cleanable_dirty_ratio=_number(values["min.cleanable.dirty.ratio"]),
    )


def _value(setting: Setting, overrides: Mapping[str, str], fallback: str) -> Value:
    text = overrides.get(setting.name)
    if text is not None:
        try:
            return setting.parse(text)
        except InvalidConfig:
            pass
    return setting.parse(fallback)


def _integer(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _number(value: Value) -> float:
    assert isinstance(value, int | float)
    return float(value)


def describe(overrides: Mapping[str, str], broker_configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a topic with its sources, in the order of names.

    `broker_configs` holds the broker's own settings under Kafka's names.
    """
    return [_entry(setting, overrides, broker_configs) for setting in SETTINGS.values()]


def _entry(
    setting: Setting, overrides: Mapping[str, str], broker_configs: Mapping[str, str]
) -> ConfigEntry:
    sources: list[Synonym] = []
    override = overrides.get(setting.name)
    if override is not None:
        sources.append(Synonym(setting.name, override, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    if setting.broker_name is not None:
        own = broker_configs.get(setting.broker_name, setting.default)
        if own != setting.default:
            sources.append(Synonym(setting.broker_name, own, ConfigSource.STATIC_BROKER_CONFIG))
        sources.append(Synonym(setting.broker_name, setting.default, ConfigSource.DEFAULT_CONFIG))
    return ConfigEntry(
        name=setting.name,
        value=sources[0].value if sources else setting.default,
        source=sources[0].source if sources else ConfigSource.DEFAULT_CONFIG,
        type=setting.type,
        documentation=setting.documentation,
        synonyms=tuple(sources),
    )
