"""Rows become batches that a broker would have taken from a producer, in WAL objects."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.gc.helpers_gc import START_MS, TurnedClock
from tests.unit.writing.helpers_writing import NUMBER, Row, World, batch_of, make_target

from towpath.log.object.wal_format import decode_wal
from towpath.metadata.keys import topics
from towpath.objects.store import ObjectExists, ObjectStoreError
from towpath.objects.worker import FileObjects
from towpath.records import compression
from towpath.records.batch import ATTRIBUTE_LOG_APPEND_TIME, parse_header
from towpath.records.validate import ProduceRules, validate_produce
from towpath.records.walk import Record, iterate
from towpath.runtime import InlineOffload, Runtime
from towpath.writing.errors import WriteFailed, WriteRefused
from towpath.writing.staged import Staged
from towpath.writing.stager import DRAWS, Stager
from towpath.writing.target import Target

RULES = ProduceRules(
    api_version=9,
    max_message_bytes=1_048_588,
    require_keys=False,
    log_append_time=False,
    now_ms=START_MS,
    timestamp_before_max_ms=START_MS,
    timestamp_after_max_ms=3_600_000,
    decompressed_max_bytes=1 << 27,
)
BYTES = st.binary(max_size=40)
ROWS = st.lists(
    st.builds(
        Row,
        st.none() | BYTES,
        st.none() | BYTES,
        st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | BYTES), max_size=3),
        st.none() | st.integers(0, 2),
        st.none() | st.integers(0, START_MS + 3_600_000),
    ),
    min_size=1,
    max_size=30,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


def records_in(staged: Staged, objects: FileObjects, codec: int) -> dict[int, list[Record]]:
    """What the objects hold by partition, each batch judged as a broker judges one."""
    found: dict[int, list[Record]] = {}
    for each in staged.objects:
        image = decode_wal(objects.read(each.path, 0, each.size_bytes))
        assert image.header.wal_id == each.wal_id
        assert [chunk.index.stream_id for chunk in image.chunks] == [
            chunk.stream_id for chunk in each.chunks
        ]
        for chunk in image.chunks:
            number, partition = topics.split_stream_id(chunk.index.stream_id)
            assert number == NUMBER
            for batch in chunk.batches:
                info = validate_produce(batch, RULES)
                assert info.producer_id == -1
                assert parse_header(batch).compression in (codec, compression.NONE)
                found.setdefault(partition, []).extend(iterate(batch))
    return found


def expected_of(row: Row) -> tuple[Any, ...]:
    timestamp_ms = START_MS if row.timestamp_ms is None else row.timestamp_ms
    return timestamp_ms, row.key, row.value, tuple(row.headers or ())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.sampled_from(range(len(compression.NAMES))),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_every_row_is_a_record_of_its_partition_in_order(
    directory: Path, batches: list[list[Row]], codec: int, object_rows_bytes: int
) -> None:
    world = World(directory)
    target = make_target(directory, codec=codec)
    stager = Stager(target, world.objects, world.runtime, object_rows_bytes=object_rows_bytes)
    for rows in batches:
        stager.add(batch_of(rows))
    staged = stager.finish()
    found = records_in(staged, world.objects, codec)
    sent = [row for rows in batches for row in rows]
    assert staged.record_count == len(sent)
    for partition in range(3):
        named = [expected_of(row) for row in sent if row.partition == partition]
        got = [(r.timestamp_ms, r.key, r.value, r.headers) for r in found.get(partition, [])]
        ours = iter(got)
        assert all(any(row == each for each in ours) for row in named)
    everything = [
        (r.timestamp_ms, r.key, r.value, r.headers) for part in found.values() for r in part
    ]
    assert sorted(map(repr, everything)) == sorted(repr(expected_of(row)) for row in sent)
    stager.discard()
    assert world.paths() == set()


def test_batches_are_bounded_and_large_records_fit_when_compressed(tmp_path: Path) -> None:
    world = World(tmp_path, partitions=1)
    small = [Row(b"x" * 1000, timestamp_ms=START_MS - i) for i in range(5000)]
    staged = world.stage_one(make_target(tmp_path, 1), [*small, Row(b"y" * 3_000_000)])
    (each,) = staged.objects
    image = decode_wal(world.objects.read(each.path, 0, each.size_bytes))
    (chunk,) = image.chunks
    counts = [parse_header(batch).record_count for batch in chunk.batches]
    assert sum(counts) == 5001
    assert counts[-1] == 1
    assert len(counts) == 6
    times = [info.min_timestamp_ms for info in [validate_produce(b, RULES) for b in chunk.batches]]
    assert times[4] == START_MS - 4999


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_a_record_larger_than_the_topic_takes_is_refused(tmp_path: Path, codec: int) -> None:
    world = World(tmp_path, partitions=1)
    rows = [Row(b"ok"), Row(os.urandom(2000))]
    with pytest.raises(WriteRefused, match=r"takes 2\d\d\d bytes, topic 'orders' takes 1500"):
        world.stage_one(make_target(tmp_path, 1, codec=codec, max_message_bytes=1500), rows)
    target = make_target(tmp_path, 1, codec=codec, decompressed_max_bytes=1024)
    with pytest.raises(WriteRefused, match="takes 1024"):
        world.stage_one(target, [Row(b"0" * 2000)])
    assert world.paths() == set()


def test_append_time_is_the_time_of_staging(tmp_path: Path) -> None:
    world = World(tmp_path, partitions=1)
    rows = [Row(b"1", timestamp_ms=5), Row(b"2")]
    staged = world.stage_one(make_target(tmp_path, 1, log_append_time=True), rows)
    (each,) = staged.objects
    image = decode_wal(world.objects.read(each.path, 0, each.size_bytes))
    (batch,) = image.chunks[0].batches
    assert parse_header(batch).attributes & ATTRIBUTE_LOG_APPEND_TIME
    assert [record.timestamp_ms for record in iterate(batch)] == [START_MS] * 2
    assert image.chunks[0].index.max_timestamp_ms == START_MS


@pytest.mark.parametrize(
    ("row", "changes", "reason"),
    [
        (Row(b"", partition=3), {}, "a row is for partition 3; .* has partitions 0 to 2"),
        (Row(b"", partition=-1), {}, "a row is for partition -1"),
        (Row(b""), {"require_keys": True}, "1 rows have no key; the compacted topic"),
        (Row(b"", timestamp_ms=-1), {}, "timestamp -1 ms"),
        (Row(b"", timestamp_ms=START_MS + 3_600_001), {}, "a row has the timestamp"),
        (Row(b"", timestamp_ms=START_MS - 11), {"timestamp_before_max_ms": 10}, "the timestamp"),
    ],
)
def test_rows_that_the_topic_cannot_have(
    tmp_path: Path, row: Row, changes: dict[str, Any], reason: str
) -> None:
    world = World(tmp_path)
    with pytest.raises(WriteRefused, match=reason):
        world.stage_one(make_target(tmp_path, **changes), [Row(b"fine", b"key"), row])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"key": pa.array([b""])}, "a topic has the columns"),
        ({"value": pa.array([b""]), "offset": pa.array([1])}, "a topic has the columns"),
        ({"value": pa.array([b""]), "Value": pa.array([b""])}, "a topic has the columns"),
        ({"value": pa.array([1])}, "is not bytes"),
        ({"value": pa.array([b""]), "topic": pa.array(["other"])}, "a row is for topic 'other'"),
        ({"value": pa.array([b""]), "topic": pa.array([None], pa.string())}, "for topic None"),
        (
            {
                "value": pa.array([b""]),
                "headers": pa.array(
                    [[{"key": None, "value": b""}]],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            },
            "a header is null",
        ),
        (
            {
                "value": pa.array([b""]),
                "headers": pa.ListArray.from_arrays(
                    pa.array([0, 1], pa.int32()),
                    pa.StructArray.from_arrays(
                        [pa.array([b"\xff"]).view(pa.string()), pa.array([b""])],
                        names=["key", "value"],
                    ),
                ),
            },
            "not UTF-8",
        ),
    ],
)
def test_columns_that_a_topic_has_not(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    world = World(tmp_path)
    stager = Stager(make_target(tmp_path), world.objects, world.runtime)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    with pytest.raises(WriteRefused, match=reason):
        stager.add(batch)


def test_strings_and_large_types_are_taken(tmp_path: Path) -> None:
    world = World(tmp_path, partitions=1)
    stager = Stager(make_target(tmp_path, 1), world.objects, world.runtime)
    pairs = pa.struct([("key", pa.large_string()), ("value", pa.string())])
    stager.add(
        pa.RecordBatch.from_arrays(
            [
                pa.array(["é", None]),
                pa.array(["k", "l"], pa.large_string()),
                pa.array([None, [{"key": "a", "value": "b"}]], pa.list_(pairs)),
                pa.array(["orders", "orders"]),
            ],
            names=["VALUE", "Key", "headers", "topic"],
        )
    )
    found = records_in(stager.finish(), world.objects, compression.LZ4)[0]
    assert [(r.key, r.value, r.headers) for r in found] == [
        (b"k", "é".encode(), ()),
        (b"l", None, (("a", b"b"),)),
    ]


class FullObjects(FileObjects):
    """A store in which every name is taken, or that fails."""

    def __init__(self, root: Path, error: type[ObjectStoreError]) -> None:
        super().__init__(root)
        self.error = error
        self.tries = 0

    def create(self, path: str) -> Any:
        self.tries += 1
        raise self.error(path)


def test_a_taken_name_is_drawn_again_and_a_broken_store_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, partitions=1)
    target = make_target(tmp_path, 1)

    def stage(objects: FileObjects, seed: int) -> Staged:
        stager = Stager(target, objects, _seeded(world.clock, seed))
        stager.add(batch_of([Row(b"1")]))
        return stager.finish()

    first, second = stage(world.objects, 5), stage(world.objects, 5)
    assert first.objects[0].path != second.objects[0].path
    assert len(world.paths()) == 2
    full = FullObjects(tmp_path, ObjectExists)
    with pytest.raises(WriteFailed, match="all taken"):
        stage(full, 1)
    assert full.tries == DRAWS
    with pytest.raises(WriteFailed, match="the object store refused"):
        stage(FullObjects(tmp_path, ObjectStoreError), 1)


def _seeded(clock: TurnedClock, seed: int) -> Runtime:
    return Runtime(clock, random.Random(seed), InlineOffload())


def test_a_target_can_travel(tmp_path: Path) -> None:
    target: Target = make_target(tmp_path, objects_options={"secret_access_key": "hush"})
    assert pickle.loads(pickle.dumps(target)) == target
    assert "hush" not in repr(target)
