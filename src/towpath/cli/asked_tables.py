"""Tables of any catalog that pyiceberg knows; the library is loaded and asks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError

from towpath.cli.errors import CliError
from towpath.cli.table_catalog import CatalogPlace, TableCatalog
from towpath.cli.table_document import TableDocument
from towpath.lakehouse.iceberg import errors
from towpath.lakehouse.iceberg.catalog import open_catalog
from towpath.lakehouse.iceberg.open import catalog_settings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from towpath.config import Settings


class AskedTables(TableCatalog):
    """Any catalog that pyiceberg knows."""

    def __init__(self, settings: Settings, place: CatalogPlace) -> None:
        self._place = place
        self._tables: dict[str, Table] = {}
        self._catalog = _asked(settings)

    def names(self) -> list[str]:
        try:
            with _explained():
                found = self._catalog.list_tables(self._place.namespace)
        except NoSuchNamespaceError:
            return []
        return sorted(identifier[-1] for identifier in found)

    def document(self, name: str) -> TableDocument:
        with _explained():
            table = self._catalog.load_table((*self._place.namespace, name))
        self._tables[table.metadata_location] = table
        fields = json.loads(table.metadata.model_dump_json())
        return TableDocument(self._place.namespace, name, table.metadata_location, fields)

    def open(self, document: TableDocument) -> Table:
        return self._tables[document.metadata_file]


def _asked(settings: Settings) -> Catalog:
    given = catalog_settings(settings)
    properties = {**given.properties, "init_catalog_tables": "false"}
    with _explained():
        return open_catalog(replace(given, properties=properties))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the library's failures into a line, but for a namespace that is not there."""
    try:
        yield
    except NoSuchNamespaceError:
        raise
    except Exception as error:
        raise CliError(f"cannot read the catalog: {errors.of_read(error)}") from error
