"""`towpath tables` on data directories that no broker and no Spark has made."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.helpers_tables import START_MS, DataDir, appended, data_file, replaced

from towpath.cli.main import run
from towpath.cli.table_catalog import CatalogPlace, place_of
from towpath.cli.table_document import TOPIC, TOPIC_ID
from towpath.config.settings import Settings
from towpath.lakehouse.iceberg import properties
from towpath.lakehouse.iceberg.catalog import open_catalog
from towpath.lakehouse.iceberg.open import catalog_settings

Ask = Callable[..., Any]
S3_OPTIONS = {"endpoint": "http://127.0.0.1:9000", "region": "here", "access_key_id": "geheim"}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOWPATH_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def orders(tmp_path: Path) -> DataDir:
    """A topic of three partitions, the last one not compacted; its table after three commits."""
    data = DataDir(tmp_path / "data")
    topic = data.make_topic("orders", 1, [500, 300, 70])
    small = [data_file(0, 0, 200), data_file(0, 200, 400)]
    data.make_table(
        topic,
        appended(small[0], data_file(1, 0, 300)),
        appended(small[1]),
        replaced(small, [data_file(0, 0, 400)]),
    )
    return data


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs `towpath tables ... --output json`, which must succeed without a word on stderr."""

    def ask(data: DataDir, *arguments: str) -> Any:
        flags = ["--data-dir", str(data.path), "--output", "json"]
        assert run(["tables", *arguments, *flags]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return json.loads(printed.out)

    return ask


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `towpath tables ...` shows to people."""

    def show(data: DataDir, *arguments: str) -> str:
        assert run(["tables", *arguments, "--data-dir", str(data.path)]) == 0
        return capsys.readouterr().out

    return show


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line with which `towpath tables ...` fails."""

    def fail(*arguments: str, code: int = 1) -> str:
        assert run(["tables", *arguments]) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("towpath: ")
        assert printed.err.count("\n") == 1
        return printed.err.removeprefix("towpath: ").rstrip("\n")

    return fail


def test_list(orders: DataDir, ask: Ask) -> None:
    (table,) = ask(orders, "list")
    assert table.pop("last_commit_ms") > START_MS
    assert table == {
        "table": "towpath.orders",
        "topic": "orders",
        "topic_exists": True,
        "rows": 700,
        "files": 2,
        "size_bytes": 70_000,
        "snapshots": 3,
        "lag_records": 170,
    }


def test_list_for_people(orders: DataDir, show: Callable[..., str]) -> None:
    head, line = show(orders, "list").splitlines()
    assert " ".join(head.split()) == "table topic rows files size snapshots lag last commit"
    assert line.startswith("towpath.orders  orders  700   2      68.4 KiB  3          170  20")
    assert line.endswith("Z")


def test_describe(orders: DataDir, ask: Ask) -> None:
    found = ask(orders, "describe", "orders")
    assert found["location"] == f"file://{orders.path}/objects/towpath/iceberg/topic=orders"
    assert Path(found["metadata_file"].removeprefix("file://")).exists()
    assert found["format_version"] == 2
    assert [(c["field_id"], c["name"], c["type"]) for c in found["schema"]][5:9] == [
        (6, "headers", "list"),
        (11, "headers.element", "struct"),
        (12, "headers.element.key", "string"),
        (13, "headers.element.value", "binary"),
    ]
    assert found["partitioning"] == [
        {"field_id": 1000, "name": "partition", "source": "partition", "transform": "identity"}
    ]
    assert found["properties"]["dray.topic"] == "orders"
    columns = ("compacted_end", "log_end", "lag_records", "files", "rows", "size_bytes")
    assert [tuple(part[name] for name in columns) for part in found["partitions"]] == [
        (400, 500, 100, 1, 400, 40_000),
        (300, 300, 0, 1, 300, 30_000),
        (0, 70, 70, 0, 0, 0),
    ]
    assert set(found["read_with"]) == {"pyiceberg", "duckdb", "spark_sql"}


def test_describe_for_people(orders: DataDir, show: Callable[..., str]) -> None:
    shown = show(orders, "describe", "towpath.orders")
    lines = shown.splitlines()
    assert lines[0] == "table         towpath.orders"
    assert "partitioning  partition" in lines
    assert "1          300            300      0    1      300   29.3 KiB" in lines
    assert "dray.topic_number=1" in shown
    assert "dray.partitions" not in shown
    assert "# Spark SQL\nspark-sql \\" in shown


def test_snapshots(orders: DataDir, ask: Ask, show: Callable[..., str]) -> None:
    first, second, third = ask(orders, "snapshots", "orders")
    assert [found["operation"] for found in (first, second, third)] == [
        "append",
        "append",
        "replace",
    ]
    assert (first["parent_id"], second["parent_id"]) == (None, first["snapshot_id"])
    assert (second["current"], third["current"]) == (False, True)
    assert (first["added_files"], first["added_rows"]) == (2, 500)
    changes = [third[name] for name in ("added_files", "removed_files", "added_rows")]
    assert (changes, third["removed_rows"]) == ([1, 2, 400], 400)
    assert first["offsets"] == {"0": 200, "1": 300}
    assert third["offsets"] == {"0": 400, "1": 300}
    last = show(orders, "snapshots", "orders").splitlines()[-1]
    assert last.endswith("replace    +1 -2  +400 -400  0:400 1:300")


def test_many_partitions_of_a_snapshot_are_cut_short(
    tmp_path: Path, ask: Ask, show: Callable[..., str]
) -> None:
    data = DataDir(tmp_path / "data")
    topic = data.make_topic("wide", 1, [1] * 20)
    data.make_table(topic, appended(*(data_file(i, 0, 1) for i in range(20))))
    assert len(ask(data, "snapshots", "wide")[0]["offsets"]) == 20
    assert show(data, "snapshots", "wide").rstrip().endswith(" 6:1 7:1 +12")


def test_files(orders: DataDir, ask: Ask) -> None:
    first, second = ask(orders, "files", "orders")
    assert first == {
        "partition": 0,
        "path": f"file://{orders.path}/objects/towpath/compaction/v1/p0-0-400.parquet",
        "rows": 400,
        "size_bytes": 40_000,
        "first_offset": 0,
        "last_offset": 399,
        "min_timestamp_ms": START_MS,
        "max_timestamp_ms": START_MS + 399,
    }
    assert (second["partition"], second["rows"]) == (1, 300)


def test_times_that_no_calendar_has(tmp_path: Path, show: Callable[..., str]) -> None:
    """The table's microseconds reach further than Python's years, and before 1970."""
    data = DataDir(tmp_path / "data")
    topic = data.make_topic("odd", 1, [1])
    late_ms = 9_000_000_000_000_000
    file = data_file(0, 0, 1, min_timestamp_ms=-1000, max_timestamp_ms=late_ms)
    data.make_table(topic, appended(file))
    line = show(data, "files", "odd").splitlines()[1]
    assert "1969-12-31 23:59:59Z" in line
    assert f"{late_ms} ms" in line


def test_records_that_left_the_log_are_nothing_to_wait_for(orders: DataDir, ask: Ask) -> None:
    topic = orders.make_topic("late", 2, [100])
    orders.make_table(topic, appended(data_file(0, 0, 10)))
    orders.set_log_start(topic, 0, 60)
    assert ask(orders, "describe", "late")["partitions"][0]["lag_records"] == 40


def test_tables_of_topics_that_are_gone(
    orders: DataDir, ask: Ask, show: Callable[..., str]
) -> None:
    """A topic made again under the same name is another one, and has a table of its own."""
    again = orders.make_topic("orders", 9, [5])
    (old,) = ask(orders, "list")
    assert (old["topic_exists"], old["lag_records"], old["rows"]) == (False, None, 700)
    assert "orders (no topic)" in show(orders, "list")
    orders.set_aside(again)
    orders.make_table(again, appended(data_file(0, 0, 3)))
    new, old = ask(orders, "list")
    assert (new["table"], new["topic_exists"], new["lag_records"]) == ("towpath.orders", True, 2)
    assert (old["table"], old["topic_exists"]) == ("towpath.orders__1", False)
    assert ask(orders, "describe", "orders__1")["partitions"][1]["log_end"] is None


def test_a_table_without_snapshots(tmp_path: Path, ask: Ask, show: Callable[..., str]) -> None:
    data = DataDir(tmp_path / "data")
    data.make_table(data.make_topic("new", 1, [0, 3]))
    (table,) = ask(data, "list")
    assert (table["rows"], table["files"], table["lag_records"]) == (0, 0, 3)
    assert table["last_commit_ms"] is None
    assert ask(data, "snapshots", "new") == ask(data, "files", "new") == []
    assert "snapshot      none yet" in show(data, "describe", "new")


def test_no_tables_yet(tmp_path: Path, ask: Ask, show: Callable[..., str]) -> None:
    data = DataDir(tmp_path / "data")
    data.make_topic("orders", 1, [5])
    open_catalog(catalog_settings(data.settings)).close()
    assert ask(data, "list") == []
    assert show(data, "list") == "no tables yet\n"


def test_nothing_is_there(tmp_path: Path, fail: Callable[..., str]) -> None:
    for arguments in (["list"], ["describe", "a"], ["snapshots", "a"], ["files", "a"]):
        message = fail(*arguments, "--data-dir", "none")
        assert message == f"no Towpath data here: {tmp_path}/none/metadata.sqlite does not exist"
    assert list(tmp_path.iterdir()) == []
    assert fail("list", "--set", "metadata_url=memory://").startswith("metadata_url memory://")


def test_no_catalog(tmp_path: Path, fail: Callable[..., str]) -> None:
    data = DataDir(tmp_path / "data")
    data.make_topic("orders", 1, [5])
    before = data.contents()
    message = fail("list", "--data-dir", str(data.path))
    assert message == f"no tables yet: {data.path}/catalog.sqlite does not exist"
    assert data.contents() == before


def test_unknown_tables(orders: DataDir, fail: Callable[..., str]) -> None:
    orders.make_topic("fresh", 2, [5])
    where = ("--data-dir", str(orders.path))
    assert fail("files", "ordres", *where) == "there is no table 'ordres', did you mean 'orders'?"
    assert fail("describe", "zzz", *where) == "there is no table 'zzz'"
    assert fail("snapshots", "towpath.fresh", *where).startswith("topic fresh has no table yet")
    assert "Missing argument 'TABLE'" in fail("files", *where, code=2)


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_nothing_is_changed(orders: DataDir, ask: Ask, running: bool) -> None:
    """Whether others have the stores open or not."""
    paths = [orders.path / "metadata.sqlite", orders.path / "catalog.sqlite"]
    others = [sqlite3.connect(path) for path in paths] if running else []
    for other in others:
        other.execute("SELECT count(*) FROM sqlite_master").fetchone()
    before = orders.contents()
    assert ask(orders, "list") == ask(orders, "list")
    for command in ("describe", "snapshots", "files"):
        ask(orders, command, "orders")
    assert orders.contents() == before
    for other in others:
        other.close()


def test_stores_that_may_not_be_written(orders: DataDir, ask: Ask) -> None:
    expected = ask(orders, "describe", "orders")
    files = [orders.path, *orders.path.rglob("*")]
    modes = {path: path.stat().st_mode for path in files}
    try:
        for path in files:
            path.chmod(modes[path] & ~0o222)
        assert ask(orders, "describe", "orders") == expected
    finally:
        for path in files:
            path.chmod(modes[path])


def test_a_table_is_found_by_its_topic(tmp_path: Path, ask: Ask) -> None:
    """Where the catalog does not take the topic's name."""
    data = DataDir(tmp_path / "data")
    data.make_table(data.make_topic("Shop.Orders", 1, [5]), appended(data_file(0, 0, 5)))
    connection = sqlite3.connect(data.path / "catalog.sqlite", isolation_level=None)
    connection.execute("UPDATE iceberg_tables SET table_name = 'shop_orders'")
    connection.close()
    for name in ("Shop.Orders", "shop_orders", "towpath.shop_orders"):
        assert ask(data, "describe", name)["table"] == "towpath.shop_orders"


def test_damage_is_one_line(orders: DataDir, ask: Ask, fail: Callable[..., str]) -> None:
    where = ("--data-dir", str(orders.path))
    file = Path(ask(orders, "describe", "orders")["metadata_file"].removeprefix("file://"))
    for manifest in file.parent.glob("*.avro"):
        manifest.write_bytes(b"")
    assert fail("files", "orders", *where).startswith("cannot read the files of towpath.orders")
    file.write_text("{")
    assert fail("list", *where).startswith("cannot read the metadata of table orders")
    file.unlink()
    assert fail("snapshots", "orders", *where).startswith(
        "cannot read the metadata of table orders"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("PRAGMA user_version = 99", "has schema version 99, written by a newer release"),
        ("PRAGMA application_id = 1", "is not a metadata store"),
    ],
)
def test_a_store_of_others(
    orders: DataDir, fail: Callable[..., str], change: str, message: str
) -> None:
    store = orders.path / "metadata.sqlite"
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute(change)
    connection.close()
    assert fail("list", "--data-dir", str(orders.path)).startswith(f"{store} {message}")


