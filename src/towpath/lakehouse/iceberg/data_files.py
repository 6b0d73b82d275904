"""Our Parquet files as Iceberg's data files.

`file_size_in_bytes` is exact: Iceberg for Java reads the footer from there, and drops rows without
a word if it is wrong.
"""

from __future__ import annotations

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from towpath.lakehouse.iceberg.schema import REPEATED_COLUMNS, field_ids
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import TableError
from towpath.records import table as columns
from towpath.records.table import MICROSECONDS_PER_MS, FieldIds

DAY_MS = 86_400_000


def data_file(
    schema: Schema, spec: PartitionSpec, ids: FieldIds, uri: str, partition: int, file: ParquetFile
) -> DataFile:
    """The file at `uri` as a manifest holds it. Raises TableError if the table's partitioning has
    no place for it."""
    known = {**ids, **_typed_ids(schema, file)}
    sizes = {path: column for path, column in file.columns.items() if path in known}
    counted = {path: column for path, column in sizes.items() if path not in REPEATED_COLUMNS}
    lower, upper = _bounds(schema, ids, partition, file)
    described = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=_partition_record(spec, ids, partition, file),
        record_count=file.record_count,
        file_size_in_bytes=file.size_bytes,
        column_sizes={known[path]: column.size_bytes for path, column in sizes.items()},
        value_counts={known[path]: column.values for path, column in counted.items()},
        null_value_counts={known[path]: column.nulls for path, column in counted.items()},
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
        key_metadata=None,
        split_offsets=list(file.split_offsets) or None,
        equality_ids=None,
        sort_order_id=None,
    )
    described.spec_id = spec.spec_id
    return described


def _typed_ids(schema: Schema, file: ParquetFile) -> dict[str, int]:
    """The file's typed columns that the table has, by the names that sizes have: `#` and the id."""
    present = {field.field_id for field in schema.fields}
    numbers = {path: int(path[1:]) for path in file.columns if path.startswith("#")}
    return {path: number for path, number in numbers.items() if number in present}


def _bounds(
    schema: Schema, ids: FieldIds, partition: int, file: ParquetFile
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    ranges = {
        columns.PARTITION: (partition, partition),
        columns.OFFSET: (file.first_offset, file.last_offset),
        columns.TIMESTAMP: (
            file.min_timestamp_ms * MICROSECONDS_PER_MS,
            file.max_timestamp_ms * MICROSECONDS_PER_MS,
        ),
    }
    lower, upper = {}, {}
    for path, (low, high) in ranges.items():
        kind = schema.find_type(ids[path])
        assert isinstance(kind, PrimitiveType), path
        lower[ids[path]] = to_bytes(kind, low)
        upper[ids[path]] = to_bytes(kind, high)
    return lower, upper


def _partition_record(
    spec: PartitionSpec, ids: FieldIds, partition: int, file: ParquetFile
) -> Record:
    values: list[int | None] = []
    for field in spec.fields:
        if field.source_id == ids[columns.PARTITION] and isinstance(
            field.transform, IdentityTransform
        ):
            values.append(partition)
        elif field.source_id == ids[columns.TIMESTAMP] and isinstance(
            field.transform, DayTransform
        ):
            values.append(_day(file))
        elif isinstance(field.transform, VoidTransform):
            values.append(None)
        else:
            raise TableError(f"files cannot be placed in a table partitioned by {field}")
    return Record(*values)


def _day(file: ParquetFile) -> int:
    if file.day is not None:
        return file.day
    first, last = file.min_timestamp_ms // DAY_MS, file.max_timestamp_ms // DAY_MS
    if first != last:
        raise TableError(f"{file.path} has records of several days, but the table is split by day")
    return first


def partition_of(spec: PartitionSpec, ids: FieldIds, record: Record) -> int | None:
    """The topic's partition in a file's partition record; None if it does not tell."""
    for position, field in enumerate(spec.fields):
        if field.source_id == ids[columns.PARTITION] and isinstance(
            field.transform, IdentityTransform
        ):
            value: int | None = record[position]
            return value
    return None


def parquet_file(
    schema: Schema, spec: PartitionSpec, path: str, file: DataFile
) -> ParquetFile | None:
    """A data file as the pipeline knows it, without the footer's size and the columns' sizes. None
    for one that does not tell its offsets and times: it is not of ours."""
    ids = field_ids(schema)
    offsets = _read_bounds(schema, ids[columns.OFFSET], file)
    times = _read_bounds(schema, ids[columns.TIMESTAMP], file)
    if offsets is None or times is None:
        return None
    return ParquetFile(
        path=path,
        size_bytes=file.file_size_in_bytes,
        footer_bytes=0,
        record_count=file.record_count,
        first_offset=offsets[0],
        last_offset=offsets[1],
        min_timestamp_ms=times[0] // MICROSECONDS_PER_MS,
        max_timestamp_ms=times[1] // MICROSECONDS_PER_MS,
        day=_day_of(spec, file),
        split_offsets=tuple(file.split_offsets or ()),
    )


def _read_bounds(schema: Schema, field_id: int, file: DataFile) -> tuple[int, int] | None:
    kind = schema.find_type(field_id)
    assert isinstance(kind, PrimitiveType), field_id
    lower = (file.lower_bounds or {}).get(field_id)
    upper = (file.upper_bounds or {}).get(field_id)
    if lower is None or upper is None:
        return None
    return int(from_bytes(kind, lower)), int(from_bytes(kind, upper))


def _day_of(spec: PartitionSpec, file: DataFile) -> int | None:
    for position, field in enumerate(spec.fields):
        if isinstance(field.transform, DayTransform):
            value: int | None = file.partition[position]
            return value
    return None
