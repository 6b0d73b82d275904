"""`writeStream.format("towpath")`: exactly once. The commit that makes a micro-batch visible also
sets the query's epoch, so an epoch that Spark runs again adds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_towpath import sink
from pyspark_towpath.sink_options import SinkOptions
from towpath.writing.commit import Epoch


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Appends the micro-batches of one query to a topic. Spark makes one for every micro-batch, and
    another one for its commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions.parse(sink.plain_options(options))
        self._query, self._is_chosen = self._options.query()
        self._target = sink.begin(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: stage its rows."""
        return sink.stage(self._target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: make the micro-batch visible, unless it is already."""
        epoch = Epoch(self._query, batchId, strict=self._is_chosen)
        sink.commit(self._options, messages, epoch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, after a failure: take back what was staged."""
        del batchId
        sink.abort(self._options, messages)
