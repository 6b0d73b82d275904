"""What groups need to know: the broker's settings, with one group's own ones over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

INT32_MAX = 2**31 - 1
MINUTE_MS = 60_000

CLASSIC = "classic"
CONSUMER = "consumer"

CONSUMER_SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
GROUP_CONFIGS = (CONSUMER_HEARTBEAT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS)
"""What can be set per group (the group resource of DescribeConfigs and AlterConfigs)."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Limits and times of groups, under Kafka's names without `group`; defaults as Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    """What Kafka's shipped configuration sets; its built-in default is 3 s."""
    max_size: int = INT32_MAX
    """The most members of a classic group."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    rebalance_protocols: tuple[str, ...] = (CLASSIC, CONSUMER)
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = INT32_MAX
    """The most members of a group with server-side assignment."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """Server-side assignors; the first is the default."""

    def with_overrides(self, config: Mapping[str, str]) -> GroupSettings:
        """The settings of a group that has set `config`. Values are held within the broker's
        bounds, which may have changed since they were set."""
        session_ms = int(config.get(CONSUMER_SESSION_TIMEOUT_MS, self.consumer_session_timeout_ms))
        heartbeat_ms = int(
            config.get(CONSUMER_HEARTBEAT_INTERVAL_MS, self.consumer_heartbeat_interval_ms)
        )
        return replace(
            self,
            consumer_session_timeout_ms=min(
                max(session_ms, self.consumer_min_session_timeout_ms),
                self.consumer_max_session_timeout_ms,
            ),
            consumer_heartbeat_interval_ms=min(
                max(heartbeat_ms, self.consumer_min_heartbeat_interval_ms),
                self.consumer_max_heartbeat_interval_ms,
            ),
        )
