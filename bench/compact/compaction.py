"""Compaction of a backlog beside Spark's own way, and fetches of it from WAL and from Parquet.

Both systems hold the same records, and both sessions are warm: each was started for this shape of
records, whose place in the order should not matter, and has just compacted a smaller topic of them.
The wall clock and the CPU time are those of one round, from planning to
the commit, the median one of several; the CPU time is that of the driver, its JVM and its Python
workers. That of Kafka's broker, which Spark reads from, is told apart.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bench.compact.rows import SHAPES, WAL
from bench.compact.scale import Scale
from bench.compact.sessions import SparkSession, TowpathSession
from bench.plan import rotated
from bench.results import Measurement
from bench.shared.fill import PARTITIONS, Filled, bootstrap_of, fill
from bench.shared.part import GB, MB, Context, Part
from bench.shared.process_tree import tree_cpu_seconds
from bench.shared.rows import KAFKA_SPARK, TOWPATH, TUNED_SPARK
from bench.shared.session import Session
from bench.shared.shapes import Shape
from bench.shared.spark import PLAIN, TUNED
from bench.systems import Kafka, System, Towpath

FETCH_TIMEOUT_MS = 600_000
COMPARED = ("compact", "compact-records", "compact-cpu", "compact-tuned")
"""Rows that hold our compaction against Spark's own way."""


class Compaction(Part[Scale]):
    """Every shape of records on both systems."""

    rows = frozenset(
        f"{prefix}-{shape.id}"
        for shape in SHAPES
        for prefix in (*COMPARED, "catch-up", "catch-up-cpu")
    )

    def run(self, context: Context[Scale]) -> None:
        """One system after the other for each shape; who comes first changes."""
        wanted = [shape for shape in SHAPES if context.wants(*_rows(shape))]
        compared = any(context.wants(*_compared_rows(shape)) for shape in wanted)
        with contextlib.ExitStack() as stack:
            sides: dict[str, _Side] = {}
            for kind in (_Ours, _Theirs) if compared else (_Ours,):
                with context.attempt(f"start of {kind.name}"):
                    sides[kind.name] = kind(context, stack)
            for index, shape in enumerate(wanted):
                for name in rotated(list(sides), context.run + index) if sides else []:
                    with context.attempt(f"{shape.id}, {name}"):
                        sides[name].measure(shape)


def _compared_rows(shape: Shape) -> list[str]:
    return [f"{prefix}-{shape.id}" for prefix in COMPARED]


def _catch_up_rows(shape: Shape) -> list[str]:
    return [f"catch-up-{shape.id}", f"catch-up-cpu-{shape.id}"]


def _rows(shape: Shape) -> list[str]:
    return [*_compared_rows(shape), *_catch_up_rows(shape)]


