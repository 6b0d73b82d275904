"""The data source as Spark sees it."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_towpath.names import BadOption


class TowpathSource(DataSource):
    """A topic: its table and its live tail as one."""

    @classmethod
    def name(cls) -> str:
        return "towpath"

    def schema(self) -> StructType:
        from pyspark_towpath.between_tasks import lighten
        from pyspark_towpath.schema import schema_of

        found = schema_of(self.options)
        lighten()
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_towpath.batch_reader import TopicReader
        from pyspark_towpath.read_options import ReadOptions

        return TopicReader(ReadOptions.parse(self.options), schema.names)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's.
        from pyspark_towpath.read_options import ReadOptions
        from pyspark_towpath.stream_reader import TopicStreamReader

        return TopicStreamReader(ReadOptions.parse(self.options, is_streaming=True), schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_towpath.batch_writer import TopicWriter

        refuse_overwriting(overwrite, "mode")
        return TopicWriter(self.options, schema)

    def streamWriter(  # noqa: N802 - Spark's.
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        from pyspark_towpath.stream_writer import TopicStreamWriter

        refuse_overwriting(overwrite, "outputMode")
        return TopicStreamWriter(self.options, schema)


def refuse_overwriting(overwrite: bool, setting: str) -> None:
    """Raises BadOption if what is in the topic should go."""
    if overwrite:
        raise BadOption(f"a topic is only ever appended to; use {setting}('append')")
