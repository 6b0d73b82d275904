"""What a handler may use: a handler is a function of request, context and these services."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.cluster.interface import Cluster
from towpath.groups.interface import Groups
from towpath.groups.offsets.offsets import Offsets
from towpath.kafka.deadlines import Deadlines
from towpath.kafka.meter import Meter
from towpath.kafka.refused_batches import RefusedBatches
from towpath.log.interface import Log
from towpath.log.producer_ids import ProducerIds
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.interface import Topics


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The Kafka front end's own settings, under Kafka's names."""

    auto_create_topics_enable: bool = True
    socket_request_max_bytes: int = 104_857_600
    """The largest request frame; larger ones close the connection."""
    decompressed_max_bytes: int = 134_217_728
    """The largest decompressed batch; larger ones are refused without allocating more."""
    fetch_max_bytes: int = 57_671_680
    """The most a fetch answer carries, whatever the client asks for."""
    max_request_partition_size_limit: int = 2000
    """The most partitions a DescribeTopicPartitions answer carries."""
    connection_inflight_max_bytes: int = 209_715_200
    """Request bytes of one connection being worked on before its reading is paused."""
    process_inflight_max_bytes: int = 1_073_741_824
    """Request bytes of all connections being worked on before reading is paused."""
    connections_max_idle_ms: int = 600_000
    routing_enforce_owner: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """Everything below the front end, injected."""

    log: Log
    topics: Topics
    cluster: Cluster
    producer_ids: ProducerIds
    settings: KafkaSettings
    metrics: Metrics
    runtime: Runtime
    broker_configs: dict[str, str]
    """The broker's effective settings under Kafka's dotted names, for DescribeConfigs."""
    groups: Groups
    offsets: Offsets
    refused: RefusedBatches = field(init=False)
    produce_meter: Meter = field(init=False)
    deadlines: Deadlines = field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", RefusedBatches(self.runtime.clock))
        meter = Meter(self.metrics.produced_bytes, self.metrics.produce_seconds)
        object.__setattr__(self, "produce_meter", meter)
