"""The Spark source without Spark: which slices a reader plans, and which rows they have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from tests.unit.reading.helpers_data_dir import FIRST_MS, DataDir, Written

from pyspark_towpath import DefaultSource
from pyspark_towpath.names import BadOption
from pyspark_towpath.planning import SlicePartition
from towpath.errors import LogDamaged
from towpath.reading.stores import NothingToRead
from towpath.reading.topic import NoSuchTopic, OffsetsAhead, OffsetsGone

PARTITIONS = 2
EVERYTHING = [f"{partition}-{number}" for partition in range(PARTITIONS) for number in range(6)]


def some_batches(first: int, count: int) -> list[Written]:
    """Batches of one record, a second apart, for both partitions."""
    return [
        Written(partition, FIRST_MS + 1_000 * number, [b"%d-%d" % (partition, number)])
        for number in range(first, first + count)
        for partition in range(PARTITIONS)
    ]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Of each partition three records in Parquet and three in WAL."""
    made = DataDir(tmp_path_factory.mktemp("readers") / "data")
    made.write("orders", PARTITIONS, *some_batches(0, 3))
    with pytest.MonkeyPatch.context() as patch:
        made.compact(patch)
    made.write("orders", PARTITIONS, *some_batches(3, 3))
    return made


def source(at: DataDir, options: Mapping[str, Any]) -> DefaultSource:
    given = {"topic": "orders", "data-dir": str(at.path), **options}
    return DefaultSource({name: str(value) for name, value in given.items()})


def rows(reader: Any, partitions: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        row
        for partition in partitions
        for found in reader.read(partition)
        for row in found.to_pylist()
    ]


def read(at: DataDir, filters: list[Filter] | None = None, **options: Any) -> list[str]:
    """The values that a batch reader gives."""
    made = source(at, options)
    reader = made.reader(made.schema())
    if filters is not None:
        assert reader.pushFilters(filters) == filters
    found = rows(reader, reader.partitions())
    return sorted(row["value"].decode() for row in found)


def values(*numbers: int, partitions: tuple[int, ...] = (0, 1)) -> list[str]:
    return [f"{partition}-{number}" for partition in partitions for number in numbers]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, EVERYTHING),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, EVERYTHING),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": 4}, values(4, 5)),
        ({"startingoffsets": '{"orders": {"0": 5}}', "partitions": 0}, ["0-5"]),
        ({"startingOffsets": '{"0": 5, "1": -1}'}, ["0-5"]),
        ({"startingOffsets": '{"0": -1}', "endingOffsets": '{"1": 2}'}, ["1-0", "1-1"]),
        ({"endingOffsets": "earliest"}, []),
        ({"partitions": "1"}, values(*range(6), partitions=(1,))),
        ({"startingTimestamp": FIRST_MS + 2_000}, values(2, 3, 4, 5)),
        ({"startingTimestamp": FIRST_MS + 4_001}, values(5)),
        ({"startingTimestamp": FIRST_MS + 99_000}, []),
        ({"starting-timestamp": f'{{"0": {FIRST_MS + 5_000}, "1": {FIRST_MS + 4_000}}}'},
         ["0-5", "1-4", "1-5"]),
        ({"endingTimestamp": "2023-11-14T22:13:22Z"}, values(0, 1)),
        ({"asOf": "2023-11-14T22:13:22Z"}, values(0, 1, 2)),
        ({"asOf": FIRST_MS + 4_500}, values(0, 1, 2, 3, 4)),
        ({"asOf": '{"orders": {"0": 4, "1": 1}}'}, ["0-0", "0-1", "0-2", "0-3", "1-0"]),
        ({"timestampFrom": "2023-11-14T22:13:22+00:00"}, values(2, 3, 4, 5)),
        ({"timestampBefore": FIRST_MS + 4_000, "timestampFrom": FIRST_MS + 1_000},
         values(1, 2, 3)),
        ({"startingOffsets": 5, "endingOffsets": 3}, []),
    ],
)  # fmt: skip
def test_what_the_options_choose(
    orders: DataDir, options: dict[str, Any], expected: list[str]
) -> None:
    assert read(orders, **options) == expected


def column(name: str) -> tuple[str, ...]:
    return (name,)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], EVERYTHING),
        ([EqualTo(column("partition"), 1)], values(*range(6), partitions=(1,))),
        ([EqualTo(column("offset"), 4)], values(4)),
        ([EqualTo(column("offset"), 9)], []),
        ([In(column("offset"), (1, 3))], values(1, 2, 3)),
        ([GreaterThan(column("offset"), 1), LessThanOrEqual(column("offset"), 3)], values(2, 3)),
        ([GreaterThanOrEqual(column("timestamp"),
                             datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC))], values(3, 4, 5)),
        ([LessThan(column("timestamp"), datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC))],
         values(0, 1, 2)),
        ([IsNotNull(column("offset")), EqualTo(column("value"), b"0-1")], EVERYTHING),
        ([GreaterThan(column("offset"), 4), LessThan(column("offset"), 2)], []),
    ],
)  # fmt: skip
def test_filters_narrow_the_plan(
    orders: DataDir, filters: list[Filter], expected: list[str]
) -> None:
    assert read(orders, filters) == expected


