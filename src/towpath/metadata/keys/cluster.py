"""Keys of the cluster: its identity and its live brokers."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.metadata.keys import ROOT, json_value

INFO = f"{ROOT}/cluster-info"
"""Written once at cluster creation by compare-and-set."""

PRODUCER_IDS = f"{ROOT}/producer-ids"
"""The next free producer id, decimal; brokers take blocks by compare-and-set."""


def brokers_prefix(cluster_id: str) -> str:
    """Every live broker of the cluster."""
    return f"{ROOT}/cluster/{cluster_id}/brokers/"


def broker(cluster_id: str, broker_id: int) -> str:
    """One live broker (ephemeral)."""
    return f"{ROOT}/cluster/{cluster_id}/brokers/{broker_id:010d}"


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What is fixed when a cluster is created."""

    cluster_id: str
    domain_count: int
    feature_level: int

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "clusterId": self.cluster_id,
                "domains": self.domain_count,
                "featureLevel": self.feature_level,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> ClusterInfo:
        fields = json_value.decode(value, 1, "cluster info")
        return cls(fields["clusterId"], fields["domains"], fields["featureLevel"])


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A live broker's registration. `http_url` is where its metrics and health answer."""

    broker_id: int
    host: str
    port: int
    started_at_ms: int
    build: str
    zone_id: str | None = None
    rack: str | None = None
    http_url: str | None = None

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "brokerId": self.broker_id,
                "zoneId": self.zone_id,
                "advertisedListeners": [{"host": self.host, "port": self.port}],
                "startedAt": self.started_at_ms,
                "buildInfo": self.build,
                "rack": self.rack,
                "capacityHints": {},
                "httpUrl": self.http_url,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> BrokerRecord:
        fields = json_value.decode(value, 1, "broker")
        listener = fields["advertisedListeners"][0]
        return cls(
            broker_id=fields["brokerId"],
            host=listener["host"],
            port=listener["port"],
            started_at_ms=fields["startedAt"],
            build=fields["buildInfo"],
            zone_id=fields["zoneId"],
            rack=fields["rack"],
            http_url=fields["httpUrl"],
        )
