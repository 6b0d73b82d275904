"""A cluster's tables by its settings."""

from __future__ import annotations

import os
from dataclasses import replace

from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.catalog import REST, SQL, CatalogSettings, sqlite_settings
from towpath.lakehouse.iceberg.locations import root_uri
from towpath.lakehouse.iceberg.maintenance import UpkeepSettings
from towpath.lakehouse.iceberg.settings import IcebergSettings
from towpath.lakehouse.iceberg.storage import storage_properties, with_storage
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.runtime import Runtime

CATALOG_FILE = "catalog.sqlite"


def open_tables(settings: Settings, cluster_id: str, runtime: Runtime) -> IcebergTables:
    """The tables; the catalog itself is asked when a table is first needed."""
    return IcebergTables(
        iceberg_settings(settings, cluster_id), offload=runtime.offload, clock=runtime.clock
    )


def iceberg_settings(settings: Settings, cluster_id: str) -> IcebergSettings:
    """What the settings mean for tables."""
    return IcebergSettings(
        catalog=catalog_settings(settings),
        objects_root_uri=root_uri(settings.objects_url, settings.objects_options),
        cluster_prefix=settings.cluster_prefix,
        cluster_id=cluster_id,
        partitioning=settings.table_iceberg_partitioning,
        upkeep=UpkeepSettings(
            snapshot_max_age_ms=settings.table_iceberg_snapshot_max_age_ms,
            snapshots_min=settings.table_iceberg_min_snapshots,
            snapshots_max=settings.table_iceberg_max_snapshots,
        ),
    )


def catalog_settings(settings: Settings) -> CatalogSettings:
    """The catalog: that of the properties, or a SQLite file in the data directory. It reaches files
    on a service as the object store does, unless the properties say otherwise."""
    given = dict(settings.iceberg_catalog)
    storage = storage_properties(settings.objects_url, settings.objects_options, os.environ)
    if not given:
        default = sqlite_settings(
            settings.data_dir / CATALOG_FILE,
            settings.iceberg_namespace,
            settings.iceberg_catalog_name,
        )
        return replace(default, properties={**storage, **default.properties})
    is_http = given.get("uri", "").startswith(("http://", "https://"))
    kind = given.pop("type", REST if is_http else SQL)
    return CatalogSettings(
        kind,
        with_storage(storage, given),
        settings.iceberg_namespace,
        settings.iceberg_catalog_name,
    )
