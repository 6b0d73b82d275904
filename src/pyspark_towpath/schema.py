"""The columns that Spark sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyspark_towpath.connection import settings_of
from pyspark_towpath.names import BadOption
from pyspark_towpath.read_options import ReadOptions, columns_in, known_options
from pyspark_towpath.spans import topic_record
from towpath.reading.slice_rows import Wanted
from towpath.reading.stores import Stores
from towpath.reading.topic import typed_of
from towpath.records import table
from towpath.typed.columns import TypedColumns
from towpath.typed.table import with_typed


def schema_of(given: Mapping[str, str]) -> StructType:
    """The topic's table, or some of its columns in the order asked, given a reader's options. The
    first thing that Spark asks for, so that wrong options and names are found here."""
    options = known_options(given)
    stores = Stores.of(settings_of(options))
    schema = with_typed(table.arrow_schema(), declared_columns(stores, options["topic"]))
    columns = columns_in(options)
    if columns is not None:
        unknown = [name for name in columns if name not in schema.names]
        if unknown:
            there = ", ".join(schema.names)
            raise BadOption(f"there is no column {unknown[0]!r}; there are {there}")
        schema = pa.schema([schema.field(name) for name in columns])
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def declared_columns(stores: Stores, topic: str) -> TypedColumns | None:
    """The columns that the topic's values are declared to have now."""
    return stores.at_one_moment(lambda reader: typed_of(reader, topic_record(reader, topic)))


def wanted_of(options: ReadOptions, columns: Sequence[str]) -> Wanted:
    """What a reader with these columns, of those that the schema has, asks for."""
    typed = declared_columns(options.stores, options.topic)
    known = with_typed(table.arrow_schema(), typed).names
    gone = [name for name in columns if name not in known]
    if gone:
        raise BadOption(f"the column {gone[0]!r} of {options.topic!r} is not declared any more")
    return Wanted(options.topic, tuple(columns), options.times, typed)