class _Side:
    """One system: a broker that is filled, and a session that makes tables of what it holds.

    Brokers are started without `System.start`, which produces a record: a round would compact it.
    """

    name: str
    system: System
    sessions: Mapping[str, Session]
    """Of the shape that is measured, by the name under which their values are kept."""

    def __init__(self, context: Context[Scale]) -> None:
        self.context = context

    def measure(self, shape: Shape) -> None:
        """Compact topics of this shape with new sessions."""
        with contextlib.ExitStack() as stack:
            self.sessions = {
                name: stack.enter_context(session) for name, session in self.start(shape).items()
            }
            for session in self.sessions.values():
                session.answer()
            self.compact(shape)

    def start(self, shape: Shape) -> dict[str, Session]:
        """New sessions, which may not be up yet."""
        raise NotImplementedError

    def compact(self, shape: Shape) -> None:
        """Fill and compact a topic of this shape."""
        self.warm_up(shape)
        filled = self.fill(shape)
        for name, session in self.sessions.items():
            told = [self.round(session, filled) for _ in range(self.context.scale.rounds)]
            self.keep(shape, filled, name, told)

    def fill(self, shape: Shape, number: int = 0) -> Filled:
        """One of the topics that are compacted."""
        size_bytes = self.context.scale.backlog_bytes
        return fill(self.system, f"full-{shape.id}-{number}", shape, size_bytes)

    def warm_up(self, shape: Shape) -> Filled:
        """Compact a smaller topic of the same records."""
        warm = fill(self.system, f"warm-{shape.id}", shape, self.context.scale.warmup_bytes)
        for session in self.sessions.values():
            session.ask({"topic": warm.topic, "records": warm.records})
        return warm

    def round(self, session: Session, filled: Filled) -> dict[str, Any]:
        """What a session tells of one measured round over the topic."""
        os.sync()
        broker_before_s = tree_cpu_seconds(self.system.process.pid)
        told = session.ask({"topic": filled.topic, "records": filled.records})
        broker_cpu_s = tree_cpu_seconds(self.system.process.pid) - broker_before_s
        return {**told, "bytes": filled.size_bytes, "broker_cpu_seconds": broker_cpu_s}

    def keep(self, shape: Shape, filled: Filled, name: str, told: Sequence[dict[str, Any]]) -> None:
        """Keep the round that took neither the least nor the most time."""
        median = sorted(told, key=lambda one: float(one["seconds"]))[len(told) // 2]
        raw = {**median, "all_seconds": [one["seconds"] for one in told]}
        for row, value in compaction_values(shape, filled, median).items():
            if name in (TOWPATH, self.context.peer_of(row)):
                self.context.keep(row, name, Measurement(value, raw=raw))


def compaction_values(shape: Shape, filled: Filled, told: dict[str, Any]) -> dict[str, float]:
    """The values by row of a round that took `seconds` and `cpu_seconds`."""
    size_mb = filled.size_bytes / MB
    return {
        f"compact-{shape.id}": size_mb / told["seconds"],
        f"compact-records-{shape.id}": filled.records / told["seconds"],
        f"compact-cpu-{shape.id}": size_mb / told["cpu_seconds"],
        f"compact-tuned-{shape.id}": size_mb / told["seconds"],
    }


class _Ours(_Side):
    """This broker, and a compactor for which everything is due."""

    name = TOWPATH

    def __init__(self, context: Context[Scale], stack: contextlib.ExitStack) -> None:
        super().__init__(context)
        self._directory = context.directory / "towpath"
        self.system = Towpath(self._directory, context.program)
        stack.callback(self.system.kill)
        self.system.process.start()

    def start(self, shape: Shape) -> dict[str, Session]:
        """One compactor."""
        log = self._directory / "compactor.log"
        return {TOWPATH: TowpathSession(self._directory / "data", log)}

    def compact(self, shape: Shape) -> None:
        """Fill and compact one topic after the other: the compactor takes on all there is. Fetch
        the last one before and after."""
        warm = self.warm_up(shape)
        (session,) = self.sessions.values()
        last = self.context.scale.rounds - 1
        told = [self.round(session, self.fill(shape, number)) for number in range(last)]
        filled = self.fill(shape, last)
        fetched = self.context.wants(*_catch_up_rows(shape))
        if fetched:
            self._catch_up(shape, warm, filled, WAL)
        told.append(self.round(session, filled))
        self.keep(shape, filled, TOWPATH, told)
        if fetched:
            self._catch_up(shape, warm, filled, TOWPATH)

    def _catch_up(self, shape: Shape, warm: Filled, filled: Filled, name: str) -> None:
        """Read the topic from its beginning, from a broker that has just started. The first topic
        that is read from Parquet, another one, makes the broker load what it needs for that."""
        self.system.stop()
        os.sync()
        self.system.process.start()
        first = self._fetch(warm)
        told = self._fetch(filled)
        raw = {**told, "first_fetch": first}
        speed = filled.size_bytes / MB / told["whole_seconds"]
        self.context.keep(f"catch-up-{shape.id}", name, Measurement(speed, raw=raw))
        cost = told["broker_cpu_seconds"] / (filled.size_bytes / GB)
        self.context.keep(f"catch-up-cpu-{shape.id}", name, Measurement(cost, raw=raw))

    def _fetch(self, filled: Filled) -> dict[str, Any]:
        pid = self.system.process.pid
        before_s = tree_cpu_seconds(pid)
        told = self.system.client.run(
            "consume",
            topic=filled.topic,
            partitions=PARTITIONS,
            records=filled.records,
            timeout_ms=FETCH_TIMEOUT_MS,
        )
        # From opening the client on: a slow first answer counts.
        whole_s = told["first_ms"] / 1000 + told["seconds"]
        cpu_s = tree_cpu_seconds(pid) - before_s
        return {**told, "whole_seconds": whole_s, "broker_cpu_seconds": cpu_s}


class _Theirs(_Side):
    """Apache Kafka, and Spark with its Kafka source and Iceberg's writer in both styles."""

    name = KAFKA_SPARK

    def __init__(self, context: Context[Scale], stack: contextlib.ExitStack) -> None:
        super().__init__(context)
        self.system = Kafka(context.directory / "kafka", context.program)
        self.system.format()
        stack.callback(self.system.kill)
        self.system.process.start()

    def measure(self, shape: Shape) -> None:
        """Only what is compared: Kafka's fetches are the broker's benchmark."""
        if self.context.wants(*_compared_rows(shape)):
            super().measure(shape)

    def start(self, shape: Shape) -> dict[str, Session]:
        """One session of each style."""
        sessions: dict[str, Session] = {}
        for name, style in ((KAFKA_SPARK, PLAIN), (TUNED_SPARK, TUNED)):
            directory = self.context.make_directory(f"spark-{style}-{shape.id}")
            log = directory / "spark.log"
            sessions[name] = SparkSession(directory, bootstrap_of(self.system), style, log)
        return sessions
