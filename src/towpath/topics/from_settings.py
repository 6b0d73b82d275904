"""What the settings of a system say about its topics."""

from __future__ import annotations

from towpath.config.settings import Settings
from towpath.topics.effective import TopicDefaults


def topic_defaults(settings: Settings) -> TopicDefaults:
    """What a topic gets that does not say otherwise."""
    return TopicDefaults(
        num_partitions=settings.num_partitions,
        retention_ms=settings.log_retention_ms,
        retention_bytes=settings.log_retention_bytes,
        max_message_bytes=settings.message_max_bytes,
        cleanup_policy=settings.log_cleanup_policy,
        delete_retention_ms=settings.log_cleaner_delete_retention_ms,
        min_compaction_lag_ms=settings.log_cleaner_min_compaction_lag_ms,
        max_compaction_lag_ms=settings.log_cleaner_max_compaction_lag_ms,
        min_cleanable_dirty_ratio=settings.log_cleaner_min_cleanable_ratio,
        message_timestamp_type=settings.log_message_timestamp_type,
        message_timestamp_before_max_ms=settings.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=settings.log_message_timestamp_after_max_ms,
    )
