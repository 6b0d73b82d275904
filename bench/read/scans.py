"""Whole topics read by Spark: from their tables, from the tail, and half from each.

Both systems hold the same records, and every session has read the topic before: once to count what
it gets, then several times as it is measured, all of them as often. Our broker and Kafka's are up;
ours is not asked for anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.compact.sessions import TowpathSession
from bench.errors import MeasurementFailed
from bench.read.repeated import alternating, middle
from bench.read.rows import BOTH, PLACES, READ_ALL, SHAPES, TABLE, TAIL, read_id
from bench.read.scale import Scale
from bench.read.systems import user_spark
from bench.results import Measurement
from bench.shared.fill import PARTITIONS, Filled, bootstrap_of, fill, fill_more
from bench.shared.part import MB, Context, Part
from bench.shared.process_tree import tree_cpu_seconds
from bench.shared.rows import KAFKA_SPARK, TOWPATH, TUNED_SPARK
from bench.shared.session import Session
from bench.shared.shapes import Shape
from bench.shared.spark import PLAIN, TUNED, TUNED_CONSUMER
from bench.shared.started import started
from bench.systems import Kafka, System, Towpath

PREFIXES = ("read", "read-records", "read-tuned", "read-cpu", READ_ALL)
STYLES = {TOWPATH: PLAIN, KAFKA_SPARK: PLAIN, TUNED_SPARK: TUNED}
SAME_COLUMNS = "key,value,partition,offset,timestamp,attributes"
"""What Spark's Kafka source tells of a record without being asked for more: besides the topic,
these, with the type of the timestamp, which is a bit of the attributes."""
ALL_COLUMNS = "towpath, all columns"


def rows_of(place: str, shape: Shape) -> list[str]:
    """The rows of one topic."""
    return [f"{prefix}-{read_id(place, shape)}" for prefix in PREFIXES]


class Scans(Part[Scale]):
    """Every place and shape on both systems."""

    rows = frozenset(row for place in PLACES for shape in SHAPES for row in rows_of(place, shape))

    def run(self, context: Context[Scale]) -> None:
        """Fill both systems, then read what is wanted."""
        wanted = [
            (place, shape)
            for shape in SHAPES
            for place in PLACES
            if context.wants(*rows_of(place, shape))
        ]
        with context.attempt("reads"), contextlib.ExitStack() as stack:
            ours = Towpath(context.directory / "towpath", context.program)
            theirs = Kafka(context.directory / "kafka", context.program)
            for system in (ours, theirs):
                stack.enter_context(started(system))
            topics = _fill(context, ours, theirs, wanted)
            sessions = {
                name: stack.enter_context(user_spark(context, style, f"spark-{number}"))
                for number, (name, style) in enumerate(STYLES.items())
            }
            reads = _Reads(context, sessions, ours, theirs)
            for turn, (place, shape) in enumerate(wanted):
                with context.attempt(f"reads, {read_id(place, shape)}"):
                    reads.measure(place, shape, topics[place, shape], turn)


def _fill(
    context: Context[Scale], ours: System, theirs: System, wanted: list[tuple[str, Shape]]
) -> dict[tuple[str, Shape], Filled]:
    """The topics of our broker, and one of each shape in Kafka. The compactor runs only until what
    should be compacted is."""
    size_bytes = context.scale.read_bytes
    data_dir = context.directory / "towpath" / "data"
    filled: dict[tuple[str, Shape], Filled] = {}
    with TowpathSession(data_dir, context.directory / "compactor.log") as compactor:
        compactor.answer()
        for place, shape in wanted:
            if place != TAIL:
                share_bytes = size_bytes if place == TABLE else size_bytes // 2
                made = fill(ours, f"{place}-{shape.id}", shape, share_bytes)
                compactor.ask({"topic": made.topic, "records": made.records})
                filled[place, shape] = made
    for place, shape in wanted:
        if place == TAIL:
            filled[place, shape] = fill(ours, f"{place}-{shape.id}", shape, size_bytes)
        elif place == BOTH:
            left_bytes = size_bytes - filled[place, shape].size_bytes
            filled[place, shape] = fill_more(ours, filled[place, shape], shape, left_bytes)
    for shape in dict.fromkeys(shape for _, shape in wanted):
        fill(theirs, kafka_topic(shape), shape, size_bytes)
    return filled


def kafka_topic(shape: Shape) -> str:
    """The topic of a shape in Kafka."""
    return f"full-{shape.id}"


@dataclass(frozen=True)
class _Reads:
    """Reads of one topic by all sessions."""

    context: Context[Scale]
    sessions: Mapping[str, Session]
    ours: System
    theirs: System
    warm: set[tuple[str, str]] = field(default_factory=set)
    """Which questions a session has answered before."""

    def measure(self, place: str, shape: Shape, filled: Filled, turn: int) -> None:
        """Count, then read in turns."""
        questions = self._questions(shape, filled)
        for name, question in questions.items():
            check_all(name, self._session(name).ask({"do": "check", **question}), filled)
        self._warm_up(questions)
        os.sync()
        told = alternating(
            {name: partial(self._read, name, question) for name, question in questions.items()},
            self.context.scale.read_repetitions,
            self.context.run + turn,
        )
        for name, repetitions in told.items():
            raw = {"bytes": filled.size_bytes, "repetitions": repetitions}
            for row, value in read_values(place, shape, filled, repetitions).items():
                if name in (_reader_of(row), self.context.peer_of(row)):
                    system = TOWPATH if name == ALL_COLUMNS else name
                    self.context.keep(row, system, Measurement(value, raw=raw))

    def _warm_up(self, questions: Mapping[str, dict[str, Any]]) -> None:
        """Read what this session has not read yet: Kafka has one topic for all places."""
        for name, question in questions.items():
            if (name, str(question)) not in self.warm:
                self.warm.add((name, str(question)))
                for _ in range(self.context.scale.read_warm_ups):
                    self._read(name, question)

    def _questions(self, shape: Shape, filled: Filled) -> dict[str, dict[str, Any]]:
        data_dir = self.context.directory / "towpath" / "data"
        kafka = {
            "kafka.bootstrap.servers": bootstrap_of(self.theirs),
            "subscribe": kafka_topic(shape),
        }
        ours = {"data-dir": str(data_dir), "topic": filled.topic}
        return {
            TOWPATH: {"format": "towpath", "options": {**ours, "columns": SAME_COLUMNS}},
            ALL_COLUMNS: {"format": "towpath", "options": ours},
            KAFKA_SPARK: {"format": "kafka", "options": kafka},
            TUNED_SPARK: {"format": "kafka", "options": {**kafka, **TUNED_CONSUMER}},
        }

    def _read(self, name: str, question: dict[str, Any]) -> dict[str, Any]:
        broker = (self.ours if question["format"] == "towpath" else self.theirs).process.pid
        before_s = tree_cpu_seconds(broker)
        told = self._session(name).ask({"do": "read", **question})
        return {**told, "broker_cpu_seconds": tree_cpu_seconds(broker) - before_s}

    def _session(self, name: str) -> Session:
        return self.sessions[TOWPATH if name == ALL_COLUMNS else name]


def _reader_of(row: str) -> str:
    """Which of our reads a row is about."""
    return ALL_COLUMNS if row.startswith(READ_ALL) else TOWPATH


def check_all(name: str, found: Mapping[str, int], filled: Filled) -> None:
    """Raise MeasurementFailed unless a source gives every record of a topic once. Records go to the
    partitions in turn, so the sum of their offsets is known."""
    more = filled.records % PARTITIONS
    counts = [filled.records // PARTITIONS + (number < more) for number in range(PARTITIONS)]
    wanted = {
        "records": filled.records,
        "value_bytes": filled.size_bytes,
        "offsets": sum(count * (count - 1) // 2 for count in counts),
        "partitions": PARTITIONS,
    }
    if dict(found) != wanted:
        raise MeasurementFailed(f"{name} reads {dict(found)} of {filled.topic}, not {wanted}")


def read_values(
    place: str, shape: Shape, filled: Filled, repetitions: list[dict[str, Any]]
) -> dict[str, float]:
    """The values by row."""
    size_mb, name = filled.size_bytes / MB, read_id(place, shape)
    seconds = middle(repetitions, "seconds")
    return {
        f"read-{name}": size_mb / seconds,
        f"read-records-{name}": filled.records / seconds,
        f"read-tuned-{name}": size_mb / seconds,
        f"{READ_ALL}-{name}": size_mb / seconds,
        f"read-cpu-{name}": size_mb / middle(repetitions, "cpu_seconds"),
    }
