"""A user's Spark session that reads and writes what it is told: `python -m bench.read.user_spark
DIRECTORY STYLE`.

Each question says what to `do`, with which `format` and `options` of Spark's readers and writers,
so that every source and sink goes through the same lines.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.shared.answering import failure, next_question, take_stdout
from bench.shared.process_tree import cpu_seconds_by_role
from bench.shared.spark import open_session

FRAME_PARTITIONS = 4

Question = dict[str, Any]
Told = dict[str, Any]


def main(directory: Path, style: str) -> None:
    """Answer until stdin ends."""
    answer = take_stdout()
    spark = open_session(directory, style)
    user = User(spark)
    try:
        answer({"ready": True})
        while (question := next_question()) is not None:
            try:
                answer(user.do(question))
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it.
                answer(failure(error))
    finally:
        spark.stop()
        shutil.rmtree(directory / "local", ignore_errors=True)


class User:
    """What can be asked for."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._frame: Any = None
        self._stream: Stream | None = None

    def do(self, question: Question) -> Told:
        """Do what a question asks."""
        ways: dict[str, Callable[[Question], Told]] = {
            "read": self.read,
            "check": self.check,
            "frame": self.frame,
            "write": self.write,
            "stream": self.stream,
            "batches": self.batches,
            "seen": self.seen,
        }
        return ways[question["do"]](question)

    def read(self, question: Question) -> Told:
        """All columns of every record into the sink that drops them."""

        def work() -> None:
            self._load(question).write.format("noop").mode("overwrite").save()

        return measured(work)

    def check(self, question: Question) -> Told:
        """What the source gives, in sums that tell whether it is every record once."""
        found = self._load(question).selectExpr(
            "count(*)", "sum(length(value))", "sum(offset)", "count(DISTINCT partition)"
        )
        records, value_bytes, offsets, partitions = found.first()
        return {
            "records": records,
            "value_bytes": value_bytes or 0,
            "offsets": offsets or 0,
            "partitions": partitions,
        }

    def frame(self, question: Question) -> Told:
        """Keep a frame in the JVM's memory: the values of a file, so many times."""
        if self._frame is not None:
            self._frame.unpersist(blocking=True)
        once = self._spark.read.parquet(question["file"])
        many = once.crossJoin(self._spark.range(question["times"]).select())
        self._frame = many.repartition(FRAME_PARTITIONS).cache()
        return {"records": self._frame.count()}

    def write(self, question: Question) -> Told:
        """The frame into a sink."""
        assert self._frame is not None

        def work() -> None:
            writer = self._frame.write.format(question["format"]).options(**question["options"])
            writer.mode("append").save()

        return measured(work)

    def stream(self, question: Question) -> Told:
        """Start a streaming query whose micro-batches follow each other at once."""
        frame = self._spark.readStream.format(question["format"]).options(**question["options"])
        self._stream = Stream(frame.load(), question["checkpoint"])
        return {}

    def batches(self, _: Question) -> Told:
        """How many micro-batches have had records."""
        assert self._stream is not None
        return {"batches": self._stream.count()}

    def seen(self, _: Question) -> Told:
        """End the query; the ends of each micro-batch by partition, and when they were here."""
        assert self._stream is not None
        return {"seen": self._stream.stop()}

    def _load(self, question: Question) -> Any:
        return self._spark.read.format(question["format"]).options(**question["options"]).load()


class Stream:
    """A streaming query that hands every micro-batch to the driver's Python."""

    def __init__(self, frame: Any, checkpoint: str) -> None:
        self._seen: list[tuple[int, dict[int, int]]] = []
        writer = frame.writeStream.foreachBatch(self._take)
        self._query = writer.option("checkpointLocation", checkpoint).start()

    def count(self) -> int:
        """Micro-batches so far; raises what the query failed with."""
        self._check()
        return len(self._seen)

    def stop(self) -> list[tuple[int, dict[int, int]]]:
        """End it."""
        self._check()
        self._query.stop()
        return self._seen

    def _check(self) -> None:
        error = self._query.exception()
        if error is not None:
            raise error

    def _take(self, frame: Any, _: int) -> None:
        rows = frame.select("partition", "offset").collect()
        at_ns = time.monotonic_ns()
        ends: dict[int, int] = {}
        for partition, offset in rows:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
        if ends:
            self._seen.append((at_ns, ends))


def measured(work: Callable[[], None]) -> Told:
    """The wall clock of some work, and the CPU time of this process, its JVM and its workers."""
    own = os.getpid()
    before_s, started = cpu_seconds_by_role(own), time.monotonic()
    work()
    seconds = time.monotonic() - started
    cpu_s = {role: s - before_s[role] for role, s in cpu_seconds_by_role(own).items()}
    return {
        "seconds": seconds,
        "cpu_seconds": sum(cpu_s.values()),
        "cpu_seconds_by_role": cpu_s,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
