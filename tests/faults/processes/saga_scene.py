"""Everything a round needs: two brokers, a Spark, compactors, and topics with a history."""

from __future__ import annotations

import os
import signal
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.processes.pair import Pair, holds_lock, is_stopped
from tests.faults.processes.saga_compactors import CompactorProcess, Compactors
from tests.faults.processes.saga_history import PARTITIONS, History
from tests.faults.processes.saga_metadata import SagaMetadata
from tests.faults.processes.saga_spark import SagaSpark
from tests.integration.harness.waiting import wait_until

from towpath.lakehouse.plan import JobKind
from towpath.metadata.keys.compaction import TaskState

LOCK_TTL_MS = 1000
SETTLE_TIMEOUT_S = 120.0
SETTLE_POLL_S = 0.1
STRIKES_MAX = 5
RECORDS = 400
"""Of each partition, before the fault."""
MORE_RECORDS = 100
"""Of each partition, during and after the fault."""
HISTORY_MAX_RECORDS = 6_000
"""A topic with more is not used again: comparing takes too long."""
NEVER = "3600000"

BROKER_SETTINGS = {
    "log_retention_ms": "-1",
    "gc_interval_ms": "200",
    # What the index does not name any more is gone at once: nobody lives on leftovers.
    "wal_gc_grace_ms": "0",
}
COMPACTOR_SETTINGS = {
    "compaction_http_port": "0",
    "compaction_interval_ms": "50",
    "compaction_lock_ttl_ms": str(LOCK_TTL_MS),
    "compaction_wal_max_age_ms": "0",
    "compaction_maintenance_interval_ms": NEVER,
}
MAX_FILES = "compaction_parquet_max_files_per_partition"
VICTIM_SETTINGS = {JobKind.COMPACT: {MAX_FILES: "1000"}, JobKind.REWRITE: {MAX_FILES: "2"}}
"""One that is struck in a compaction leaves the small files to others: that is quicker."""
HEIR_SETTINGS = {
    MAX_FILES: "2",
    "compaction_maintenance_interval_ms": "200",
    "parquet_gc_grace_ms": "0",
    "table_iceberg_min_snapshots": "1",
    "table_iceberg_snapshot_max_age_ms": "0",
}
"""It merges all files that it finds, and deletes at once what was replaced."""

POINTS = {
    "compaction-created": TaskState.CREATED,
    "compaction-parquet-written": TaskState.PARQUET_WRITTEN,
    "compaction-iceberg-applied": TaskState.PARQUET_WRITTEN,
    "compaction-iceberg-committed": TaskState.ICEBERG_COMMITTED,
    "compaction-index-put": TaskState.ICEBERG_COMMITTED,
    "compaction-index-swapped": TaskState.INDEX_SWAPPED,
    "compaction-wal-gc-ready": TaskState.WAL_GC_READY,
}
"""Where a driver is struck, and the state that it has recorded then."""
ONCE_PER_TABLE = ("compaction-iceberg-applied", "compaction-iceberg-committed")