def test_tables_of_others(orders: DataDir, ask: Ask, fail: Callable[..., str]) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    catalog = open_catalog(catalog_settings(orders.settings))
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    location = f"file://{orders.path}/objects/foreign"
    catalog.create_table("towpath.foreign", schema, location)
    catalog.close()
    foreign, _ = ask(orders, "list")
    assert (foreign["table"], foreign["topic"]) == ("towpath.foreign", None)
    assert ask(orders, "snapshots", "foreign") == []
    message = fail("describe", "foreign", "--data-dir", str(orders.path))
    assert message.startswith("towpath.foreign: the table has no column 'partition'")


def test_any_other_catalog_is_asked(
    orders: DataDir, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are the same, whoever reads the metadata."""
    commands = (["list"], ["describe", "orders"], ["snapshots", "orders"], ["files", "orders"])
    expected = [ask(orders, *command) for command in commands]
    monkeypatch.setattr(CatalogPlace, "sqlite_file", None)
    asked = [ask(orders, *command) for command in commands]
    for found in (expected[1], asked[1]):
        del found["read_with"]
    assert asked == expected


def test_a_catalog_that_does_not_answer(orders: DataDir, fail: Callable[..., str]) -> None:
    flags = ["--set", "iceberg_catalog=uri=http://127.0.0.1:1/"]
    message = fail("list", "--data-dir", str(orders.path), *flags)
    assert message.startswith("cannot read the catalog: the catalog does not answer")


def test_only_looking_into_files_loads_the_library(orders: DataDir) -> None:
    code = (
        "import sys; from towpath.cli.main import run; run(sys.argv[1:]);"
        "print([m for m in ('pyiceberg', 'pyarrow', 'pyspark', 'sqlalchemy') if m in sys.modules])"
    )
    for command in (["list"], ["snapshots", "orders"]):
        done = subprocess.run(
            [sys.executable, "-c", code, "tables", *command, "--data-dir", str(orders.path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"iceberg_namespace": "a.b"},
        {"iceberg_catalog": {"uri": "sqlite:////tmp/x.sqlite"}, "iceberg_catalog_name": "c"},
        {"iceberg_catalog": {"uri": "https://example.org", "token": "t"}},
        {"iceberg_catalog": {"type": "glue"}},
        {"iceberg_catalog_name": "lake", "objects_url": "s3://b", "objects_options": S3_OPTIONS},
        {"iceberg_catalog": {"uri": "https://example.org"}, "objects_url": "s3://b"},
    ],
)
def test_the_catalog_is_the_one_that_is_written(given: dict[str, Any]) -> None:
    settings = Settings.model_validate({"data_dir": "/data", **given})
    place, written = place_of(settings), catalog_settings(settings)
    assert place.name == written.name
    assert place.namespace == written.namespace_tuple
    assert place.properties == {"type": written.type, **written.properties}


def test_names_are_those_that_are_written() -> None:
    assert (TOPIC, TOPIC_ID) == (properties.TOPIC, properties.TOPIC_ID)


@pytest.mark.parametrize("command", ["list", "describe", "snapshots", "files"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tables", command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--config", "--data-dir", "--set", "--output"))
    assert run(["tables", "--help"]) == 0
    assert f"  towpath tables {command}" in capsys.readouterr().out