def test_spark_may_have_filters_switched_off(orders: DataDir) -> None:
    """This is how Spark finds out whether a reader wants them."""
    from pyspark.sql.datasource import DataSourceReader

    made = source(orders, {})
    reader: Any = made.reader(made.schema())
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


def test_columns_come_as_asked(orders: DataDir) -> None:
    made = source(orders, {"columns": "value, partition", "startingTimestamp": FIRST_MS + 2_500})
    schema = made.schema()
    assert schema.names == ["value", "partition"]
    reader = made.reader(schema)
    found = rows(reader, reader.partitions())
    assert {tuple(row) for row in found} == {("value", "partition")}
    assert sorted(row["value"] for row in found) == [v.encode() for v in values(3, 4, 5)]
    all_columns = source(orders, {}).schema()
    assert all_columns.names[:3] == ["partition", "offset", "timestamp"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"topic": ""}, BadOption, "give the option 'topic'"),
        ({"topic": "nothing"}, NoSuchTopic, "there is no topic 'nothing'"),
        ({"topics": "orders"}, BadOption, "there is no option 'topics'; there are asOf, "),
        ({"columns": "value,valu"}, BadOption, "there is no column 'valu'; there are partition, "),
        ({"columns": "value,value"}, BadOption, "wants names, each once"),
        ({"partitions": "7"}, BadOption, "has 2 partitions, no number 7"),
        ({"partitions": "x"}, BadOption, "'partitions' wants a whole number from 0 on, not 'x'"),
        ({"startingOffsets": "soon"}, BadOption, "'startingOffsets' wants a whole number"),
        ({"startingOffsets": '{"0": -3}'}, BadOption, "'startingOffsets' wants JSON like"),
        ({"startingOffsets": '{"0": "5"}'}, BadOption, "'startingOffsets' wants JSON like"),
        ({"startingOffsets": '{"5": 0}'}, BadOption, "no number 5"),
        ({"startingOffsets": 1, "startingTimestamp": 1}, BadOption, "give one of the options"),
        ({"startingTimestamp": "noon"}, BadOption, "wants milliseconds or a time like"),
        ({"asOf": 5, "endingOffsets": 5}, BadOption, "give no other end"),
        ({"endingOffsets": 7}, OffsetsAhead, "ends at offset 6; 7 was asked for"),
        ({"maxOffsetsPerTrigger": 5}, BadOption, "'maxOffsetsPerTrigger' is for streams only"),
        ({"minPartitions": 0}, BadOption, "'minPartitions' wants a whole number from 1 on"),
        ({"data-dir": "/no/such/place"}, NothingToRead, "metadata.sqlite does not exist"),
        ({"config": "/no/such/file.yaml"}, BadOption, "/no/such/file.yaml"),
    ],
)
def test_wrong_options(
    orders: DataDir, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(orders, **options)


def test_a_system_must_be_named() -> None:
    with pytest.raises(BadOption, match="give the option 'config'"):
        DefaultSource({"topic": "orders"}).schema()


def test_the_systems_file_is_enough(orders: DataDir, tmp_path: Path) -> None:
    file = tmp_path / "towpath.yaml"
    file.write_text(f"data_dir: {orders.path}\n")
    made = DefaultSource({"topic": "orders", "config": str(file)})
    reader = made.reader(made.schema())
    assert len(rows(reader, reader.partitions())) == len(EVERYTHING)


# Records that move between the plan and its reading


def test_what_was_compacted_since_the_plan_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = DataDir(tmp_path / "data")
    at.write("orders", PARTITIONS, *some_batches(0, 6))
    made = source(at, {})
    reader = made.reader(made.schema())
    planned = reader.partitions()
    at.compact(monkeypatch)
    for path in at.wal_objects():
        path.unlink()
    found = rows(reader, planned)
    assert sorted(row["value"].decode() for row in found) == EVERYTHING


def test_what_nobody_finds_is_said(tmp_path: Path) -> None:
    at = DataDir(tmp_path / "data")
    at.write("orders", PARTITIONS, *some_batches(0, 2))
    made = source(at, {})
    reader = made.reader(made.schema())
    planned = reader.partitions()
    for path in at.wal_objects():
        path.unlink()
    with pytest.raises(LogDamaged, match="is gone, and the index still names it"):
        rows(reader, planned)


# Streams


def stream(at: DataDir, **options: Any) -> Any:
    made = source(at, options)
    return made.streamReader(made.schema())


def stream_values(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    # Spark keeps offsets as JSON.
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    found = rows(reader, reader.partitions(start, end))
    return sorted(row["value"].decode() for row in found)


def test_a_stream_reads_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = DataDir(tmp_path / "data")
    at.write("orders", PARTITIONS, *some_batches(0, 2))
    reader = stream(at)
    start, end = reader.initialOffset(), reader.latestOffset()
    assert stream_values(reader, start, end) == values(0, 1)
    assert reader.latestOffset() == end
    assert stream_values(reader, end, end) == []
    at.write("orders", PARTITIONS, *some_batches(2, 2))
    at.compact(monkeypatch)
    at.write("orders", PARTITIONS, *some_batches(4, 1))
    later = stream(at).latestOffset()
    assert stream_values(stream(at), end, later) == values(2, 3, 4)
    assert later["offsets"] == {"0": 5, "1": 5}


def test_a_stream_begins_where_it_is_told(orders: DataDir) -> None:
    assert stream(orders).initialOffset()["offsets"] == {"0": 0, "1": 0}
    latest = stream(orders, startingOffsets="latest")
    assert latest.initialOffset()["offsets"] == {"0": 6, "1": 6}
    at_time = stream(orders, startingTimestamp=FIRST_MS + 4_000, partitions="1")
    assert at_time.initialOffset()["offsets"] == {"1": 4}
    with pytest.raises(OffsetsAhead, match="ends at offset 6; 9 was asked for"):
        stream(orders, startingOffsets='{"0": 9}').initialOffset()
    with pytest.raises(BadOption, match="'endingOffsets' is for batch reads only"):
        stream(orders, endingOffsets="latest")


def write_checkpoint(location: Path, number: int, *offsets: dict[str, Any]) -> None:
    (location / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["v1", '{"batchWatermarkMs":0}', *(json.dumps(each) for each in offsets)]
    (location / "offsets" / str(number)).write_text("\n".join(lines))


def test_a_limit_holds_and_goes_on_after_a_restart(orders: DataDir, tmp_path: Path) -> None:
    location = tmp_path / "checkpoint"
    options = {"maxOffsetsPerTrigger": 5, "checkpointLocation": location}
    reader = stream(orders, **options)
    end = reader.latestOffset()
    assert end["offsets"] == {"0": 3, "1": 2}
    assert reader.latestOffset() == end
    assert len(stream_values(reader, reader.initialOffset(), end)) == 5
    write_checkpoint(location, 0, end)
    write_checkpoint(location, 11, end)
    (location / "offsets" / ".0.crc").write_bytes(b"\0")
    again = stream(orders, **options)
    second = again.latestOffset()
    assert sum(second["offsets"].values()) == 10
    assert len(stream_values(again, end, second)) == 5
    assert sum(again.latestOffset()["offsets"].values()) == 12
    write_checkpoint(location, 12, end, second)
    with pytest.raises(BadOption, match="reads topic 'orders' 2 times"):
        stream(orders, **options).latestOffset()
    with pytest.raises(BadOption, match="needs the option 'checkpointLocation'"):
        stream(orders, maxOffsetsPerTrigger=5)


def test_records_that_are_gone_are_told_or_passed_over(tmp_path: Path) -> None:
    from tests.unit.query.test_topic_queries import write

    at = DataDir(tmp_path / "data")
    write(at.settings, *[("orders", b"%d" % number) for number in range(4)])
    reader = stream(at)
    start = reader.initialOffset()
    write(at.settings, ("orders", b"4"), removed=3)
    end = reader.latestOffset()
    with pytest.raises(OffsetsGone, match="begins at offset 3; 0 was asked for"):
        reader.partitions(start, end)
    lenient = stream(at, failOnDataLoss="false")
    assert stream_values(lenient, start, end) == ["3", "4"]
    assert stream_values(lenient, start, {**end, "offsets": {"0": 2}}) == []


def test_a_new_topic_of_the_same_name_is_another(tmp_path: Path) -> None:
    at = DataDir(tmp_path / "data")
    at.write("orders", PARTITIONS, *some_batches(0, 2))
    start = stream(at).initialOffset()
    at.delete("orders")
    at.write("orders", PARTITIONS, *some_batches(0, 4))
    reader = stream(at)
    with pytest.raises(OffsetsGone, match="was deleted and created again"):
        reader.partitions(start, reader.latestOffset())


def test_partitions_that_come_later_are_read_from_their_start(orders: DataDir) -> None:
    reader = stream(orders)
    end = reader.latestOffset()
    start = {**end, "offsets": {"0": 6}}
    assert stream_values(reader, start, end) == values(*range(6), partitions=(1,))


def test_a_reader_travels_without_its_plan(orders: DataDir) -> None:
    import pickle

    made = source(orders, {})
    reader = made.reader(made.schema())
    planned = reader.partitions()
    assert all(isinstance(partition, SlicePartition) for partition in planned)
    travelled = pickle.loads(pickle.dumps(reader))
    assert len(rows(travelled, pickle.loads(pickle.dumps(planned)))) == len(EVERYTHING)
    assert list(travelled.read(None)) == []
