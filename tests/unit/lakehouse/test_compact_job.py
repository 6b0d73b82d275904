"""The compaction job: every record of the WAL chunks, once, in files that any reader takes."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from towpath.errors import CorruptBatch, LogDamaged
from towpath.lakehouse.jobs import compact, parquet_out
from towpath.lakehouse.jobs.wal_ranges import READ_BYTES_MAX, READ_GAP_BYTES_MAX, ranges
from towpath.lakehouse.plan import Job, JobKind, JobResult, ParquetFile, WalChunk
from towpath.lakehouse.runners import balance
from towpath.log.object.wal_format import encode_wal
from towpath.objects.store import Buffer, ObjectNotFound
from towpath.objects.worker import FileObjects
from towpath.records import compression, table, to_arrow
from towpath.records.batch import BatchInfo
from towpath.records.build import NO_PRODUCER, NewRecord, ProducerFields, build_batch
from towpath.records.walk import iterate

FIELD_IDS = {path: 50 + number for path, number in table.DEFAULT_FIELD_IDS.items()}
SCHEMA = table.arrow_schema(FIELD_IDS)
STREAM = 5 << 20
DAY_MS = 86_400_000
START = 1000
PARTITION = 4

Batches = Sequence[bytes]


class World:
    """A store on disk with WAL objects, and the job that compacts them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = FileObjects(root)
        self.chunks: list[WalChunk] = []
        self.batches: list[bytes] = []
        self.end = START

    def add(self, *batches: bytes) -> None:
        """One WAL object with these batches of our stream between those of others."""
        other = BatchInfo(build_batch([NewRecord(b"other")]), 1, 0, 0)
        infos = [BatchInfo(data, len(list(iterate(data))), 0, 0) for data in batches]
        streams = [(STREAM - 1, [other]), (STREAM, infos), (STREAM + 1, [other])]
        image = encode_wal(uuid.uuid4(), 0, 0, streams)
        path = f"wal/{len(self.chunks)}.wo"
        with self.objects.create(path) as sink:
            sink.writelines(image.parts)
        chunk = next(chunk for chunk in image.chunks if chunk.stream_id == STREAM)
        rows = []
        for row, info in zip(chunk.rows, infos, strict=True):
            rows.append((self.end, chunk.chunk_offset + row.offset_in_chunk, row.length))
            self.end += info.record_count
        self.chunks.append(WalChunk(path, tuple(rows)))
        self.batches += batches

    def job(self, **changes: Any) -> Job:
        job = Job(
            "task7",
            JobKind.COMPACT,
            "orders",
            PARTITION,
            START,
            self.end,
            "data/orders/",
            self.root.as_uri(),
            FIELD_IDS,
            tuple(self.chunks),
        )
        return replace(job, **changes)

    def run(self, **changes: Any) -> JobResult:
        return compact.run(self.job(**changes), self.objects, "attempt1")

    def read(self, result: JobResult) -> pa.Table:
        """The rows of all files in the order of their offsets."""
        tables = [pq.read_table(self.root / file.path) for file in result.files]
        return pa.concat_tables(tables).sort_by(table.OFFSET)

    def files(self) -> list[str]:
        """Every file that is not WAL, temporary ones too."""
        paths = [str(path.relative_to(self.root)) for path in self.root.rglob("*")]
        return sorted(path for path in paths if (self.root / path).is_file() and "wal" not in path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def records(count: int, size_bytes: int = 10, timestamp_ms: int = DAY_MS) -> list[NewRecord]:
    return [
        NewRecord(
            None if i % 11 == 5 else b"%d" % i * (size_bytes // len(str(i))),
            None if i % 3 == 0 else b"key-%d" % (i % 50),
            timestamp_ms + i,
            (("a", b"1"), ("a", None)) if i % 4 == 0 else (),
        )
        for i in range(count)
    ]


def expected_rows(world: World) -> list[tuple[Any, ...]]:
    """Offset, time in microseconds, key, value and headers, by the Python walk."""
    found = [record for batch in world.batches for record in iterate(batch)]
    return [
        (START + at, record.timestamp_ms * 1000, record.key, record.value, list(record.headers))
        for at, record in enumerate(found)
    ]


def seen_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        rows.column(table.OFFSET).to_pylist(),
        rows.column(table.TIMESTAMP).cast(pa.int64()).to_pylist(),
        rows.column(table.KEY).to_pylist(),
        rows.column(table.VALUE).to_pylist(),
        [
            [(pair["key"], pair["value"]) for pair in headers]
            for headers in rows.column(table.HEADERS).to_pylist()
        ],
    ]
    return list(zip(*columns, strict=True))


# The rows


@pytest.mark.parametrize("codec", range(len(compression.NAMES)), ids=compression.NAMES)
def test_files_hold_every_record(world: World, codec: int) -> None:
    producer = ProducerFields(77, 2, 500)
    world.add(build_batch(records(100), codec=codec), build_batch(records(1), codec=codec))
    world.add(build_batch(records(50), codec=codec, producer=producer))
    result = world.run()
    rows = world.read(result)
    assert seen_rows(rows) == expected_rows(world)
    assert set(rows.column(table.PARTITION).to_pylist()) == {PARTITION}
    assert rows.column(table.PRODUCER_ID).to_pylist() == [None] * 101 + [77] * 50
    assert rows.column(table.PRODUCER_EPOCH).to_pylist() == [None] * 101 + [2] * 50
    assert rows.column(table.BASE_SEQUENCE).to_pylist() == [None] * 101 + [500] * 50
    assert set(rows.column(table.ATTRIBUTES).to_pylist()) == {codec}
    assert (result.task_id, result.record_count, result.error) == ("task7", 151, None)
    assert result.input_bytes == sum(map(len, world.batches))
    assert result.cpu_seconds > 0


def test_the_parts_of_a_cut_job_hold_every_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "PIECE_BYTES_MIN", 1)
    monkeypatch.setattr(balance, "SHARE_BYTES_MIN", 1)
    monkeypatch.setattr(balance, "JOB_OVERHEAD_BYTES", 0)
    for count in (45, 40, 48):
        world.add(build_batch(records(count)), build_batch(records(7)))
    job = world.job()
    pieces = [piece.job for task in balance.deal([job], 3) for piece in task]
    assert len(pieces) == 3
    done = [(piece, compact.run(piece, world.objects, "attempt1")) for piece in pieces]
    result = balance.join(reversed(done))
    assert seen_rows(world.read(result)) == expected_rows(world)
    starts = sorted(piece.start for piece in pieces)
    assert [file.first_offset for file in result.files] == starts
    assert (result.record_count, result.input_bytes) == (154, job.input_bytes)


