"""The broker's effective settings under Kafka's dotted names, as DescribeConfigs shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from towpath.config.settings import Settings

DOTTED = (
    "auto_create_topics_enable",
    "connections_max_idle_ms",
    "default_replication_factor",
    "fetch_max_bytes",
    "group_consumer_assignors",
    "group_consumer_heartbeat_interval_ms",
    "group_consumer_max_heartbeat_interval_ms",
    "group_consumer_max_session_timeout_ms",
    "group_consumer_max_size",
    "group_consumer_min_heartbeat_interval_ms",
    "group_consumer_min_session_timeout_ms",
    "group_consumer_session_timeout_ms",
    "group_coordinator_rebalance_protocols",
    "group_initial_rebalance_delay_ms",
    "group_max_session_timeout_ms",
    "group_max_size",
    "group_min_session_timeout_ms",
    "log_cleaner_delete_retention_ms",
    "log_cleaner_max_compaction_lag_ms",
    "log_cleaner_min_cleanable_ratio",
    "log_cleaner_min_compaction_lag_ms",
    "log_cleanup_policy",
    "log_message_timestamp_after_max_ms",
    "log_message_timestamp_before_max_ms",
    "log_message_timestamp_type",
    "log_retention_bytes",
    "log_retention_check_interval_ms",
    "log_retention_ms",
    "message_max_bytes",
    "num_partitions",
    "offset_metadata_max_bytes",
    "offsets_retention_check_interval_ms",
    "producer_id_expiration_ms",
    "socket_request_max_bytes",
)
"""Settings whose Kafka name differs by its dots only."""

RENAMED = {
    "session_timeout_ms": "broker.session.timeout.ms",
    "max_request_partition_size_limit": "max.request.partition.size.limit",
    "data_dir": "log.dirs",
}
"""Settings that Kafka calls otherwise."""

FIXED = {
    "compression.type": "producer",
    "delete.topic.enable": "true",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}
"""What Kafka lets one set and Towpath always does this way."""

MS_PER_HOUR = 3_600_000
MS_PER_MINUTE = 60_000


def text(value: object) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def effective(settings: Settings, index: int) -> dict[str, str]:
    """Kafka's name to value, for broker `index` of N, by name."""
    names = {name.replace("_", "."): text(getattr(settings, name)) for name in DOTTED}
    names |= {kafka: text(getattr(settings, name)) for name, kafka in RENAMED.items()}
    names |= FIXED
    names["offsets.retention.minutes"] = str(settings.offsets_retention_ms // MS_PER_MINUTE)
    port = settings.broker_kafka_port(index)
    broker_id = str(settings.broker_id(index))
    names["node.id"] = names["broker.id"] = broker_id
    names["listeners"] = f"PLAINTEXT://{settings.kafka_host}:{port}"
    names["advertised.listeners"] = f"PLAINTEXT://{settings.advertised_host}:{port}"
    rack = settings.broker_rack(index)
    if rack is not None:
        names["broker.rack"] = rack
    retention_ms = settings.log_retention_ms
    for unit, per_unit in (("hours", MS_PER_HOUR), ("minutes", MS_PER_MINUTE)):
        whole = retention_ms // per_unit if retention_ms > 0 else retention_ms
        names[f"log.retention.{unit}"] = str(whole)
    return dict(sorted(names.items()))
