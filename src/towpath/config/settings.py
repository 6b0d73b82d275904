"""Every setting of a broker: name, type, range, default and what it does.

Names are flat and carry their unit. Durations may be written `24h`, sizes `64MiB`. `config.load`
fills these from file, environment and flags; constructing `Settings(...)` directly reads nothing
but its arguments, which is what tests want.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from towpath import data_dir as layout
from towpath.config import kafka_names
from towpath.config.groups import GroupSettingsFields
from towpath.config.lakehouse import LakehouseSettings
from towpath.config.properties import Properties
from towpath.config.units import DurationMs, SizeBytes

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
PORT_MAX = 65_535
CLOUD_LINGER_MS = 250
LOCAL_RANGE_CACHE_BYTES = 32 << 20
CLOUD_RANGE_CACHE_BYTES = 128 << 20
METADATA_SCHEMES = ("sqlite", "memory")
OBJECT_SCHEMES = ("file", "memory", "s3", "gcs", "azblob")
LOCAL_OBJECT_SCHEMES = ("file", "memory")
DEFAULT_ZONE = "default"
_ZONE = "[A-Za-z0-9._-]{1,100}"
ALL_INTERFACES = ("0.0.0.0", "::")

Port = Annotated[int, Field(ge=0, le=PORT_MAX)]


def _absolute(value: object) -> object:
    """The path made absolute; what is none is left to the check of its type."""
    if not isinstance(value, str | os.PathLike):
        return value
    if not os.fspath(value):
        raise ValueError("must not be empty")
    return layout.absolute(value)


def _default_advertised_host(given: dict[str, Any]) -> str:
    host: str = given["kafka_host"]
    return socket.gethostname() if host in ALL_INTERFACES else host


def _is_local(given: dict[str, Any]) -> bool:
    return urlsplit(given["objects_url"]).scheme in LOCAL_OBJECT_SCHEMES


def _default_linger_ms(given: dict[str, Any]) -> int:
    return 0 if _is_local(given) else CLOUD_LINGER_MS


def _default_range_cache_bytes(given: dict[str, Any]) -> int:
    return LOCAL_RANGE_CACHE_BYTES if _is_local(given) else CLOUD_RANGE_CACHE_BYTES


def _check_scheme(url: str, schemes: tuple[str, ...]) -> str:
    if urlsplit(url).scheme not in schemes or "://" not in url:
        raise ValueError(f"must start with one of {', '.join(f'{s}://' for s in schemes)}")
    return url


def _check_bucket(url: str) -> str:
    """The URL of a service says where the objects are, and nothing else."""
    parts = urlsplit(url)
    if parts.scheme in LOCAL_OBJECT_SCHEMES:
        return url
    if not parts.netloc or parts.query or parts.fragment or set("@:") & set(parts.netloc):
        wanted = f"{parts.scheme}://BUCKET/PREFIX"
        raise ValueError(f"must be like {wanted}; anything else goes into objects_options")
    return url


class BrokerSettings(BaseModel):
    """The settings of one broker process, or of the N that `towpath up --brokers N` runs."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    # Where things are

    data_dir: Annotated[Path, BeforeValidator(_absolute)] = Field(
        default=Path(layout.DEFAULT), description="Directory of everything the broker keeps"
    )
    metadata_url: str = Field(
        default_factory=lambda given: layout.metadata_url(given["data_dir"]),
        description="Metadata store: sqlite:///PATH or memory://; default: a file in data_dir",
    )
    objects_url: str = Field(
        default_factory=lambda given: layout.objects_url(given["data_dir"]),
        description="Object store: file:///PATH, memory://, s3://BUCKET/PREFIX, gcs:// or "
        "azblob://; default: files in data_dir",
    )
    objects_options: Properties = Field(
        default_factory=dict,
        repr=False,
        description="Options of s3, gcs or azblob, by OpenDAL's names (endpoint, region, "
        "access_key_id, ...); without credentials those of the environment or the role are used",
    )
    cluster_prefix: str = Field(
        default="towpath",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="First path segment of every object, so that clusters can share a bucket",
    )

    # Listeners

    kafka_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address the Kafka port binds"
    )
    kafka_port: Port = Field(
        default=9092,
        description="Kafka port; broker i of N listens on kafka_port + i; 0 takes a free one",
    )
    advertised_host: str = Field(
        default_factory=_default_advertised_host,
        min_length=1,
        description="Host name told to clients; default: kafka_host",
    )
    http_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address the HTTP port binds"
    )
    http_port: Port = Field(
        default=9464,
        description="HTTP port of metrics and health; broker i of N has http_port + i, the first "
        "answers for all; 0 takes a free one",
    )
    socket_request_max_bytes: SizeBytes = Field(
        default=104_857_600,
        ge=1024,
        le=INT32_MAX,
        description="Largest request; larger ones are cut off",
    )
    connections_max_idle_ms: DurationMs = Field(
        default=600_000, ge=-1, description="Idle connections are closed after this; -1: never"
    )
    connection_inflight_max_bytes: SizeBytes = Field(
        default=209_715_200,
        ge=1024,
        description="Request bytes worked on per connection, then it waits",
    )
    process_inflight_max_bytes: SizeBytes = Field(
        default=1_073_741_824,
        ge=1024,
        description="Request bytes worked on in all, then reading waits",
    )

    # The cluster

    brokers: int = Field(default=1, ge=1, le=64, description="How many broker processes `up` runs")
    node_id: int = Field(
        default=1, ge=0, le=INT32_MAX - 64, description="Broker id; broker i of N has node_id + i"
    )
    rack: str | None = Field(
        default=None, description="Rack told to clients; default: the zone, if one is given"
    )
    zone: str = Field(
        default=DEFAULT_ZONE,
        pattern=rf"^{_ZONE}(,{_ZONE})*$",
        description="Zone of the broker: clients whose client.id is zone_id=ZONE,... are shown no "
        "others; of a list a,b,c broker i of N gets zone i, then from the start",
    )
    session_timeout_ms: DurationMs = Field(
        default=9_000,
        ge=1000,
        le=300_000,
        description="A silent broker leaves the cluster after this",
    )
    routing_enforce_owner: bool = Field(
        default=False,
        description="Refuse requests for partitions whose shown leader is another broker",
    )
    shutdown_timeout_ms: DurationMs = Field(
        default=30_000, ge=100, le=3_600_000, description="Longest time a clean stop may take"
    )

    # Topics

    num_partitions: int = Field(
        default=1, ge=1, le=1_048_576, description="Partitions of a topic created without a number"
    )
    default_replication_factor: int = Field(
        default=1,
        ge=1,
        le=32_767,
        description="Accepted for clients' sake; the object store replicates",
    )
    auto_create_topics_enable: bool = Field(
        default=True, description="Create a topic when a client first names it"
    )
    message_max_bytes: SizeBytes = Field(
        default=1_048_588, ge=0, le=INT32_MAX, description="Largest record batch"
    )
    decompressed_max_bytes: SizeBytes = Field(
        default=134_217_728,
        ge=1024,
        le=INT32_MAX,
        description="Largest record batch once decompressed",
    )
    log_retention_ms: DurationMs = Field(
        default=604_800_000,
        ge=-1,
        le=INT64_MAX,
        description="Records are kept this long; -1: for ever",
    )
    log_retention_bytes: SizeBytes = Field(
        default=-1, ge=-1, le=INT64_MAX, description="Bytes kept per partition; -1: no limit"
    )
    log_retention_check_interval_ms: DurationMs = Field(
        default=300_000, ge=1, description="How often retention looks for what to remove"
    )
    log_cleanup_policy: Literal["delete", "compact", "compact,delete", "delete,compact"] = Field(
        default="delete", description="Default cleanup.policy of topics"
    )
    log_cleaner_delete_retention_ms: DurationMs = Field(
        default=86_400_000, ge=0, le=INT64_MAX, description="Default delete.retention.ms of topics"
    )
    log_cleaner_min_compaction_lag_ms: DurationMs = Field(
        default=0, ge=0, le=INT64_MAX, description="Default min.compaction.lag.ms of topics"
    )
    log_cleaner_max_compaction_lag_ms: DurationMs = Field(
        default=INT64_MAX, ge=1, le=INT64_MAX, description="Default max.compaction.lag.ms of topics"
    )
    log_cleaner_min_cleanable_ratio: float = Field(
        default=0.5, ge=0, le=1, description="Default min.cleanable.dirty.ratio of topics"
    )
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime", description="Default message.timestamp.type of topics"
    )
    log_message_timestamp_before_max_ms: DurationMs = Field(
        default=INT64_MAX, ge=0, le=INT64_MAX, description="How far a timestamp may lie in the past"
    )
    log_message_timestamp_after_max_ms: DurationMs = Field(
        default=3_600_000,
        ge=0,
        le=INT64_MAX,
        description="How far a timestamp may lie in the future",
    )
    producer_id_expiration_ms: DurationMs = Field(
        default=86_400_000,
        ge=1,
        le=INT32_MAX,
        description="Idle idempotent producers are forgotten",
    )

    # Writing and reading

    max_buffer_bytes: SizeBytes = Field(
        default=67_108_864,
        ge=1_048_576,
        description="Produced bytes held before commit; then produce waits",
    )
    flush_max_bytes: SizeBytes = Field(
        default=8_388_608, ge=65_536, description="Object size at which a flush starts at once"
    )
    linger_ms: DurationMs = Field(
        default_factory=_default_linger_ms,
        ge=0,
        le=60_000,
        description="Longest wait for more records before a flush; auto: 0 on files, 250 on cloud",
    )
    max_inflight_flushes: int = Field(
        default=4, ge=1, le=64, description="Uploads that may overlap"
    )
    flush_max_objects_per_second: int = Field(
        default=1000, ge=1, le=100_000, description="Past this rate of objects the linger grows"
    )
    range_cache_bytes: SizeBytes = Field(
        default_factory=_default_range_cache_bytes,
        ge=0,
        description="Memory for record batches written (on cloud also read) lately; "
        "auto: 32 MiB on files, which the kernel caches, 128 MiB on cloud",
    )
    parquet_cache_bytes: SizeBytes = Field(
        default=67_108_864, ge=0, description="Memory for record batches made of Parquet files"
    )
    index_cache_bytes: SizeBytes = Field(
        default=16_777_216, ge=0, description="Memory for offset-index entries"
    )
    fetch_max_bytes: SizeBytes = Field(
        default=57_671_680, ge=1024, le=INT32_MAX, description="Most bytes of a fetch answer"
    )
    max_request_partition_size_limit: int = Field(
        default=2000, ge=1, description="Most partitions of a DescribeTopicPartitions answer"
    )

    # Collection of garbage

    gc_interval_ms: DurationMs = Field(
        default=10_000, ge=10, description="How often the collectors look for objects to delete"
    )
    wal_orphan_ttl_ms: DurationMs = Field(
        default=86_400_000, ge=1000, description="Uncommitted WAL objects are deleted after this"
    )
    wal_gc_grace_ms: DurationMs = Field(
        default=600_000,
        ge=0,
        description="Unreferenced WAL objects are kept this long for slow readers",
    )

    # Logs

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe log lines that are written"
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="Log lines for people or one JSON object per line"
    )

    @field_validator("metadata_url")
    @classmethod
    def _check_metadata_url(cls, url: str) -> str:
        return _check_scheme(url, METADATA_SCHEMES)

    @field_validator("objects_url")
    @classmethod
    def _check_objects_url(cls, url: str) -> str:
        return _check_bucket(_check_scheme(url, OBJECT_SCHEMES))

    @field_validator("linger_ms", "range_cache_bytes", mode="before")
    @classmethod
    def _resolve_auto(cls, value: object, info: Any) -> object:
        if value == "auto" and "objects_url" in info.data:
            by_name = {
                "linger_ms": _default_linger_ms,
                "range_cache_bytes": _default_range_cache_bytes,
            }
            return by_name[info.field_name](info.data)
        return value

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        last = self.brokers - 1
        if self.log_retention_ms == 0:
            raise ValueError("log_retention_ms must be -1 (for ever) or at least 1")
        for name, port in (("kafka_port", self.kafka_port), ("http_port", self.http_port)):
            if port + last > PORT_MAX:
                raise ValueError(f"{name} {port} leaves no room for {self.brokers} brokers")
        if self.kafka_port and self.kafka_port == self.http_port:
            raise ValueError(f"kafka_port and http_port are both {self.kafka_port}")
        if last and self.metadata_url.startswith("memory:"):
            raise ValueError("metadata_url memory:// serves one broker only; set brokers to 1")
        if last and self.objects_url.startswith("memory:"):
            raise ValueError("objects_url memory:// serves one broker only; set brokers to 1")
        if self.objects_options and urlsplit(self.objects_url).scheme in LOCAL_OBJECT_SCHEMES:
            raise ValueError("objects_options are for objects_url s3://, gcs:// or azblob:// only")
        if self.flush_max_bytes > self.max_buffer_bytes:
            raise ValueError("flush_max_bytes must not be larger than max_buffer_bytes")
        return self


