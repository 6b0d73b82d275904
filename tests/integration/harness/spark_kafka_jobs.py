"""What `SparkKafka` has done in its session's process: Spark's own Kafka source and sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Row = tuple[Any, ...]

COLUMNS = ("partition", "offset", "unix_micros(timestamp) AS time", "key", "value", "headers")
SENT = "partition INT, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def read(session: SparkSession, options: dict[str, str]) -> tuple[int, list[Row]]:
    """The records of a batch query, and in how many tasks they are read."""
    frame = session.read.format("kafka").options(**options).load().selectExpr(*COLUMNS)
    return frame.rdd.getNumPartitions(), _rows(frame)


def write(session: SparkSession, options: dict[str, str], rows: list[Row]) -> None:
    """Send records, in two tasks."""
    frame = session.createDataFrame(rows, SENT).repartition(2, "partition")
    frame.write.format("kafka").options(**options).save()


def follow(session: SparkSession, options: dict[str, str], name: str, place: str) -> None:
    """Keep what a stream reads in files, which Spark writes exactly once."""
    _to_files(session, options, name, place).start()


def drain(session: SparkSession, name: str) -> None:
    """Let a stream read everything that is there."""
    _active(session, name).processAllAvailable()


def stop(session: SparkSession, name: str) -> None:
    """End a stream."""
    _active(session, name).stop()


def read_to_end(session: SparkSession, options: dict[str, str], name: str, place: str) -> list[int]:
    """Read what is there by now, in as many batches as the options ask for; their rows."""
    writer = _to_files(session, options, name, place)
    return _finish(writer.trigger(availableNow=True).start())


def copy(
    session: SparkSession, options: dict[str, str], name: str, place: str, into: dict[str, str]
) -> list[int]:
    """Send what a stream reads to another topic until nothing is left; the rows of its batches."""
    frame = session.readStream.format("kafka").options(**options).load()
    writer = frame.select("partition", "key", "value", "headers").writeStream.format("kafka")
    writer = writer.options(**into).option("checkpointLocation", f"{place}/checkpoint")
    return _finish(writer.queryName(name).trigger(availableNow=True).start())


def kept(session: SparkSession, place: str) -> list[Row]:
    """Every record that a stream has kept, by the log that its sink writes."""
    return _rows(session.read.parquet(f"{place}/files"))


def _to_files(session: SparkSession, options: dict[str, str], name: str, place: str) -> Any:
    frame = session.readStream.format("kafka").options(**options).load().selectExpr(*COLUMNS)
    writer = frame.writeStream.format("parquet").queryName(name).option("path", f"{place}/files")
    return writer.option("checkpointLocation", f"{place}/checkpoint")


def _active(session: SparkSession, name: str) -> StreamingQuery:
    (query,) = [query for query in session.streams.active if query.name == name]
    return query


def _finish(query: StreamingQuery) -> list[int]:
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def _rows(frame: DataFrame) -> list[Row]:
    return [_plain(row) for row in frame.collect()]


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    return value
