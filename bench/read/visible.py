"""From the acknowledgement of a record to its being visible in SQL and in a Spark stream.

`towpath up` with its defaults, compaction included, and one topic that gets records at a steady
pace. A record is visible once an answer that a reader holds in its hands has its offset. The same
Spark stream reads the same records from Apache Kafka, with Spark's own source.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.integration.harness.server_process import ServerProcess

from bench.client import Client
from bench.read.scale import Scale
from bench.read.systems import user_spark
from bench.results import Measurement
from bench.shared.fill import PARTITIONS, bootstrap_of
from bench.shared.lag_samples import Lags, Seen, SeenByPartition, summary
from bench.shared.part import Context, Part
from bench.shared.process_tree import tree_cpu_seconds
from bench.shared.rows import KAFKA_SPARK, MAX_AGE, TOWPATH
from bench.shared.session import Session
from bench.shared.spark import PLAIN
from bench.shared.started import started
from bench.shared.steady import Steady
from bench.shared.towpath_up import towpath_up, wait, wal_max_age_s
from bench.shared.watcher import Watcher
from bench.systems import Kafka
from towpath.lakehouse.iceberg.open import CATALOG_FILE

TOPIC = "visible"
RATE = 100
"""Records a second."""
WARM_COMMITS = 3
WARM_LOOKS = 20
"""Before anything counts the table has had so many commits, and the reader so many looks."""
WARM_TIMEOUT_S = 240.0
SETTLE_S = 3.0
"""How long the reader goes on after the last record that counts; a record that is not seen then
fails the measurement."""
BIN_S = 0.05

SQL_ROWS = {"visible-sql-p50": "p50_s", "visible-sql-max": "max_s"}
SPARK_ROWS = {
    "visible-spark-p50": "p50_s",
    "visible-spark-p99": "p99_s",
    "visible-spark-max": "max_s",
}
Told = Iterable[tuple[int, Mapping[str, int]]]
"""When a look was answered, and the end of each partition in it."""


class Visible(Part[Scale]):
    """Both readers beside our system, and the stream beside Kafka."""

    rows = frozenset({*SQL_ROWS, *SPARK_ROWS})

    def run(self, context: Context[Scale]) -> None:
        """One after the other."""
        with context.attempt("visible"), _ours(context) as place:
            if context.wants(*SQL_ROWS):
                with context.attempt("visible, sql"):
                    self._sql(context, place)
            if context.wants(*SPARK_ROWS):
                with context.attempt("visible, spark"):
                    options = {"data-dir": place.data_dir, "topic": TOPIC}
                    self._stream(context, place, "towpath", options, TOWPATH)
        if context.wants(*SPARK_ROWS):
            with context.attempt("visible, spark on kafka"), _theirs(context) as place:
                options = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": TOPIC}
                self._stream(context, place, "kafka", options, KAFKA_SPARK)

    def _sql(self, context: Context[Scale], place: _Place) -> None:
        log = context.make_directory("visible-sql") / "looks.log"
        with Session("bench.read.sql_looks", [place.data_dir, TOPIC], log) as session:
            session.answer()
            raw = _measure(context, place, session, {"do": "looks"})
        for row, name in SQL_ROWS.items():
            context.keep(row, TOWPATH, Measurement(raw[name], raw=raw))
            context.keep(row, MAX_AGE, Measurement(place.max_age_s))

    def _stream(
        self,
        context: Context[Scale],
        place: _Place,
        source: str,
        options: dict[str, str],
        system: str,
    ) -> None:
        name = f"visible-{source}"
        with user_spark(context, PLAIN, name) as session:
            checkpoint = str(context.directory / name / "checkpoint")
            session.ask({"do": "stream", "format": source, "options": options,
                         "checkpoint": checkpoint})  # fmt: skip
            raw = _measure(context, place, session, {"do": "batches"})
        for row, value in SPARK_ROWS.items():
            context.keep(row, system, Measurement(raw[value], raw=raw))


@dataclass(frozen=True)
class _Place:
    """A system that gets records."""

    process: ServerProcess
    bootstrap: str
    producer: Steady
    data_dir: str = ""
    max_age_s: float = 0.0


@contextlib.contextmanager
def _ours(context: Context[Scale]) -> Iterator[_Place]:
    """Once its table has had some commits."""
    with towpath_up(context.make_directory("visible")) as towpath:
        Client(context.program, towpath.bootstrap).run("create", topic=TOPIC, partitions=PARTITIONS)
        with Steady(towpath.bootstrap, (TOPIC,), RATE) as producer:
            with Watcher(towpath.data_dir / CATALOG_FILE, (TOPIC,)) as watcher:
                _wait_warm(lambda: watcher.commits_min() >= WARM_COMMITS, towpath.process)
                watcher.check()
            age_s = wal_max_age_s(towpath.data_dir)
            yield _Place(towpath.process, towpath.bootstrap, producer, str(towpath.data_dir), age_s)


@contextlib.contextmanager
def _theirs(context: Context[Scale]) -> Iterator[_Place]:
    system = Kafka(context.directory / "visible-kafka-broker", context.program)
    with started(system):
        system.client.run("create", topic=TOPIC, partitions=PARTITIONS)
        bootstrap = bootstrap_of(system)
        with Steady(bootstrap, (TOPIC,), RATE) as producer:
            yield _Place(system.process, bootstrap, producer)


def _measure(
    context: Context[Scale], place: _Place, session: Session, question: dict[str, Any]
) -> dict[str, Any]:
    """Let a reader look for a while; the lags of the records that were acknowledged meanwhile."""
    _wait_warm(lambda: max(session.ask(question).values()) >= WARM_LOOKS, place.process)
    before_s = tree_cpu_seconds(session.pid)
    first_ns = time.monotonic_ns()
    time.sleep(context.scale.visible_seconds)
    last_ns = time.monotonic_ns()
    reader_cpu_s = tree_cpu_seconds(session.pid) - before_s
    time.sleep(SETTLE_S)
    told = session.ask({"do": "seen"})["seen"]
    place.producer.check()
    lags = Lags(place.producer.acknowledged, first_ns, last_ns)
    looks = sum(first_ns <= at_ns < last_ns for at_ns, _ in told)
    raw = summary(lags.seconds(seen_by_partition(told)), BIN_S)
    return {**raw, "looks": looks, "reader_cpu_cores": reader_cpu_s / (last_ns - first_ns) * 1e9}


def seen_by_partition(told: Told) -> SeenByPartition:
    """What was seen of each partition, as its end grew."""
    found: dict[tuple[str, int], list[Seen]] = {}
    for at_ns, ends in told:
        for partition, end in ends.items():
            seen = found.setdefault((TOPIC, int(partition)), [])
            if not seen or end > seen[-1].end:
                seen.append(Seen(end, at_ns))
    return found


def _wait_warm(look: Callable[[], bool], process: ServerProcess) -> None:
    wait(look, WARM_TIMEOUT_S, "reader at work", process)