class Settings(LakehouseSettings, GroupSettingsFields, BrokerSettings):
    """Every setting of every process of a cluster, and where its value came from."""

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    def origin(self, name: str) -> str:
        """Where the value came from: `default`, a flag, an environment variable or a file."""
        return self._origins.get(name, "default")

    def remember_origins(self, origins: dict[str, str]) -> None:
        """Note where the values came from; the loader calls this once."""
        self._origins = dict(origins)

    def broker_id(self, index: int) -> int:
        """The id of broker `index` of N."""
        return self.node_id + index

    def broker_kafka_port(self, index: int) -> int:
        """The Kafka port of broker `index` of N; 0 stays 0."""
        return self.kafka_port + index if self.kafka_port else 0

    def broker_http_port(self, index: int) -> int:
        """The HTTP port of broker `index` of N; 0 stays 0."""
        return self.http_port + index if self.http_port else 0

    def broker_zone(self, index: int) -> str:
        """The zone of broker `index` of N: the zones are dealt out in turn."""
        zones = self.zone.split(",")
        return zones[index % len(zones)]

    def broker_rack(self, index: int) -> str | None:
        """The rack of broker `index` of N: its zone, if no rack but a zone is given."""
        if self.rack is None and self.zone != DEFAULT_ZONE:
            return self.broker_zone(index)
        return self.rack

    def metadata_path(self) -> Path | None:
        """The file of an SQLite metadata store; None for `memory://`."""
        return layout.sqlite_path(self.metadata_url)

    def objects_path(self) -> Path | None:
        """The directory of an object store on files; None for the others."""
        return layout.files_path(self.objects_url)

    def kafka_names(self, index: int = 0) -> dict[str, str]:
        """The effective settings of broker `index` under Kafka's dotted names."""
        return kafka_names.effective(self, index)
