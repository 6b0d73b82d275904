"""Tables by the settings alone: which catalogs go with which object stores, and what they need."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pytest
from tests.integration.harness.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedFs
from tests.unit.lakehouse.helpers_iceberg import (
    CLUSTER,
    TOPIC,
    Lake,
    append,
    handle,
    offsets_by_pyiceberg,
)

from towpath.config import Settings
from towpath.lakehouse.iceberg.open import open_tables
from towpath.lakehouse.tables import CatalogUnavailable
from towpath.objects.open import open_object_store
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime, SystemClock

NAMES = (f"by_settings_{number}" for number in count())


def rest(server: SeaweedFs, **more: str) -> dict[str, str]:
    """SeaweedFS's catalog with OAuth2: the warehouse is a bucket for tables."""
    return {
        "uri": server.catalog_url,
        "warehouse": "s3://tables",
        "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
        "oauth2-server-uri": f"{server.catalog_url}/v1/oauth/tokens",
        **more,
    }


PLACED = {"towpath.table-names": "safe", "towpath.table-location": "catalog"}


def on_s3(server: SeaweedFs, data_dir: Path, catalog: dict[str, str]) -> Settings:
    name = next(NAMES)
    return Settings(
        data_dir=data_dir,
        objects_url=f"s3://objects/{name}",
        objects_options=server.s3_options(),
        iceberg_namespace=name,
        iceberg_catalog=catalog,
    )


def on_files(data_dir: Path, catalog: dict[str, str]) -> Settings:
    return Settings(data_dir=data_dir, iceberg_namespace=next(NAMES), iceberg_catalog=catalog)


async def check(settings: Settings, directory: Path) -> str:
    """Make a table of three files and read it; where its metadata is."""
    runtime = Runtime(SystemClock(), random.Random(1), InlineOffload())
    objects = open_object_store(settings.objects_url, runtime, Metrics(), settings.objects_options)
    files = Lake.at(directory / "files")
    tables = open_tables(settings, CLUSTER, runtime)
    try:
        table = await tables.create(TOPIC)
        for at in range(3):
            file = files.write(table.field_ids, 0, [at])
            await objects.put(file.path, [(files.objects / file.path).read_bytes()])
            table = await tables.commit(table, append(table, (0, file), task=f"task-{at}"))
        loaded = await tables.load(TOPIC)
        assert loaded == table
        assert offsets_by_pyiceberg(loaded) == [(0, 0), (0, 1), (0, 2)]
        assert len(await tables.files(loaded)) == 3
        return handle(loaded).metadata.location
    finally:
        await tables.close()
        await objects.close()


async def test_the_default_catalog_with_objects_on_s3(s3_server: SeaweedFs, tmp_path: Path) -> None:
    settings = on_s3(s3_server, tmp_path, {})
    location = await check(settings, tmp_path)
    assert location == f"{settings.objects_url}/towpath/iceberg/topic={TOPIC.name}"


async def test_a_rest_catalog_with_objects_on_s3(s3_server: SeaweedFs, tmp_path: Path) -> None:
    settings = on_s3(s3_server, tmp_path, rest(s3_server, **PLACED))
    location = await check(settings, tmp_path)
    assert location.startswith(f"s3://tables/{settings.iceberg_namespace}/orders_eu_1")


async def test_a_rest_catalog_with_objects_in_files(s3_server: SeaweedFs, tmp_path: Path) -> None:
    """The metadata is in the catalog's bucket, so the way there must be told."""
    catalog = rest(s3_server, **PLACED, **s3_server.s3_properties())
    assert (await check(on_files(tmp_path, catalog), tmp_path)).startswith("s3://tables/")


async def test_what_this_catalog_refuses(s3_server: SeaweedFs, tmp_path: Path) -> None:
    safe = {"towpath.table-names": "safe"}
    with pytest.raises(CatalogUnavailable, match="table location must be within bucket tables"):
        await check(on_s3(s3_server, tmp_path, rest(s3_server, **safe)), tmp_path)
    catalog = rest(s3_server, **safe, **s3_server.s3_properties())
    with pytest.raises(CatalogUnavailable, match="unsupported location: file:"):
        await check(on_files(tmp_path, catalog), tmp_path)
    plain = rest(s3_server, **{"towpath.table-location": "catalog"})
    with pytest.raises(CatalogUnavailable, match="invalid table name"):
        await check(on_s3(s3_server, tmp_path, plain), tmp_path)
    ordinary = rest(s3_server, **PLACED) | {"warehouse": "s3://objects"}
    with pytest.raises(CatalogUnavailable, match="table bucket objects not found"):
        await check(on_s3(s3_server, tmp_path, ordinary), tmp_path)
