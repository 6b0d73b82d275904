"""Tables in a real REST catalog with OAuth2, that of SeaweedFS, and on its S3.

Its buckets for tables take only keys like `<namespace>/<table>/metadata/...`, and table names of
lower-case letters, digits, `_` and `-`; so the catalog places the tables and names are made safe.
The data files are in an ordinary bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.fs as fs
import pytest
from tests.integration.harness.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedFs
from tests.unit.lakehouse.helpers_iceberg import (
    TOPIC,
    Lake,
    append,
    handle,
    offsets_by_pyiceberg,
    operations,
)

from towpath.lakehouse.iceberg.catalog import CatalogSettings, sqlite_settings
from towpath.lakehouse.iceberg.describe import TableReader
from towpath.lakehouse.iceberg.maintenance import UpkeepSettings
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import (
    CatalogUnavailable,
    Change,
    CommitConflict,
    Mark,
    SupersededTable,
    Table,
    TableMissing,
)
from towpath.records.table import FieldIds
from towpath.runtime import SystemClock
from towpath.typed import types
from towpath.typed.types import Field, ListOf, Struct

OBJECTS = "objects"
TABLES = "tables"
ROOT_URI = f"s3://{OBJECTS}/root"
NAMESPACES = iter(f"ns{number}" for number in range(1_000))


@pytest.fixture(scope="module")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFs]:
    server = SeaweedFs(tmp_path_factory.mktemp("seaweedfs"))
    try:
        server.start()
        server.make_buckets(OBJECTS, TABLES)
        yield server
    finally:
        server.stop()


@dataclass
class CloudLake:
    """Data files on S3, and users of a catalog."""

    local: Lake
    files: fs.FileSystem
    catalog: CatalogSettings

    def tables(self, upkeep: UpkeepSettings | None = None) -> IcebergTables:
        self.local.catalog = self.catalog
        return self.local.tables(upkeep, objects_root_uri=ROOT_URI)

    def write(self, ids: FieldIds, partition: int, offsets: Sequence[int]) -> ParquetFile:
        written = self.local.write(ids, partition, offsets)
        with self.files.open_output_stream(f"{OBJECTS}/root/{written.path}") as stream:
            stream.write((self.local.objects / written.path).read_bytes())
        return written

    def with_properties(self, **properties: str) -> CloudLake:
        names = {name.replace("_", "-"): value for name, value in properties.items()}
        changed = replace(self.catalog, properties={**self.catalog.properties, **names})
        return replace(self, catalog=changed)


@pytest.fixture
def lake(seaweedfs: SeaweedFs, tmp_path: Path) -> CloudLake:
    properties = {
        "uri": seaweedfs.catalog_url,
        "warehouse": f"s3://{TABLES}",
        "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
        "oauth2-server-uri": f"{seaweedfs.catalog_url}/v1/oauth/tokens",
        "towpath.table-names": "safe",
        "towpath.table-location": "catalog",
        **seaweedfs.s3_properties(),
    }
    catalog = CatalogSettings("rest", properties, next(NAMESPACES))
    return CloudLake(local_lake(tmp_path), seaweedfs.files(), catalog)


def local_lake(directory: Path) -> Lake:
    """With the machine's clock, which is the server's."""
    return replace(Lake.at(directory), clock=SystemClock())


async def loaded(lake: CloudLake) -> Table:
    table = await lake.tables().load(TOPIC)
    assert table is not None
    return table


async def test_create_append_replace_and_load(lake: CloudLake) -> None:
    tables = lake.tables()
    assert await tables.load(TOPIC) is None
    table = await tables.create(TOPIC)
    small = []
    for at in range(0, 12, 2):
        small.append((0, lake.write(table.field_ids, 0, [at, at + 1])))
        table = await tables.commit(table, append(table, small[-1], task=f"task-{at}"))
    other = lake.write(table.field_ids, 1, range(3))
    table = await tables.commit(table, append(table, (1, other)))
    large = lake.write(table.field_ids, 0, range(12))
    mark = Mark(12, table.mark(0).task_id, "rewrite-1")
    table = await tables.commit(table, Change({0: mark}, [(0, large)], small, changes_rows=False))
    expected = [(0, at) for at in range(12)] + [(1, at) for at in range(3)]
    assert offsets_by_pyiceberg(table) == expected
    assert operations(table) == ["append"] * 7 + ["replace"]
    fresh = await loaded(lake)
    assert fresh == table
    assert fresh.mark(0) == mark
    assert offsets_by_pyiceberg(fresh) == expected
    assert sorted(await tables.files(fresh)) == [(0, large.path), (1, other.path)]
    with TableReader(lake.catalog) as reader:
        (described,) = reader.tables()
    assert (described.topic, described.rows, described.files) == (TOPIC.name, 15, 2)


async def test_the_catalog_numbers_the_columns(lake: CloudLake) -> None:
    """Depth first, not breadth first as we ask for: the ids in files must be the table's."""
    table = await lake.tables().create(TOPIC)
    assert table.field_ids["headers.element"] == 7
    assert table.field_ids["attributes"] == 13


