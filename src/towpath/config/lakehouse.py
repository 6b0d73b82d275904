"""The settings of the data pipeline: when topics become tables, where, and on which Spark."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, field_validator

from towpath.config.properties import Names, Properties
from towpath.config.units import DurationMs, SizeBytes

PORT_MAX = 65_535
PARTITIONINGS = (("partition",), ("partition", "day(timestamp)"))
INT32_MAX = 2**31 - 1


class LakehouseSettings(BaseModel):
    """What compactors and `up` read; brokers ignore all of it but `iceberg_enabled`."""

    iceberg_enabled: bool = Field(
        default=True, description="Turn topics into Iceberg tables (`up` runs the compactor)"
    )

    # When

    compaction_interval_ms: DurationMs = Field(
        default=1_000, ge=10, le=86_400_000, description="How often the compactor looks for work"
    )
    compaction_wal_max_age_ms: DurationMs = Field(
        default=5_000, ge=0, description="Records are in the table this long after their write"
    )
    compaction_wal_max_bytes: SizeBytes = Field(
        default=67_108_864,
        ge=1,
        description="A partition with so many bytes outside the table is due at once",
    )
    compaction_job_max_bytes: SizeBytes = Field(
        default=536_870_912, ge=1, description="Bytes that one task turns into files"
    )
    compaction_round_max_bytes: SizeBytes = Field(
        default=4_294_967_296, ge=1, description="Bytes that one round takes on"
    )
    compaction_parquet_max_files_per_partition: int = Field(
        default=10, ge=2, le=100_000, description="So many small files are rewritten to one"
    )
    compaction_target_file_size_bytes: SizeBytes = Field(
        default=134_217_728, ge=1_048_576, le=INT32_MAX, description="Size of a data file"
    )
    compaction_row_group_bytes: SizeBytes = Field(
        default=8_388_608,
        ge=65_536,
        le=1 << 30,
        description="Bytes of a row group: what a fetch of old records decodes at once",
    )
    compaction_lock_ttl_ms: DurationMs = Field(
        default=30_000,
        ge=1_000,
        le=300_000,
        description="A silent compactor's streams are free after this",
    )
    compaction_http_port: int = Field(
        default=9563,
        ge=0,
        le=PORT_MAX,
        description="HTTP port of a compactor's metrics and health; 0 takes a free one",
    )
    compaction_maintenance_interval_ms: DurationMs = Field(
        default=60_000, ge=10, description="How often tables are tidied up"
    )
    parquet_gc_grace_ms: DurationMs = Field(
        default=600_000, ge=0, description="Replaced data files are kept this long for readers"
    )
    parquet_orphan_ttl_ms: DurationMs = Field(
        default=86_400_000, ge=1_000, description="Data files nothing names are deleted after this"
    )

    # Tables

    iceberg_catalog_name: str = Field(
        default="towpath", min_length=1, description="Name of the Iceberg catalog"
    )
    iceberg_catalog: Properties = Field(
        default_factory=dict,
        repr=False,
        description="pyiceberg's catalog properties (type, uri, warehouse, credential, ...); "
        "default: an SQLite file in data_dir",
    )
    iceberg_namespace: str = Field(
        default="towpath", min_length=1, description="Namespace of the tables"
    )
    table_iceberg_partitioning: Names = Field(
        default=("partition",),
        description='How tables are split: ["partition"] or ["partition", "day(timestamp)"]',
    )
    table_iceberg_snapshot_max_age_ms: DurationMs = Field(
        default=3_600_000, ge=0, description="Older snapshots are expired"
    )
    table_iceberg_min_snapshots: int = Field(
        default=20, ge=1, le=10_000, description="Snapshots kept whatever their age"
    )
    table_iceberg_max_snapshots: int = Field(
        default=200, ge=1, le=100_000, description="Snapshots kept at most"
    )
    table_on_topic_delete: Literal["keep", "drop"] = Field(
        default="keep", description="What becomes of a deleted topic's table"
    )
    table_retention: Literal["with-log", "keep"] = Field(
        default="with-log", description="Whether records leave the table when they leave the log"
    )

    # Spark

    spark_master: str = Field(
        default="local[*,4]", min_length=1, description="Spark master that runs the pipeline"
    )
    spark_remote: str | None = Field(
        default=None, description="Spark Connect server (sc://HOST:PORT) instead of a master"
    )
    spark_conf: Properties = Field(
        default_factory=dict, repr=False, description="Further Spark settings"
    )
    spark_driver_memory_bytes: SizeBytes = Field(
        default=1 << 30, ge=256 << 20, description="Memory of Spark's driver"
    )
    spark_idle_stop_ms: DurationMs = Field(
        default=300_000, ge=0, description="Spark is stopped after so long without work"
    )
    spark_ui_port: int = Field(
        default=4040, ge=0, le=PORT_MAX, description="Spark's web page; 0: none"
    )

    @field_validator("table_iceberg_partitioning")
    @classmethod
    def _check_partitioning(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if names not in PARTITIONINGS:
            raise ValueError('must be ["partition"] or ["partition", "day(timestamp)"]')
        return names

    @field_validator("spark_remote")
    @classmethod
    def _check_remote(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith("sc://"):
            raise ValueError("must start with sc://")
        return url
