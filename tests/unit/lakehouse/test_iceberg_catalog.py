"""Opening catalogs, and where tables and files are."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from tests.unit.lakehouse.helpers_iceberg import (
    CLUSTER,
    TOPIC,
    Lake,
    append,
    handle,
    offsets_by_duckdb,
    offsets_by_pyiceberg,
)

from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.catalog import CatalogSettings, nested, open_catalog
from towpath.lakehouse.iceberg.file_io import SyncedFileIO
from towpath.lakehouse.iceberg.locations import Locations, root_uri
from towpath.lakehouse.iceberg.open import catalog_settings, iceberg_settings
from towpath.lakehouse.iceberg.properties import creation_properties
from towpath.lakehouse.iceberg.schema import partition_spec, table_schema
from towpath.lakehouse.iceberg.sqlite_catalog import SqliteCatalog


def test_groups_of_properties_become_trees() -> None:
    flat = {
        "uri": "http://x",
        "s3.endpoint": "http://y",
        "auth.type": "oauth2",
        "auth.oauth2.client_id": "me",
        "auth.oauth2.expires_in": "3600",
        "ssl.client.cert": "c.pem",
    }
    assert nested(flat) == {
        "uri": "http://x",
        "s3.endpoint": "http://y",
        "auth": {"type": "oauth2", "oauth2": {"client_id": "me", "expires_in": 3600}},
        "ssl": {"client": {"cert": "c.pem"}},
    }


def test_the_sqlite_catalog_suits_several_processes(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path / "new")
    first, second = open_catalog(lake.catalog), open_catalog(lake.catalog)
    assert isinstance(first, SqliteCatalog)
    assert first.properties["uri"].endswith("?timeout=30")
    with sqlite3.connect(tmp_path / "new" / "catalog.sqlite") as look:
        assert look.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    look.close()
    first.create_namespace("a")
    assert second.list_namespaces() == [("a",)]
    first.close()
    second.close()


def test_other_catalogs_are_pyicebergs(tmp_path: Path) -> None:
    catalog = open_catalog(CatalogSettings("in-memory", {"warehouse": f"file://{tmp_path}"}))
    assert isinstance(catalog, InMemoryCatalog)
    catalog.close()
    with pytest.raises(ValueError, match="nonsense"):
        open_catalog(CatalogSettings("nonsense"))


async def test_any_catalog_of_pyiceberg_can_be_used(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    lake.catalog = CatalogSettings("in-memory")
    tables = lake.tables()
    table = await tables.create(TOPIC)
    for number in range(3):
        file = lake.write(table.field_ids, 0, [number])
        table = await tables.commit(table, append(table, (0, file), task=f"t{number}"))
    assert offsets_by_pyiceberg(table) == [(0, 0), (0, 1), (0, 2)]
    assert await tables.load(TOPIC) == table


async def test_a_nested_namespace(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    lake.catalog = replace(lake.catalog, namespace="streams.eu")
    table = await lake.tables().create(TOPIC)
    assert table.identifier == f"streams.eu.{TOPIC.name}"
    assert await lake.tables().load(TOPIC) == table


async def test_files_are_written_with_the_catalogs_field_ids(tmp_path: Path) -> None:
    """A catalog numbers columns as it likes: here, in another order."""
    lake = Lake.at(tmp_path)
    catalog = open_catalog(lake.catalog)
    catalog.create_namespace("towpath")
    catalog.create_table(
        ("towpath", TOPIC.name),
        Schema(*reversed(table_schema().fields)),
        Locations(f"file://{lake.objects}", "towpath").table(TOPIC.name),
        partition_spec(("partition",)),
        properties=creation_properties(TOPIC, CLUSTER),
    )
    catalog.close()
    tables = lake.tables()
    table = await tables.load(TOPIC)
    assert table is not None
    assert (table.field_ids["attributes"], table.field_ids["partition"]) == (1, 10)
    table = await tables.commit(table, append(table, (4, lake.write(table.field_ids, 4, range(3)))))
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == [(4, at) for at in range(3)]
    assert len(list(handle(table).scan(row_filter="partition == 4").plan_files())) == 1
    assert len(list(handle(table).scan(row_filter="offset > 2").plan_files())) == 0


def test_local_files_are_synced_with_their_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    directory = tmp_path / "a" / "b"
    output = SyncedFileIO().new_output(f"file://{directory}/x.avro")
    with output.create() as stream:
        stream.write(b"123")
        assert stream.tell() == 3
        synced.append("closing")
    assert synced == [
        str(tmp_path),
        str(tmp_path / "a"),
        "closing",
        str(directory / "x.avro"),
        str(directory),
    ]
    assert len(output) == 3
    with pytest.raises(FileExistsError):
        output.create()
    with output.create(overwrite=True) as stream:
        stream.write(b"4")
    assert output.to_input_file().open().read() == b"4"


async def test_tables_write_through_the_synced_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.at(tmp_path)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    before = lake.metadata_files()
    synced: set[str] = set()
    fsync = os.fsync

    def noted(fd: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    file = lake.write(table.field_ids, 0, range(2))
    await tables.commit(table, append(table, (0, file)))
    assert lake.metadata_files() - before < synced
    assert "metadata" in synced


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("file:///data/objects", "file:///data/objects"),
        ("file:///data/my%20objects/", "file:///data/my objects"),
        ("file://localhost/data", "file:///data"),
        ("/data/objects", "file:///data/objects"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("s3://bucket", "s3://bucket"),
    ],
)
def test_the_root_of_the_objects(url: str, uri: str) -> None:
    assert root_uri(url) == uri


@pytest.mark.parametrize("url", ["memory://", "/data/a?b", "/data/a#b", "file:///a%23b"])
def test_roots_that_tables_cannot_have(url: str) -> None:
    with pytest.raises(ValueError, match="tables"):
        root_uri(url)


def test_paths_and_uris() -> None:
    locations = Locations("s3://bucket/root", "towpath")
    assert locations.uri("a/b.parquet") == "s3://bucket/root/a/b.parquet"
    assert locations.path("s3://bucket/root/a/b.parquet") == "a/b.parquet"
    assert locations.path("s3://bucket/rooted/a") is None
    assert locations.table("t") == "s3://bucket/root/towpath/iceberg/topic=t"
    assert Locations("file:///data", "p").path("file:/data/x") == "x"


async def test_a_directory_with_a_space(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path / "my data 100%")
    tables = lake.tables()
    table = await tables.create(TOPIC)
    table = await tables.commit(table, append(table, (0, lake.write(table.field_ids, 0, range(2)))))
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == [(0, 0), (0, 1)]
    assert await lake.tables().load(TOPIC) == table


def test_settings_name_the_catalog(tmp_path: Path) -> None:
    default = catalog_settings(Settings(data_dir=tmp_path))
    assert default == CatalogSettings("sql", {"uri": f"sqlite:///{tmp_path}/catalog.sqlite"})
    asked = {"uri": "http://127.0.0.1:8181", "credential": "a:b", "type": "rest"}
    given = Settings(data_dir=tmp_path, iceberg_catalog=asked, iceberg_namespace="n")
    properties = {"uri": "http://127.0.0.1:8181", "credential": "a:b"}
    assert catalog_settings(given) == CatalogSettings("rest", properties, "n")
    settings = iceberg_settings(given, "c1")
    assert settings.objects_root_uri == f"file://{tmp_path}/objects"
    assert (settings.upkeep.snapshots_min, settings.cluster_id) == (20, "c1")
