"""The same frame written by Spark to our topics and, with Spark's Kafka sink, to Apache Kafka.

The frame is in the memory of each session's JVM before anything is measured.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from bench.errors import MeasurementFailed
from bench.read.repeated import alternating, middle
from bench.read.rows import SHAPES
from bench.read.scale import Scale
from bench.read.systems import user_spark
from bench.results import Measurement
from bench.shared.fill import PARTITIONS, bootstrap_of
from bench.shared.part import MB, Context, Part
from bench.shared.payload import values
from bench.shared.rows import KAFKA_SPARK, TOWPATH
from bench.shared.session import Session
from bench.shared.shapes import Shape
from bench.shared.spark import PLAIN
from bench.shared.started import started
from bench.systems import Kafka, System, Towpath

OFFSETS_TIMEOUT_S = 30


class Sinks(Part[Scale]):
    """Every shape on both systems."""

    rows = frozenset(f"sink-{shape.size_id}" for shape in SHAPES)

    def run(self, context: Context[Scale]) -> None:
        """Both systems and their sessions are up; they take turns."""
        directory = context.make_directory("sink")
        with context.attempt("sinks"), contextlib.ExitStack() as stack:
            systems: dict[str, System] = {
                TOWPATH: Towpath(directory / "towpath", context.program),
                KAFKA_SPARK: Kafka(directory / "kafka", context.program),
            }
            for system in systems.values():
                stack.enter_context(started(system))
            sessions = {
                name: stack.enter_context(user_spark(context, PLAIN, f"sink/spark-{number}"))
                for number, name in enumerate(systems)
            }
            for turn, shape in enumerate(SHAPES):
                if context.wants(f"sink-{shape.size_id}"):
                    with context.attempt(f"sinks, {shape.size_id}"):
                        self._measure(context, systems, sessions, shape, turn)

    def _measure(
        self,
        context: Context[Scale],
        systems: dict[str, System],
        sessions: dict[str, Session],
        shape: Shape,
        turn: int,
    ) -> None:
        topic, repetitions = f"sink-{shape.id}", context.scale.sink_repetitions
        file = context.directory / "sink" / f"{shape.size_id}.parquet"
        records_once = write_values(file, shape)
        times = max(1, context.scale.sink_bytes // (records_once * shape.record_bytes))
        records, ways = records_once * times, {}
        for name, system in systems.items():
            system.client.run("create", topic=topic, partitions=PARTITIONS)
            made = sessions[name].ask({"do": "frame", "file": str(file), "times": times})
            if made["records"] != records:
                raise MeasurementFailed(f"the frame has {made['records']} records, not {records}")
            question = _question(name, system, topic, shape, context.directory)
            ways[name] = partial(sessions[name].ask, question)
        os.sync()
        told = alternating(ways, repetitions, context.run + turn)
        for name, system in systems.items():
            check_end(system, topic, records * (repetitions + 1))
            speed = records * shape.record_bytes / MB / middle(told[name], "seconds")
            raw = {"records": records, "repetitions": told[name]}
            context.keep(f"sink-{shape.size_id}", name, Measurement(speed, raw=raw))


def _question(
    name: str, system: System, topic: str, shape: Shape, directory: Path
) -> dict[str, object]:
    if name == TOWPATH:
        data_dir = str(directory / "sink" / "towpath" / "data")
        options = {"data-dir": data_dir, "topic": topic, "compression": shape.compression}
        return {"do": "write", "format": "towpath", "options": options}
    options = {
        "kafka.bootstrap.servers": bootstrap_of(system),
        "topic": topic,
        "kafka.acks": "all",
        "kafka.compression.type": shape.compression,
    }
    return {"do": "write", "format": "kafka", "options": options}


def write_values(file: Path, shape: Shape) -> int:
    """The records' values as a Parquet file; how many."""
    texts = values(shape.record_bytes)
    pq.write_table(pa.table({"value": pa.array(texts, pa.binary())}), file)
    return len(texts)


def check_end(system: System, topic: str, records: int) -> None:
    """Raise MeasurementFailed unless the topic holds so many records."""
    consumer = Consumer({"bootstrap.servers": bootstrap_of(system), "group.id": "bench"})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), OFFSETS_TIMEOUT_S)[1]
            for number in range(PARTITIONS)
        ]
    finally:
        consumer.close()
    if sum(ends) != records:
        raise MeasurementFailed(
            f"{system.name} holds {sum(ends)} records of {topic}, not {records}"
        )