def test_duckdb_reads_the_same(world: World) -> None:
    world.add(build_batch(records(500), codec=compression.ZSTD))
    world.add(build_batch(records(300)))
    result = world.run(row_group_bytes=8000, target_file_bytes=8000)
    assert len(result.files) > 1
    names = [str(world.root / file.path) for file in result.files]
    query = f"""
        select "offset", epoch_us(timestamp), key, value, headers from read_parquet({names!r})
        where "offset" >= {START} order by "offset"
    """
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchall()
    seen = [(*row[:4], [(pair["key"], pair["value"]) for pair in row[4]]) for row in found]
    assert seen == expected_rows(world)


blobs = st.none() | st.binary(max_size=30)
some_records = st.builds(
    NewRecord,
    value=blobs,
    key=blobs,
    timestamp_ms=st.integers(-3 * DAY_MS, 3 * DAY_MS),
    headers=st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(st.lists(some_records, min_size=1, max_size=8), min_size=1, max_size=4)),
    st.integers(1, 3000),
    st.integers(1, 9000),
    st.booleans(),
)
def test_whatever_the_limits(
    tmp_path_factory: pytest.TempPathFactory,
    objects: list[list[list[NewRecord]]],
    row_group_bytes: int,
    target_file_bytes: int,
    split_by_day: bool,
) -> None:
    world = World(tmp_path_factory.mktemp("objects"))
    for batches in objects:
        world.add(*[build_batch(each, producer=NO_PRODUCER) for each in batches])
    result = world.run(
        row_group_bytes=row_group_bytes,
        target_file_bytes=target_file_bytes,
        split_by_day=split_by_day,
    )
    assert result.record_count == world.end - START == sum(f.record_count for f in result.files)
    for file in result.files:
        check_file(world, file)
        first_day = file.min_timestamp_ms // DAY_MS
        assert file.day == (first_day if split_by_day else None)
        assert not split_by_day or file.max_timestamp_ms // DAY_MS == first_day
    if result.files:
        assert seen_rows(world.read(result)) == expected_rows(world)


