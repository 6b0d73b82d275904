"""Towpath: a Kafka-compatible streaming system whose topics are also Iceberg tables."""

__version__ = "0.3.0"
