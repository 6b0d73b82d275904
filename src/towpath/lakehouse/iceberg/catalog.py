"""Iceberg catalogs by their settings: SQLite by default, REST, or any other that pyiceberg has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from sqlalchemy.engine import make_url

from towpath.lakehouse.iceberg.file_io import FILE_IO
from towpath.lakehouse.iceberg.rest_catalog import TimedRestCatalog
from towpath.lakehouse.iceberg.sqlite_catalog import SqliteCatalog

SQL = "sql"
REST = "rest"
IO_IMPLEMENTATION = "py-io-impl"
NESTED = ("auth", "ssl")
"""Groups of properties that pyiceberg wants as trees; we write them with dots."""
TABLE_NAMES = "towpath.table-names"
"""`topic`: tables are called as their topics; `safe`: only a-z, 0-9 and _ are used."""
TABLE_LOCATION = "towpath.table-location"
"""`objects`: metadata lies in our object store; `catalog`: where the catalog puts it."""
INTEGERS = ("expires_in", "refresh_margin")
"""Properties of such a tree that pyiceberg wants as numbers."""


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """Which catalog, and where in it the tables are.

    `properties` are pyiceberg's own, passed on as they are: `uri`, `warehouse`, `credential`
    (OAuth2 `client:secret`), `oauth2-server-uri`, `scope`, `token`, `s3.endpoint`, ... Names that
    begin with `auth.` or `ssl.` are trees with dots between their parts: `auth.type=oauth2`,
    `auth.oauth2.token_url=...`, `ssl.cabundle=...`. Our own ones begin with `towpath.`: managed
    catalogs that choose names and places themselves (S3 Tables) need `towpath.table-names=safe`
    and `towpath.table-location=catalog`.
    """

    type: str = SQL
    properties: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    namespace: str = "towpath"
    """Dots separate its levels."""
    name: str = "towpath"
    """The catalog's name: rows of a SQL catalog carry it, so Spark must use the same."""

    def __post_init__(self) -> None:
        # Both complain about values that are not known.
        _ = self.has_safe_names, self.places_tables

    @property
    def namespace_tuple(self) -> tuple[str, ...]:
        """The namespace's levels."""
        return tuple(self.namespace.split("."))

    @property
    def has_safe_names(self) -> bool:
        """Whether the catalog refuses some topics' names."""
        return self._choice(TABLE_NAMES, "topic", "safe")

    @property
    def places_tables(self) -> bool:
        """Whether the catalog wants to choose where tables are."""
        return self._choice(TABLE_LOCATION, "objects", "catalog")

    def _choice(self, name: str, default: str, other: str) -> bool:
        value = self.properties.get(name, default)
        if value not in (default, other):
            raise ValueError(f"{name} is {default} or {other}, not {value!r}")
        return value == other


def sqlite_settings(
    path: Path, namespace: str = "towpath", name: str = "towpath"
) -> CatalogSettings:
    """A catalog in a SQLite file, which several processes may use at once."""
    return CatalogSettings(SQL, {"uri": f"sqlite:///{path.absolute()}"}, namespace, name)


def open_catalog(settings: CatalogSettings) -> Catalog:
    """Open it; blocks. Raises what pyiceberg raises, or ValueError for settings it cannot use."""
    properties = {IO_IMPLEMENTATION: FILE_IO, **nested(settings.properties)}
    if settings.type == SQL and _is_sqlite_file(settings.properties.get("uri", "")):
        return SqliteCatalog(settings.name, **properties)
    if settings.type == REST:
        return TimedRestCatalog(settings.name, **properties)
    return load_catalog(settings.name, type=settings.type, **properties)


def nested(properties: Mapping[str, str]) -> dict[str, Any]:
    """The properties with the groups of `NESTED` as trees."""
    result: dict[str, Any] = {}
    for name, value in properties.items():
        first, *rest = name.split(".")
        if first not in NESTED or not rest:
            result[name] = value
            continue
        branch = result.setdefault(first, {})
        for part in rest[:-1]:
            branch = branch.setdefault(part, {})
        branch[rest[-1]] = int(value) if rest[-1] in INTEGERS else value
    return result


def _is_sqlite_file(uri: str) -> bool:
    if not uri.startswith("sqlite"):
        return False
    return bool(make_url(uri).database)
