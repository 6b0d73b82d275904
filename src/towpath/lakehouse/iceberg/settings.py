"""What the tables need to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.lakehouse.iceberg.catalog import CatalogSettings
from towpath.lakehouse.iceberg.maintenance import UpkeepSettings
from towpath.lakehouse.iceberg.schema import BY_PARTITION


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """One cluster's tables: their catalog, where their files are, and how they are kept."""

    catalog: CatalogSettings
    objects_root_uri: str
    """Of the object store's root, as `locations.root_uri` makes it."""
    cluster_prefix: str
    cluster_id: str
    partitioning: tuple[str, ...] = (BY_PARTITION,)
    """Of new tables: by partition, or also by day; see `schema.PARTITIONINGS`."""
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)
    call_timeout_ms: int = 300_000
    """The end of every wait for the catalog. The time-outs of single requests are shorter."""