class SagaScene:
    """Processes that all rounds of a module share."""

    def __init__(self, directory: Path) -> None:
        self.pair = Pair(directory, BROKER_SETTINGS)
        self.data_dir = self.pair.other.data_dir
        (directory / "spark").mkdir()
        self.spark = SagaSpark(directory / "spark")
        self.metadata = SagaMetadata(self.data_dir / "metadata.sqlite")
        remote = {"spark_remote": self.spark.remote}
        self.compactors = Compactors(
            self.data_dir, directory / "compactors.log", {**COMPACTOR_SETTINGS, **remote}
        )
        self._spare: History | None = None

    def start(self) -> None:
        """Start brokers and Spark."""
        self.spark.spawn()
        self.pair.start({})
        self.spark.wait_ready()

    def end(self) -> None:
        """End everything."""
        try:
            self.compactors.end()
            self.spark.stop()
        finally:
            self.pair.end()

    def tidy_up(self) -> str:
        """After a round: end compactors that are left, wake whoever stands; the logs' ends."""
        self.compactors.end()
        for broker in (self.pair.struck, self.pair.other):
            if broker.process.exit_code() is None:
                os.kill(broker.process.pid, signal.SIGCONT)
        logs = (self.pair.other.process.log_tail(), self.compactors.log(), self.spark.log())
        return "\n".join(logs)

    @contextmanager
    def history(self) -> Iterator[History]:
        """A topic with records in its table already. It is used again by later rounds, unless this
        one fails."""
        history, self._spare = self._spare, None
        if history is None:
            bootstrap = f"{self.pair.other.bootstrap},{self.pair.struck.bootstrap}"
            history = History(bootstrap, self.data_dir)
            history.send(MORE_RECORDS)
            assert self.compactors.start("--once", settings=HEIR_SETTINGS).wait() == 0
        yield history
        if history.size < HISTORY_MAX_RECORDS:
            self._spare = history

    def strike(self, history: History, point: str, action: str, kind: JobKind) -> CompactorProcess:
        """Records are due, and a compactor that takes them on is killed or stopped at the point, in
        a task of this kind."""
        for _ in range(STRIKES_MAX):
            history.send(RECORDS)
            fault = {
                "fault_point": point,
                "fault_action": action,
                "fault_after": str(_after(point, kind)),
            }
            victim = self.compactors.start(settings={**VICTIM_SETTINGS[kind], **fault})
            if victim.wait_struck(action):
                found = [(task.state, task.kind) for task in self.metadata.tasks()]
                assert (POINTS[point], kind.value) in found, found
                return victim
            # It stands in the middle of a write, where others cannot go on: once more.
            victim.resume()
            self.settle(history)
            victim.stop()
        raise AssertionError("it was always stopped in the middle of a metadata write")

    def heir(self) -> CompactorProcess:
        """A compactor that goes on where others stood."""
        return self.compactors.start(settings=HEIR_SETTINGS)

    def struck_partitions(self) -> set[int]:
        """The partitions whose tasks somebody has to finish."""
        return {task.partition for task in self.metadata.tasks()}

    def settle(self, history: History, merged: Container[int] = ()) -> None:
        """Wait until every record is in the table and nothing is under way; and until the files of
        the partitions `merged` were merged, which an heir does after it has finished a task."""
        wait_until(
            lambda: self.metadata.is_settled(history.topic, history.ends, merged),
            "everything compacted",
            timeout_s=SETTLE_TIMEOUT_S,
            interval_s=SETTLE_POLL_S,
        )

    def outlast_lock(self) -> None:
        """Wait until a driver has held a stream's lock for longer than one lasts by itself."""
        renewed_ms = self.metadata.locks_renewed_ms
        since_ms = wait_until(renewed_ms, "a stream locked", timeout_s=SETTLE_TIMEOUT_S)
        wait_until(
            lambda: renewed_ms() > since_ms + LOCK_TTL_MS,
            "the lock renewed",
            timeout_s=SETTLE_TIMEOUT_S,
        )

    def stop_broker(self) -> None:
        """SIGSTOP a broker, for longer than its session; not while it holds the metadata's lock."""
        pid = self.pair.struck.process.pid
        lock_file = self.data_dir / "metadata.sqlite-lock"
        for _ in range(STRIKES_MAX):
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(pid), "the broker stopped")
            if not holds_lock(pid, lock_file):
                assert self.pair.wait_struck("stop")
                return
            os.kill(pid, signal.SIGCONT)
        raise AssertionError("it was always stopped in the middle of a metadata write")

    def kill_broker(self) -> None:
        """SIGKILL a broker, and wait until the other has noticed."""
        os.kill(self.pair.struck.process.pid, signal.SIGKILL)
        assert self.pair.wait_struck("kill")


def _after(point: str, kind: JobKind) -> int:
    """How often the point is passed until a task of the kind is struck there: the second one, where
    tasks pass it one by one. The compaction of all partitions comes before their rewrite."""
    if point in ONCE_PER_TABLE:
        return 1 if kind is JobKind.COMPACT else 2
    return 2 if kind is JobKind.COMPACT else PARTITIONS + 2
