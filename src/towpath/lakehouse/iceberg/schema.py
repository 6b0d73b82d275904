"""The columns and partitioning of a topic's table, as Iceberg has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from towpath.lakehouse.tables import TableError
from towpath.records import table as columns

BY_PARTITION = "partition"
BY_DAY = "day(timestamp)"
PARTITIONINGS: tuple[tuple[str, ...], ...] = ((BY_PARTITION,), (BY_PARTITION, BY_DAY))
"""What `table.iceberg.partitioning` may be."""

DAY_FIELD = "timestamp_day"
"""The name Spark gives to a partition field by day."""

REPEATED_COLUMNS = frozenset(
    {columns.HEADER_ELEMENT, columns.HEADER_KEY, columns.HEADER_VALUE, columns.HEADERS}
)
"""Columns that are no leaves, or may have several values in a row: nobody prunes by them."""

IDS = columns.DEFAULT_FIELD_IDS


def table_schema() -> Schema:
    """The schema a table is created with: `records.table.arrow_schema` in Iceberg's words."""
    header = StructType(
        _field(columns.HEADER_KEY, StringType()),
        _field(columns.HEADER_VALUE, BinaryType(), required=False),
    )
    headers = ListType(
        element_id=IDS[columns.HEADER_ELEMENT], element_type=header, element_required=True
    )
    return Schema(
        _field(columns.PARTITION, IntegerType()),
        _field(columns.OFFSET, LongType()),
        _field(columns.TIMESTAMP, TimestamptzType()),
        _field(columns.KEY, BinaryType(), required=False),
        _field(columns.VALUE, BinaryType(), required=False),
        _field(columns.HEADERS, headers),
        _field(columns.PRODUCER_ID, LongType(), required=False),
        _field(columns.PRODUCER_EPOCH, IntegerType(), required=False),
        _field(columns.BASE_SEQUENCE, IntegerType(), required=False),
        _field(columns.ATTRIBUTES, IntegerType()),
    )


def _field(path: str, kind: IcebergType, *, required: bool = True) -> NestedField:
    return NestedField(
        field_id=IDS[path], name=path.rpartition(".")[2], field_type=kind, required=required
    )


def partition_spec(partitioning: Sequence[str]) -> PartitionSpec:
    """The spec a table is created with. Raises ValueError for anything but `PARTITIONINGS`."""
    if tuple(partitioning) not in PARTITIONINGS:
        choices = " or ".join(repr(list(choice)) for choice in PARTITIONINGS)
        raise ValueError(f"tables are partitioned by {choices}, not {list(partitioning)!r}")
    fields = [
        PartitionField(
            source_id=IDS[columns.PARTITION],
            field_id=PARTITION_FIELD_ID_START,
            transform=IdentityTransform(),
            name=columns.PARTITION,
        )
    ]
    if BY_DAY in partitioning:
        fields.append(
            PartitionField(
                source_id=IDS[columns.TIMESTAMP],
                field_id=PARTITION_FIELD_ID_START + 1,
                transform=DayTransform(),
                name=DAY_FIELD,
            )
        )
    return PartitionSpec(*fields)


def field_ids(schema: Schema) -> Mapping[str, int]:
    """The ids the catalog gave to our columns, by dotted path. Raises TableError if one is gone."""
    found = {}
    for path in IDS:
        try:
            found[path] = schema.find_field(path).field_id
        except ValueError:
            raise TableError(f"the table has no column {path!r} any more") from None
    return found


def is_split_by_day(spec: PartitionSpec) -> bool:
    """Whether every file of the table holds one day only."""
    return any(isinstance(field.transform, DayTransform) for field in spec.fields)