def test_a_job_without_records_makes_no_files(world: World) -> None:
    assert world.run().files == ()
    assert world.files() == []


def test_attempts_differ_in_names_only(world: World) -> None:
    world.add(build_batch(records(100)))
    first = compact.run(world.job(), world.objects, "a")
    second = compact.run(world.job(), world.objects, "b")
    assert [file.path for file in first.files] == ["data/orders/task7-a-0-00000.parquet"]
    assert [file.path for file in second.files] == ["data/orders/task7-b-0-00000.parquet"]
    assert replace(second.files[0], path=first.files[0].path) == first.files[0]


# The files


def check_file(world: World, file: ParquetFile) -> None:
    """What is reported is what the file and its footer say."""
    content = (world.root / file.path).read_bytes()
    assert file.size_bytes == len(content)
    assert content[-4:] == b"PAR1"
    assert file.footer_bytes == int.from_bytes(content[-8:-4], "little") + 8
    footer = pq.read_metadata(world.root / file.path)
    assert file.record_count == footer.num_rows
    assert len(file.split_offsets) == footer.num_row_groups
    assert file.split_offsets[0] == 4
    assert list(file.split_offsets) == sorted(set(file.split_offsets))
    rows = pq.read_table(world.root / file.path)
    offsets = rows.column(table.OFFSET).to_pylist()
    assert offsets == sorted(set(offsets))
    assert (file.first_offset, file.last_offset) == (offsets[0], offsets[-1])
    times_ms = [us // 1000 for us in rows.column(table.TIMESTAMP).cast(pa.int64()).to_pylist()]
    assert (file.min_timestamp_ms, file.max_timestamp_ms) == (min(times_ms), max(times_ms))
    check_columns(file, footer, rows)
    assert ParquetFile.from_json(file.to_json()) == file


def check_columns(file: ParquetFile, footer: pq.FileMetaData, rows: pa.Table) -> None:
    """Sizes and counts are those that a writer with all statistics would have."""
    full = pa.BufferOutputStream()
    pq.write_table(rows, full, write_statistics=True, row_group_size=1 << 20)
    reference = pq.read_metadata(pa.BufferReader(full.getvalue())).row_group(0)
    sizes: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            path = column.path_in_schema.replace(".list.", ".")
            sizes[path] = sizes.get(path, 0) + column.total_compressed_size
    assert {name: column.size_bytes for name, column in file.columns.items()} == sizes
    assert set(sizes) == set(FIELD_IDS) - {table.HEADERS, table.HEADER_ELEMENT}
    for index in range(footer.num_columns):
        column = reference.column(index)
        counted = file.columns[column.path_in_schema.replace(".list.", ".")]
        assert counted.values == column.num_values
        assert counted.nulls == column.statistics.null_count


def test_the_schema_is_the_tables(world: World) -> None:
    world.add(build_batch(records(10)))
    (file,) = world.run().files
    assert pq.read_schema(world.root / file.path).equals(SCHEMA, check_metadata=True)
    parquet = str(pq.read_metadata(world.root / file.path).schema)
    for line in (
        "required int64 field_id=52 offset;",
        "required int64 field_id=53 timestamp (Timestamp(isAdjustedToUTC=true, "
        "timeUnit=microseconds,",
        "optional binary field_id=55 value;",
        "required group field_id=56 headers (List) {",
        "required group field_id=61 element {",
        "required binary field_id=62 key (String);",
    ):
        assert line in parquet


def test_only_what_every_reader_knows_is_used(world: World) -> None:
    world.add(build_batch(records(2000, 100)), build_batch(records(10)))
    (file,) = world.run().files
    group = pq.read_metadata(world.root / file.path).row_group(0)
    for index in range(group.num_columns):
        column = group.column(index)
        assert column.compression == "ZSTD"
        assert set(column.encodings) <= {"PLAIN", "RLE", "RLE_DICTIONARY"}
        is_number = column.path_in_schema in parquet_out.NUMBERS
        assert column.is_stats_set == is_number, column.path_in_schema
        assert column.has_dictionary_page == (column.path_in_schema in parquet_out.REPEATED)
    statistics = {
        group.column(index).path_in_schema: group.column(index).statistics
        for index in range(group.num_columns)
    }
    assert (statistics["offset"].min, statistics["offset"].max) == (START, world.end - 1)
    assert statistics["partition"].max == PARTITION
    assert statistics["producer_id"].null_count == 2010


def test_pages_have_checksums(world: World) -> None:
    world.add(build_batch([NewRecord(Random(1).randbytes(10_000))]))
    (file,) = world.run().files
    path = world.root / file.path
    values = pq.read_metadata(path).row_group(0).column(4)
    content = bytearray(path.read_bytes())
    content[values.data_page_offset + values.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="checksum"):
        pq.read_table(pa.BufferReader(bytes(content)), page_checksum_verification=True)


def test_row_groups_and_files_have_their_size(world: World) -> None:
    chance = Random(1)
    for _ in range(20):
        world.add(*[build_batch([NewRecord(chance.randbytes(1000))] * 50) for _ in range(5)])
    result = world.run(row_group_bytes=200_000, target_file_bytes=6_000)
    assert seen_rows(world.read(result)) == expected_rows(world)
    assert [file.path[-13:] for file in result.files] == [
        f"{number:05d}.parquet" for number in range(len(result.files))
    ]
    *full, _ = result.files
    assert len(full) > 5
    for before, after in zip(result.files, result.files[1:], strict=False):
        assert before.last_offset + 1 == after.first_offset
    for file in full:
        assert file.size_bytes >= 6_000
        footer = pq.read_metadata(world.root / file.path)
        for number in range(footer.num_row_groups):
            assert 150_000 < footer.row_group(number).total_byte_size < 400_000


def test_a_large_batch_is_cut_into_row_groups(world: World) -> None:
    world.add(build_batch(records(5000, 200), codec=compression.LZ4))
    (file,) = world.run(row_group_bytes=100_000).files
    assert 8 <= len(file.split_offsets) <= 20
    check_file(world, file)


# Days


def test_days_get_files_of_their_own(world: World) -> None:
    times_ms = [3 * DAY_MS - 1, 3 * DAY_MS, 2 * DAY_MS, -1, 4 * DAY_MS - 1, -DAY_MS, 2 * DAY_MS]
    world.add(build_batch([NewRecord(b"v", timestamp_ms=time_ms) for time_ms in times_ms]))
    result = world.run(split_by_day=True)
    by_day = {file.day: (file.first_offset, file.last_offset) for file in result.files}
    assert by_day == {2: (1000, 1006), 3: (1001, 1004), -1: (1003, 1005)}
    assert seen_rows(world.read(result)) == expected_rows(world)


def test_many_days_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of all days mixed: few files are open, and few rows wait, at any time."""
    monkeypatch.setattr(parquet_out, "OPEN_FILES_MAX", 3)
    monkeypatch.setattr(parquet_out, "PENDING_BYTES_MAX", 20_000)
    mixed = [NewRecord(bytes(50), timestamp_ms=i * 7 % 20 * DAY_MS) for i in range(2000)]
    for at in range(0, len(mixed), 100):
        world.add(build_batch(mixed[at : at + 100]))
    open_files: list[int] = []
    create = world.objects.create

    def spied(path: str) -> Any:
        open_files.append(len(list((world.root / ".towpath/tmp").iterdir())))
        return create(path)

    monkeypatch.setattr(world.objects, "create", spied)
    result = world.run(split_by_day=True, row_group_bytes=5000)
    assert max(open_files) == 2
    assert {file.day for file in result.files} == set(range(20))
    assert seen_rows(world.read(result)) == expected_rows(world)
    for file in result.files:
        check_file(world, file)


# Memory and reads


def test_memory_does_not_grow_with_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(30):
        world.add(*[build_batch(records(100, 100)) for _ in range(3)])
    alive: list[weakref.ref[Any]] = []
    in_flight: list[int] = []
    decode = to_arrow.decode_batches

    def spied(*args: Any) -> Any:
        rows = decode(*args)
        alive.append(weakref.ref(rows))
        in_flight.append(sum(found.num_rows for ref in alive if (found := ref()) is not None))
        return rows

    monkeypatch.setattr(compact, "decode_batches", spied)
    result = world.run(row_group_bytes=30_000)
    assert result.record_count == 9000
    assert len(in_flight) > 20
    assert max(in_flight) <= 800


class CountedReads:
    """Objects that note what is read."""

    reads_at_once = 1

    def __init__(self, objects: FileObjects) -> None:
        self._objects = objects
        self.create = objects.create
        self.reads: list[int] = []

    def read(self, path: str, offset: int, length: int) -> Buffer:
        self.reads.append(length)
        return self._objects.read(path, offset, length)


def test_neighbouring_batches_are_read_together(world: World) -> None:
    world.add(*[build_batch(records(10)) for _ in range(100)])
    world.add(*[build_batch([NewRecord(bytes(3 << 20))]) for _ in range(5)])
    objects = CountedReads(world.objects)
    compact.run(world.job(), objects, "a")
    assert len(objects.reads) == 1 + 3
    assert max(objects.reads) <= READ_BYTES_MAX


def chunk(*batches: tuple[int, int]) -> WalChunk:
    return WalChunk("o", tuple((0, position, length) for position, length in batches))


@pytest.mark.parametrize(
    ("batches", "reads"),
    [
        ([], []),
        ([(10, 5)], [(10, 5)]),
        ([(10, 5), (19, 5)], [(10, 14)]),
        ([(10, 5), (15 + READ_GAP_BYTES_MAX, 5)], [(10, READ_GAP_BYTES_MAX + 10)]),
        ([(10, 5), (16 + READ_GAP_BYTES_MAX, 5)], [(10, 5), (16 + READ_GAP_BYTES_MAX, 5)]),
        ([(10, 5), (3, 5)], [(10, 5), (3, 5)]),
        ([(0, READ_BYTES_MAX), (READ_BYTES_MAX, 1)], [(0, READ_BYTES_MAX), (READ_BYTES_MAX, 1)]),
        ([(0, 2 * READ_BYTES_MAX)], [(0, 2 * READ_BYTES_MAX)]),
    ],
)
def test_reads_are_coalesced(batches: list[tuple[int, int]], reads: list[tuple[int, int]]) -> None:
    found = list(ranges([chunk(*batches), chunk(*batches)]))
    assert [(part.position, part.length) for part in found] == 2 * reads
    covered = [(position, length) for part in found for _, position, length in part.batches]
    assert covered == 2 * batches


# What goes wrong


def test_offsets_that_do_not_follow_each_other(world: World) -> None:
    world.add(build_batch(records(10)), build_batch(records(10)))
    world.add(build_batch(records(10)))
    first, second = world.chunks
    for chunks in ([second, first], [second], [first, first, second]):
        with pytest.raises(LogDamaged, match=r"orders-4 \[1000, 1030\)"):
            world.run(chunks=tuple(chunks))
    for changes in ({"end": 1031}, {"end": 1029}, {"start": 999}, {"start": 1001}, {"chunks": ()}):
        with pytest.raises(LogDamaged):
            world.run(**changes)
    assert world.files() == []


def test_batches_that_declare_other_records(world: World) -> None:
    world.add(build_batch(records(10)), build_batch(records(10)))
    path, ((base, position, length), second) = world.chunks[0].path, world.chunks[0].batches
    with pytest.raises(CorruptBatch, match=f"{path} at {position}: .* offset {base} "):
        world.run(chunks=(WalChunk(path, ((base, position, length - 1), second)),))
    with pytest.raises(CorruptBatch):
        world.run(chunks=(WalChunk(path, ((base, position + 1, length), second)),))


def test_a_damaged_byte_leaves_no_files(world: World) -> None:
    for _ in range(3):
        world.add(*[build_batch(records(100, 100)) for _ in range(10)])
    _, position, length = world.chunks[-1].batches[-1]
    damaged = world.root / world.chunks[-1].path
    content = bytearray(damaged.read_bytes())
    content[position + length - 1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(CorruptBatch, match=r"wal/2.wo at \d+: .*checksum"):
        world.run(row_group_bytes=20_000)
    assert world.files() == []


def test_a_missing_object(world: World) -> None:
    world.add(build_batch(records(10)))
    (world.root / world.chunks[0].path).unlink()
    with pytest.raises(ObjectNotFound):
        world.run()


def test_finished_files_of_a_failed_attempt_are_not_reported(world: World) -> None:
    """They stay for the collector: an attempt's names are its own."""
    for _ in range(3):
        world.add(*[build_batch(records(100, 100)) for _ in range(10)])
    with pytest.raises(LogDamaged):
        world.run(row_group_bytes=20_000, target_file_bytes=20_000, end=world.end + 1)
    left = world.files()
    assert left
    assert all(path.startswith("data/orders/task7-attempt1-") for path in left)
