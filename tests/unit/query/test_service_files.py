"""Files that DuckDB reads by ranges: what it asks for, what it is told, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from towpath.log.object.stretches import DataFile
from towpath.objects.store import ObjectNotFound, ObjectStoreError
from towpath.objects.worker import FileObjects
from towpath.query import service_files
from towpath.query.service_files import ServiceFiles

ROWS = 200_000
FOOTER_LENGTH_BYTES = 8


class CountedObjects(FileObjects):
    """Objects of a directory; every read is noted, and some fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[tuple[str, int, int]] = []
        self.failure: ObjectStoreError | None = None

    def read(self, path: str, offset: int, length: int) -> memoryview:
        if self.failure is not None:
            raise self.failure
        self.reads.append((path, offset, length))
        return super().read(path, offset, length)


def make_file(root: Path, name: str, start: int = 0) -> DataFile:
    numbers = pa.array(range(start, start + ROWS))
    text = pa.array([f"{number * 7919 % 1_000_003:x}" * 8 for number in range(start, start + ROWS)])
    pq.write_table(pa.table({"number": numbers, "text": text}), root / name, row_group_size=20_000)
    data = (root / name).read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + FOOTER_LENGTH_BYTES
    return DataFile(name, len(data), footer, ROWS, start, start + ROWS - 1, 0, 0)


@pytest.fixture
def objects(tmp_path: Path) -> CountedObjects:
    return CountedObjects(tmp_path)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def test_only_what_a_query_needs_is_read(
    tmp_path: Path, objects: CountedObjects, connection: duckdb.DuckDBPyConnection
) -> None:
    file = make_file(tmp_path, "a.parquet")
    files = ServiceFiles(objects, connection)
    source = f"read_parquet(['{files.name(file)}'])"
    query = f"SELECT sum(number), count(*) FROM {source} WHERE number >= 190000"
    assert connection.sql(query).fetchall() == [(sum(range(190_000, ROWS)), 10_000)]
    assert sum(length for _, _, length in objects.reads) < file.size_bytes / 4
    ends = [offset + length == file.size_bytes for _, offset, length in objects.reads]
    assert ends.count(True) == 1
    assert files.failure([file]) is None


def test_several_files(
    tmp_path: Path, objects: CountedObjects, connection: duckdb.DuckDBPyConnection
) -> None:
    files = ServiceFiles(objects, connection)
    made = [make_file(tmp_path, f"{at}.parquet", at * ROWS) for at in range(3)]
    names = ", ".join(f"'{files.name(file)}'" for file in made)
    query = f"SELECT count(DISTINCT number), max(text) FROM read_parquet([{names}])"
    expected = connection.sql(f"{query.split('FROM')[0]} FROM '{tmp_path}/*.parquet'").fetchall()
    assert connection.sql(query).fetchall() == expected
    assert expected[0][0] == 3 * ROWS


@pytest.mark.parametrize("failure", [ObjectNotFound("a.parquet"), ObjectStoreError("no answer")])
def test_failures_are_kept(
    tmp_path: Path,
    objects: CountedObjects,
    connection: duckdb.DuckDBPyConnection,
    failure: ObjectStoreError,
) -> None:
    file = make_file(tmp_path, "a.parquet")
    files = ServiceFiles(objects, connection)
    relation = connection.sql(f"FROM read_parquet(['{files.name(file)}'])")
    objects.failure = failure
    with pytest.raises(duckdb.Error):
        relation.fetchall()
    assert files.failure([file]) is failure
    files.forget()
    assert files.failure([file]) is None


def test_names_of_the_last_statement_are_forgotten(
    tmp_path: Path, objects: CountedObjects, connection: duckdb.DuckDBPyConnection
) -> None:
    files = ServiceFiles(objects, connection)
    name = files.name(make_file(tmp_path, "a.parquet"))
    files.forget()
    with pytest.raises(duckdb.IOException, match="No files found"):
        connection.sql(f"FROM read_parquet(['{name}'])").fetchall()
    with pytest.raises(duckdb.Error, match="written by producers only"):
        connection.sql(f"COPY (SELECT 1) TO '{name}' (FORMAT parquet)")


def test_kept_ends_are_bounded(
    tmp_path: Path,
    objects: CountedObjects,
    connection: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = make_file(tmp_path, "a.parquet"), make_file(tmp_path, "b.parquet")
    monkeypatch.setattr(service_files, "TAILS_MAX_BYTES", service_files.TAIL_BYTES)
    files = ServiceFiles(objects, connection)
    for file in (first, second, second, first):
        files.name(file)
        tail = bytes(files.read(file.path, file.size_bytes - 8, 8))
        assert tail == (tmp_path / file.path).read_bytes()[-8:]
    assert [path for path, _, _ in objects.reads] == ["a.parquet", "b.parquet", "a.parquet"]
