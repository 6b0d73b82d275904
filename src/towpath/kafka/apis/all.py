"""Imports every API module, so that the registry is complete."""

from towpath.kafka.apis import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from towpath.kafka.apis.registry import APIS

__all__ = [
    "APIS", "alter_configs", "api_versions", "create_partitions", "create_topics",
    "delete_records", "delete_topics", "describe_cluster", "describe_configs",
    "describe_log_dirs", "describe_topic_partitions", "fetch", "find_coordinator",
    "incremental_alter_configs", "init_producer_id", "list_config_resources", "list_offsets",
    "metadata", "offset_for_leader_epoch", "produce",
]  # fmt: skip
