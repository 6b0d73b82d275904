"""What groups were measured on and with."""

from __future__ import annotations

import os
from pathlib import Path

import confluent_kafka

from bench.environment import describe_environment

VERSIONS = "Python {python}, Apache Kafka {kafka} on {java}, members with librdkafka {librdkafka}"


def describe(directory: Path) -> dict[str, object]:
    """Machine, versions and date."""
    return {
        **describe_environment(directory),
        "librdkafka": confluent_kafka.libversion()[0],
        "load": round(os.getloadavg()[0], 1),
    }
