"""The settings of consumer groups, under Kafka's names."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from towpath.config.units import DurationMs, SizeBytes

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Assignor = Literal["uniform", "range"]
Protocol = Literal["classic", "consumer"]


def _split(value: object) -> object:
    """Names separated by commas, as Kafka writes lists."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _check_unique(names: tuple[str, ...], setting: str) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{setting} names something twice")


class GroupSettingsFields(BaseModel):
    """What the coordinators of groups read."""

    group_min_session_timeout_ms: DurationMs = Field(
        default=6_000, ge=0, le=INT32_MAX, description="Shortest session time-out a member may ask"
    )
    group_max_session_timeout_ms: DurationMs = Field(
        default=1_800_000,
        ge=0,
        le=INT32_MAX,
        description="Longest session time-out a member may ask",
    )
    group_initial_rebalance_delay_ms: DurationMs = Field(
        default=0,
        ge=0,
        le=INT32_MAX,
        description="How long an empty group waits for more members before its first rebalance",
    )
    group_max_size: int = Field(
        default=INT32_MAX, ge=1, le=INT32_MAX, description="Most members of a classic group"
    )
    group_coordinator_rebalance_protocols: Annotated[
        tuple[Protocol, ...], BeforeValidator(_split)
    ] = Field(
        default=("classic", "consumer"),
        min_length=1,
        description="Protocols that groups may use: classic, consumer",
    )
    group_consumer_session_timeout_ms: DurationMs = Field(
        default=45_000,
        ge=1,
        le=INT32_MAX,
        description="Session time-out of the consumer protocol",
    )
    group_consumer_min_session_timeout_ms: DurationMs = Field(
        default=45_000,
        ge=1,
        le=INT32_MAX,
        description="Shortest consumer.session.timeout.ms of a group",
    )
    group_consumer_max_session_timeout_ms: DurationMs = Field(
        default=60_000,
        ge=1,
        le=INT32_MAX,
        description="Longest consumer.session.timeout.ms of a group",
    )
    group_consumer_heartbeat_interval_ms: DurationMs = Field(
        default=5_000,
        ge=1,
        le=INT32_MAX,
        description="Heartbeat interval of the consumer protocol",
    )
    group_consumer_min_heartbeat_interval_ms: DurationMs = Field(
        default=5_000,
        ge=1,
        le=INT32_MAX,
        description="Shortest consumer.heartbeat.interval.ms of a group",
    )
    group_consumer_max_heartbeat_interval_ms: DurationMs = Field(
        default=15_000,
        ge=1,
        le=INT32_MAX,
        description="Longest consumer.heartbeat.interval.ms of a group",
    )
    group_consumer_max_size: int = Field(
        default=INT32_MAX,
        ge=1,
        le=INT32_MAX,
        description="Most members of a group of the consumer protocol",
    )
    group_consumer_assignors: Annotated[tuple[Assignor, ...], BeforeValidator(_split)] = Field(
        default=("uniform", "range"),
        min_length=1,
        description="Server-side assignors; the first is the default",
    )
    offset_metadata_max_bytes: SizeBytes = Field(
        default=4_096,
        ge=0,
        le=INT32_MAX,
        description="Longest metadata of a committed offset",
    )
    offsets_retention_ms: DurationMs = Field(
        default=604_800_000,
        ge=60_000,
        le=INT64_MAX,
        description="Offsets of a group without members are kept this long",
    )
    offsets_retention_check_interval_ms: DurationMs = Field(
        default=600_000, ge=1, description="How often offsets are looked through for old ones"
    )

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        for name in ("group", "group_consumer"):
            _check_order(self, f"{name}_min_session_timeout_ms", f"{name}_max_session_timeout_ms")
        for what in ("session_timeout", "heartbeat_interval"):
            least, most = f"group_consumer_min_{what}_ms", f"group_consumer_max_{what}_ms"
            _check_order(self, least, f"group_consumer_{what}_ms")
            _check_order(self, f"group_consumer_{what}_ms", most)
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ValueError(
                "group_consumer_heartbeat_interval_ms must be less than "
                "group_consumer_session_timeout_ms"
            )
        _check_unique(self.group_consumer_assignors, "group_consumer_assignors")
        protocols = "group_coordinator_rebalance_protocols"
        _check_unique(self.group_coordinator_rebalance_protocols, protocols)
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ValueError(f"{protocols} must contain classic")
        return self


def _check_order(settings: GroupSettingsFields, lower: str, upper: str) -> None:
    if getattr(settings, lower) > getattr(settings, upper):
        raise ValueError(f"{lower} must not be larger than {upper}")