async def test_typed_columns_keep_the_ids_that_we_gave_them(lake: CloudLake) -> None:
    tables = lake.tables()
    old = await tables.create(TOPIC)
    city = Field("city", types.STRING, "city", 1002)
    address = Field("address", ListOf(Struct((city,)), 1001), "address", 1000)
    table = await tables.evolve(old, (address, Field("a", types.INT, "a", 1003)))
    file = lake.write(table.field_ids, 0, range(3))
    table = await tables.commit(table, append(table, (0, file)))
    table = await tables.evolve(table, (Field("a", types.LONG, "a", 1003),))
    table = await tables.evolve(table, (Field("a", types.STRING, "a", 1004),))
    found = handle(await loaded(lake)).schema()
    assert found == handle(table).schema()
    assert found.find_field("address.element.city").field_id == 1002
    assert (str(found.find_type("a_long")), found.find_field("a_long").field_id) == ("long", 1003)
    assert found.find_field("a").field_id == 1004
    rows = handle(table).scan().to_arrow()
    assert rows.column("a").to_pylist() == rows.column("address").to_pylist() == [None] * 3
    with pytest.raises(CommitConflict):
        await tables.evolve(old, (Field("b", types.INT, "b", 1005),))


async def test_a_late_commit_conflicts(lake: CloudLake) -> None:
    tables = lake.tables()
    empty = await tables.create(TOPIC)
    first = await lake.tables().commit(empty, Change({0: Mark(1, "quick")}))
    for stale in (empty, first):
        second = await loaded(lake)
        if stale is first:
            await tables.commit(second, Change({0: Mark(2, "quicker")}))
        with pytest.raises(CommitConflict):
            await tables.commit(stale, Change({0: Mark(9, "late")}))
    assert (await loaded(lake)).mark(0) == Mark(2, "quicker")


async def test_old_snapshots_expire(lake: CloudLake) -> None:
    tables = lake.tables(UpkeepSettings(snapshots_min=1, snapshots_max=3, snapshots_per_expiry=1))
    table = await tables.create(TOPIC)
    for at in range(8):
        file = lake.write(table.field_ids, 0, [at])
        table = await tables.commit(table, append(table, (0, file), task=f"task-{at}"))
    assert len(handle(table).metadata.snapshots) <= 4
    assert offsets_by_pyiceberg(await loaded(lake)) == [(0, at) for at in range(8)]
    directory = handle(table).metadata.location.removeprefix("s3://")
    listed = lake.files.get_file_info(fs.FileSelector(directory, recursive=True))
    names = [info.base_name for info in listed if info.is_file]
    assert len([name for name in names if name.startswith("snap-")]) <= 4


async def test_a_topic_that_is_created_again_or_deleted(lake: CloudLake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    file = lake.write(table.field_ids, 0, range(3))
    table = await tables.commit(table, append(table, (0, file)))
    again = replace(TOPIC, number=8)
    with pytest.raises(SupersededTable):
        await tables.load(again)
    aside = await tables.set_aside(again)
    assert aside is not None
    assert aside.endswith("__7")
    assert await tables.load(again) is None
    assert await tables.drop(TOPIC) == [file.path]
    with pytest.raises(TableMissing):
        await tables.commit(table, Change({0: Mark(9, "late")}))


async def test_topics_whose_names_the_catalog_refuses(lake: CloudLake) -> None:
    plain = lake.with_properties(**{"towpath.table_names": "topic"})
    with pytest.raises(CatalogUnavailable, match="table name"):
        await plain.tables().create(replace(TOPIC, name="Orders.eu"))


async def test_wrong_credentials_say_so(lake: CloudLake) -> None:
    with pytest.raises(CatalogUnavailable, match="credentials"):
        await lake.with_properties(credential=f"{ACCESS_KEY}:wrong").tables().load(TOPIC)


async def test_a_sqlite_catalog_of_tables_on_s3(seaweedfs: SeaweedFs, tmp_path: Path) -> None:
    plain = sqlite_settings(tmp_path / "catalog.sqlite")
    catalog = replace(plain, properties={**plain.properties, **seaweedfs.s3_properties()})
    lake = CloudLake(local_lake(tmp_path), seaweedfs.files(), catalog)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    for at in range(3):
        file = lake.write(table.field_ids, 0, [at])
        table = await tables.commit(table, append(table, (0, file), task=f"task-{at}"))
    fresh = await loaded(lake)
    assert fresh == table
    assert handle(fresh).metadata.location == f"{ROOT_URI}/towpath/iceberg/topic={TOPIC.name}"
    assert offsets_by_pyiceberg(fresh) == [(0, 0), (0, 1), (0, 2)]
    assert await tables.files(fresh)
