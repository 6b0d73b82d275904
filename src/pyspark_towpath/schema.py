"""The columns that Spark sees."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyspark_towpath.connection import settings_of
from pyspark_towpath.names import BadOption
from pyspark_towpath.read_options import columns_in, known_options
from pyspark_towpath.spans import topic_record
from towpath.reading.stores import Stores
from towpath.records import table


def schema_of(given: Mapping[str, str]) -> StructType:
    """The topic's table, or some of its columns in the order asked, given a reader's options. The
    first thing that Spark asks for, so that wrong options and names are found here."""
    options = known_options(given)
    stores = Stores.of(settings_of(options))
    stores.at_one_moment(lambda reader: topic_record(reader, options["topic"]))
    schema = table.arrow_schema()
    columns = columns_in(options)
    if columns is not None:
        unknown = [name for name in columns if name not in schema.names]
        if unknown:
            there = ", ".join(schema.names)
            raise BadOption(f"there is no column {unknown[0]!r}; there are {there}")
        schema = pa.schema([schema.field(name) for name in columns])
    return from_arrow_schema(schema)
