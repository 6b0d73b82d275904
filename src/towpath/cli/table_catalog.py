"""Where a cluster's tables are listed, and what can be asked there; nothing is ever written."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.table_document import TableDocument
from towpath.lakehouse.iceberg.storage import storage_properties, with_storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from towpath.config import Settings

DEFAULT_FILE = "catalog.sqlite"
SQLITE = "sqlite"
SQL = "sql"
REST = "rest"


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """Which catalog the settings mean. `properties` are pyiceberg's own, `type` among them."""

    name: str
    namespace: tuple[str, ...]
    properties: Mapping[str, str] = field(hash=False, repr=False)

    @property
    def sqlite_file(self) -> Path | None:
        """The file of a catalog in SQLite; None for the others."""
        uri = self.properties.get("uri", "")
        database = uri.partition(":///")[2].partition("?")[0]
        if self.properties["type"] != SQL or not uri.startswith(SQLITE) or not database:
            return None
        return Path(database).absolute()


def place_of(settings: Settings) -> CatalogPlace:
    """The catalog of these settings: what `lakehouse.iceberg.open` opens for writing."""
    namespace = tuple(settings.iceberg_namespace.split("."))
    name = settings.iceberg_catalog_name
    given = dict(settings.iceberg_catalog)
    storage = storage_properties(settings.objects_url, settings.objects_options, os.environ)
    if not given:
        uri = f"sqlite:///{settings.data_dir / DEFAULT_FILE}"
        return CatalogPlace(name, namespace, {"type": SQL, **storage, "uri": uri})
    is_http = given.get("uri", "").startswith(("http://", "https://"))
    kind = given.pop("type", REST if is_http else SQL)
    return CatalogPlace(name, namespace, {"type": kind, **with_storage(storage, given)})


class TableCatalog(ABC):
    """The tables of one namespace. Every method raises CliError."""

    @abstractmethod
    def names(self) -> list[str]:
        """Every table, by name."""

    @abstractmethod
    def document(self, name: str) -> TableDocument:
        """The metadata of a table that `names` gave."""

    @abstractmethod
    def open(self, document: TableDocument) -> Table:
        """The table as it was in `document`, to look into its manifests."""


def open_for_reading(settings: Settings) -> TableCatalog:
    """The catalog of these settings. Raises CliError."""
    place = place_of(settings)
    file = place.sqlite_file
    if file is not None:
        from towpath.cli.sqlite_tables import SqliteTables

        return SqliteTables(place, file)
    # Loads the Iceberg library, which takes a second.
    from towpath.cli.asked_tables import AskedTables

    return AskedTables(settings, place)
