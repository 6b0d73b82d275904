"""kafka-python's names. Importing it warns about the standard library functions it uses, and the
test run turns warnings into errors: they are silenced here, for this import alone."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import ConfigResource, ConfigResourceType

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetSpec",
    "TopicPartition",
    "kafka_errors",
]
