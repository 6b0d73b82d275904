"""The settings of the brokers that sequences play on, in Kafka's names.

Both brokers get the same. Kafka runs with one thread of each kind besides, so that requests are
taken in the order in which they arrive, whatever connection they come from.
"""

from __future__ import annotations

from tests.integration.groups_golden.registry import DEFAULTS, DELAYED, QUICK, TOPIC_IDS

CONSUMER_SESSION_MIN_MS = 500
COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
PROFILES: dict[str, dict[str, str]] = {
    QUICK: COMMON
    | {
        "group.min.session.timeout.ms": "200",
        "group.max.size": "4",
        "group.consumer.max.size": "4",
        "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MIN_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "offset.metadata.max.bytes": "32",
    },
    DELAYED: COMMON | {"group.initial.rebalance.delay.ms": "1000"},
    DEFAULTS: COMMON,
    TOPIC_IDS: COMMON,
}
KAFKA_ONLY = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    # Groups are converted between the protocols while they are empty, and only then.
    "group.consumer.migration.policy": "disabled",
}
KAFKA_ONLY_OF = {TOPIC_IDS: {"unstable.api.versions.enable": "true"}}
TOPICS = {"alpha": 3, "beta": 2, "gamma": 6}
"""Topics that are there before a sequence begins, with their partitions. None changes them."""
