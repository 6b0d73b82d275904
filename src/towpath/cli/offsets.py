"""Asks for offsets of many partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from towpath.cli.client import REQUEST_TIMEOUT_SECONDS, admin_types, result

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TopicPartition = tuple[str, int]


def _ask(admin: AdminClient, specs: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    from confluent_kafka import TopicPartition as KafkaPartition

    if not specs:
        return {}
    futures = admin.list_offsets(
        {KafkaPartition(topic, partition): spec for (topic, partition), spec in specs.items()},
        request_timeout=REQUEST_TIMEOUT_SECONDS,
    )
    return {
        (asked.topic, asked.partition): result(future, f"{asked.topic}-{asked.partition}").offset
        for asked, future in futures.items()
    }


def earliest(admin: AdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The log start of each partition."""
    return _ask(admin, dict.fromkeys(partitions, admin_types().OffsetSpec.earliest()))


def latest(admin: AdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end of each partition."""
    return _ask(admin, dict.fromkeys(partitions, admin_types().OffsetSpec.latest()))


def latest_known(
    admin: AdminClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """As `latest`, without the partitions that do not exist any more or do not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as KafkaPartition

    latest_spec = admin_types().OffsetSpec.latest()
    specs = {KafkaPartition(*each): latest_spec for each in partitions}
    if not specs:
        return {}
    found: dict[TopicPartition, int] = {}
    futures = admin.list_offsets(specs, request_timeout=REQUEST_TIMEOUT_SECONDS)
    for asked, future in futures.items():
        try:
            found[(asked.topic, asked.partition)] = future.result().offset
        except KafkaException:
            continue
    return found


def at_time(
    admin: AdminClient, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset of each partition at or after the time; -1 where there is none."""
    return _ask(
        admin, dict.fromkeys(partitions, admin_types().OffsetSpec.for_timestamp(timestamp_ms))
    )
