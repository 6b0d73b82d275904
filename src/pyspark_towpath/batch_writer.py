"""`df.write.format("towpath")`: at least once, or once with `txnAppId` and `txnVersion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_towpath import sink
from pyspark_towpath.sink_options import SinkOptions
from towpath.writing.commit import Epoch


class TopicWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame to a topic, all of them or none."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions.parse(sink.plain_options(options))
        transaction = self._options.transaction()
        self._epoch = None if transaction is None else Epoch(*transaction)
        self._target = sink.begin(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: stage its rows."""
        return sink.stage(self._target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: make the rows of all tasks visible at once."""
        sink.commit(self._options, messages, self._epoch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after a failure: take back what was staged."""
        sink.abort(self._options, messages)
